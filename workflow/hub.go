package workflow

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// patience is how long a task waits for a poller of this process; then it goes back to its queue, for whoever has one.
	patience = 200 * time.Millisecond
	// quick is how soon after it got a task a poller comes back that has room for more.
	quick = 2 * time.Millisecond
	// mostAhead is how many tasks of a queue are read for pollers that will come.
	mostAhead = 64
)

// hub brings tasks of one kind and those who wait for them together.
type hub[T any] struct {
	mu      sync.Mutex
	handed  time.Time              // when a poller got a task last
	ahead   int                    // how many are read beside those that are waited for: it doubles while pollers come back at once, and is 0 once a task was read in vain
	waiting []*poll[T]             // in the order they came
	ready   map[string][]*spare[T] // by queue: nobody waits for them, for now
	wake    func(queue string)     // somebody waits for a task of a queue
}

// poll is one who waits.
type poll[T any] struct {
	queues []string
	got    chan T // buffered
}

// spare is a task that nobody waits for.
type spare[T any] struct {
	task  T
	timer *time.Timer
}

func newHub[T any](wake func(string)) *hub[T] {
	return &hub[T]{ready: make(map[string][]*spare[T]), wake: wake}
}

// take waits for a task of one of queues, or the end of ctx, or over; false then.
func (h *hub[T]) take(ctx context.Context, over <-chan struct{}, queues []string) (task T, ok bool) {
	h.mu.Lock()
	now := time.Now()
	if now.Sub(h.handed) < quick {
		h.ahead = min(2*h.ahead+1, mostAhead)
	}
	for _, q := range queues {
		for i, s := range h.ready[q] {
			if !s.timer.Stop() { // its time is over: it is on its way back
				continue
			}
			h.ready[q], h.handed = slices.Delete(h.ready[q], i, i+1), now
			h.mu.Unlock()
			return s.task, true
		}
	}
	p := &poll[T]{queues: queues, got: make(chan T, 1)}
	h.waiting = append(h.waiting, p)
	h.mu.Unlock()
	for _, q := range queues {
		h.wake(q)
	}
	select {
	case task = <-p.got:
		return task, true
	case <-over:
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.waiting, p); i >= 0 {
		h.waiting = slices.Delete(h.waiting, i, i+1)
		return task, false
	}
	return <-p.got, true // it came in the last moment
}

// offer hands a task to the first who waits for its queue, or keeps it for the next for a while; back is called if none comes.
func (h *hub[T]) offer(queue string, task T, back func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.IndexFunc(h.waiting, func(p *poll[T]) bool { return slices.Contains(p.queues, queue) }); i >= 0 {
		p := h.waiting[i]
		h.waiting, h.handed = slices.Delete(h.waiting, i, i+1), time.Now()
		p.got <- task
		return
	}
	s := &spare[T]{task: task}
	s.timer = time.AfterFunc(patience, func() {
		h.expire(queue, s)
		back()
	})
	h.ready[queue] = append(h.ready[queue], s)
}

// expire removes a task that nobody took in time. A poller that came after its timer had fired did not get it, and free counted it for that poller until now: the readers look again.
func (h *hub[T]) expire(queue string, s *spare[T]) {
	h.mu.Lock()
	h.ahead = 0
	if i := slices.Index(h.ready[queue], s); i >= 0 {
		h.ready[queue] = slices.Delete(h.ready[queue], i, i+1)
	}
	h.mu.Unlock()
	h.wake(queue)
}

// free is how many tasks of a queue may be read now: those that are waited for, and if there are any some more.
func (h *hub[T]) free(queue string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, p := range h.waiting {
		if slices.Contains(p.queues, queue) {
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return max(n+h.ahead-len(h.ready[queue]), 0)
}
