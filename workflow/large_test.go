package workflow_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/taktworks/takt/workflow"
)

// largest gives the largest event of a type that do accepts.
func (e *env) largest(typ string, do func(workflow.Event) error) {
	e.t.Helper()
	for n := e.opts.MaxEvent; n > 0; n-- {
		ev := event(typ, 0)
		ev.Data = []byte(`"` + strings.Repeat("x", n) + `"`)
		var refused *workflow.EventError
		if err := do(ev); err == nil {
			return
		} else if !errors.As(err, &refused) {
			e.t.Fatal(err)
		}
	}
	e.t.Fatalf("%s: none is accepted", typ)
}

// What was accepted once is recorded, though it is larger in the history by its number.
func TestLargestEvents(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *workflow.Options) { o.MaxEvent = 1000 })
	w, _ := e.worker(workflow.WorkerOptions{})
	s := starting("a")
	e.largest("Started", func(ev workflow.Event) error { s.Event = ev; return e.Start(e.ctx(), s) })
	e.largest("S", func(ev workflow.Event) error { return e.Signal(e.ctx(), "a", ev) })
	e.largest("C", func(ev workflow.Event) error { return e.Cancel(e.ctx(), s.Instance, ev) })
	e.step(e.last(w, "Started S C"), schedules(1))
	a := e.activity(w)
	e.largest("Done", func(ev workflow.Event) error { ev.Ref = 1; return a.Complete(e.ctx(), ev) })
	task := e.task(w)
	cp := checkpoint(task)
	made := event("Made", 0)
	made.Sequence, made.Data = task.LastSequence+2, []byte(`"`+strings.Repeat("x", 1000)+`"`)
	cp.Executed = append(cp.Executed, made)
	var refused *workflow.EventError
	if err := task.Complete(e.ctx(), cp); !errors.As(err, &refused) || refused.Field != "Checkpoint.Executed[1]" {
		t.Errorf("an event that did not come with the task: %v", err)
	}
	e.step(task, finished)
	if h := e.history(s.Instance); h != "Started S C Done/1" {
		t.Errorf("history %s", h)
	}
}
