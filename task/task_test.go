package task_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/taktworks/takt/task"
)

type double struct{ N int }

var Double = task.Define[double, int]("test:Double")

func TestSubmitRunAwait(t *testing.T) {
	e := newEnv(t)
	e.start(task.WorkerOptions{}, Double.Handle(func(_ context.Context, j *task.Job[double]) (int, error) {
		return 2 * j.Args.N, nil
	}))
	h, err := Double.Submit(e.ctx(), e.client, double{21})
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.Await(e.ctx())
	if err != nil || got != 42 {
		t.Errorf("Await = %d, %v, want 42", got, err)
	}
}

func TestRetryThenDone(t *testing.T) {
	e := newEnv(t)
	flaky := task.Define[double, int]("test:Flaky", task.Retry(task.Backoff{Base: 10 * time.Millisecond, Retries: 3}))
	e.start(task.WorkerOptions{}, flaky.Handle(func(_ context.Context, j *task.Job[double]) (int, error) {
		if j.Attempt < 3 {
			return 0, errors.New("not yet")
		}
		return j.Attempt, nil
	}))
	h, err := flaky.Submit(e.ctx(), e.client, double{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := h.Await(e.ctx()); err != nil || got != 3 {
		t.Errorf("Await = %d, %v, want 3", got, err)
	}
}
