package task

import (
	"context"
	"errors"
	"time"
)

// stuckRun is a run whose handler goes on although it should have returned.
type stuckRun struct {
	run   *run
	info  Info
	since time.Time
	cause error
}

// look reports the runs whose context ended more than Margin ago, each once. It is called about once a second, so that runs need no timers for it.
func (w *Worker) look() {
	for _, s := range w.newlyStuck(time.Now()) {
		w.log.Error("task: a handler ignores the end of its context, its slot is lost until it returns",
			"task", s.info.ID, "name", s.info.Name, "queue", s.info.Queue, "attempt", s.info.Attempt, "since", s.since, "cause", s.cause)
		w.meters.found(s)
		if w.opts.Stuck != nil {
			w.callback("Stuck", func() { w.opts.Stuck(s.info, s.since) })
		}
	}
}

// newlyStuck marks and returns the runs that are stuck and were not told of.
func (w *Worker) newlyStuck(now time.Time) (all []stuckRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for r := range w.running {
		if r.told || r.ctx.Err() == nil {
			continue
		}
		cause := context.Cause(r.ctx)
		if r.ended.IsZero() {
			if r.ended = now; errors.Is(cause, ErrTimeout) && r.until.Before(now) {
				r.ended = r.until
			}
		}
		if now.Sub(r.ended) > w.opts.Margin {
			r.told = true
			all = append(all, stuckRun{r, r.info(), r.ended, cause})
		}
	}
	return all
}
