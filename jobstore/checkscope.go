package jobstore

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/taktworks/takt/isa95"
)

// scopes compares job orders, their list, their responses and the index of the retained topics.
func (c *checker) scopes(ctx context.Context) error {
	s := c.store
	names, known, err := read(ctx, c, s.keys.ActiveScopes(), s.rdb.B().Smembers().Key(s.keys.ActiveScopes()).Build(), asStrings)
	if !known {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if err := c.scope(ctx, isa95.Scope(name)); err != nil {
			return err
		}
	}
	for id, o := range c.jobs {
		if !o.State.IsEnd() && c.listed[id] == "" && !c.blind[o.Scope] {
			c.violation(s.keys.JobOrder(id), nextReport, "is %s and in no list", o.State)
		}
	}
	return nil
}

func (c *checker) scope(ctx context.Context, scope isa95.Scope) error {
	s, listKey, indexKey := c.store, c.store.keys.JobOrderList(string(scope)), c.store.keys.PubIndex(string(scope))
	list, listed, err := read(ctx, c, listKey, s.rdb.B().Zrange().Key(listKey).Min("0").Max("-1").Withscores().Build(), asScores)
	if err != nil {
		return err
	}
	index, indexed, err := read(ctx, c, indexKey, s.rdb.B().Hgetall().Key(indexKey).Build(), asMap)
	if err != nil {
		return err
	}
	c.blind[scope] = !listed
	switch {
	case len(list) == 0:
	case !c.opt.AnyScope:
		if err := c.configured(ctx, scope, len(list)); err != nil {
			return err
		}
	}
	for _, member := range list {
		c.member(scope, member.Member, member.Score)
		if indexed {
			c.indexed(scope, member.Member, index)
		}
	}
	for id, raw := range index {
		e, err := decodeIndexEntry(indexKey, []byte(raw))
		if err != nil {
			c.violation(indexKey, nextReport, "field %s cannot be read: %v", id, err)
			continue
		}
		if listed && !e.Gone && c.listed[id] != scope {
			c.violation(indexKey, nextReport, "names %s, which is in no list of this scope", id)
		}
		if err := c.response(ctx, scope, id, e); err != nil {
			return err
		}
	}
	return nil
}

// configured reports a scope with orders that is not among those that were configured: its station takes no further ones.
func (c *checker) configured(ctx context.Context, scope isa95.Scope, orders int) error {
	s, known := c.store, c.store.keys.ConfiguredScopes()
	noted, _, err := read(ctx, c, known, s.rdb.B().Sismember().Key(known).Member(string(scope)).Build(), asInt)
	if err != nil || noted == 1 || c.unreadable(known) {
		return err
	}
	c.violationOf("never configured", s.keys.JobOrderList(string(scope)), "deliver what the station has, `takt station apply`, or end its orders", "has %d job orders, and scope %s was never configured", orders, scope)
	return nil
}

// waiting reports orders that may start and that nothing starts.
func (c *checker) waiting(context.Context) error {
	for id, o := range c.jobs {
		since, err := time.Parse(time.RFC3339Nano, o.Event.RecordedTime)
		if o.State.Top != isa95.AllowedToStart || err != nil {
			continue
		}
		if age := c.store.Now().Sub(since); age > c.opt.Waiting {
			c.violationOf("waits since "+o.Event.RecordedTime, c.store.keys.JobOrder(id), "does its work master have a recipe, or does its station take it? `takt job show`, `takt station apply`, or end the order: `takt job cancel`",
				"is %s for %v, and nothing starts it", o.State, age.Round(time.Minute))
		}
	}
	return nil
}

// member looks at one member of the list of a scope.
func (c *checker) member(scope isa95.Scope, id string, score float64) {
	list := c.store.keys.JobOrderList(string(scope))
	if other, twice := c.listed[id]; twice {
		c.violation(list, nextReport, "names %s, which is also in the list of %s", id, other)
	}
	c.listed[id] = scope
	o := c.jobs[id]
	switch {
	case c.unreadable(c.store.keys.JobOrder(id)): // reported
	case o == nil:
		c.violation(list, nextReport, "names %s, which has no document", id)
	case o.Scope != scope:
		c.violation(list, nextReport, "names %s, which belongs to %s", id, o.Scope)
	case o.State.IsEnd():
		c.violation(list, nextReport, "names %s, which is in EndState", id)
	case score != float64(o.JobOrder.PriorityOr0()):
		c.violation(list, nextReport, "has %s at %v, its priority is %d", id, score, o.JobOrder.PriorityOr0())
	}
}

// indexed compares the entry of an order in the index of the retained topics with the order; index is that of the scope.
func (c *checker) indexed(scope isa95.Scope, id string, index map[string]string) {
	o := c.jobs[id]
	if o == nil {
		return // reported
	}
	var e IndexEntry
	if err := json.Unmarshal([]byte(index[id]), &e); err != nil {
		c.violation(c.store.keys.PubIndex(string(scope)), nextReport, "does not name %s", id)
		return
	}
	if state, err := isa95.ParseState(e.State); err != nil || state != o.State {
		c.violation(c.store.keys.PubIndex(string(scope)), nextReport, "has %s as %s, it is %s", id, state, o.State)
	}
}

// response: an order that can be cleared has a response, any other has none.
func (c *checker) response(ctx context.Context, scope isa95.Scope, id string, e IndexEntry) error {
	if e.Gone {
		return nil
	}
	o := c.jobs[id]
	if o == nil {
		return nil
	}
	key := c.store.keys.JobResponse(string(ResponseID(isa95.JobOrderID(id))))
	doc, ok, err := read(ctx, c, key, c.store.rdb.B().Get().Key(key).Build(), asBytes)
	if !ok {
		if err == nil && o.State.Clearable() && !c.unreadable(key) {
			c.violation(key, nextReport, "is missing, though the order is %s", o.State)
		}
		return err
	}
	if top := o.State.Top; o.Station.Start != "" && (top == isa95.Running || top == isa95.Interrupted) {
		return nil // handed in early: no topic has it yet
	}
	if !o.State.Clearable() {
		c.violation(key, nextReport, "is there, though the order is %s", o.State)
	}
	if revision(doc) != e.Result {
		c.violation(c.store.keys.PubIndex(string(scope)), nextReport, "has another revision of the response to %s", id)
	}
	return nil
}
