package publisher

import (
	"context"
	"errors"
	"sync"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// batch publishes what changed: topics of job orders, then what the broker acknowledged of them, then one state index for each
// changed scope (E-P16, D9). Three round trips to Redis, the read of the changes included, whatever the number of job orders.
func (t *term) batch(ctx, work context.Context, l *looked) error {
	if err := t.bury(work, l.letters...); err != nil {
		return err
	}
	if err := t.adopt(ctx, work, l); err != nil {
		return err
	}
	scopes, err := t.store.Retained(work, l.queries()...)
	if err != nil {
		return err
	}
	var jobs []*job
	for _, s := range scopes {
		if s.Err != nil {
			l.drop(s.Scope)
			if err := t.buryScope(work, s.Scope, s.Err); err != nil {
				return err
			}
			continue
		}
		for _, r := range s.Jobs {
			if err := t.buryJob(work, r); err != nil {
				return err
			}
			topic := topicOf{r.Scope, r.JobOrderID}
			if j := t.plan(r, nil, t.refused.has(topic)); j != nil {
				jobs = append(jobs, j)
			} else {
				t.refused.settled(topic)
			}
		}
	}
	if err := t.publishJobs(work, jobs); err != nil {
		return err
	}
	settled := make(map[isa95.Scope][]jobstore.SettledJob)
	for _, j := range jobs {
		if s, ok := t.settled(j); ok {
			settled[j.Scope] = append(settled[j.Scope], s)
		}
	}
	var settlements []jobstore.Settlement
	for _, scope := range l.scopes {
		if _, ok := l.jobs[scope]; ok {
			settlements = append(settlements, t.settlement(scope, settled[scope]))
		}
	}
	if err := t.publishIndexes(work, settlements, false); err != nil {
		return err
	}
	t.refused.tried()
	t.stats.waiting.Store(int64(len(t.refused.topics)))
	t.stats.batches.Add(1)
	if l.last != "" {
		t.pos = l.last
	}
	return nil
}

// adopt compares scopes that are new to us with the broker before anything of them is published: an earlier store may have
// left topics and a higher seq there (E-P4).
func (t *term) adopt(ctx, work context.Context, l *looked) error {
	var fresh []isa95.Scope
	for _, scope := range l.scopes {
		if _, known := t.indexes[scope]; !known && l.jobs[scope] != nil {
			fresh = append(fresh, scope)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	if err := t.reconcile(ctx, work, 0, fresh...); err != nil {
		return err
	}
	for _, scope := range fresh {
		l.drop(scope)
	}
	return nil
}

// action is what is done with a topic.
type action int

const (
	keep action = iota
	put
	remove
)

// job is one job order on its way through a batch.
type job struct {
	*jobstore.RetainedJob
	order, result action
	published     jobstore.Published // what the broker has
	refused       bool               // part of it was
}

// plan says what is to be done for a job order, nil for nothing. has is what the broker really has, nil if it was not asked;
// again publishes also what it has.
func (t *term) plan(r *jobstore.RetainedJob, has *found, again bool) *job {
	want := t.opt.wanted(r)
	j := &job{RetainedJob: r, published: r.Done}
	switch {
	case r.Err != nil:
		return nil
	case !r.Listed && r.Done == (jobstore.Published{}) && !has.any(r.JobOrderID):
		return nil // a replay of an entry of an order that is gone (E-P12)
	case !r.Listed || r.Want.Gone: // E-P3: cleared or cancelled
		j.order, j.result = remove, remove
		return j
	}
	decide := func(want, done string, broker likeness) action {
		switch {
		case want == "" && (done != "" || broker != same):
			return remove
		case want != "" && (again || done != want || broker != same):
			return put
		}
		return keep
	}
	j.order = decide(want.Order, r.Done.Order, has.order(t.opt, r, want.Order))
	j.result = decide(want.Result, r.Done.Result, has.result(t.opt, r, want.Result))
	if j.order == keep && j.result == keep {
		return nil
	}
	return j
}

// publishJobs publishes and deletes the topics of the jobs, all in flight together, and notes what the broker acknowledged.
// An error means that the outcome of some is unknown.
func (t *term) publishJobs(work context.Context, jobs []*job) error {
	var messages []*message
	for _, j := range jobs {
		if err := t.messages(work, j, &messages); err != nil {
			return err
		}
	}
	err := t.deliver(work, messages)
	if err != nil {
		return err
	}
	for _, m := range messages {
		topic := topicOf{m.job.Scope, m.job.JobOrderID}
		if m.refusal != nil {
			m.job.refused = true
			t.refusal(topic, m)
			continue
		}
		*m.published = m.revision
		t.stats.topics.Add(1)
	}
	for _, j := range jobs {
		if !j.refused {
			t.refused.settled(topicOf{j.Scope, j.JobOrderID})
		}
	}
	return nil
}

// messages adds the messages of one job order.
func (t *term) messages(work context.Context, j *job, all *[]*message) error {
	order := &message{job: j, topic: t.opt.orderTopic(j.Scope, j.JobOrderID), published: &j.published.Order}
	result := &message{job: j, topic: t.opt.resultTopic(j.Scope, j.JobOrderID), published: &j.published.Result}
	if j.order == remove {
		*all = append(*all, order)
	}
	if j.result == remove {
		*all = append(*all, result)
	}
	if j.order != put && j.result != put {
		return nil
	}
	if j.Job != nil && j.Job.State.IsEnd() {
		return nil // it ended since the index was read; that change comes
	}
	var err error
	switch {
	case j.order != put:
	case j.Job == nil:
		err = t.buryNow(work, j.RetainedJob, errors.New("the job order has no document"))
	default:
		var failed error
		if order.payload, order.revision, failed = t.opt.orderPayload(j.Job); failed != nil {
			err = t.buryNow(work, j.RetainedJob, failed)
		} else {
			*all = append(*all, order)
		}
	}
	switch {
	case j.result != put || err != nil:
	case j.Response == nil:
		err = t.buryNow(work, j.RetainedJob, errors.New("the job response has no document"))
	default:
		payload, failed := isa95.Marshal(j.Response)
		if failed != nil {
			return t.buryNow(work, j.RetainedJob, failed)
		}
		result.payload, result.revision = payload, j.ResultRevision
		*all = append(*all, result)
	}
	return err
}

// message is one retained publish.
type message struct {
	topic   string
	payload []byte // empty: delete

	job       *job
	published *string // of job: gets revision when the broker has acknowledged
	revision  string

	refusal error // why the broker did not take it
}

// deliver publishes the messages, many in flight together, and waits for all acknowledgements. What the broker refused has its
// refusal set; any other failure is returned. Each message is sent only while the lease is surely ours: a process
// that slept past its lease publishes nothing (E-P13).
func (t *term) deliver(work context.Context, messages []*message) error {
	var (
		senders sync.WaitGroup
		slots   = make(chan struct{}, t.opt.InFlight)
		mu      sync.Mutex
		fatal   error
	)
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if fatal == nil {
			fatal = err
		}
	}
	over := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return fatal != nil
	}
	for _, m := range messages {
		slots <- struct{}{}
		if over() {
			break
		}
		senders.Go(func() {
			defer func() { <-slots }()
			if !t.lease.Valid() {
				fail(jobstore.ErrLeaseLost)
				return
			}
			err := t.retainer.Retain(work, m.topic, m.payload, t.opt.RetainedTTL)
			if refused(err) {
				m.refusal = err
			} else if err != nil {
				fail(err)
			}
		})
	}
	senders.Wait()
	return fatal
}

// refused says whether the broker has refused a message, or surely would, so that another may still be taken (E-P19, E-P20).
func refused(err error) bool {
	var (
		refusal *mqtt.PublishError
		size    *mqtt.SizeError
		message *mqtt.MessageError
	)
	return errors.As(err, &refusal) || errors.As(err, &size) || errors.As(err, &message)
}

// refusal notes one.
func (t *term) refusal(topic topicOf, m *message) {
	t.stats.refused.Add(1)
	if t.refused.add(topic) {
		t.log.Error("publisher: the broker refused a retained message; it will be tried again", "topic", m.topic, "bytes", len(m.payload), "err", m.refusal)
	}
}

// settled says what is to be noted of a job order, false if nothing.
func (t *term) settled(j *job) (jobstore.SettledJob, bool) {
	s := jobstore.SettledJob{Job: j.RetainedJob, Published: j.published}
	s.Gone = !j.refused && j.order == remove && j.result == remove && (!j.Listed || j.Want.Gone)
	s.Shown = t.opt.hasResult(j.RetainedJob, j.Done) != t.opt.hasResult(j.RetainedJob, j.published)
	return s, s.Gone || j.published != j.Done
}

// settlement takes the next index of a scope.
func (t *term) settlement(scope isa95.Scope, jobs []jobstore.SettledJob) jobstore.Settlement {
	return jobstore.Settlement{Scope: scope, Jobs: jobs, Index: true, Floor: t.indexes[scope].seq}
}

// publishIndexes settles and publishes the state indexes that differ from what the broker has; again: all.
func (t *term) publishIndexes(work context.Context, settlements []jobstore.Settlement, again bool) error {
	indexes, err := t.store.Settle(work, t.lease, settlements...)
	if err != nil {
		return err
	}
	var (
		messages []*message
		sent     []pending
		forced   []jobstore.Settlement
	)
	for i := range indexes {
		index := &indexes[i]
		if index.Err != nil {
			if err := t.buryScope(work, index.Scope, index.Err); err != nil {
				return err
			}
			continue
		}
		x := t.opt.stateIndex(index)
		c, err := t.opt.contentOf(x)
		if err != nil {
			if err := t.buryScope(work, index.Scope, err); err != nil {
				return err
			}
			continue
		}
		has := t.indexes[index.Scope]
		switch {
		case index.Seq == has.seq && c != has.content: // the store lost something: one number, two contents
			forced = append(forced, jobstore.Settlement{Scope: index.Scope, Index: true, Floor: has.seq, Force: true})
			continue
		case index.Seq == has.seq && !has.missing && !again:
			t.refused.settled(topicOf{scope: index.Scope})
			continue
		}
		x.Seq, x.PublishedAt = index.Seq, publishedAt(t.store.Now())
		payload, err := x.Encode(t.opt.StateIndexKeys)
		if err != nil {
			if err := t.buryScope(work, index.Scope, err); err != nil {
				return err
			}
			continue
		}
		messages = append(messages, &message{topic: t.opt.indexTopic(index.Scope), payload: payload})
		sent = append(sent, pending{index.Scope, acknowledged{seq: index.Seq, content: c}})
	}
	if err := t.deliver(work, messages); err != nil {
		return err
	}
	for i, m := range messages {
		topic := topicOf{scope: sent[i].scope}
		if m.refusal != nil {
			t.refusal(topic, m)
			has := t.indexes[topic.scope]
			has.missing = true
			t.indexes[topic.scope] = has
			continue
		}
		t.refused.settled(topic)
		t.indexes[sent[i].scope] = sent[i].acknowledged
		t.stats.indexes.Add(1)
	}
	if len(forced) > 0 {
		return t.publishIndexes(work, forced, again)
	}
	return nil
}

// pending is a state index on its way.
type pending struct {
	scope isa95.Scope
	acknowledged
}

// bury writes dead letters for what cannot be published (E-P9), each reason once in a term.
func (t *term) bury(work context.Context, letters ...jobstore.DeadLetter) error {
	var fresh []jobstore.DeadLetter
	for _, l := range letters {
		key := l.Scope + "\x00" + l.JobOrderID + "\x00" + l.Entry + "\x00" + l.Reason
		if t.buried[key] {
			continue
		}
		fresh = append(fresh, l)
		if len(t.buried) < maxBuried {
			t.buried[key] = true
		}
		t.log.Error("publisher: cannot be published", "scope", l.Scope, "job", l.JobOrderID, "entry", l.Entry, "reason", l.Reason)
	}
	if len(fresh) == 0 {
		return nil
	}
	t.stats.deadLetters.Add(int64(len(fresh)))
	err := t.store.BuryChanges(work, t.lease, fresh...)
	if err != nil && !errors.Is(err, jobstore.ErrLeaseLost) && !jobstore.Away(err) && work.Err() == nil {
		t.log.Error("publisher: cannot write dead letters", "err", err) // even that key is something else: go on
		return nil
	}
	return err
}

// maxBuried bounds what a term remembers of its dead letters.
const maxBuried = 10000

// buryJob buries a job order if it cannot be read.
func (t *term) buryJob(work context.Context, r *jobstore.RetainedJob) error {
	if r.Err == nil {
		return nil
	}
	return t.buryNow(work, r, r.Err)
}

func (t *term) buryNow(work context.Context, r *jobstore.RetainedJob, reason error) error {
	return t.bury(work, jobstore.DeadLetter{Scope: string(r.Scope), JobOrderID: string(r.JobOrderID), Reason: reason.Error()})
}

func (t *term) buryScope(work context.Context, scope isa95.Scope, reason error) error {
	return t.bury(work, jobstore.DeadLetter{Scope: string(scope), Reason: reason.Error()})
}
