package task

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/task/internal/wire"
)

var (
	awaitScript   = script.Load(files, "task/await")
	unawaitScript = script.Load(files, "task/unawait")
)

// Result is how a task ended.
type Result[R any] struct {
	Value    R
	Err      *Error            // nil if the task is done
	Duration time.Duration     // of the last run
	Labels   map[string]string // of the task
}

// Unwrap is the value, or how the task failed.
func (r Result[R]) Unwrap() (R, error) {
	if r.Err != nil {
		var none R
		return none, r.Err
	}
	return r.Value, nil
}

const awaitPoll = time.Second // in case that a push got lost

// Await blocks until the task has ended, and returns what it returned, or an *Error if it is dead or cancelled. It is pushed, in one round trip and one message; should the
// connection break, it looks once a second. ErrNotKept: nothing is kept of such tasks. ErrLayout: a worker with another version of R made the result. Should the result have expired before, it waits until ctx ends.
func (h *Handle[R]) Await(ctx context.Context) (R, error) {
	var none R
	if !h.kept {
		return none, ErrNotKept
	}
	raw, err := h.client.await(ctx, h.ID)
	if err != nil {
		return none, err
	}
	result, err := h.decode(raw)
	if err != nil {
		return none, err
	}
	return result.Unwrap()
}

// Result looks whether the task has ended. ErrResultMissing: not yet, or the result has expired. One round trip.
func (h *Handle[R]) Result(ctx context.Context) (Result[R], error) {
	raw, err := h.client.result(ctx, h.ID)
	if err != nil {
		return Result[R]{}, err
	}
	return h.decode(raw)
}

// Handle is that of a task submitted before, by its id.
func (t *Type[T, R]) HandleOf(c *Client, id string) *Handle[R] {
	return &Handle[R]{Ref: Ref{ID: id}, client: c, out: t.out, kept: true}
}

func (h *Handle[R]) decode(raw []byte) (Result[R], error) {
	return resultOf(h.ID, raw, func(value []byte) (v R, err error) {
		if len(value) > 0 {
			v, err = h.out.DecodeValue(value)
		}
		return v, unfit(err)
	})
}

// resultOf reads the stored result of a task. read gets what a task that is done returned, nil for nil.
func resultOf[R any](id string, raw []byte, read func([]byte) (R, error)) (r Result[R], err error) {
	w, err := wire.DecodeResult(raw)
	if err == nil {
		r.Duration, r.Labels, r.Err = durationOf(&w), texts(w.Labels), failureOf(&w)
	}
	if err == nil && r.Err == nil {
		r.Value, err = read(w.Value)
	}
	if err != nil {
		return r, fmt.Errorf("task: result of %s: %w", id, err)
	}
	return r, nil
}

func durationOf(w *wire.Result) time.Duration { return time.Duration(w.Seconds * float64(time.Second)) }

// failureOf is what a task failed with, nil if it did not fail.
func failureOf(w *wire.Result) *Error {
	switch {
	case !w.IsErr:
		return nil
	case w.Err == nil:
		return &Error{Type: "error", Message: "it did not say why"}
	}
	return new(Error(*w.Err))
}

func (c *Client) result(ctx context.Context, id string) ([]byte, error) {
	raw, err := c.rdb.Do(ctx, c.rdb.B().Get().Key(c.keys.TaskResult(id)).Build()).AsBytes()
	if rueidis.IsRedisNil(err) {
		return nil, fmt.Errorf("%w: %s", ErrResultMissing, id)
	}
	if err != nil {
		return nil, fmt.Errorf("task: result of %s: %w", id, err)
	}
	return raw, nil
}

