package redis

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// WaitPoll is how often waiters look for themselves, in case that a message got lost.
const WaitPoll = time.Second

// Waiters are those in a process that wait for something: one subscription for each channel, from its first waiter until Close. Its methods are safe for concurrent use.
type Waiters struct {
	Name string // of this process among those that wait

	rdb    rueidis.Client
	log    *slog.Logger
	mu     sync.Mutex
	by     map[string]map[chan string]struct{} // by what is waited for
	ears   map[string]*ear                     // by channel
	closed bool
}

// ear is one subscription.
type ear struct {
	stop    context.CancelFunc
	stopped chan struct{}
	ready   chan struct{} // closed when it is there
}

// NewWaiters makes Waiters without a subscription.
func NewWaiters(rdb rueidis.Client, name string, log *slog.Logger) *Waiters {
	return &Waiters{Name: name, rdb: rdb, log: log, by: make(map[string]map[chan string]struct{}), ears: make(map[string]*ear)}
}

// Add registers a waiter for id. A message of the channel is an id and, on further lines, what told gets; told gets "" when it is worth looking. Add returns when the channel is
// heard, after WaitPoll, or when ctx ends. forget must be called; last says that no other waiter for id is left.
func (w *Waiters) Add(ctx context.Context, channel, id string) (told <-chan string, forget func() (last bool)) {
	ch := make(chan string, 1)
	w.mu.Lock()
	if w.by[id] == nil {
		w.by[id] = make(map[chan string]struct{})
	}
	w.by[id][ch] = struct{}{}
	e := w.ears[channel]
	if e == nil && !w.closed { // after Close a waiter only looks, once a second
		var run context.Context
		e = &ear{stopped: make(chan struct{}), ready: make(chan struct{})}
		run, e.stop = context.WithCancel(context.Background())
		w.ears[channel] = e
		go w.listen(run, channel, e)
	}
	w.mu.Unlock()
	if e != nil {
		select { // a message before the subscription is lost, and only found by looking
		case <-e.ready:
		case <-time.After(WaitPoll):
		case <-ctx.Done():
		}
	}
	return ch, func() (last bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.by[id], ch)
		if last = len(w.by[id]) == 0; last {
			delete(w.by, id)
		}
		return last
	}
}

// listen is a subscription. It outlives lost connections: then all waiters look, for messages may have been missed.
func (w *Waiters) listen(ctx context.Context, channel string, e *ear) {
	defer close(e.stopped)
	first := true
	Subscribe(ctx, w.rdb, channel, func() {
		if first {
			first = false
			close(e.ready)
			return
		}
		w.look()
	}, w.heard, w.log)
}

func (w *Waiters) heard(message string) {
	id, text, _ := strings.Cut(message, "\n")
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.by[id] {
		say(ch, text)
	}
}

func (w *Waiters) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, all := range w.by {
		for ch := range all {
			say(ch, "")
		}
	}
}

// say puts text into ch; a text replaces what is in there, "" does not.
func say(ch chan string, text string) {
	for {
		select {
		case ch <- text:
			return
		default:
		}
		if text == "" {
			return
		}
		select {
		case <-ch:
		default:
		}
	}
}

// Close ends the subscriptions.
func (w *Waiters) Close() {
	w.mu.Lock()
	w.closed = true
	ears := w.ears
	w.ears = nil
	w.mu.Unlock()
	for _, e := range ears {
		e.stop()
		<-e.stopped
	}
}
