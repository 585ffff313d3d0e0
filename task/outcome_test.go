package task_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/taktworks/takt/task"
)

// A retry or a dead letter that cannot be written is not the end of the task: its entry stays with the worker until it can be.
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
			typ := task.Define[double, int]("test:T6", task.Positional(), task.Retry(c.retry))
			e.do("SET", c.key(e), "broken")
			ran := make(chan struct{}, 100)
			_, stop := e.start(task.WorkerOptions{NoPromote: true}, typ.Handle(func(context.Context, *task.Job[double]) (int, error) {
				ran <- struct{}{}
				return 0, errors.New("boom")
			}))
			h := send(e, typ, double{})
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

// Nothing is ever trimmed: a queue that is full refuses, and what is in it stays.
func TestFullQueueRefuses(t *testing.T) {
	e := newEnv(t)
	full := e.connect(task.Options{MaxBacklog: 3})
	for i := range 3 {
		send(e, Double, double{i})
	}
	for what, opts := range map[string][]task.SubmitOption{"at once": nil, "delayed": {task.In(time.Hour)}, "by a script": {task.Key("k")}} {
		if _, err := Double.Submit(e.ctx(), full, double{}, opts...); !errors.Is(err, task.ErrBacklog) {
			t.Errorf("%s: %v", what, err)
		}
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
