package jobstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// What stations have, for people and for programs that compare: however many stations are asked for, it is read in few round trips.

// perTrip is how many stations, orders or documents one round trip reads.
const perTrip = 500

// Contents is what is stored of one station.
type Contents struct {
	Orders int64                         // job orders that are not in EndState
	Limit  int64                         // MaxDownloadableJobOrders; -1 = none was delivered
	IDs    map[isa95.ConfigKind][]string // sorted; of the kinds that were asked for
}

// Contents reads what scopes have of kinds, of which isa95.ConfigJobAcceptance has no ids. A scope that has nothing is there, too.
func (s *Store) Contents(ctx context.Context, scopes []isa95.Scope, kinds ...isa95.ConfigKind) (map[isa95.Scope]*Contents, error) {
	all := make(map[isa95.Scope]*Contents, len(scopes))
	for some := range slices.Chunk(scopes, perTrip) {
		var l loader
		for _, scope := range some {
			all[scope] = s.loadContents(&l, scope, kinds)
		}
		if err := l.run(ctx, s.rdb); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (s *Store) loadContents(l *loader, scope isa95.Scope, kinds []isa95.ConfigKind) *Contents {
	c := &Contents{IDs: make(map[isa95.ConfigKind][]string)}
	s.loadCounts(l, scope, &c.Limit, &c.Orders)
	for _, kind := range kinds {
		if kind == isa95.ConfigJobAcceptance {
			continue
		}
		l.add(s.rdb.B().Smembers().Key(s.resourceKey(string(kind), scope)).Build(), func(r rueidis.RedisResult) (err error) {
			c.IDs[kind], err = r.AsStrSlice()
			slices.Sort(c.IDs[kind])
			return err
		})
	}
	return c
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
		if contents[c.Scope] == nil {
			contents[c.Scope] = s.loadContents(&l, c.Scope, isa95.ConfigKinds())
			scopes = append(scopes, c.Scope)
		}
		if c.Kind == isa95.ConfigWorkMaster && holders[c.ID] == nil {
			holders[c.ID] = new(Snapshot)
			s.loadDelivered(&l, holders[c.ID], c.ID)
		}
	}
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

// HeldWorkMaster is one content of a work master, and the scopes that run it.
type HeldWorkMaster struct {
	*isa95.WorkMaster
	SHA256 string        // of Data, "" = none
	Scopes []isa95.Scope // sorted
}

// WorkMasters returns what scopes run under ids, all ids if there are none: by id, and each content of one id once. It reads in two round trips, for all ids in four. A content that
// cannot be read is left out and joined to the error.
func (s *Store) WorkMasters(ctx context.Context, ids ...isa95.WorkMasterID) ([]HeldWorkMaster, error) {
	if len(ids) == 0 {
		var err error
		if ids, err = s.workMasterIDs(ctx); err != nil {
			return nil, err
		}
	}
	type content struct {
		id  isa95.WorkMasterID
		sha string
	}
	scopes := make(map[content][]isa95.Scope)
	var order []content
	var unreadable error
	var l loader
	for _, id := range ids {
		key := s.keys.WorkMasterDelivered(string(id))
		l.add(s.rdb.B().Hgetall().Key(key).Build(), func(r rueidis.RedisResult) error {
			fields, err := r.AsStrMap()
			for _, scope := range slices.Sorted(maps.Keys(fields)) {
				if scope == seqField {
					continue
				}
				at, err := decodePointer(key, fields[scope])
				if err != nil {
					unreadable = errors.Join(unreadable, err)
					continue
				}
				c := content{id, at.content}
				if scopes[c] == nil {
					order = append(order, c)
				}
				scopes[c] = append(scopes[c], isa95.Scope(scope))
			}
			return err
		})
	}
	if err := l.run(ctx, s.rdb); err != nil {
		return nil, err
	}
	var held []HeldWorkMaster
	l = loader{}
	for _, c := range order {
		key := s.keys.WorkMasterContent(c.sha)
		l.add(s.rdb.B().Get().Key(key).Build(), func(r rueidis.RedisResult) error {
			doc, err := r.AsBytes()
			if rueidis.IsRedisNil(err) {
				unreadable = errors.Join(unreadable, missingContent(key, scopes[c][0], c.id))
				return nil
			}
			if err != nil {
				return err
			}
			w, err := s.opt.Schemas.decodeWorkMaster(key, doc)
			if err != nil {
				unreadable = errors.Join(unreadable, err)
				return nil
			}
			h := HeldWorkMaster{WorkMaster: w, Scopes: scopes[c]}
			if len(w.Data) > 0 {
				h.SHA256 = Hash(w.Data)
			}
			held = append(held, h)
			return nil
		})
	}
	return held, errors.Join(l.run(ctx, s.rdb), unreadable)
}

// workMasterIDs are the ids that any station has, sorted.
func (s *Store) workMasterIDs(ctx context.Context) ([]isa95.WorkMasterID, error) {
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
