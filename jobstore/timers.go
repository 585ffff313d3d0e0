package jobstore

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/isa95"
)

//go:embed due.lua
var dueLua string

var due = script.New("jobstore/due", dueLua)

// Due returns at most limit job orders whose recipe has a timer that is due by the server's clock. Each is handed to one
// caller, and to another if no commit has set its next timer after hold.
func (s *Store) Due(ctx context.Context, limit int, hold time.Duration) ([]isa95.JobOrderID, error) {
	reply, err := due.Run(ctx, s.rdb, []string{s.keys.SfcTimers()},
		strconv.Itoa(limit), strconv.FormatInt(hold.Milliseconds(), 10)).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("jobstore: due timers: %w", s.alarm.Note(err))
	}
	now, err := strconv.ParseInt(reply[0], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("jobstore: due timers: server time %q: %w", reply[0], err)
	}
	s.learnTime(time.UnixMilli(now))
	ids := make([]isa95.JobOrderID, len(reply)-1)
	for i, id := range reply[1:] {
		ids[i] = isa95.JobOrderID(id)
	}
	return ids, nil
}

// PutOff lets the timer of a job order be due after d, if it has one: what is due cannot be done for now.
func (s *Store) PutOff(ctx context.Context, id isa95.JobOrderID, d time.Duration) error {
	at := float64(s.Now().Add(d).UnixMilli())
	err := s.rdb.Do(ctx, s.rdb.B().Zadd().Key(s.keys.SfcTimers()).Xx().ScoreMember().ScoreMember(at, string(id)).Build()).Error()
	if err != nil {
		return fmt.Errorf("jobstore: put off the timer of %s: %w", id, err)
	}
	return nil
}

// DropTimer removes the timer of a job order that needs none, for example because its execution document is gone.
func (s *Store) DropTimer(ctx context.Context, id isa95.JobOrderID) error {
	err := s.rdb.Do(ctx, s.rdb.B().Zrem().Key(s.keys.SfcTimers()).Member(string(id)).Build()).Error()
	if err != nil {
		return fmt.Errorf("jobstore: drop timer of %s: %w", id, err)
	}
	return nil
}
