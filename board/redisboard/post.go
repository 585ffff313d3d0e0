package redisboard

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/internal/redis/script"
)

const (
	perScript = 500         // records in one script: a few milliseconds of the server
	perBatch  = 1 << 20     // bytes of records in one script
	remember  = time.Minute // how long a repetition of a call is known
)

// errCounter: the counter of sequence numbers is lost.
var errCounter = errors.New("redisboard: the counter of sequence numbers is lost")

// Post implements driver.Store: a script for up to 500 records, all scripts in one pipeline. A repetition within a minute is known although what was posted is consumed already; a later one only
// by what is still there. Where the counter of sequence numbers was deleted, the board is listed first, which finds the highest number in use.
func (s *Store) Post(ctx context.Context, call string, all []*driver.Posting, _ bool) error {
	err := s.post(ctx, call, all, true)
	if !errors.Is(err, errCounter) {
		return err
	}
	if _, _, err := s.List(ctx); err != nil {
		return err
	}
	return s.post(ctx, call, all, false)
}

func (s *Store) post(ctx context.Context, call string, all []*driver.Posting, counted bool) error {
	var calls []script.Call
	var counts []int
	now := s.now()
	for from := 0; from < len(all); {
		c, n, err := s.postCall(call+"."+strconv.Itoa(from), all[from:], now, counted)
		if err != nil {
			return err
		}
		calls, counts = append(calls, c), append(counts, n)
		from += n
	}
	results := postScript.RunMulti(ctx, s.rdb, calls)
	for _, r := range results { // before anything is filled in: a repetition must make the same calls
		if err := r.Error(); err != nil {
			return s.failed(err)
		}
	}
	at := 0
	for i, r := range results {
		if err := s.posted(all[at:at+counts[i]], r); err != nil {
			return err
		}
		at += counts[i]
	}
	return nil
}

// postCall makes the call for the first n postings.
func (s *Store) postCall(id string, all []*driver.Posting, now time.Time, counted bool) (c script.Call, n int, err error) {
	args := []string{strconv.FormatInt(remember.Milliseconds(), 10), s.keys.Events(), ""}
	if counted {
		args[2] = "1"
	}
	size := 0
	for n < len(all) && n < perScript && (n == 0 || size < perBatch) {
		p := all[n]
		if p.CreatedOn.IsZero() {
			p.CreatedOn = now
		}
		p.Ref = p.UUID
		head, err := appendHead(nil, p)
		if err != nil {
			return script.Call{}, 0, err
		}
		size += len(head)
		args = append(args, p.UUID, rueidis.BinaryString(head))
		n++
	}
	return script.Call{Keys: []string{s.keys.Listings(), s.keys.Sequence(), s.keys.Call(id)}, Args: args}, n, nil
}

// posted fills in what the server decided.
func (s *Store) posted(some []*driver.Posting, r rueidis.RedisResult) error {
	reply, err := r.ToArray()
	if err != nil {
		return s.failed(err)
	}
	if len(reply) == 2 {
		if text, _ := reply[1].ToString(); text == "lost" {
			return errCounter
		}
	}
	if len(reply) != len(some)+1 {
		return fmt.Errorf("redisboard: post replied %d values for %d postings", len(reply), len(some))
	}
	if micros, err := reply[0].AsInt64(); err == nil {
		s.heard(micros)
	}
	for i, p := range some {
		m := &reply[i+1]
		if m.IsInt64() {
			p.Sequence, _ = m.AsInt64()
			continue
		}
		raw, err := m.ToString()
		if err != nil {
			return s.failed(err)
		}
		if raw == "" {
			continue // it was there before this call, and is gone since
		}
		there, err := decodePosting(p.UUID, []byte(raw))
		if err != nil {
			return fmt.Errorf("%w: %w", driver.ErrExists, &driver.Malformed{Ref: p.UUID, Err: err})
		}
		*p = *there
	}
	return nil
}
