package task_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/task"
)

// A worker that waits for tasks of a queue begins none of them once it is paused, and goes on at once when it is resumed.
func TestPauseQueueWhileAWorkerWaits(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[int, task.None]("paused")
	other := task.Define[int, task.None]("other", task.Realtime)
	ran := make(chan int, 100)
	var paused atomic.Bool
	e.start(task.WorkerOptions{Concurrency: map[task.Size]int{task.Medium: 4}},
		typ.Handle(func(_ context.Context, j *task.Job[int]) (task.None, error) {
			if paused.Load() {
				t.Error("a task of a paused queue was begun")
			}
			ran <- j.Args
			return task.None{}, nil
		}),
		other.Handle(func(context.Context, *task.Job[int]) (task.None, error) { ran <- -1; return task.None{}, nil }))
	send(e, typ, 0)
	wait(t, "run", ran)
	for try := range 5 {
		if err := e.client.PauseQueue(e.ctx(), "normal:medium"); err != nil {
			t.Fatal(err)
		}
		send(e, other, 0) // what it is told by is on its way
		wait(t, "run of another queue", ran)
		e.settle()
		paused.Store(true)
		send(e, typ, try)
		for range 20 {
			send(e, other, 0)
			if v := wait(t, "run of another queue", ran); v != -1 {
				t.Fatal("a task of a paused queue was begun")
			}
		}
		paused.Store(false)
		begun := time.Now()
		if err := e.client.ResumeQueue(e.ctx(), "normal:medium"); err != nil {
			t.Fatal(err)
		}
		if v := wait(t, "run", ran); v != try {
			t.Errorf("got %d, want %d", v, try)
		}
		if took := time.Since(begun); took > 700*time.Millisecond {
			t.Errorf("a resumed queue was looked at after %v", took)
		}
	}
}

// settle waits until workers have had time to hear what they are told: there is nothing to see of that in Redis.
func (e *env) settle() {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	<-tick.C
}
