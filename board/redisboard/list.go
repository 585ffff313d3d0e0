package redisboard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/board/driver"
)

// maxHealed is the highest number to which the counter of sequence numbers is raised. Of a foreign posting with a higher one nobody could count on.
const maxHealed = 1 << 52

// List implements driver.Store, in one round trip. Where it finds the counter of sequence numbers below one that is in use, it raises it, unless it only looks.
func (s *Store) List(ctx context.Context) ([]driver.Row, []driver.Malformed, error) {
	reply, err := s.parts("list", 6, listScript.Run(ctx, s.rdb, []string{s.keys.Listings(), s.keys.Sequence(), s.keys.Attempts()}, s.keys.Namespace()+":"))
	if err != nil {
		return nil, nil, err
	}
	if micros, err := reply[0].AsInt64(); err == nil {
		s.heard(micros)
	}
	counter, _ := reply[1].AsInt64() // nil and nonsense are 0
	attempts, _ := reply[2].AsInt64()
	all, errAll := reply[3].ToArray()
	owners, errOwners := reply[4].ToArray()
	expiries, errExpiries := reply[5].AsIntSlice()
	if err := errors.Join(errAll, errOwners, errExpiries); err != nil || len(all) != 2*len(owners) {
		return nil, nil, fmt.Errorf("redisboard: list replied %d parts and %d owners: %w", len(all), len(owners), err)
	}
	rows, malformed, err := decodeAll(all, func(i int, r *driver.Row) {
		r.State = driver.Unclaimed
		if !owners[i].IsNil() {
			r.State = driver.Claimed
			r.Owner, _ = owners[i].ToString()
		}
		if len(expiries) > 1 && expiries[0] == int64(i+1) {
			r.ExpiresIn = time.Duration(expiries[1]) * time.Millisecond
			expiries = expiries[2:]
		}
	})
	if err != nil {
		return nil, nil, err
	}
	highest := int64(0)
	for i := range rows {
		if n := rows[i].Sequence; n <= maxHealed {
			highest = max(highest, n)
		}
	}
	if !s.looks && (highest > counter || attempts > int64(len(all)/2)) {
		_ = healScript.Run(ctx, s.rdb, []string{s.keys.Sequence(), s.keys.Listings(), s.keys.Attempts()}, fmt.Sprint(highest)).Error() // the next listing tries again
	}
	return rows, malformed, nil
}

// parts are the values that a script replied, of which there must be n.
func (s *Store) parts(what string, n int, r rueidis.RedisResult) ([]rueidis.RedisMessage, error) {
	reply, err := r.ToArray()
	if err == nil && len(reply) != n {
		err = fmt.Errorf("redisboard: %s replied %d values", what, len(reply))
	}
	return reply, s.failed(err)
}

// decodeAll decodes fields and records in turn, on all processors; fill is told the number of each row.
func decodeAll(all []rueidis.RedisMessage, fill func(i int, r *driver.Row)) (rows []driver.Row, malformed []driver.Malformed, err error) {
	const some = 500 // records that are worth a goroutine
	n := len(all) / 2
	read := make([]driver.Row, n)
	failed := make([]error, n)
	var decoding sync.WaitGroup
	for from := 0; from < n; from += some {
		decoding.Go(func() {
			for i := from; i < min(from+some, n); i++ {
				field, errField := all[2*i].ToString()
				raw, errRaw := all[2*i+1].AsBytes()
				p, err := decodePosting(field, raw)
				read[i].Posting, failed[i] = p, errors.Join(errField, errRaw, err)
			}
		})
	}
	decoding.Wait()
	rows = read[:0]
	for i := range read {
		fill(i, &read[i])
		if failed[i] == nil {
			rows = append(rows, read[i])
			continue
		}
		field, err := all[2*i].ToString()
		if err != nil {
			return nil, nil, err
		}
		malformed = append(malformed, driver.Malformed{Ref: field, Err: failed[i]})
	}
	return rows, malformed, nil
}

// Find implements driver.Store.
func (s *Store) Find(ctx context.Context, ref string) (driver.Row, error) {
	reply, err := s.parts("find", 5, findScript.Run(ctx, s.rdb, []string{s.keys.Listings(), s.keys.Trash(), s.keys.Owner(ref), s.keys.LastModified(ref)}, ref))
	if err != nil {
		return driver.Row{}, err
	}
	r := driver.Row{State: driver.Complete}
	record := &reply[0]
	switch {
	case !record.IsNil():
		r.State = driver.Unclaimed
		if !reply[2].IsNil() {
			r.State = driver.Claimed
			r.Owner, _ = reply[2].ToString()
		}
		if ms, err := reply[3].AsInt64(); err == nil && ms >= 0 {
			r.ExpiresIn = time.Duration(max(ms, 1)) * time.Millisecond
		}
	case !reply[1].IsNil():
		r.State, record = driver.Trashed, &reply[1]
	default:
		return r, nil
	}
	raw, err := record.AsBytes()
	if err != nil {
		return driver.Row{}, s.failed(err)
	}
	if r.Posting, err = decodePosting(ref, raw); err != nil {
		return driver.Row{}, driver.Malformed{Ref: ref, Err: err}
	}
	r.LastModified = modifiedOf(r.Posting, &reply[4])
	return r, nil
}

// modifiedOf is when a posting was changed last: never earlier than it was posted, as in TaskFlow.
func modifiedOf(p *driver.Posting, m *rueidis.RedisMessage) time.Time {
	if raw, err := m.AsBytes(); err == nil {
		if t, err := decodeTime(raw); err == nil && t.After(p.CreatedOn) {
			return t
		}
	}
	return p.CreatedOn
}

// Modified implements driver.Store, in one pipeline.
func (s *Store) Modified(ctx context.Context, rows []driver.Row) error {
	const chunk = 1000
	cmds := make(rueidis.Commands, 0, len(rows)/chunk+1)
	for some := range slices.Chunk(rows, chunk) {
		names := make([]string, len(some))
		for i, r := range some {
			names[i] = s.keys.LastModified(r.Ref)
		}
		cmds = append(cmds, s.rdb.B().Mget().Key(names...).Build())
	}
	if len(cmds) == 0 {
		return nil
	}
	for n, r := range s.rdb.DoMulti(ctx, cmds...) {
		times, err := r.ToArray()
		if err != nil {
			return s.failed(err)
		}
		some := rows[n*chunk:]
		for i := range times {
			some[i].LastModified = modifiedOf(some[i].Posting, &times[i])
		}
	}
	return nil
}

// Count implements driver.Store.
func (s *Store) Count(ctx context.Context) (int, error) {
	n, err := s.rdb.Do(ctx, s.rdb.B().Hlen().Key(s.keys.Listings()).Build()).AsInt64()
	return int(n), s.failed(err)
}
