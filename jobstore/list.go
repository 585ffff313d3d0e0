package jobstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/isa95"
)

// Scopes returns the scopes that have job orders, or had some and have not retired yet, sorted.
func (s *Store) Scopes(ctx context.Context) ([]isa95.Scope, error) {
	names, err := s.rdb.Do(ctx, s.rdb.B().Smembers().Key(s.keys.ActiveScopes()).Build()).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("jobstore: scopes: %w", err)
	}
	slices.Sort(names)
	scopes := make([]isa95.Scope, len(names))
	for i, name := range names {
		scopes[i] = isa95.Scope(name)
	}
	return scopes, nil
}

// Stations returns the scopes that are configured or have job orders. false: the scope had orders and has retired; the next order brings it back.
func (s *Store) Stations(ctx context.Context) (map[isa95.Scope]bool, error) {
	replies := s.rdb.DoMulti(ctx, s.rdb.B().Smembers().Key(s.keys.ConfiguredScopes()).Build(), s.rdb.B().Smembers().Key(s.keys.ActiveScopes()).Build())
	configured, err := replies[0].AsStrSlice()
	active, errActive := replies[1].AsStrSlice()
	if err = errors.Join(err, errActive); err != nil {
		return nil, fmt.Errorf("jobstore: stations: %w", err)
	}
	stations := make(map[isa95.Scope]bool, len(configured))
	for _, name := range active {
		stations[isa95.Scope(name)] = true
	}
	var l loader
	for _, name := range configured {
		scope := isa95.Scope(name)
		if stations[scope] {
			continue
		}
		stations[scope] = true
		l.get(s.keys.PubSeq(name), func([]byte) error {
			stations[scope] = false
			return nil
		})
	}
	if err := l.run(ctx, s.rdb); err != nil {
		return nil, fmt.Errorf("jobstore: stations: %w", err)
	}
	return stations, nil
}

// List returns the job orders of scopes that are not in EndState: higher ISA-95 priority first, then by id.
// It is read in pages, so orders that come or go meanwhile may or may not be in it. A document that cannot be read is
// left out and joined to the error.
func (s *Store) List(ctx context.Context, scopes ...isa95.Scope) ([]StoredOrder, error) {
	ids, err := s.listed(ctx, scopes...)
	if err != nil {
		return nil, err
	}
	orders, err := s.Orders(ctx, ids...)
	return slices.DeleteFunc(orders, func(o StoredOrder) bool { return o.State.IsEnd() }), err
}

// Orders returns the job orders with these ids, as far as they are stored, in the order of List. One command reads 500 of them. A document that cannot be read is left out and
// joined to the error.
func (s *Store) Orders(ctx context.Context, ids ...string) ([]StoredOrder, error) {
	var orders []StoredOrder
	var unreadable error
	for page := range slices.Chunk(ids, perTrip) {
		var l loader
		for _, id := range page {
			key := s.keys.JobOrder(id)
			l.get(key, func(doc []byte) error {
				if o, err := s.opt.Schemas.decodeOrder(key, doc); err != nil {
					unreadable = errors.Join(unreadable, err)
				} else {
					orders = append(orders, *o)
				}
				return nil
			})
		}
		if err := l.run(ctx, s.rdb); err != nil {
			return nil, s.alarm.Note(err)
		}
	}
	slices.SortStableFunc(orders, func(a, b StoredOrder) int { return inListOrder(&a, &b) })
	return orders, unreadable
}

// listed returns the ids in the lists of scopes.
func (s *Store) listed(ctx context.Context, scopes ...isa95.Scope) (ids []string, err error) {
	var l loader
	for _, scope := range scopes {
		l.add(s.rdb.B().Zrange().Key(s.keys.JobOrderList(string(scope))).Min("0").Max("-1").Build(), func(r rueidis.RedisResult) error {
			some, err := r.AsStrSlice()
			ids = append(ids, some...)
			return err
		})
	}
	return ids, l.run(ctx, s.rdb)
}

func inListOrder(a, b *StoredOrder) int {
	return cmp.Or(
		cmp.Compare(b.JobOrder.PriorityOr0(), a.JobOrder.PriorityOr0()),
		cmp.Compare(a.JobOrder.JobOrderID, b.JobOrder.JobOrderID),
	)
}

