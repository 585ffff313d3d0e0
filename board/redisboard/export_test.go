package redisboard

import "time"

// Deaf makes the store compare no fingerprints: it hears only what is told over the channel.
func (s *Store) Deaf() { s.lookEvery = time.Hour }

// Ahead makes the store believe that the server's clock is that much ahead of what it said last.
func (s *Store) Ahead(d time.Duration) { s.heard(s.now().Add(d).UnixMicro()) }

// The records of a posting, for tests of what the server has.
var (
	DecodePosting = decodePosting
	DecodeTime    = decodeTime
	AppendHead    = appendHead
)
