package publisher

import (
	"context"
	"maps"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// acknowledged is the state index that the broker has.
type acknowledged struct {
	seq     int64
	epoch   string // of the store that counted seq; "" = not known
	content content
	missing bool                 // it had it: publish it again
	index   *jobstore.ScopeIndex // as taken last; nil = not by us
}

// At most four indexes a second of more than 256 KiB leave: all subscribers get each of them whole. Meanwhile changes gather.
const (
	largeIndex     = 256 << 10
	restAfterLarge = 250 * time.Millisecond
)

// settlement takes the next index of a scope: of the job orders that were read, nil: of all. A change that was read may have come with the index
// before, and its mark in publisher:dirty with it; so the index gets a new seq if the one before lacks what was read.
func (t *term) settlement(scope isa95.Scope, jobs []jobstore.SettledJob, read []*jobstore.RetainedJob) jobstore.Settlement {
	has := t.indexes[scope]
	s := jobstore.Settlement{Scope: scope, Jobs: jobs, Index: true, Epoch: t.next, Floor: has.seq, Last: has.index}
	if read == nil || has.index == nil {
		return s
	}
	s.Force, s.Read = has.index.Differs(read), make([]isa95.JobOrderID, len(read))
	for i, r := range read {
		s.Read[i] = r.JobOrderID
	}
	return s
}

// forget drops the indexes in memory, so that all of the next ones is read: it is not known what became of the last settlement.
func (t *term) forget() {
	for scope, has := range t.indexes {
		has.index = nil
		t.indexes[scope] = has
	}
}

// stateIndex is a state index on its way.
type stateIndex struct {
	*message
	scope isa95.Scope
	acknowledged
}

// publishIndexes settles, and publishes the state indexes that differ from what the broker has; again: all. It returns those that
// the broker has now.
func (t *term) publishIndexes(work context.Context, settlements []jobstore.Settlement, again bool) (map[isa95.Scope]*jobstore.ScopeIndex, error) {
	indexes, err := t.store.Settle(work, t.lease, settlements...)
	if err != nil {
		return nil, err
	}
	shown := make(map[isa95.Scope]*jobstore.ScopeIndex, len(indexes))
	var (
		messages []*message
		sent     []stateIndex
		forced   []jobstore.Settlement
		large    int
	)
	for i := range indexes {
		index := indexes[i]
		payload, err := t.encode(index)
		if err != nil {
			if err := t.buryScope(work, index.Scope, err); err != nil {
				return nil, err
			}
			continue
		}
		has := t.indexes[index.Scope]
		t.sees(index.Epoch)
		next := acknowledged{seq: index.Seq, epoch: index.Epoch, content: contentOf(payload), index: index}
		switch {
		case next.seq == has.seq && next.content != has.content, // the store lost something: one number, two contents
			next.seq == has.seq && has.epoch != "" && next.epoch != has.epoch:
			forced = append(forced, jobstore.Settlement{
				Scope: index.Scope, Index: true, Epoch: t.next, Floor: has.seq, Force: true, Last: index, Read: []isa95.JobOrderID{},
			})
		case next.seq == has.seq && !has.missing && (!again || len(index.Jobs) == 0): // an empty index is not renewed: it expires, and the scope retires
			shown[index.Scope] = index
			has.index = index
			t.indexes[index.Scope] = has
		default:
			m := &message{of: topicOf{scope: index.Scope}, topic: t.opt.indexTopic(index.Scope), payload: payload, user: t.opt.epochProperty(index.Epoch)}
			messages = append(messages, m)
			sent = append(sent, stateIndex{m, index.Scope, next})
		}
	}
	if err := t.deliver(work, messages); err != nil {
		return nil, err
	}
	for _, x := range sent {
		if x.refusal != nil {
			has := t.indexes[x.scope]
			has.missing, has.index = true, x.index
			t.indexes[x.scope] = has
			continue
		}
		t.indexes[x.scope], shown[x.scope] = x.acknowledged, x.index
		t.told[x.scope] = acknowledged{seq: x.seq, epoch: x.epoch, content: x.content}
		t.count(func(s *Stats) { s.Indexes++ })
		if len(x.payload) > largeIndex {
			large++
		}
	}
	if large > 0 {
		t.rest = time.Now().Add(time.Duration(large) * restAfterLarge)
	}
	if len(forced) == 0 {
		return shown, nil
	}
	more, err := t.publishIndexes(work, forced, again)
	maps.Copy(shown, more)
	return shown, err
}

// encode makes the payload of a state index. Entries that did not change are not encoded again.
func (t *term) encode(index *jobstore.ScopeIndex) ([]byte, error) {
	if index.Err != nil {
		return nil, index.Err
	}
	x := isa95.StateIndex{Scope: string(index.Scope), Seq: index.Seq, PublishedAt: publishedAt(t.store.Now()), Jobs: []isa95.StateIndexEntry{}}
	if t.opt.StateIndexKeys == isa95.Page {
		x.Epoch = index.Epoch
	}
	return t.opt.join(x, index.Jobs)
}

// epochName is the user property that a state index in wire form has its epoch in: its payload has only the members of the original.
const epochName = "epoch"

func (o Options) epochProperty(epoch string) []mqtt.UserProperty {
	if o.StateIndexKeys != isa95.Wire || epoch == "" {
		return nil
	}
	return []mqtt.UserProperty{{Name: epochName, Value: epoch}}
}

// sees learns which epoch the store has. Another one than before says that the store lost something: then all indexes are published
// anew, also those of scopes that the store has lost as a whole.
func (t *term) sees(epoch string) {
	if epoch == t.epoch {
		return
	}
	if t.epoch != "" {
		t.log.Warn("publisher: the store lost something and has another epoch; publishing all state indexes with it", "epoch", epoch)
		t.lost, t.stale = true, true
	}
	t.epoch = epoch
}