// maxResponses is how many responses a query by state returns.
const maxResponses = 1000

// ResponsesByState returns the responses of a scope whose job order is in one of the states, at most 1000, by id. A
// document that cannot be read is left out and joined to the error.
func (s *Store) ResponsesByState(ctx context.Context, scope isa95.Scope, states []isa95.State) ([]isa95.JobResponse, error) {
	var ids []string
	var l loader
	for _, state := range states {
		key := s.keys.ResponsesByState(string(scope), state.String())
		l.add(s.rdb.B().Smembers().Key(key).Build(), func(r rueidis.RedisResult) error {
			members, err := r.AsStrSlice()
			ids = append(ids, members...)
			return err
		})
	}
	if err := l.run(ctx, s.rdb); err != nil {
		return nil, err
	}
	slices.Sort(ids)
	ids = ids[:min(len(ids), maxResponses)]
	var responses []isa95.JobResponse
	var unreadable error
	l = loader{}
	for _, id := range ids {
		key := s.keys.JobResponse(id)
		l.add(s.rdb.B().Get().Key(key).Build(), func(r rueidis.RedisResult) error {
			doc, err := r.AsBytes()
			if rueidis.IsRedisNil(err) {
				return nil
			}
			if err != nil {
				return err
			}
			if response, err := s.opt.Schemas.decodeResponse(key, doc); err != nil {
				unreadable = errors.Join(unreadable, err)
			} else {
				responses = append(responses, *response)
			}
			return nil
		})
	}
	return responses, errors.Join(l.run(ctx, s.rdb), unreadable)
}

// ChangeEntry is one entry of a change stream.
type ChangeEntry struct {
	ID         string // of the entry; Watch goes on after it
	Type       string // change_type: a method, or ResultUpdate
	JobOrderID isa95.JobOrderID
	Scope      isa95.Scope
	Time       string // ts, as written
}

func changeEntry(e rueidis.XRangeEntry) ChangeEntry {
	return ChangeEntry{
		ID: e.ID, Type: e.FieldValues["change_type"], Time: e.FieldValues["ts"],
		JobOrderID: isa95.JobOrderID(e.FieldValues["job_order_id"]), Scope: isa95.Scope(e.FieldValues["scope"]),
	}
}

// Watch waits for changes after the entry with the id after ("$": from now on), of one scope or, with scope "", of all. It
// blocks up to wait and returns none when nothing changed.
func (s *Store) Watch(ctx context.Context, scope isa95.Scope, after string, wait time.Duration) ([]ChangeEntry, error) {
	key := s.keys.ChangesAll()
	if scope != "" {
		key = s.keys.Changes(string(scope))
	}
	read := s.rdb.B().Xread().Count(500).Block(wait.Milliseconds()).Streams().Key(key).Id(after).Build()
	streams, err := s.rdb.Do(ctx, read).AsXRead()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("jobstore: watch %s: %w", strconv.Quote(key), err)
	}
	var changes []ChangeEntry
	for _, e := range streams[key] {
		changes = append(changes, changeEntry(e))
	}
	return changes, nil
}

// LastChange is the id of the newest change, to begin a Watch from; "0" if there is none.
func (s *Store) LastChange(ctx context.Context, scope isa95.Scope) (string, error) {
	changes, err := s.LastChanges(ctx, scope, 1)
	if err != nil || len(changes) == 0 {
		return "0", err
	}
	return changes[0].ID, nil
}

// LastChanges returns the newest changes of one scope or, with scope "", of all: at most n, the newest first.
func (s *Store) LastChanges(ctx context.Context, scope isa95.Scope, n int) ([]ChangeEntry, error) {
	key := s.keys.ChangesAll()
	if scope != "" {
		key = s.keys.Changes(string(scope))
	}
	entries, err := s.rdb.Do(ctx, s.rdb.B().Xrevrange().Key(key).End("+").Start("-").Count(int64(n)).Build()).AsXRange()
	if err != nil {
		return nil, fmt.Errorf("jobstore: last changes: %w", err)
	}
	changes := make([]ChangeEntry, len(entries))
	for i, e := range entries {
		changes[i] = changeEntry(e)
	}
	return changes, nil
}
