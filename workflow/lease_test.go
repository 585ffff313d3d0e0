package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/workflow"
)

// A task that nobody completes nor extends goes to another poller, and who had it is told, and refused.
func TestLeaseEnds(t *testing.T) {
	long.Test(t, "waits for a lease to end")
	t.Parallel()
	e := newEnv(t)
	lost := make(chan workflow.Instance, 10)
	w, _ := e.worker(workflow.WorkerOptions{WorkflowLease: 150 * time.Millisecond, ActivityLease: 150 * time.Millisecond, Lost: func(i workflow.Instance) { lost <- i }})
	other, _ := e.other().worker(workflow.WorkerOptions{})
	i := e.begin("a")
	hung := e.task(w)
	task := e.task(other)
	if got := <-lost; got.String() != i.String() {
		t.Errorf("lost: %s", got)
	}
	before := e.dump()
	e.is(hung.Complete(e.ctx(), checkpoint(hung, schedules(7))), workflow.ErrLost)
	e.is(hung.Extend(e.ctx()), workflow.ErrLost)
	e.is(hung.Release(e.ctx()), workflow.ErrLost)
	for k, v := range e.dump() {
		if before[k] != v {
			t.Errorf("%s was changed", k)
		}
	}
	e.step(task, schedules(1))
	late := e.activity(w)
	a := e.activity(other)
	e.is(late.Complete(e.ctx(), event("Late", 1)), workflow.ErrLost)
	e.ok(a.Complete(e.ctx(), event("Done", 1)))
	task = e.task(other)
	if types(task.Events) != "Done/1" {
		t.Errorf("events: %s", types(task.Events))
	}
	e.step(task, finished)
	select {
	case i := <-lost:
		t.Errorf("lost once more: %s", i)
	default:
	}
	e.idle("q")
}

// Extended again and again a task stays, for longer than its lease; Lost is not told of one that was completed.
func TestExtend(t *testing.T) {
	long.Test(t, "waits longer than a lease")
	t.Parallel()
	e := newEnv(t)
	lost := make(chan workflow.Instance, 10)
	w, _ := e.worker(workflow.WorkerOptions{WorkflowLease: 4 * time.Second, ActivityLease: 4 * time.Second, Lost: func(i workflow.Instance) { lost <- i }})
	e.begin("a")
	task := e.task(w)
	keep := func(extend func(context.Context) error) {
		t.Helper()
		tick := time.Tick(40 * time.Millisecond)
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); <-tick {
			e.ok(extend(e.ctx()))
		}
	}
	keep(task.Extend)
	e.step(task, schedules(1))
	a := e.activity(w)
	keep(a.Extend)
	e.ok(a.Complete(e.ctx(), event("Done", 1)))
	e.step(e.task(w), finished)
	if len(lost) > 0 {
		t.Error("Lost was told")
	}
}

// Who waits for nothing any more gets nothing, and what came for it in the last moment is another's soon.
func TestPollersComeAndGo(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	ctx, cancel := context.WithCancelCause(context.Background())
	gone := errors.New("gone")
	cancel(gone)
	if _, err := w.WorkflowTask(ctx, []string{"q"}); !errors.Is(err, gone) {
		t.Errorf("error %v", err)
	}
	const n = 50
	var all sync.WaitGroup
	over, end := context.WithCancel(context.Background())
	for range 4 {
		all.Go(func() {
			for k := 0; over.Err() == nil; k++ {
				ctx, cancel := context.WithTimeout(over, time.Duration(k%7)*time.Millisecond)
				if task, err := w.WorkflowTask(ctx, []string{"q"}); err == nil {
					if err := task.Complete(context.Background(), checkpoint(task, finished)); err != nil {
						t.Error(err)
					}
				}
				cancel()
			}
		})
	}
	for k := range n {
		e.begin(fmt.Sprint("a", k))
	}
	for k := range n {
		e.ended(workflow.Instance{ID: fmt.Sprint("a", k)})
	}
	end()
	all.Wait()
	e.until("nothing is left", func() bool { return e.int("XLEN", e.key("tasks:q")) == 0 })
	e.idle("q")
}

// A worker that stops brings nothing more along: what its last checkpoint could have fetched is another's at once.
func TestStop(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, err := e.NewWorker(workflow.WorkerOptions{Drain: hang})
	e.ok(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	e.begin("a")
	task := e.task(w)
	waiting := make(chan error, 1)
	go func() { // waits, and nothing comes from here any more
		_, err := w.WorkflowTask(context.Background(), []string{"q"})
		waiting <- err
	}()
	cancel()
	e.until("nothing is read any more", func() bool {
		clients, err := e.do("INFO", "clients").ToString()
		return err == nil && strings.Contains(clients, "blocked_clients:0\r")
	})
	e.begin("b")
	e.ok(e.Signal(e.ctx(), "a", event("S", 0)))
	e.step(task)
	select {
	case err := <-done:
		e.ok(err)
	case <-time.After(hang / 2):
		t.Error("the worker waits for what it fetched itself")
	}
	if err := <-waiting; !errors.Is(err, workflow.ErrStopped) {
		t.Errorf("a task of a worker that has stopped: %v", err)
	}
	if _, err := w.WorkflowTask(e.ctx(), []string{"q"}); !errors.Is(err, workflow.ErrStopped) {
		t.Errorf("one that is asked for afterwards: %v", err)
	}
	other, _ := e.other().worker(workflow.WorkerOptions{})
	for range 2 {
		if task := e.task(other); task.Attempt != 1 {
			t.Errorf("%s: attempt %d", task.ID, task.Attempt)
		} else {
			e.step(task, finished)
		}
	}
}