// await returns the result of a task as soon as there is one.
func (c *Client) await(ctx context.Context, id string) ([]byte, error) {
	told, forget := c.waits.add(ctx, id)
	defer forget()
	poll := time.NewTimer(awaitPoll)
	defer poll.Stop()
	for {
		raw, err := awaitScript.Run(ctx, c.rdb, []string{c.keys.TaskAwaited(), c.keys.TaskResult(id)}, id, c.waits.name).AsBytes()
		if err == nil {
			return raw, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("task: await %s: %w", id, context.Cause(ctx))
		}
		if !rueidis.IsRedisNil(err) && !redis.Away(err) {
			return nil, fmt.Errorf("task: await %s: %w", id, err)
		}
		poll.Reset(awaitPoll)
		select {
		case <-ctx.Done():
		case <-told:
		case <-poll.C:
		}
	}
}

// waits are those who await results in this process: one subscription for all, as long as there are any.
type waits struct {
	c    *Client
	name string // of this process among those that wait

	mu      sync.Mutex
	by      map[string]map[chan struct{}]struct{}
	stop    context.CancelFunc // of the subscription; nil = there is none
	stopped chan struct{}
	ready   chan struct{} // closed when it is there
	closed  bool
}

func newWaits(c *Client) *waits {
	return &waits{c: c, name: newID(), by: make(map[string]map[chan struct{}]struct{})}
}

// add registers one who waits for id; the channel holds something when it is worth looking.
func (w *waits) add(ctx context.Context, id string) (told <-chan struct{}, forget func()) {
	ch := make(chan struct{}, 1)
	w.mu.Lock()
	if w.by[id] == nil {
		w.by[id] = make(map[chan struct{}]struct{})
	}
	w.by[id][ch] = struct{}{}
	if w.stop == nil && !w.closed { // after Close it is only looked, once a second
		var run context.Context
		run, w.stop = context.WithCancel(context.Background())
		w.stopped, w.ready = make(chan struct{}), make(chan struct{})
		ready := w.ready
		go w.listen(run, w.stopped, sync.OnceFunc(func() { close(ready) }))
	}
	ready := w.ready
	w.mu.Unlock()
	select { // a push that comes before the subscription is lost, and only found by looking
	case <-ready:
	case <-time.After(awaitPoll):
	case <-ctx.Done():
	}
	return ch, func() { w.remove(id, ch) }
}

// remove lets go of one; the last for an id does not ask any more.
func (w *waits) remove(id string, ch chan struct{}) {
	w.mu.Lock()
	delete(w.by[id], ch)
	last := len(w.by[id]) == 0
	if last {
		delete(w.by, id)
	}
	w.mu.Unlock()
	if !last {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := unawaitScript.Run(ctx, w.c.rdb, []string{w.c.keys.TaskAwaited()}, id, w.name).Error(); err != nil {
		w.c.log.Debug("task: the wish to be told stays until the task ends", "id", id, "error", err)
	}
}

// listen is the subscription. It outlives lost connections.
func (w *waits) listen(ctx context.Context, stopped chan struct{}, ready func()) {
	defer close(stopped)
	redis.Subscribe(ctx, w.c.rdb, w.c.keys.TaskAwaitChannel(w.name), ready, func(id string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for ch := range w.by[id] {
			poke(ch)
		}
	}, w.c.log)
}

func (w *waits) close() {
	w.mu.Lock()
	w.closed = true
	stop, stopped := w.stop, w.stopped
	w.mu.Unlock()
	if stop != nil {
		stop()
		<-stopped
	}
}

// listen pokes wake at each message of a channel, and at each subscription, before which some may have been missed, until ctx ends.
func (c *Client) listen(ctx context.Context, channel string, wake chan struct{}) {
	redis.Subscribe(ctx, c.rdb, channel, func() { poke(wake) }, func(string) { poke(wake) }, c.log)
}

func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// pause waits until d is over or ctx ends, or somebody pokes wake: then it returns true.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) (woken bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-wake:
		return true
	}
	return false
}

// texts are labels as people read them.
func texts(labels wire.Labels) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	all := make(map[string]string, len(labels))
	for _, l := range labels {
		all[l.Key] = fmt.Sprint(l.Value)
	}
	return all
}
