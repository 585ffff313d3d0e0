package task_test

import (
	"context"
	"testing"

	"github.com/taktworks/takt/task"
)

type double struct{ N int }

var Double = task.Define[double, int]("test:Double", task.Positional())

func TestSubmitRunAwait(t *testing.T) {
	e := newEnv(t)
	e.start(task.WorkerOptions{}, Double.Handle(func(_ context.Context, j *task.Job[double]) (int, error) {
		return 2 * j.Args.N, nil
	}))
	h := send(e, Double, double{21})
	got, err := h.Await(e.ctx())
	if err != nil || got != 42 {
		t.Errorf("Await = %d, %v, want 42", got, err)
	}
}
