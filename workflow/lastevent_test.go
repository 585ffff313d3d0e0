package workflow_test

import (
	"testing"

	"github.com/taktworks/takt/workflow"
)

// Who keeps what an execution did knows by the ID of its last event whether that is still what is recorded.
func TestLastEvent(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	a, b := e.begin("a"), e.begin("b")
	last := map[string]string{}
	for range 2 {
		task := e.task(w)
		if task.LastEvent != "" {
			t.Errorf("%s: %q before its first task", task.ID, task.LastEvent)
		}
		last[task.ID] = task.Events[0].ID
		e.step(task)
	}
	e.ok(e.Signal(e.ctx(), "a", event("S", 0)))
	task := e.task(w)
	if task.LastEvent != last["a"] || e.info(b).LastEvent != last["b"] {
		t.Errorf("%q and %q, want %q", task.LastEvent, e.info(b).LastEvent, last)
	}
	e.step(task, finished)
	e.ok(e.Terminate(e.ctx(), b, ""))
	for _, i := range []workflow.Instance{a, b} {
		if info := e.info(i); info.LastEvent != "" {
			t.Errorf("%s has ended, and its last event is %q", i, info.LastEvent)
		}
	}
}
