package task

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/lifecycle"
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
	told, forget := c.waits.Add(ctx, c.keys.TaskAwaitChannel(c.waits.Name), id)
	defer func() {
		if forget() {
			c.unawait(id)
		}
	}()
	for {
		raw, err := awaitScript.Run(ctx, c.rdb, []string{c.keys.TaskAwaited(), c.keys.TaskResult(id)}, id, c.waits.Name).AsBytes()
		if err == nil {
			return raw, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("task: await %s: %w", id, context.Cause(ctx))
		}
		if !rueidis.IsRedisNil(err) && !redis.Away(err) {
			return nil, fmt.Errorf("task: await %s: %w", id, err)
		}
		select {
		case <-ctx.Done():
		case <-told:
		case <-time.After(redis.WaitPoll):
		}
	}
}

// unawait takes back the wish to hear of the end of a task.
func (c *Client) unawait(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := unawaitScript.Run(ctx, c.rdb, []string{c.keys.TaskAwaited()}, id, c.waits.Name).Error(); err != nil {
		c.log.Debug("task: the wish to be told stays until the task ends", "id", id, "error", err)
	}
}

// listen pokes wake at each message of a channel, and at each subscription, before which some may have been missed, until ctx ends.
func (c *Client) listen(ctx context.Context, channel string, wake chan struct{}) {
	redis.Subscribe(ctx, c.rdb, channel, func() { lifecycle.Poke(wake) }, func(string) { lifecycle.Poke(wake) }, c.log)
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
