package task

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/internal/stream"
)

var (
	blockScript = script.Load(files, "task/block")
	wakeScript  = script.Load(files, "task/wake")
)

// finishBlocked puts tasks that were refused a lock back, where wake finds them. One round trip.
func (w *Worker) finishBlocked(ctx context.Context, b stream.Batch, entries []*stream.Entry) error {
	k := w.client.keys
	args := []string{b.Token, b.Group, strconv.Itoa(len(entries))}
	var counts counts
	for _, e := range entries {
		args = append(args, e.ID)
		counts.add(effect(e))
	}
	args = counts.append(args)
	for _, e := range entries {
		o := effect(e)
		args = append(args, e.ID, o.task, ms(o.delay), rueidis.BinaryString(o.member))
	}
	keys := []string{b.Heartbeat, b.Stream, k.TaskDelayed(), k.TaskBlocked(), k.TaskCounters()}
	reply, err := blockScript.Run(ctx, w.client.rdb, keys, args...).ToArray()
	if err != nil {
		return fmt.Errorf("task: block: %w", err)
	}
	if err := judgeReply("block.lua", reply); err != nil {
		return err
	}
	var called []string // before they were there to be woken
	for _, e := range entries {
		if id := effect(e).task; w.waiters.parked(id) {
			called = append(called, id)
		}
	}
	w.client.wake(ctx, called)
	return nil
}

// wake starts blocked tasks whose turn it is, in this order; names of others that wait for locks are passed over. It works also when ctx has ended. When it fails, the tasks
// look by themselves. One round trip, none for no ids.
func (c *Client) wake(ctx context.Context, ids []string) {
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if err := wakeScript.Run(ctx, c.rdb, []string{c.keys.TaskDelayed(), c.keys.TaskBlocked()}, ids...).Error(); err != nil {
		c.log.Warn("task: blocked tasks are not woken, they look by themselves", "tasks", len(ids), "error", err)
	}
}

// unblock forgets where a task waits that does not wait any more: for promoters that do not know of it.
func (c *Client) unblock(ctx context.Context, id string) {
	if err := c.rdb.Do(ctx, c.rdb.B().Hdel().Key(c.keys.TaskBlocked()).Field(id).Build()).Error(); err != nil {
		c.log.Debug("task: the field of a blocked task is left", "task", id, "error", err)
	}
}

const maxWaiters = 100_000 // that a worker listens for; the others look by themselves

// waiters are the tasks that this worker saw blocked. It hears on the channel of the locks when the turn of one comes: from whoever released the lock, also
// from outside of tasks, and also if that was before the task was back in the delayed set.
type waiters struct {
	w      *Worker
	needed chan struct{} // closed when the first is refused
	once   sync.Once
	turn   chan struct{}

	mu     sync.Mutex
	by     map[string]waiter
	called []string
}

type waiter struct {
	until  time.Time // of its place
	parked bool      // it can be woken
	called bool      // its turn came before
}

func newWaiters(w *Worker) *waiters {
	return &waiters{w: w, needed: make(chan struct{}), turn: make(chan struct{}, 1), by: make(map[string]waiter)}
}

// run listens until ctx ends, once there is something to hear.
func (s *waiters) run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-s.needed:
	}
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() {
		redis.Subscribe(ctx, s.w.client.rdb, s.w.client.opts.LockPrefix+"lock:wake", func() {}, s.heard, s.w.client.log)
	})
	tick := time.Tick(placeKept / 3)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.turn:
			s.w.client.wake(ctx, s.take())
		case now := <-tick:
			s.tidy(now)
		}
	}
}

func (s *waiters) listen() { s.once.Do(func() { close(s.needed) }) }

// expect notes a task that is about to ask for its locks.
func (s *waiters) expect(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.by) < maxWaiters {
		s.by[id] = waiter{until: time.Now().Add(placeKept)}
	}
}

func (s *waiters) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.by, id)
}

// parked notes that a task can be woken, and says whether it is to be, because its turn came before.
func (s *waiters) parked(id string) (called bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.by[id]
	switch {
	case ok && t.called:
		delete(s.by, id)
	case ok:
		t.parked = true
		s.by[id] = t
	}
	return t.called
}

// heard is a message of the locks: a line for each waiter, "!name" for one whose turn has come.
func (s *waiters) heard(message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(message) {
		id, now := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "!")
		t, ours := s.by[id]
		switch {
		case !now || !ours:
		case t.parked:
			delete(s.by, id)
			s.called = append(s.called, id)
			lifecycle.Poke(s.turn)
		default:
			t.called = true
			s.by[id] = t
		}
	}
}

func (s *waiters) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := s.called
	s.called = nil
	return ids
}

// tidy forgets those that came elsewhere.
func (s *waiters) tidy(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, t := range s.by {
		if now.After(t.until) {
			delete(s.by, id)
		}
	}
}
