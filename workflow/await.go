package workflow

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/redis"
)

const awaitPoll = time.Second // in case that a push got lost

// Await blocks until an execution has ended, which it is told of at once, and returns its document and the last event of its history. With Execution "" the newest one is
// meant. ErrNotFound: there is none, or it was removed. It outlives losses of Redis until ctx ends; its error is then the cause of ctx.
func (c *Client) Await(ctx context.Context, i Instance) (info Info, last Event, err error) {
	if i.Execution == "" {
		if info, err = c.Info(ctx, i); err != nil {
			return Info{}, Event{}, err
		}
		i = info.Instance
	}
	if err := i.check("Await instance"); err != nil {
		return Info{}, Event{}, err
	}
	s := c.of(i.ID)
	told, forget := c.waits.add(ctx, s, i)
	defer forget()
	for {
		reply, err := awaitScript.Run(ctx, c.rdb, []string{s.keys.Run(i.ID), s.keys.Document(i.ID, i.Execution), s.keys.History(i.ID, i.Execution)}, s.base, i.Execution, c.waits.name).AsStrSlice()
		switch {
		case err == nil && len(reply) == 3:
			return ended(reply[1], reply[2])
		case err == nil && reply[0] == "none":
			return Info{}, Event{}, fmt.Errorf("%w: %s", ErrNotFound, i)
		case ctx.Err() != nil:
			return Info{}, Event{}, fmt.Errorf("workflow: await %s: %w", i, context.Cause(ctx))
		case err != nil && !redis.Away(err):
			return Info{}, Event{}, fmt.Errorf("workflow: await %s: %w", i, err)
		}
		poll := time.NewTimer(awaitPoll)
		select {
		case <-ctx.Done():
		case text := <-told:
			if doc, event, ok := strings.Cut(text, "\n"); ok {
				poll.Stop()
				return ended(doc, event)
			}
		case <-poll.C:
		}
		poll.Stop()
	}
}

// ended is the end of an execution as it is stored.
func ended(doc, event string) (info Info, last Event, err error) {
	if info, err = decodeInfo(doc); err != nil || event == "" {
		return info, last, err
	}
	last, err = decodeEvent(event)
	return info, last, err
}

// waits are those who await ends in this process: one subscription for each shard, from the first of them until close.
type waits struct {
	c    *Client
	name string // of this process among those that wait

	mu     sync.Mutex
	by     map[string]map[chan string]struct{} // by member
	ears   map[*shard]*ear
	closed bool
}

// ear is one subscription.
type ear struct {
	stop    context.CancelFunc
	stopped chan struct{}
	ready   chan struct{} // closed when it is there
}

func newWaits(c *Client) *waits {
	return &waits{c: c, name: newID(), by: make(map[string]map[chan string]struct{}), ears: make(map[*shard]*ear)}
}

// add registers one who waits; the channel gets document and last event, a line each, or "" when it is worth looking.
func (w *waits) add(ctx context.Context, s *shard, i Instance) (told <-chan string, forget func()) {
	ch, member := make(chan string, 1), i.String()
	w.mu.Lock()
	if w.by[member] == nil {
		w.by[member] = make(map[chan string]struct{})
	}
	w.by[member][ch] = struct{}{}
	e := w.ears[s]
	if e == nil && !w.closed { // after Close it is only looked, once a second
		var run context.Context
		e = &ear{stopped: make(chan struct{}), ready: make(chan struct{})}
		run, e.stop = context.WithCancel(context.Background())
		w.ears[s] = e
		go w.listen(run, s, e)
	}
	w.mu.Unlock()
	if e != nil {
		select { // what is told before the subscription is lost, and only found by looking
		case <-e.ready:
		case <-time.After(awaitPoll):
		case <-ctx.Done():
		}
	}
	return ch, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.by[member], ch)
		if len(w.by[member]) == 0 {
			delete(w.by, member)
		}
	}
}

func (w *waits) listen(ctx context.Context, s *shard, e *ear) {
	defer close(e.stopped)
	ready := sync.OnceFunc(func() { close(e.ready) })
	redis.Subscribe(ctx, w.c.rdb, s.keys.AwaitChannel(w.name), func() { ready(); w.look() }, w.heard, w.c.log)
}

// heard passes on what complete.lua and terminate.lua publish: member, document, last event, a line each.
func (w *waits) heard(text string) {
	member, rest, _ := strings.Cut(text, "\n")
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.by[member] {
		say(ch, rest)
	}
}

// look lets everybody look: something may have been told while nobody heard.
func (w *waits) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, all := range w.by {
		for ch := range all {
			say(ch, "")
		}
	}
}

// say puts text into ch; an end replaces what is in there.
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

func (w *waits) close() {
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
