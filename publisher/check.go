package publisher

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/taktworks/takt/internal/invariant"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

const (
	nextPublish = "is a publisher running, and the broker up? `takt serve --roles publisher`"
	nextStore   = "`takt check` of the store says more"
	nextLimit   = "raise the broker's limit (mosquitto: message_size_limit, max_packet_size), or the user's rights; `takt doctor` finds the limit"
	nextForeign = "another installation with this topic prefix wrote them, or an earlier store: if none does, delete them at the broker"
	nextRefused = "the publisher's log and publisher:deadletter have the reason"
)

// Retained calls take with each message that a broker has retained under the filters, one at a time, as mqtt.Conn.EachRetained does.
type Retained func(ctx context.Context, take func(mqtt.Message), filters ...string) error

// Check compares what the retained topics shall be with what the publisher noted and with what a broker has retained under
// Filters; of each message it keeps what tells its content apart, not the content. It lists the differences, nil if there are none. While job orders move it may report what is just being
// done: what a second look finds again stands (see jobstore.Violation.Same). Of opt it takes the prefix and the forms of the payloads. Of scopes that the store does not have it says how many topics there
// are: they may belong to another store.
//
// takes says whether the broker takes a message with a payload of so many bytes, with the error of one that it refuses. It is asked for state indexes that are
// not published. nil: it is not known.
func Check(ctx context.Context, store *jobstore.Store, retained Retained, opt Options, takes func(bytes int) error) ([]jobstore.Violation, error) {
	opt = opt.withDefaults()
	if err := opt.validate(); err != nil {
		return nil, err
	}
	scopes, err := store.Scopes(ctx)
	if err != nil {
		return nil, err
	}
	c := checker{opt: opt, takes: takes}
	if c.epoch, err = store.Epoch(ctx); err != nil {
		return nil, err
	}
	has := make(map[isa95.Scope]*found)
	if err := retained(ctx, func(m mqtt.Message) { opt.note(has, &m) }, Filters(opt.TopicPrefix)...); err != nil {
		return nil, err
	}
	for _, scope := range slices.Sorted(maps.Keys(has)) {
		if f := has[scope]; f.unfit > 0 {
			c.key = fmt.Sprintf("%s/%.128s", opt.TopicPrefix, scope)
			c.AddAt("unfit topics", c.key, nextForeign, "%d retained topics have a scope or an id that is no name that Takt takes, such as %q", f.unfit, f.oneOf)
		}
	}
	for _, scope := range scopes {
		read, err := store.Retained(ctx, jobstore.RetainedQuery{Scope: scope})
		if err != nil {
			return nil, err
		}
		f := has[scope]
		if f == nil {
			f = new(found)
		}
		c.key = store.RetainedKey(scope)
		c.scope(read[0], f)
		delete(has, scope)
	}
	for _, scope := range slices.Sorted(maps.Keys(has)) {
		left, err := leftOver(ctx, store, scope, has[scope])
		if err != nil {
			return nil, err
		}
		if left > 0 {
			c.key = opt.TopicPrefix + "/" + string(scope)
			c.AddAt("unknown scope", c.key, nextForeign, "%d retained topics are of a scope that the store does not have", left)
		}
	}
	return c.List, nil
}

type checker struct {
	opt   Options
	takes func(bytes int) error
	epoch string // of the store
	key   string
	invariant.List
}

func (c *checker) scope(s jobstore.RetainedScope, f *found) {
	if s.Err != nil {
		c.Add(c.key, nextStore, "cannot be read: %v", s.Err)
		return
	}
	listed := make(map[isa95.JobOrderID]bool, len(s.Jobs))
	index := jobstore.ScopeIndex{Scope: s.Scope}
	for _, r := range s.Jobs {
		listed[r.JobOrderID] = true
		if r.Listed {
			index.Jobs = append(index.Jobs, r)
		}
		c.job(r, f)
	}
	for _, id := range f.jobs() {
		if !listed[id] {
			c.leftOver(s.Scope, id, f, "the store knows no such order")
		}
	}
	c.index(s, index, f)
}

