package workflow

import (
	"context"
	"errors"
	"sync"
	"time"
)

// lease is how long a task may be with who got it.
type lease struct {
	mu      sync.Mutex
	d       time.Duration
	until   time.Time
	timer   *time.Timer
	unwatch func() bool
	over    bool
}

// begin calls expired if the task is neither extended nor ended for d, or lost if held ends before that; one of them at most, and none after end.
func (l *lease) begin(d time.Duration, expired func(), held context.Context, lost func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.d, l.until = d, time.Now().Add(d)
	l.timer = time.AfterFunc(d, func() {
		if l.expire() {
			expired()
		}
	})
	l.unwatch = context.AfterFunc(held, func() {
		if l.end() {
			lost()
		}
	})
}

// extend is false if it is over.
func (l *lease) extend() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over && l.timer != nil {
		l.until = time.Now().Add(l.d)
		l.timer.Reset(l.d)
	}
	return !l.over
}

// end is true for the first who ends it.
func (l *lease) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.close()
}

// expire is end, if it was not extended while its timer was on its way here.
func (l *lease) expire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !time.Now().Before(l.until) && l.close()
}

func (l *lease) close() (first bool) {
	first = !l.over
	l.over = true
	if l.timer != nil {
		l.timer.Stop()
		l.unwatch()
	}
	return first
}

// back hands back what nobody came for.
func (t *WorkflowTask) back() { t.q.giveBack(t.Release) }

func (t *ActivityTask) back() { t.q.giveBack(t.Release) }

// begin begins the lease of a task that was handed out. What was neither completed nor extended in time is handed back.
func (t *WorkflowTask) begin() {
	o, log := t.q.w.opts, t.q.w.c.log
	told := func() {
		if o.Lost != nil {
			o.Lost(t.Instance)
		}
	}
	t.lease.begin(o.WorkflowLease, func() {
		log.Warn("workflow: a workflow task was neither completed nor extended, it is handed back", "instance", t.ID, "queue", t.q.name, "lease", o.WorkflowLease)
		told()
		t.q.giveBack(t.release)
	}, t.Context(), told)
}

func (t *ActivityTask) begin() {
	o, log := t.q.w.opts, t.q.w.c.log
	t.lease.begin(o.ActivityLease, func() {
		log.Warn("workflow: an activity was neither completed nor extended, it is handed back", "instance", t.Instance.ID, "queue", t.Queue, "lease", o.ActivityLease)
		t.q.giveBack(t.release)
	}, t.Context(), func() {})
}

func (q *queue) giveBack(release func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := release(ctx); err != nil && !errors.Is(err, ErrLost) {
		q.w.c.log.Debug("workflow: a task was not handed back, it is found as one of a dead worker", "error", err)
	}
}
