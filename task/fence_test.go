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

// T13: members of an aggregate have fences, too.
func TestAggregateFence_T13(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[int, task.None]("test:Members", task.Small, task.Aggregate[int]{MaxSize: 2, MaxDelay: time.Second}, task.Retry(task.Backoff{Base: time.Millisecond, Retries: 1}))
	fences := make(chan uint64, 10)
	e.start(task.WorkerOptions{}, typ.HandleBatch(func(_ context.Context, jobs []*task.Job[int]) error {
		first := jobs[0].Attempt == 1
		for _, j := range jobs {
			fences <- j.Fence
		}
		if first {
			return errors.New("again")
		}
		return nil
	}))
	if _, err := typ.SubmitMany(e.ctx(), e.client, []int{1, 2}); err != nil {
		t.Fatal(err)
	}
	a, b := wait(t, "fence", fences), wait(t, "fence", fences)
	c, d := wait(t, "fence", fences), wait(t, "fence", fences)
	if a == 0 || b == 0 || c <= a || d <= b {
		t.Errorf("fences %d %d, then %d %d", a, b, c, d)
	}
	e.idle()
}
