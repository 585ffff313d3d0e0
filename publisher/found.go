package publisher

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// found is what a broker has retained of one scope. A nil found was not asked for, or not told.
type found struct {
	index   *mqtt.Message
	orders  map[isa95.JobOrderID]*mqtt.Message
	results map[isa95.JobOrderID]*mqtt.Message
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
	messages, err := t.retainer.Retained(work, wanted...)
	var refused *mqtt.SubscribeError
	switch {
	case errors.As(err, &refused): // it may publish and not read: then nothing can be compared, only published
		t.log.Warn("publisher: the broker does not tell what it has retained; what is left over there stays", "err", err)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("publisher: read retained topics: %w", err)
	}
	return t.opt.sort(messages), nil
}

// sort puts retained messages in order by scope; what is none of ours is left out.
func (o Options) sort(messages []mqtt.Message) map[isa95.Scope]*found {
	has := make(map[isa95.Scope]*found)
	for i := range messages {
		m := &messages[i]
		scope, kind, id, ok := o.parseTopic(m.Topic)
		if !ok || len(m.Payload) == 0 {
			continue
		}
		f := has[scope]
		if f == nil {
			f = &found{orders: make(map[isa95.JobOrderID]*mqtt.Message), results: make(map[isa95.JobOrderID]*mqtt.Message)}
			has[scope] = f
		}
		switch kind {
		case kindIndex:
			f.index = m
		case kindOrder:
			f.orders[id] = m
		case kindResult:
			f.results[id] = m
		}
	}
	return has
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

func (f *found) order(o Options, r *jobstore.RetainedJob, want string) likeness {
	if f == nil {
		return same
	}
	return o.compare(f.orders[r.JobOrderID], want, o.orderRevisionOf)
}

func (f *found) result(o Options, r *jobstore.RetainedJob, want string) likeness {
	if f == nil {
		return same
	}
	return o.compare(f.results[r.JobOrderID], want, func(payload []byte) string {
		revision, err := jobstore.ResultRevision(payload, r.Want.State, r.Scope)
		if err != nil {
			return ""
		}
		return revision
	})
}

func (o Options) compare(m *mqtt.Message, want string, revision func(payload []byte) string) likeness {
	switch {
	case m == nil && want == "":
		return same
	case m == nil:
		return missing
	case want == "" || revision(m.Payload) != want:
		return differs
	case o.expiring(m):
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

// stateIndex reads the state index that the broker has, nil if there is none that could be read.
func (f *found) stateIndex(o Options, scope isa95.Scope) *acknowledged {
	if f == nil || f.index == nil {
		return nil
	}
	var x isa95.StateIndex
	if isa95.Unmarshal(f.index.Payload, &x) != nil || x.Scope != string(scope) || x.Seq < 1 || x.Seq > maxSeq {
		return nil
	}
	if x.Jobs == nil {
		x.Jobs = []isa95.StateIndexEntry{}
	}
	payload, err := x.Encode(o.StateIndexKeys)
	if err != nil {
		return nil
	}
	epoch := x.Epoch
	for _, p := range f.index.User {
		if p.Name == epochName {
			epoch = p.Value
		}
	}
	return &acknowledged{seq: x.Seq, epoch: epoch, content: contentOf(payload), missing: o.expiring(f.index)}
}
