package workflow_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/taktworks/takt/workflow"
)

// One task of an instance is out at a time. What comes meanwhile makes the next one.
func TestOneTaskAtATime(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	other, _ := e.other().worker(workflow.WorkerOptions{})
	i := e.begin("a")
	task := e.task(w)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if err := e.Cancel(context.Background(), i, event("C", 0)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	e.none(w)
	e.none(other)
	if n := e.int("XLEN", e.key("tasks:q")); n != 1 {
		t.Errorf("%d tasks", n)
	}
	e.step(task)
	next := e.task(other)
	if len(next.Events) != 50 || next.LastSequence != 1 {
		t.Errorf("%d events after number %d", len(next.Events), next.LastSequence)
	}
	e.step(next, finished)
	e.idle("q")
}

// Many signals, many workers: each event is handed out once, and no two tasks of an instance run at the same time.
func TestEventsOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const instances, signals = 5, 100
	var mu sync.Mutex
	running, seen := map[string]bool{}, map[string]int{}
	do := func(task *workflow.WorkflowTask) workflow.Checkpoint {
		mu.Lock()
		if running[task.ID] {
			t.Errorf("two tasks of %s run", task.ID)
		}
		running[task.ID] = true
		mu.Unlock()
		cp := checkpoint(task)
		mu.Lock()
		defer mu.Unlock()
		for _, ev := range task.Events {
			seen[ev.Type]++
		}
		running[task.ID] = false
		return cp
	}
	for range 3 {
		w, _ := e.other().worker(workflow.WorkerOptions{})
		e.poll(w, 3, do)
	}
	for i := range instances {
		e.begin(fmt.Sprint("a", i))
	}
	var all sync.WaitGroup
	for i := range instances {
		for n := range signals {
			all.Go(func() {
				if err := e.Signal(context.Background(), fmt.Sprint("a", i), event(fmt.Sprint("S", i, "-", n), 0)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	e.until("all is seen", func() bool { mu.Lock(); defer mu.Unlock(); return len(seen) == instances*signals+1 })
	e.until("all is done", func() bool { return e.int("XLEN", e.key("tasks:q")) == 0 })
	mu.Lock()
	defer mu.Unlock()
	for name, n := range seen {
		if n != 1 && name != "Started" {
			t.Errorf("%s came %d times", name, n)
		}
	}
	for i := range instances {
		id := workflow.Instance{ID: fmt.Sprint("a", i)}
		h, err := e.History(e.ctx(), e.info(id).Instance, 0)
		e.ok(err)
		if len(h) != signals+1 {
			t.Errorf("%d events in the history of %s", len(h), id.ID)
		}
		e.ok(e.Terminate(e.ctx(), id, ""))
	}
	e.idle("q")
}

// More events wait than one task takes: all come, in their order.
func TestManyEvents(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	i := e.begin("a")
	const n = 2500
	for k := range n {
		e.ok(e.Cancel(e.ctx(), i, event(fmt.Sprint("C", k), 0)))
	}
	var got []workflow.Event
	for tasks := 1; len(got) < n+1; tasks++ {
		task := e.task(w)
		if len(task.Events) > 1000 || tasks > 3 {
			t.Fatalf("task %d has %d events", tasks, len(task.Events))
		}
		got = append(got, task.Events...)
		e.step(task)
	}
	for k := range n {
		if got[k+1].Type != fmt.Sprint("C", k) {
			t.Fatalf("event %d is %s", k+1, got[k+1].Type)
		}
	}
	h, err := e.History(e.ctx(), i, 0)
	e.ok(err)
	if len(h) != n+1 || h[n].Sequence != n+1 {
		t.Errorf("%d events in the history", len(h))
	}
}

// A task ends once: completed, or released, and not again after that.
func TestTaskEndsOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	i := e.begin("a")
	task := e.task(w)
	e.ok(task.Extend(e.ctx()))
	e.step(task, schedules(1))
	e.is(task.Complete(e.ctx(), checkpoint(task)), workflow.ErrLost)
	e.is(task.Release(e.ctx()), workflow.ErrLost)
	e.is(task.Extend(e.ctx()), workflow.ErrLost)
	a := e.activity(w)
	e.ok(a.Extend(e.ctx()))
	e.ok(a.Release(e.ctx()))
	e.is(a.Complete(e.ctx(), event("Done", 1)), workflow.ErrLost)
	e.is(a.Extend(e.ctx()), workflow.ErrLost)
	again := e.activity(w)
	if again.Event.ID != a.Event.ID || again.Attempt != 1 {
		t.Errorf("the activity again: %+v", again)
	}
	e.ok(again.Complete(e.ctx(), event("Done", 1)))
	e.is(again.Complete(e.ctx(), event("Done", 1)), workflow.ErrLost)
	e.is(again.Release(e.ctx()), workflow.ErrLost)
	task = e.task(w)
	e.ok(task.Release(e.ctx()))
	e.is(task.Complete(e.ctx(), checkpoint(task)), workflow.ErrLost)
	task = e.task(w)
	if types(task.Events) != "Done/1" || task.Attempt != 1 {
		t.Errorf("the task again: %s, attempt %d", types(task.Events), task.Attempt)
	}
	e.step(task, finished)
	if h := e.history(i); h != "Started Done/1" {
		t.Errorf("history: %s", h)
	}
	e.idle("q")
}

// Who waits in one process gets what another starts, also of a queue that nobody knew before.
func TestWorkerElsewhere(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.other().worker(workflow.WorkerOptions{})
	got := make(chan *workflow.WorkflowTask, 1)
	go func() {
		task, err := w.WorkflowTask(e.ctx(), []string{"new"})
		if err != nil {
			t.Error(err)
		}
		got <- task
	}()
	e.begin("a", func(s *workflow.Start) { s.Queue = "new" })
	task := <-got
	if task == nil || task.ID != "a" || task.Queue != "new" {
		t.Fatalf("task: %+v", task)
	}
	e.step(task, func(cp *workflow.Checkpoint) {
		cp.Activities = []workflow.Activity{{Queue: "far", Event: event("A", 1)}, {Event: event("B", 2)}}
	})
	far, near := e.activity(w, "far"), e.activity(w, "new")
	if far.Event.Type != "A" || near.Event.Type != "B" || near.Queue != "new" {
		t.Errorf("activities: %+v, %+v", far, near)
	}
	e.ok(far.Complete(e.ctx(), event("Done", 1)))
	e.ok(near.Complete(e.ctx(), event("Done", 2)))
	e.until("both are told", func() bool { return e.int("XLEN", e.key("in:a")) == 2 })
	e.step(e.task(w, "q", "new"), finished)
	e.idle("far", "new")
}
