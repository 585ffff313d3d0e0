package workflow

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

// leases are those of one kind of tasks, all of one length: there is one timer for all of them, and one watch for all tasks of a session.
type leases struct {
	d time.Duration

	mu    sync.Mutex
	list  list.List // of *lease, that which ends first in front
	armed bool      // a timer runs for it
	held  map[context.Context]struct{}
}

// lease is how long a task may be with who got it. Whoever ends it first, and nobody else, may say what becomes of the task.
type lease struct {
	all *leases

	// The rest is guarded by all.mu.
	over  bool
	until time.Time
	place *list.Element // nil = it has not begun, or is over
	held  context.Context
	of    leased
}

// leased is a task. Its methods may block.
type leased interface {
	expired() // it was neither extended nor ended in time
	lost()    // it is not this worker's any more
}

// begin calls expired if the task is neither extended nor ended in time, or lost if held ends before that; one of them at most, and none after end. It is false, and calls nothing, if held has
// ended already.
func (l *lease) begin(held context.Context, of leased) bool {
	if held.Err() != nil {
		return false
	}
	a := l.all
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.over {
		return true
	}
	l.held, l.of, l.until = held, of, time.Now().Add(a.d)
	l.place = a.list.PushBack(l)
	if !a.armed {
		a.armed = true
		time.AfterFunc(a.d, a.expire)
	}
	if _, watched := a.held[held]; !watched {
		if a.held == nil {
			a.held = make(map[context.Context]struct{})
		}
		a.held[held] = struct{}{}
		context.AfterFunc(held, func() { a.lose(held) })
	}
	return true
}

// extend is false if it is over.
func (l *lease) extend() bool {
	a := l.all
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.place != nil {
		l.until = time.Now().Add(a.d)
		a.list.MoveToBack(l.place)
	}
	return !l.over
}

// end is true for the first who ends it.
func (l *lease) end() bool {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	return l.close()
}

// close is end; all.mu is held.
func (l *lease) close() (first bool) {
	first = !l.over
	l.over = true
	if l.place != nil {
		l.all.list.Remove(l.place)
		l.place = nil
	}
	return first
}

// expire ends those whose time is over.
func (a *leases) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for front := a.list.Front(); front != nil; front = a.list.Front() {
		l := front.Value.(*lease)
		if left := l.until.Sub(now); left > 0 {
			time.AfterFunc(left, a.expire)
			return
		}
		l.close()
		go l.of.expired()
	}
	a.armed = false
}

// lose ends those of a context that has ended.
func (a *leases) lose(held context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.held, held)
	for e := a.list.Front(); e != nil; {
		l := e.Value.(*lease)
		e = e.Next()
		if l.held == held {
			l.close()
			go l.of.lost()
		}
	}
}

// back hands back what nobody came for.
func (t *WorkflowTask) back() { t.q.giveBack(t.Release) }

func (t *ActivityTask) back() { t.q.giveBack(t.Release) }

// expired hands back what somebody kept beyond its lease. That counts like a death: what hangs with each worker would go round for ever.
func (t *WorkflowTask) expired() {
	t.q.w.c.log.Warn("workflow: a workflow task was neither completed nor extended, it is handed back", "instance", t.ID, "queue", t.q.name, "lease", t.q.w.opts.WorkflowLease)
	t.lost()
	t.q.giveBack(func(ctx context.Context) error { return t.release(ctx, t.entry.Deliveries) })
}

func (t *WorkflowTask) lost() {
	if told := t.q.w.opts.Lost; told != nil {
		told(t.Instance)
	}
}

func (t *ActivityTask) expired() {
	t.q.w.c.log.Warn("workflow: an activity was neither completed nor extended, it is handed back", "instance", t.Instance.ID, "queue", t.Queue, "lease", t.q.w.opts.ActivityLease)
	t.q.giveBack(func(ctx context.Context) error { return t.release(ctx, t.entry.Deliveries) })
}

func (t *ActivityTask) lost() {}

func (q *queue) giveBack(release func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := release(ctx); err != nil && !errors.Is(err, ErrLost) {
		q.w.c.log.Debug("workflow: a task was not handed back, it is found as one of a dead worker", "error", err)
	}
}
