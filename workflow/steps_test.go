package workflow_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/taktworks/takt/workflow"
)

var ids atomic.Int64

// event is a new one.
func event(typ string, ref int64) workflow.Event {
	return workflow.Event{ID: fmt.Sprint("event-", ids.Add(1)), Type: typ, Ref: ref, Time: time.Now()}
}

// begin starts an instance.
func (e *env) begin(id string, change ...func(*workflow.Start)) workflow.Instance {
	e.t.Helper()
	s := starting(id, change...)
	e.ok(e.Start(e.ctx(), s))
	return s.Instance
}

func starting(id string, change ...func(*workflow.Start)) workflow.Start {
	s := workflow.Start{Instance: workflow.Instance{ID: id, Execution: fmt.Sprint("x", ids.Add(1))}, Queue: "q", Name: "flow", Event: event("Started", 0)}
	for _, f := range change {
		f(&s)
	}
	return s
}

// executed is the events of a task as its history.
func executed(t *workflow.WorkflowTask, more ...workflow.Event) []workflow.Event {
	out := append(append([]workflow.Event{}, t.Events...), more...)
	for i := range out {
		out[i].Sequence = t.LastSequence + int64(i) + 1
	}
	return out
}

// step completes a task with its events and what else is given.
func (e *env) step(t *workflow.WorkflowTask, change ...func(*workflow.Checkpoint)) {
	e.t.Helper()
	e.ok(t.Complete(e.ctx(), checkpoint(t, change...)))
}

// last takes the tasks of one instance until all these events have come in their order. What comes before the last task goes on as it is; that one is the caller's.
func (e *env) last(w *workflow.Worker, want string, queues ...string) *workflow.WorkflowTask {
	e.t.Helper()
	for got := ""; ; {
		task := e.task(w, queues...)
		switch got = strings.TrimSpace(got + " " + types(task.Events)); {
		case got == want:
			return task
		case !strings.HasPrefix(want, got+" "):
			e.t.Fatalf("events of %s: %s, want %s", task.Instance, got, want)
		}
		e.step(task)
	}
}

func checkpoint(t *workflow.WorkflowTask, change ...func(*workflow.Checkpoint)) workflow.Checkpoint {
	cp := workflow.Checkpoint{State: workflow.Active, Executed: executed(t)}
	for _, f := range change {
		f(&cp)
	}
	return cp
}

func finished(cp *workflow.Checkpoint) {
	cp.State, cp.Outcome = workflow.Finished, workflow.Completed
}

// continued lets the execution go on as another, which it returns.
func continued(t *workflow.WorkflowTask, change ...func(*workflow.Start)) (workflow.Start, func(*workflow.Checkpoint)) {
	s := starting(t.ID, change...)
	s.Instance.Parent, s.Instance.ParentEvent = t.Parent, t.ParentEvent
	return s, func(cp *workflow.Checkpoint) {
		cp.State = workflow.ContinuedAsNew
		cp.Messages = append(cp.Messages, workflow.Message{To: s.Instance, Start: &s})
	}
}

// tells sends an event to another instance.
func tells(to workflow.Instance, e workflow.Event) func(*workflow.Checkpoint) {
	return func(cp *workflow.Checkpoint) {
		cp.Messages = append(cp.Messages, workflow.Message{To: to, Event: &e})
	}
}

// child starts another instance.
func child(t *workflow.WorkflowTask, s workflow.Start, ref int64) func(*workflow.Checkpoint) {
	parent := t.Instance
	s.Instance.Parent, s.Instance.ParentEvent = &parent, ref
	rejected := event(workflow.EventSubFailed, ref)
	return func(cp *workflow.Checkpoint) {
		cp.Messages = append(cp.Messages, workflow.Message{To: s.Instance, Start: &s, Rejected: &rejected})
	}
}

func schedules(refs ...int64) func(*workflow.Checkpoint) {
	return func(cp *workflow.Checkpoint) {
		for _, r := range refs {
			cp.Activities = append(cp.Activities, workflow.Activity{Event: event("ActivityScheduled", r)})
		}
	}
}

func timer(ref int64, in time.Duration) func(*workflow.Checkpoint) {
	return func(cp *workflow.Checkpoint) {
		at := time.Now().Add(in)
		e := event(workflow.EventTimerFired, ref)
		e.VisibleAt = &at
		cp.Timers = append(cp.Timers, e)
	}
}

// types are those of events, in a line.
func types(events []workflow.Event) string {
	var out []string
	for _, e := range events {
		s := e.Type
		if e.Ref != 0 {
			s += fmt.Sprint("/", e.Ref)
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}
