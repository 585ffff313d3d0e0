package jobstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// What stations have, for people and for programs that compare: however many stations are asked for, it is read by few commands, in few round trips.

//go:embed many.lua
var manyLua string

// many sends the same read of keys, given by its name and what follows the key, as one command; decode gets the reply of each key. The text of the script is short enough to go along.
func (s *Store) many(l *loader, keys []string, decode func(i int, reply rueidis.RedisMessage) error, read ...string) {
	if len(keys) == 0 {
		return
	}
	l.add(s.rdb.B().EvalRo().Script(manyLua).Numkeys(int64(len(keys))).Key(keys...).Arg(read...).Build(), func(r rueidis.RedisResult) error {
		replies, err := r.ToArray()
		for i := range replies {
			err = errors.Join(err, decode(i, replies[i]))
		}
		return err
	})
}

// perTrip is how many stations, orders or documents one round trip reads.
const perTrip = 500

// Contents is what is stored of one station.
type Contents struct {
	Orders int64                         // job orders that are not in EndState
	Limit  int64                         // MaxDownloadableJobOrders; -1 = none was delivered
	IDs    map[isa95.ConfigKind][]string // sorted; of the kinds that were asked for
}

// StationInfo is what lists say of a station.
type StationInfo struct {
	Scope        isa95.Scope `json:"scope"`
	State        string      `json:"state"`  // active, or retired until the next order
	Orders       int64       `json:"orders"` // that are not in EndState
	MaxJobOrders *int64      `json:"max_job_orders,omitempty"`
	WorkMasters  []string    `json:"work_masters"`
}

// Station is what lists say of a station with these contents; active as Stations has it.
func (c *Contents) Station(scope isa95.Scope, active bool) StationInfo {
	s := StationInfo{Scope: scope, State: "retired", Orders: c.Orders, WorkMasters: c.IDs[isa95.ConfigWorkMaster]}
	if active {
		s.State = "active"
	}
	if c.Limit >= 0 {
		s.MaxJobOrders = &c.Limit
	}
	return s
}

// Full tells whether the station takes no further order.
func (s *StationInfo) Full() bool { return s.MaxJobOrders != nil && s.Orders >= *s.MaxJobOrders }

