package jobstore

import (
	"slices"
	"time"

	"github.com/taktworks/takt/internal/invariant"
	"github.com/taktworks/takt/isa95"
)

// scopes compares job orders, their list, their responses and the index of the retained topics.
func (c *checker) scopes() {
	s := c.store
	names, known := invariant.Read(c.Pass, s.keys.ActiveScopes(), invariant.Set)
	if !known {
		return
	}
	slices.Sort(names)
	for _, name := range names {
		c.scope(isa95.Scope(name))
	}
	for id, o := range c.jobs {
		if !o.State.IsEnd() && c.listed[id] == "" && !c.blind[o.Scope] {
			c.Add(s.keys.JobOrder(id), nextReport, "is %s and in no list", o.State)
		}
	}
}

func (c *checker) scope(scope isa95.Scope) {
	indexKey := c.store.keys.PubIndex(string(scope))
	list, listed := invariant.Read(c.Pass, c.store.keys.JobOrderList(string(scope)), invariant.Scores)
	index, indexed := invariant.Read(c.Pass, indexKey, invariant.Hash)
	c.blind[scope] = !listed
	if len(list) > 0 && !c.opt.AnyScope {
		c.configured(scope, len(list))
	}
	for id, score := range list {
		c.member(scope, id, score)
		if _, named := index[id]; indexed && !named && c.jobs[id] != nil {
			c.Add(indexKey, nextReport, "does not name %s", id)
		}
	}
	for id, raw := range index {
		e, err := decodeIndexEntry(indexKey, []byte(raw))
		if err != nil {
			c.Add(indexKey, nextReport, "field %s cannot be read: %v", id, err)
			continue
		}
		if listed && !e.Gone && c.listed[id] != scope {
			c.Add(indexKey, nextReport, "names %s, which is in no list of this scope", id)
		}
		o := c.jobs[id]
		if o == nil {
			continue // reported
		}
		if state, err := isa95.ParseState(e.State); c.listed[id] == scope && (err != nil || state != o.State) {
			c.Add(indexKey, nextReport, "has %s as %s, it is %s", id, state, o.State)
		}
		if !e.Gone {
			c.response(scope, id, o, e)
		}
	}
}

// configured reports a scope with orders that is not among those that were configured: its station takes no further ones.
func (c *checker) configured(scope isa95.Scope, orders int) {
	if noted, ok := invariant.Read(c.Pass, c.store.keys.ConfiguredScopes(), hasMember(string(scope))); noted || !ok {
		return
	}
	c.AddAt("never configured", c.store.keys.JobOrderList(string(scope)), "deliver what the station has, `takt station apply`, or end its orders", "has %d job orders, and scope %s was never configured", orders, scope)
}

// waiting reports orders that may start and that nothing starts.
func (c *checker) waiting() {
	for id, o := range c.jobs {
		since, err := time.Parse(time.RFC3339Nano, o.Event.RecordedTime)
		if o.State.Top != isa95.AllowedToStart || err != nil {
			continue
		}
		if age := c.store.Now().Sub(since); age > c.opt.Waiting {
			c.AddAt("waits since "+o.Event.RecordedTime, c.store.keys.JobOrder(id), "`takt job why` says what it waits for; `takt station apply`, or end the order: `takt job cancel`",
				"is %s for %v, and nothing starts it", o.State, age.Round(time.Minute))
		}
	}
}

// member looks at one member of the list of a scope.
func (c *checker) member(scope isa95.Scope, id string, score float64) {
	list := c.store.keys.JobOrderList(string(scope))
	if other, twice := c.listed[id]; twice {
		c.Add(list, nextReport, "names %s, which is also in the list of %s", id, other)
	}
	c.listed[id] = scope
	o := c.jobs[id]
	switch {
	case c.Unreadable(c.store.keys.JobOrder(id)): // reported
	case o == nil:
		c.Add(list, nextReport, "names %s, which has no document", id)
	case o.Scope != scope:
		c.Add(list, nextReport, "names %s, which belongs to %s", id, o.Scope)
	case o.State.IsEnd():
		c.Add(list, nextReport, "names %s, which is in EndState", id)
	case score != float64(o.JobOrder.PriorityOr0()):
		c.Add(list, nextReport, "has %s at %v, its priority is %d", id, score, o.JobOrder.PriorityOr0())
	}
}

// response: an order that can be cleared has a response, any other has none.
func (c *checker) response(scope isa95.Scope, id string, o *StoredOrder, e IndexEntry) {
	key := c.store.keys.JobResponse(string(ResponseID(isa95.JobOrderID(id))))
	doc, ok := invariant.Read(c.Pass, key, invariant.Text)
	if !ok {
		if o.State.Clearable() && !c.Unreadable(key) {
			c.Add(key, nextReport, "is missing, though the order is %s", o.State)
		}
		return
	}
	if top := o.State.Top; o.Station.Start != "" && (top == isa95.Running || top == isa95.Interrupted) {
		return // handed in early: no topic has it yet
	}
	if !o.State.Clearable() {
		c.Add(key, nextReport, "is there, though the order is %s", o.State)
	}
	if revision([]byte(doc)) != e.Result {
		c.Add(c.store.keys.PubIndex(string(scope)), nextReport, "has another revision of the response to %s", id)
	}
}
