package workflow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/workflow"
)

// Removing the execution that continued as new removes nothing of the one that goes on: it can be signalled, and there is no second one.
func TestRemoveContinued(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	first := e.begin("a", func(s *workflow.Start) { s.Attributes = map[string]string{"k": "v"} })
	task := e.task(w)
	next, goesOn := continued(task)
	e.step(task, goesOn, func(cp *workflow.Checkpoint) { cp.RemoveContinued = true })
	_, err := e.Info(e.ctx(), first)
	e.is(err, workflow.ErrNotFound)
	_, err = e.History(e.ctx(), first, 0)
	e.is(err, workflow.ErrNotFound)
	e.is(e.Start(e.ctx(), starting("a")), workflow.ErrExists)
	e.ok(e.Signal(e.ctx(), "a", event("S", 0)))
	task = e.last(w, "Started S")
	if task.Execution != next.Instance.Execution {
		t.Errorf("%s, want %s", task.Instance, next.Instance)
	}
	e.step(task, finished)
	if st := e.stats(); st.Active != 0 || st.Ended != 1 || st.Counters["continued_as_new"] != 1 {
		t.Errorf("stats: %+v", st)
	}
	for _, k := range e.keys() {
		if strings.Contains(k, first.Execution) {
			t.Errorf("%s is left", k)
		}
	}
}

// An execution that continued is kept, with its history, and who waits for its end is told.
func TestContinued(t *testing.T) {
	t.Parallel()
	for _, remove := range []bool{false, true} {
		t.Run(fmt.Sprint("remove ", remove), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			w, _ := e.worker(workflow.WorkerOptions{})
			first := e.begin("a")
			task := e.task(w)
			_, goesOn := continued(task)
			told := e.await(e.other(), first)
			e.step(task, goesOn, func(cp *workflow.Checkpoint) { cp.RemoveContinued = remove })
			if got := <-told; got.info.State != workflow.ContinuedAsNew || got.info.Ended == nil || got.last.Type != "Started" {
				t.Errorf("told: %+v", got)
			}
			if !remove {
				if got := e.info(first); got.State != workflow.ContinuedAsNew {
					t.Errorf("first execution: %+v", got)
				}
				if h := e.history(first); h != "Started" {
					t.Errorf("history: %s", h)
				}
			}
			e.step(e.task(w), finished)
		})
	}
}

type told struct {
	info workflow.Info
	last workflow.Event
	err  error
}

// await waits for an end elsewhere, and returns when it is known that it waits.
func (e *env) await(where *env, i workflow.Instance) <-chan told {
	e.t.Helper()
	ch := make(chan told, 1)
	ctx := e.ctx()
	go func() {
		info, last, err := where.Await(ctx, i)
		ch <- told{info, last, err}
	}()
	e.until("somebody waits", func() bool { return e.int("HEXISTS", e.key("run:"+i.ID), "w") == 1 })
	return ch
}

// Terminate ends an execution at once: its last event says why, its parent gets word, a task that runs is refused.
func TestTerminate(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	e.is(e.Terminate(e.ctx(), workflow.Instance{ID: "parent"}, "no"), workflow.ErrNotFound)
	parent := e.begin("parent")
	task := e.task(w)
	sub := starting("sub")
	e.step(task, child(task, sub, 7))
	running := e.task(w)
	if running.Parent == nil || running.Parent.String() != parent.String() || running.ParentEvent != 7 {
		t.Errorf("sub-workflow: %+v", running.Instance)
	}
	e.step(running, schedules(1, 2), timer(3, time.Hour))
	a := e.activity(w)
	e.ok(e.Signal(e.ctx(), "sub", event("S", 0)))
	running = e.task(w)
	told := e.await(e.other(), sub.Instance)
	e.ok(e.Terminate(e.ctx(), workflow.Instance{ID: "sub"}, "enough"))
	if got := <-told; got.err != nil || got.info.Outcome != workflow.Terminated || got.last.Type != workflow.EventTerminated || !strings.Contains(string(got.last.Data), "enough") {
		t.Errorf("told: %+v", got)
	}
	e.is(e.Terminate(e.ctx(), workflow.Instance{ID: "sub"}, "again"), workflow.ErrNotFound)
	e.is(e.Terminate(e.ctx(), sub.Instance, "again"), workflow.ErrNotFound)
	e.is(running.Complete(e.ctx(), checkpoint(running)), workflow.ErrLost)
	e.is(running.Extend(e.ctx()), workflow.ErrLost)
	e.is(a.Complete(e.ctx(), event("Done", 1)), workflow.ErrLost)
	task = e.task(w)
	if types(task.Events) != "SubWorkflowFailed/7" || !strings.Contains(string(task.Events[0].Data), "enough") {
		t.Errorf("the parent gets %+v", task.Events)
	}
	e.step(task, finished)
	if h := e.history(sub.Instance); h != "Started WorkflowExecutionTerminated" {
		t.Errorf("history: %s", h)
	}
	if got := e.info(sub.Instance); got.LastSequence != 2 {
		t.Errorf("document: %+v", got)
	}
	e.idle("q")

	waiting := e.begin("waiting") // its task was never taken
	e.ok(e.Terminate(e.ctx(), waiting, ""))
	e.none(w)
	e.idle("q")
}

// The same id under colons: executions of other instances are not meant.
func TestNamesWithColons(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	first := workflow.Instance{ID: "a:b", Execution: "c"}
	e.ok(e.Start(e.ctx(), starting("", func(s *workflow.Start) { s.Instance = first })))
	if err := e.Terminate(e.ctx(), workflow.Instance{ID: "a", Execution: "b:c"}, ""); err == nil {
		t.Error("another instance was terminated")
	}
	e.ok(e.Start(e.ctx(), starting("", func(s *workflow.Start) { s.Instance = workflow.Instance{ID: "a", Execution: "b"} })))
	for range 2 {
		e.step(e.task(w), schedules(1), timer(2, time.Hour))
	}
	for range 2 {
		e.ok(e.activity(w).Complete(e.ctx(), event("Done", 1)))
	}
	list, err := e.List(e.ctx(), workflow.Filter{})
	e.ok(err)
	if len(list) != 2 || list[1].Instance != first {
		t.Errorf("list: %+v", list)
	}
	for range 2 {
		e.step(e.task(w), finished)
	}
	e.ok(e.Remove(e.ctx(), first))
}
