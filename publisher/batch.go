package publisher

import (
	"context"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
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

// settled says what is to be noted of a job order, false if nothing.
func (t *term) settled(j *job) (jobstore.SettledJob, bool) {
	s := jobstore.SettledJob{Job: j.RetainedJob, Published: j.published}
	s.Gone = !j.refused && j.order == remove && j.result == remove && (!j.Listed || j.Want.Gone)
	s.Shown = t.opt.hasResult(j.RetainedJob, j.Done) != t.opt.hasResult(j.RetainedJob, j.published)
	return s, s.Gone || j.published != j.Done
}
