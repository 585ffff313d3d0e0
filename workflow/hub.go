package workflow

import (
	"context"
	"sync"
	"time"
)

// patience is how long a task waits for a poller of this process; then it goes back to its queue, for whoever has one.
const patience = 200 * time.Millisecond

// hub brings tasks of one kind and those who wait for them together.
type hub[T any] struct {
	mu      sync.Mutex
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

// take waits for a task of one of queues, or the end of ctx; false then.
func (h *hub[T]) take(ctx context.Context, queues []string) (task T, ok bool) {
	h.mu.Lock()
	for _, q := range queues {
		if list := h.ready[q]; len(list) > 0 && list[0].timer.Stop() {
			h.ready[q] = list[1:]
			h.mu.Unlock()
			return list[0].task, true
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
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, other := range h.waiting {
		if other == p {
			h.waiting = append(h.waiting[:i], h.waiting[i+1:]...)
			return task, false
		}
	}
	return <-p.got, true // it came in the last moment
}

// offer hands a task to the first who waits for its queue, or keeps it for the next for a while; back is called if none comes.
func (h *hub[T]) offer(queue string, task T, back func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, p := range h.waiting {
		for _, q := range p.queues {
			if q == queue {
				h.waiting = append(h.waiting[:i], h.waiting[i+1:]...)
				p.got <- task
				return
			}
		}
	}
	s := &spare[T]{task: task}
	s.timer = time.AfterFunc(patience, func() {
		h.mu.Lock()
		for i, other := range h.ready[queue] {
			if other == s {
				h.ready[queue] = append(h.ready[queue][:i:i], h.ready[queue][i+1:]...)
				break
			}
		}
		h.mu.Unlock()
		back()
	})
	h.ready[queue] = append(h.ready[queue], s)
}

// free is how many tasks of a queue could be handed over now.
func (h *hub[T]) free(queue string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := -len(h.ready[queue])
	for _, p := range h.waiting {
		for _, q := range p.queues {
			if q == queue {
				n++
				break
			}
		}
	}
	return max(n, 0)
}
