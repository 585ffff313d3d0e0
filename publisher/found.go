package publisher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// found is what a broker has retained of one scope: what tells contents apart, never the contents, which may be larger than memory. A nil found was not asked for, or not told.
type found struct {
	index   *foundIndex
	orders  map[isa95.JobOrderID]*topic
	results map[isa95.JobOrderID]*topic
	unfit   int    // topics like these whose scope or id is no name that Takt takes
	oneOf   string // the first of them, shortened
}

// topic is what the broker has on one topic of a job order.
type topic struct {
	revisions []string // that its content may be
	expiring  bool     // it would not live until the next Refresh
}

// foundIndex is the state index that the broker has.
type foundIndex struct {
	has    *acknowledged // nil: it cannot be read
	expiry time.Duration // what is left; 0 = it stays
}

// ask collects what the broker has, by scope; nil if it does not tell.
func (t *term) ask(work context.Context, extent extent, scopes []isa95.Scope) (map[isa95.Scope]*found, error) {
	wanted := Filters(t.opt.TopicPrefix)
	if extent&all == 0 && len(scopes) <= 20 {
		wanted = nil
		for _, scope := range scopes {
			wanted = append(wanted, filters(t.opt.TopicPrefix, string(scope))...)
		}
	}
	has := make(map[isa95.Scope]*found)
	err := t.retainer.EachRetained(work, func(m mqtt.Message) { t.opt.note(has, &m) }, wanted...)
	var refused *mqtt.SubscribeError
	switch {
	case errors.As(err, &refused): // it may publish and not read: then nothing can be compared, only published
		t.log.Warn("publisher: the broker does not tell what it has retained; what is left over there stays", "err", err)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("publisher: read retained topics: %w", err)
	}
	return has, nil
}

// note adds what tells a retained message apart to what was found; one that is none of ours is left out.
func (o Options) note(has map[isa95.Scope]*found, m *mqtt.Message) {
	scope, kind, id, ok := o.parseTopic(m.Topic)
	if kind == "" {
		return
	}
	f := has[scope]
	if f == nil {
		f = &found{orders: make(map[isa95.JobOrderID]*topic), results: make(map[isa95.JobOrderID]*topic)}
		has[scope] = f
	}
	gone := len(m.Payload) == 0
	if !ok {
		if !gone {
			if f.unfit++; f.oneOf == "" {
				f.oneOf = fmt.Sprintf("%.256s", m.Topic)
			}
		}
		return
	}
	switch {
	case kind == kindIndex && gone:
		f.index = nil
	case kind == kindIndex:
		f.index = &foundIndex{o.readIndex(m, scope), m.Expiry}
	case kind == kindOrder && gone:
		delete(f.orders, id)
	case kind == kindOrder:
		f.orders[id] = &topic{revisions: []string{o.orderRevisionOf(m.Payload)}, expiring: o.expiring(m)}
	case kind == kindResult && gone:
		delete(f.results, id)
	case kind == kindResult:
		revisions, _ := jobstore.ResultRevisions(m.Payload, scope) // none: it is nothing that we publish
		f.results[id] = &topic{revisions: revisions, expiring: o.expiring(m)}
	}
}

// jobs with a topic at the broker, sorted.
func (f *found) jobs() []isa95.JobOrderID {
	if f == nil {
		return nil
	}
	var ids []isa95.JobOrderID
	for id := range f.orders {
		ids = append(ids, id)
	}
	for id := range f.results {
		if f.orders[id] == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// published is what of a job order's topics the broker has: what was noted, less what is missing there.
func (f *found) published(r *jobstore.RetainedJob) jobstore.Published {
	has := r.Done
	if f != nil && f.orders[r.JobOrderID] == nil {
		has.Order = ""
	}
	if f != nil && f.results[r.JobOrderID] == nil {
		has.Result = ""
	}
	return has
}

func (f *found) any(id isa95.JobOrderID) bool {
	return f != nil && (f.orders[id] != nil || f.results[id] != nil)
}

// likeness is how a topic at the broker compares with what it shall be.
type likeness int

const (
	same     likeness = iota // or not asked
	missing                  // there is nothing
	differs                  // it holds something else, or something where nothing shall be
	expiring                 // it is right, and will expire before the next Refresh
)

func (f *found) order(r *jobstore.RetainedJob, want string) likeness {
	if f == nil {
		return same
	}
	return f.orders[r.JobOrderID].compare(want)
}

func (f *found) result(r *jobstore.RetainedJob, want string) likeness {
	if f == nil {
		return same
	}
	return f.results[r.JobOrderID].compare(want)
}

func (t *topic) compare(want string) likeness {
	switch {
	case t == nil && want == "":
		return same
	case t == nil:
		return missing
	case want == "" || !slices.Contains(t.revisions, want):
		return differs
	case t.expiring:
		return expiring
	}
	return same
}

// expiring says that a retained message would not live until the next Refresh, with a margin.
func (o Options) expiring(m *mqtt.Message) bool {
	return m.Expiry < o.RetainedTTL-o.RetainedTTL/4
}

// maxSeq is beyond what counting reaches; a larger number is somebody's mistake.
const maxSeq = 1e14

// stateIndex is the state index that the broker has, nil if the broker has none that could be read.
func (f *found) stateIndex() *acknowledged {
	if f == nil || f.index == nil {
		return nil
	}
	return f.index.has
}

// readIndex reads a state index, nil if that cannot be.
func (o Options) readIndex(m *mqtt.Message, scope isa95.Scope) *acknowledged {
	var x isa95.StateIndex
	if isa95.Unmarshal(m.Payload, &x) != nil || x.Scope != string(scope) || x.Seq < 1 || x.Seq > maxSeq {
		return nil
	}
	if x.Jobs == nil {
		x.Jobs = []isa95.StateIndexEntry{}
	}
	payload, err := x.Encode(o.StateIndexKeys)
	if err != nil {
		return nil
	}
	epoch := strings.Clone(x.Epoch)
	for _, p := range m.User {
		if p.Name == epochName {
			epoch = strings.Clone(p.Value)
		}
	}
	return &acknowledged{seq: x.Seq, epoch: epoch, content: contentOf(payload), missing: o.expiring(m)}
}
