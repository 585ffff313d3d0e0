package publisher

import (
	"context"
	"errors"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// bury writes dead letters for what cannot be published, each reason once in a term.
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
	t.count(func(s *Stats) { s.DeadLetters += int64(len(fresh)) })
	err := t.store.BuryChanges(work, t.lease, fresh...)
	if err != nil && !errors.Is(err, jobstore.ErrLeaseLost) && !jobstore.Waits(err) && work.Err() == nil {
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