// Contents reads what scopes have of kinds, of which isa95.ConfigJobAcceptance has no ids. A scope that has nothing is there, too.
func (s *Store) Contents(ctx context.Context, scopes []isa95.Scope, kinds ...isa95.ConfigKind) (map[isa95.Scope]*Contents, error) {
	all := make(map[isa95.Scope]*Contents, len(scopes))
	for some := range slices.Chunk(scopes, perTrip) {
		var l loader
		s.loadContents(&l, all, some, kinds)
		if err := l.run(ctx, s.rdb); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// loadContents adds those of scopes to all.
func (s *Store) loadContents(l *loader, all map[isa95.Scope]*Contents, scopes []isa95.Scope, kinds []isa95.ConfigKind) {
	var lists, sets []string
	for _, scope := range scopes {
		c := &Contents{Limit: -1, IDs: make(map[isa95.ConfigKind][]string)}
		all[scope] = c
		l.get(s.keys.JobAcceptance(string(scope)), func(text []byte) (err error) {
			c.Limit, err = strconv.ParseInt(string(text), 10, 64)
			return err
		})
		lists = append(lists, s.keys.JobOrderList(string(scope)))
	}
	s.many(l, lists, func(i int, r rueidis.RedisMessage) (err error) {
		all[scopes[i]].Orders, err = r.AsInt64()
		return err
	}, "ZCARD")
	kinds = slices.DeleteFunc(slices.Clone(kinds), func(k isa95.ConfigKind) bool { return k == isa95.ConfigJobAcceptance })
	for _, scope := range scopes {
		for _, kind := range kinds {
			sets = append(sets, s.resourceKey(string(kind), scope))
		}
	}
	s.many(l, sets, func(i int, r rueidis.RedisMessage) error {
		ids, err := r.AsStrSlice()
		slices.Sort(ids)
		all[scopes[i/len(kinds)]].IDs[kinds[i%len(kinds)]] = ids
		return err
	}, "SMEMBERS")
}

// Comparison is one piece of a configuration, and what its delivery would change now. Before and After of a limit are numbers.
type Comparison struct {
	Configuration
	Delivery
}

// DeliveryExtra is Comparison.Change of what a scope has and no piece names: deliveries take nothing away.
const DeliveryExtra = "extra"

// Compare says what the delivery of each of pieces would change now, by the rules of Configure, and then what else their scopes have. It reads in one round trip.
func (s *Store) Compare(ctx context.Context, pieces []Configuration) ([]Comparison, error) {
	var l loader
	contents, holders := make(map[isa95.Scope]*Contents), make(map[string]*Snapshot)
	var scopes []isa95.Scope // in the order of pieces
	for _, c := range pieces {
		if _, known := contents[c.Scope]; !known {
			contents[c.Scope] = nil // until they are read
			scopes = append(scopes, c.Scope)
		}
		if c.Kind == isa95.ConfigWorkMaster && holders[c.ID] == nil {
			holders[c.ID] = new(Snapshot)
			s.loadDelivered(&l, holders[c.ID], c.ID)
		}
	}
	s.loadContents(&l, contents, scopes, isa95.ConfigKinds())
	if err := l.run(ctx, s.rdb); err != nil {
		return nil, err
	}
	var all []Comparison
	type name struct {
		scope isa95.Scope
		kind  isa95.ConfigKind
		id    string
	}
	named := make(map[name]bool)
	for _, c := range pieces {
		named[name{c.Scope, c.Kind, c.ID}] = true
		change, err := s.compare(c, contents[c.Scope], holders[c.ID])
		if err != nil {
			return nil, err
		}
		all = append(all, Comparison{c, change})
	}
	for _, scope := range scopes {
		has := contents[scope]
		for _, kind := range isa95.ConfigKinds() {
			for _, id := range has.IDs[kind] {
				if !named[name{scope, kind, id}] {
					all = append(all, Comparison{Configuration{Kind: kind, Scope: scope, ID: id}, Delivery{Change: DeliveryExtra}})
				}
			}
		}
		if has.Limit >= 0 && !named[name{scope, isa95.ConfigJobAcceptance, ""}] {
			all = append(all, Comparison{Configuration{Kind: isa95.ConfigJobAcceptance, Scope: scope}, Delivery{Change: DeliveryExtra, Before: strconv.FormatInt(has.Limit, 10)}})
		}
	}
	return all, nil
}

func (s *Store) compare(c Configuration, has *Contents, holders *Snapshot) (Delivery, error) {
	switch {
	case c.Kind == isa95.ConfigWorkMaster:
		return s.Delivery(c, holders)
	case c.Kind == isa95.ConfigJobAcceptance:
		d := Delivery{Change: DeliveryNew, After: strconv.FormatInt(c.Limit, 10)}
		if has.Limit >= 0 {
			d.Change, d.Before = DeliveryChanged, strconv.FormatInt(has.Limit, 10)
		}
		if d.Before == d.After {
			d.Change = DeliveryUnchanged
		}
		return d, nil
	case slices.Contains(has.IDs[c.Kind], c.ID):
		return Delivery{Change: DeliveryUnchanged}, nil
	}
	return Delivery{Change: DeliveryNew}, nil
}

// DeliveredWorkMaster is one content of a work master, and the scopes that run it.
type DeliveredWorkMaster struct {
	ID      isa95.WorkMasterID
	Content string        // SHA-256 of the work master
	SHA256  string        // of its data, "" = none
	Seq     int64         // of its last delivery: the newest content of an id has the greatest
	Scopes  []isa95.Scope // sorted
}

// Delivered returns which contents scopes run under ids: by id, and each content of one id once. With a scope it is what that scope runs, and other scopes are not read. It is one
// command for 500 ids. A pointer that cannot be read is left out and joined to the error.
func (s *Store) Delivered(ctx context.Context, scope isa95.Scope, ids ...isa95.WorkMasterID) ([]DeliveredWorkMaster, error) {
	type content struct {
		id  isa95.WorkMasterID
		sha string
	}
	all, places := []DeliveredWorkMaster{}, make(map[content]int)
	var unreadable error
	for some := range slices.Chunk(ids, perTrip) {
		names := make([]string, len(some))
		for i, id := range some {
			names[i] = s.keys.WorkMasterDelivered(string(id))
		}
		add := func(i int, scope, text string) {
			at, err := decodePointer(names[i], text)
			if err != nil {
				unreadable = errors.Join(unreadable, err)
				return
			}
			n, known := places[content{some[i], at.content}]
			if !known {
				n = len(all)
				places[content{some[i], at.content}] = n
				all = append(all, DeliveredWorkMaster{ID: some[i], Content: at.content, SHA256: at.data})
			}
			all[n].Scopes, all[n].Seq = append(all[n].Scopes, isa95.Scope(scope)), max(all[n].Seq, at.seq)
		}
		var l loader
		if scope != "" {
			s.many(&l, names, func(i int, r rueidis.RedisMessage) error {
				text, err := r.ToString()
				if rueidis.IsRedisNil(err) {
					return nil
				}
				if err == nil {
					add(i, string(scope), text)
				}
				return err
			}, "HGET", string(scope))
		} else {
			s.many(&l, names, func(i int, r rueidis.RedisMessage) error {
				fields, err := r.AsStrMap()
				delete(fields, seqField)
				for _, scope := range slices.Sorted(maps.Keys(fields)) {
					add(i, scope, fields[scope])
				}
				return err
			}, "HGETALL")
		}
		if err := l.run(ctx, s.rdb); err != nil {
			return nil, err
		}
	}
	return all, unreadable
}

// WorkMasterIDs returns the ids that any station has, sorted.
func (s *Store) WorkMasterIDs(ctx context.Context) ([]isa95.WorkMasterID, error) {
	scopes, err := s.rdb.Do(ctx, s.rdb.B().Smembers().Key(s.keys.ConfiguredScopes()).Build()).AsStrSlice()
	lists := make([]string, len(scopes))
	for i, scope := range scopes {
		lists[i] = s.keys.WorkMasterList(scope)
	}
	var names []string
	if err == nil && len(lists) > 0 {
		names, err = s.rdb.Do(ctx, s.rdb.B().Sunion().Key(lists...).Build()).AsStrSlice()
	}
	if err != nil {
		return nil, fmt.Errorf("jobstore: work masters: %w", err)
	}
	slices.Sort(names)
	ids := make([]isa95.WorkMasterID, len(names))
	for i, name := range names {
		ids[i] = isa95.WorkMasterID(name)
	}
	return ids, nil
}

// Executions returns the executions of job orders, for those that have one. A document that cannot be read is left out and joined to the error.
func (s *Store) Executions(ctx context.Context, ids []isa95.JobOrderID) (map[isa95.JobOrderID]*recipe.Execution, error) {
	all := make(map[isa95.JobOrderID]*recipe.Execution, len(ids))
	var unreadable error
	for some := range slices.Chunk(ids, perTrip) {
		var l loader
		for _, id := range some {
			l.get(s.keys.SfcExecution(string(id)), func(doc []byte) error {
				if x, err := s.decodeExecution(id, doc); err != nil {
					unreadable = errors.Join(unreadable, err)
				} else {
					all[id] = x
				}
				return nil
			})
		}
		if err := l.run(ctx, s.rdb); err != nil {
			return nil, err
		}
	}
	return all, unreadable
}
