package task_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/task"
)

// knows waits until a worker has read what operators said up to now: the nth limit of a VO without tasks, of a type that it has a handler for, comes with the same read.
func (e *env) knows(w *task.Worker, typ task.Definition, nth int) {
	e.t.Helper()
	e.config(fmt.Sprintf("vo_overrides: {nobody: {%q: {concurrency_limit: %d}}}", typ.Name(), nth), typ)
	e.eventually("the worker knows what operators said", func() bool {
		return is(task.InForce(w, typ.Name(), "nobody").ConcurrencyLimit, nth)
	})
}

// A handler that ends its goroutine has failed with an error that says so; its slot, its locks and the list of what runs are as after any other failure.
func TestGoexitInAHandler(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[bool, task.None]("exits", task.Retry(task.Backoff{Base: time.Millisecond, Retries: 1}))
	ends, good := make(chan task.Event, 10), make(chan struct{}, 1)
	e.start(task.WorkerOptions{Concurrency: map[task.Size]int{task.Medium: 1}, Observe: func(ev task.Event) { ends <- ev }},
		typ.Handle(func(_ context.Context, j *task.Job[bool]) (task.None, error) {
			if j.Args {
				runtime.Goexit()
			}
			good <- struct{}{}
			return task.None{}, nil
		}))
	h := send(e, typ, true)
	for _, want := range []task.Outcome{task.Retried, task.Dead} {
		if ev := wait(t, "end", ends); ev.Outcome != want || !errors.Is(ev.Err, task.ErrExited) {
			t.Errorf("%s, %v", ev.Outcome, ev.Err)
		}
	}
	refused(t, "it is done", errOf(h.Await(e.ctx())))
	send(e, typ, false)
	wait(t, "run of the next", good)
	e.idle()
}

// A panic of a user's function that is told of something is logged, and ends nothing: not at the end of a run, nor of a task that killed its workers.
func TestPanicsOfCallbacks(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[int, task.None]("told of")
	var ran atomic.Int32
	send(e, typ, 0)
	queue, group := e.key("tasks:normal:medium"), e.prefix+":tasks:workers"
	e.must("XGROUP", "CREATE", queue, group, "0")
	e.must("XREADGROUP", "GROUP", group, "gone", "STREAMS", queue, ">")
	entries, err := e.must("XRANGE", queue, "-", "+").AsXRange()
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	e.must("XCLAIM", queue, group, "gone", "0", entries[0].ID, "RETRYCOUNT", "5", "JUSTID")
	var told atomic.Int32
	stuck := make(chan struct{})
	release := make(chan struct{})
	e.start(task.WorkerOptions{Margin: time.Millisecond, Observe: func(task.Event) { told.Add(1); panic("on the floor") },
		Stuck: func(task.Info, time.Time) { close(stuck); panic("on the floor") }},
		typ.Handle(func(ctx context.Context, j *task.Job[int]) (task.None, error) {
			ran.Add(1)
			if j.Args == 2 {
				<-release
			}
			return task.None{}, nil
		}))
	e.idle()
	if ran.Load() != 0 || told.Load() != 1 {
		t.Errorf("the killer of workers ran %d times, and %d ends were told", ran.Load(), told.Load())
	}
	send(e, typ, 1)
	e.idle()
	send(e, typ, 2, task.RunTimeout(10*time.Millisecond))
	wait(t, "Stuck", stuck)
	close(release)
	e.idle()
	if ran.Load() != 2 || told.Load() != 3 {
		t.Errorf("%d runs and %d ends, want 2 and 3", ran.Load(), told.Load())
	}
}
