package task_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/task"
)

// T6: a retry or a dead letter that cannot be written is not the end of the task: its entry stays with the worker until it can be.
func TestUnwrittenOutcomeIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		key   func(e *env) string
		retry task.RetryPolicy
		want  task.State
	}{
		"retry":       {func(e *env) string { return e.keys().TaskDelayed() }, task.Backoff{Base: time.Hour, Retries: 1}, task.StateDelayed},
		"dead letter": {func(e *env) string { return e.keys().TaskDead() }, task.NoRetry{}, task.StateDead},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			typ := task.Define[double, int]("test:T6", task.Retry(c.retry))
			e.do("SET", c.key(e), "broken")
			ran := make(chan struct{}, 100)
			_, stop := e.start(task.WorkerOptions{NoPromote: true}, typ.Handle(func(context.Context, *task.Job[double]) (int, error) {
				ran <- struct{}{}
				return 0, errors.New("boom")
			}))
			h := submitOne(e, typ, double{})
			<-ran
			if got := e.find(h.Ref); got.State != task.StateRunning {
				t.Errorf("it is %s", got.State)
			}
			e.do("DEL", c.key(e))
			e.eventually("the outcome is written", func() bool {
				got, err := e.client.Find(e.ctx(), task.Ref{ID: h.ID})
				return err == nil && got.State == c.want
			})
			stop()
			if r := e.healthy(0); r.Waiting+r.Running != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// task-E2: a task that fails with retries left is put into the delayed set exactly once, as itself. T17: until it ends there is no result.
func TestRetryIsOneDelayedMessage(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[double, int]("test:E2", task.Retry(task.Backoff{Base: time.Hour, Retries: 1}))
	e.start(task.WorkerOptions{NoPromote: true}, typ.Handle(func(context.Context, *task.Job[double]) (int, error) { return 0, errors.New("boom") }))
	h := submitOne(e, typ, double{5})
	e.eventually("it is delayed", func() bool { return e.number("ZCARD", e.keys().TaskDelayed()) > 0 })
	if n := e.number("ZCARD", e.keys().TaskDelayed()); n != 1 {
		t.Errorf("%d members", n)
	}
	if got := e.find(task.Ref{ID: h.ID}); got.State != task.StateDelayed || got.Attempt != 2 || got.History[0].Error != "boom" || string(got.Args) != "[5]" {
		t.Errorf("%+v", got)
	}
	if _, err := h.Result(e.ctx()); !errors.Is(err, task.ErrResultMissing) {
		t.Errorf("a result of a task that has not ended: %v", err)
	}
	if r := e.healthy(0); r.Delayed != 1 || r.Dead != 0 || r.Results != 0 {
		t.Errorf("%+v", r)
	}
}

// task-E3: a task without retries that fails goes to the dead letters, and not to the delayed set.
func TestNoRetryIsOneDeadLetter(t *testing.T) {
	e := newEnv(t)
	e.start(task.WorkerOptions{NoPromote: true}, failing.Handle(func(context.Context, *task.Job[double]) (int, error) { return 0, errors.New("boom") }))
	h := submitOne(e, failing, double{})
	if _, err := h.Await(e.ctx()); err == nil {
		t.Fatal("done")
	}
	if r := e.healthy(0); r.Dead != 1 || r.Delayed != 0 || r.Unfinished() != 0 {
		t.Errorf("%+v", r)
	}
}

// plus-16, T17: a retry keeps the id, the result under it is the final one, and there are 1 + Retries runs.
func TestRetriesKeepTheID(t *testing.T) {
	for _, retries := range []int{1, 3} {
		e := newEnv(t)
		typ := task.Define[double, int]("test:P16", task.Retry(task.Backoff{Base: time.Millisecond, Retries: retries, Exact: true}))
		var runs atomic.Int64
		e.start(task.WorkerOptions{}, typ.Handle(func(_ context.Context, j *task.Job[double]) (int, error) {
			n := int(runs.Add(1))
			if j.ID != "mine" || j.Attempt != n {
				t.Errorf("run %d: id %s, attempt %d", n, j.ID, j.Attempt)
			}
			return 0, errors.New("boom")
		}))
		h := submitOne(e, typ, double{}, task.ID("mine"))
		var failed *task.Error
		if _, err := h.Await(e.ctx()); !errors.As(err, &failed) || failed.Message != "boom" {
			t.Error(err)
		}
		if n := runs.Load(); n != int64(1+retries) {
			t.Errorf("%d runs, want 1 + %d", n, retries)
		}
		if got := e.find(task.Ref{ID: "mine"}); got.State != task.StateDead || len(got.History) != 1+retries {
			t.Errorf("%+v", got)
		}
		if n := e.number("EXISTS", e.keys().TaskResult("mine")); n != 1 {
			t.Errorf("%d results", n)
		}
		e.healthy(0)
	}
}

// T15: nothing is ever trimmed: a queue that is full refuses, and what is in it stays.
func TestFullQueueRefuses(t *testing.T) {
	e := newEnv(t)
	full := e.connect(task.Options{MaxBacklog: 3})
	for i := range 3 {
		submitOne(e, Double, double{i})
	}
	if _, err := Double.Submit(e.ctx(), full, double{}); !errors.Is(err, task.ErrBacklog) {
		t.Errorf("%v", err)
	}
	if _, err := Double.Submit(e.ctx(), full, double{}, task.In(time.Hour)); !errors.Is(err, task.ErrBacklog) {
		t.Errorf("delayed: %v", err)
	}
	if _, err := Double.Submit(e.ctx(), full, double{}, task.Large); err != nil {
		t.Errorf("to another queue: %v", err)
	}
	if r := e.healthy(0); r.Waiting != 4 {
		t.Errorf("%+v", r)
	}
	e.start(task.WorkerOptions{}, Double.Handle(func(context.Context, *task.Job[double]) (int, error) { return 0, nil }))
	e.eventually("there is room", func() bool { return e.number("XLEN", e.keys().TaskStream("normal:medium")) == 0 })
	e.eventually("the room is seen", func() bool { _, err := Double.Submit(e.ctx(), full, double{}); return err == nil })
}

// T16: no task gets where nobody reads.
func TestNoTenthQueue(t *testing.T) {
	e := newEnv(t)
	for _, o := range []task.SubmitOption{task.Priority("urgent"), task.Size("tiny"), task.Priority("")} {
		if _, err := Double.Submit(e.ctx(), e.client, double{}, o); err == nil {
			t.Errorf("%v was submitted", o)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a type of no queue was defined")
		}
	}()
	task.Define[double, int]("test:T16", task.Size("tiny"))
}
