package task_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/task"
)

// T13: fences grow from run to run of a task, whatever ended the one before: a snooze, a stop of the worker, a failure, its death and requeue.
func TestFenceGrows_T13(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[int, string]("test:Fence", task.Small, task.Retry(task.Backoff{Base: time.Millisecond, Retries: 1}))
	var mu sync.Mutex
	var fences []uint64
	begun := make(chan int, 10)
	handler := typ.Handle(func(ctx context.Context, j *task.Job[int]) (string, error) {
		mu.Lock()
		fences = append(fences, j.Fence)
		run := len(fences)
		mu.Unlock()
		begun <- run
		switch run {
		case 1, 2:
			return "", task.Snooze(0)
		case 3:
			<-ctx.Done()
			return "", ctx.Err()
		case 4, 5:
			return "", errors.New("no")
		}
		return "done", nil
	})
	_, stop := e.start(task.WorkerOptions{ID: "first", Drain: time.Millisecond}, handler)
	h := send(e, typ, 1)
	for wait(t, "start", begun) != 3 {
	}
	stop()
	e.start(task.WorkerOptions{ID: "second"}, handler)
	if _, err := h.Await(e.ctx()); err == nil {
		t.Error("no error")
	}
	if n, err := e.client.DeadLetters().Requeue(e.ctx(), h.ID); n != 1 || err != nil {
		t.Fatalf("requeued %d, %v", n, err)
	}
	if got, err := h.Await(e.ctx()); err != nil || got != "done" {
		t.Errorf("%q, %v", got, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.IsSorted(fences) || len(slices.Compact(slices.Clone(fences))) != 6 {
		t.Errorf("fences %x do not grow", fences)
	}
}
