package publisher

import (
	"context"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// batch publishes what changed: topics of job orders, then one state index for each changed scope, then the deletion of topics
// that no index names any more. Three round trips to Redis, the read of the changes included, whatever the number of job orders,
// unless their documents are larger than jobstore.RetainedBytes: what was deleted is noted with the next read.
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
	all := make(map[isa95.Scope][]*jobstore.RetainedJob, len(scopes))
	for _, s := range scopes {
		if s.Err != nil {
			l.drop(s.Scope)
			if err := t.buryScope(work, s.Scope, s.Err); err != nil {
				return err
			}
			continue
		}
		all[s.Scope] = s.Jobs
		for _, r := range s.Jobs {
			if err := t.buryJob(work, r); err != nil {
				return err
			}
			if j := t.plan(r, nil, l.again[topicOf{r.Scope, r.JobOrderID}]); j != nil {
				jobs = append(jobs, j)
			}
		}
	}
	if err := t.put(work, jobs); err != nil {
		return err
	}
	settled := t.settled(jobs)
	var settlements []jobstore.Settlement
	for _, scope := range l.scopes {
		if _, ok := l.jobs[scope]; ok {
			settlements = append(settlements, t.settlement(scope, settled[scope], append([]*jobstore.RetainedJob{}, all[scope]...)))
		}
	}
	shown, err := t.publishIndexes(work, settlements, false)
	if err != nil {
		return err
	}
	if err := t.remove(work, jobs, shown); err != nil {
		return err
	}
	t.waits(t.refused)
	t.count(func(s *Stats) { s.Batches++ })
	if l.last != "" {
		t.pos = l.last
	}
	return nil
}

// adopt compares scopes that are new to us with the broker before anything of them is published: an earlier store may have
// left topics and a higher seq there.
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
	noted         jobstore.Published // what pubdone says, or will
	waits         bool               // part of it is to be tried again
}

func (j *job) removes() bool { return j.order == remove || j.result == remove }

// gone says that the topics shall be deleted: the order was cleared or cancelled, or nothing is known of it.
func gone(r *jobstore.RetainedJob) bool { return !r.Listed || r.Want.Gone }

// plan says what is to be done for a job order, nil for nothing. has is what the broker really has, nil if it was not asked;
// again publishes also what it has.
func (t *term) plan(r *jobstore.RetainedJob, has *found, again bool) *job {
	want := t.opt.wanted(r)
	j := &job{RetainedJob: r, published: has.published(r), noted: r.Done}
	switch {
	case r.Err != nil && !unpublishable(r):
		return nil
	case r.Err != nil:
		j.published.Refused = j.published.Order == ""
	case !r.Listed && r.Done == (jobstore.Published{}) && !has.any(r.JobOrderID):
		return nil // a replay of an entry of an order that is gone
	case gone(r):
		j.order, j.result = remove, remove
		return j
	default:
		decide := func(want, done string, broker likeness) action {
			switch {
			case want == "" && (done != "" || broker != same):
				return remove
			case want != "" && (again || done != want || broker != same):
				return put
			}
			return keep
		}
		j.order = decide(want.Order, r.Done.Order, has.order(r, want.Order))
		j.result = decide(want.Result, r.Done.Result, has.result(r, want.Result))
	}
	if j.order == keep && j.result == keep && j.published == j.noted {
		return nil
	}
	return j
}

// unpublishable says of a job order with an error that its entry in the index is right, so that it is its documents that
// cannot be read.
func unpublishable(r *jobstore.RetainedJob) bool {
	_, err := isa95.ParseJobOrderID(string(r.JobOrderID))
	return err == nil && !gone(r) && r.Want.Order != ""
}

// settled is what is to be noted of job orders, by scope.
func (t *term) settled(jobs []*job) map[isa95.Scope][]jobstore.SettledJob {
	settled := make(map[isa95.Scope][]jobstore.SettledJob)
	for _, j := range jobs {
		if j.published == j.noted {
			continue
		}
		settled[j.Scope] = append(settled[j.Scope], jobstore.SettledJob{
			Job: j.RetainedJob, Published: j.published, Shown: t.opt.shows(j.RetainedJob, j.noted) != t.opt.shows(j.RetainedJob, j.published),
		})
		j.noted = j.published
	}
	return settled
}
