package task_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/taktworks/takt/task"
)

// left.lua counts what waits, runs and is delayed; Drain ends when that is nothing.
func TestRunAll(t *testing.T) { testRunAll(t, newEnv(t)) }

func testRunAll(t *testing.T, e *env) {
	typ := task.Define[int, int]("test:Nested", task.Background, task.Large, task.Retry(task.Backoff{Base: time.Hour, Retries: 1}))
	for n := range 600 { // more than a page
		send(e, typ, n, task.In(time.Hour))
	}
	send(e, typ, 1000)
	seen := 0
	ends, err := e.client.RunAll(e.ctx(), task.WorkerOptions{Observe: func(task.Event) { seen++ }}, typ.Handle(func(ctx context.Context, j *task.Job[int]) (int, error) {
		if j.Args == 1000 {
			_, err := typ.Submit(ctx, j.Client(), 1001, task.In(time.Hour))
			return 0, err
		}
		if j.Args == 1001 && j.Attempt == 1 {
			return 0, errors.New("no")
		}
		return 0, nil
	}))
	if err != nil || len(ends) != 603 || seen != 603 {
		t.Errorf("%d ends, %d seen, %v", len(ends), seen, err)
	}
	same(t, e.left(), 0)
}