func (c *checker) job(r *jobstore.RetainedJob, f *found) {
	_, err := isa95.ParseJobOrderID(string(r.JobOrderID))
	switch {
	case r.Err != nil:
		c.Add(c.key, nextStore, "%q: %v", r.JobOrderID, r.Err)
		return
	case err != nil:
		c.Add(c.key, nextStore, "names an order that no topic can be made of: %v", err)
		return
	case !r.Listed:
		c.Add(c.key, nextPublish, "does not name %s, which was published", r.JobOrderID)
		return
	case r.Want.Gone && f.any(r.JobOrderID):
		c.leftOver(r.Scope, r.JobOrderID, f, "the order was cleared or cancelled")
		return
	case r.Want.Gone:
		c.Add(c.key, nextPublish, "has %s as gone, and its topics are not known to be deleted", r.JobOrderID)
		return
	}
	want := c.opt.wanted(r)
	if r.Done.Refused {
		c.Add(c.key, nextRefused, "topic %s is not published, and the state index shows the order without it: the broker refuses it, or it has no readable document",
			c.opt.orderTopic(r.Scope, r.JobOrderID))
		return
	}
	c.topic(c.opt.orderTopic(r.Scope, r.JobOrderID), want.Order, r.Done.Order, f.order(r, want.Order), f.orders[r.JobOrderID])
	c.topic(c.opt.resultTopic(r.Scope, r.JobOrderID), want.Result, r.Done.Result, f.result(r, want.Result), f.results[r.JobOrderID])
}

func (c *checker) topic(name, want, done string, broker likeness, has *topic) {
	moment := fmt.Sprintf("%s %d %q", name, broker, done)
	if has != nil {
		moment += fmt.Sprintf(" %q", has.revisions)
	}
	switch {
	case want == "" && broker == differs:
		c.AddAt(moment, c.key, nextPublish, "topic %s is retained and should not be", name)
	case broker == missing:
		c.AddAt(moment, c.key, nextPublish, "topic %s is missing at the broker", name)
	case broker == differs:
		c.AddAt(moment, c.key, nextPublish, "topic %s holds something else than the store", name)
	case want != done:
		c.AddAt(moment, c.key, nextPublish, "topic %s is right, and the publisher has not noted it (%q, should be %q)", name, done, want)
	}
}

// refused reports a state index that is not published because of its size.
func (c *checker) refused(topic string, bytes int) bool {
	if c.takes == nil {
		return false
	}
	err := c.takes(bytes)
	if err != nil {
		c.AddAt("refused "+topic, c.key, nextLimit, "topic %s is not published, so an MES sees no change of this scope: the broker refuses a message of its %d bytes: %v", topic, bytes, err)
	}
	return err != nil
}

func (c *checker) leftOver(scope isa95.Scope, id isa95.JobOrderID, f *found, why string) {
	var topics []string
	if f.orders[id] != nil {
		topics = append(topics, c.opt.orderTopic(scope, id))
	}
	if f.results[id] != nil {
		topics = append(topics, c.opt.resultTopic(scope, id))
	}
	c.Add(c.key, nextPublish, "topic %s is left over: %s", strings.Join(topics, " and "), why)
}

func (c *checker) index(s jobstore.RetainedScope, index jobstore.ScopeIndex, f *found) {
	topic := c.opt.indexTopic(s.Scope)
	has := f.stateIndex()
	slices.SortFunc(index.Jobs, jobstore.InListOrder)
	x := isa95.StateIndex{Scope: string(s.Scope), Seq: 1, PublishedAt: "-", Jobs: []isa95.StateIndexEntry{}}
	payload, err := c.opt.join(x, index.Jobs)
	switch {
	case err != nil:
		c.Add(c.key, nextStore, "no state index can be made: %v", err)
	case f.index == nil && len(s.Jobs) == 0: // it has expired: the scope is about to retire
	case (f.index == nil || has == nil || has.content != contentOf(payload)) && c.refused(topic, len(payload)):
	case f.index == nil:
		c.Add(c.key, nextPublish, "topic %s is missing at the broker", topic)
	case has == nil:
		c.Add(c.key, nextPublish, "topic %s cannot be read", topic)
	case has.content != contentOf(payload):
		c.AddAt(fmt.Sprintf("%s has seq %d and other content", topic, has.seq), c.key, nextPublish, "topic %s lists other job orders or states than the store", topic)
	case has.seq != s.Seq:
		c.AddAt(fmt.Sprintf("%s has seq %d", topic, has.seq), c.key, nextPublish, "topic %s has seq %d, the store has %d", topic, has.seq, s.Seq)
	case has.epoch != c.epoch:
		c.Add(c.key, nextPublish, "topic %s has epoch %q, the store has %q", topic, has.epoch, c.epoch)
	}
}
