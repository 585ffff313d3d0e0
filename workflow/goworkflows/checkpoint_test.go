package goworkflows

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/backend/payload"
	"github.com/cschleiden/go-workflows/core"
	gowf "github.com/cschleiden/go-workflows/workflow"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
)

var (
	parent   = core.NewWorkflowInstance("order-7", "e1")
	subChild = core.NewSubWorkflowInstance("order-7/pack", "e2", parent, 4)
)

// at makes an event that answers to ref.
func at(ref int64, t history.EventType, attributes any) *history.Event {
	return history.NewPendingEvent(noon, t, attributes, history.ScheduleEventID(ref))
}

func taskOf(i *core.WorkflowInstance) *backend.WorkflowTask {
	return &backend.WorkflowTask{ID: "t", Queue: "fast", WorkflowInstance: i}
}

func TestCheckpoint(t *testing.T) {
	b := on(nil, backend.ApplyOptions(backend.WithRemoveContinuedAsNewInstances()))
	fired := at(2, history.EventType_TimerFired, &history.TimerFiredAttributes{At: later})
	fired.VisibleAt = &later
	scheduled := at(1, history.EventType_ActivityScheduled, &history.ActivityScheduledAttributes{Name: "Print", Queue: "printers"})
	executed := []*history.Event{
		at(0, history.EventType_WorkflowTaskStarted, &history.WorkflowTaskStartedAttributes{}),
		scheduled,
		at(3, history.EventType_TimerCanceled, &history.TimerCanceledAttributes{}),
		at(5, history.EventType_TimerCanceled, &history.TimerCanceledAttributes{}),
	}
	cp, err := b.checkpoint(taskOf(parent), core.WorkflowInstanceStateActive, executed, []*history.Event{scheduled}, []*history.Event{fired}, nil)
	testenv.Must(t, err)
	wantExecuted, err := toEvents(executed)
	testenv.Must(t, err)
	wantFired, err := toEvent(fired)
	testenv.Must(t, err)
	want := workflow.Checkpoint{
		State: workflow.Active, Executed: wantExecuted, Activities: []workflow.Activity{{Queue: "printers", Event: wantExecuted[1]}}, Timers: []workflow.Event{wantFired},
		Canceled: []int64{3, 5}, RemoveContinued: true,
	}
	if diff := cmp.Diff(want, cp); diff != "" {
		t.Error(diff)
	}
}

func TestCheckpointStartsSubWorkflow(t *testing.T) {
	started := at(0, history.EventType_WorkflowExecutionStarted, &history.ExecutionStartedAttributes{Name: "Pack", Metadata: &gowf.Metadata{"a": "b"}})
	cancel := history.NewWorkflowCancellationEvent(noon)
	cp, err := on(nil, backend.ApplyOptions()).checkpoint(taskOf(parent), core.WorkflowInstanceStateActive, nil, nil, nil,
		[]*history.WorkflowEvent{{WorkflowInstance: subChild, HistoryEvent: started}, {WorkflowInstance: subChild, HistoryEvent: cancel}})
	testenv.Must(t, err)
	first, err := toEvent(started)
	testenv.Must(t, err)
	then, err := toEvent(cancel)
	testenv.Must(t, err)
	to := workflow.Instance{ID: "order-7/pack", Execution: "e2", Parent: &workflow.Instance{ID: "order-7", Execution: "e1"}, ParentEvent: 4}
	want := []workflow.Message{
		{To: to, Start: &workflow.Start{Instance: to, Queue: "fast", Name: "Pack", Metadata: []byte(`{"a":"b"}`), Event: first}},
		{To: to, Event: &then},
	}
	if diff := cmp.Diff(want, cp.Messages, cmpopts.IgnoreFields(workflow.Message{}, "Rejected")); diff != "" {
		t.Error(diff)
	}
	// What the parent gets if an instance of that ID is active.
	if cp.Messages[0].Rejected == nil {
		t.Fatal("a start that is refused is told to nobody")
	}
	rejected, err := fromEvent(*cp.Messages[0].Rejected)
	testenv.Must(t, err)
	a, ok := rejected.Attributes.(*history.SubWorkflowFailedAttributes)
	if !ok || a.Error.Message != backend.ErrInstanceAlreadyExists.Error() || rejected.ScheduleEventID != 4 {
		t.Errorf("the parent gets %+v %+v", rejected, a)
	}
}

// The continuation of an instance is in the queue of its predecessor, and nobody's refusal is told to the parent.
func TestCheckpointContinuesAsNew(t *testing.T) {
	for _, i := range []*core.WorkflowInstance{parent, subChild} {
		next := &core.WorkflowInstance{InstanceID: i.InstanceID, ExecutionID: "e9", Parent: i.Parent, ParentEventID: i.ParentEventID}
		cp, err := on(nil, backend.ApplyOptions()).checkpoint(taskOf(i), core.WorkflowInstanceStateContinuedAsNew, nil, nil, nil,
			[]*history.WorkflowEvent{{WorkflowInstance: next, HistoryEvent: at(0, history.EventType_WorkflowExecutionStarted, &history.ExecutionStartedAttributes{})}})
		testenv.Must(t, err)
		m := cp.Messages[0]
		if cp.State != workflow.ContinuedAsNew || cp.Outcome != "" || cp.RemoveContinued || m.Rejected != nil || m.Start.Queue != "fast" {
			t.Errorf("%+v, start %+v", cp, m.Start)
		}
	}
}

func TestOutcome(t *testing.T) {
	for want, errs := range map[workflow.Outcome][]error{
		workflow.Completed: {nil},
		workflow.Failed:    {errors.New("no"), fmt.Errorf("a: %w", errors.New("no")), gowf.NewPermanentError(errors.New("no"))},
		workflow.Canceled:  {gowf.Canceled, fmt.Errorf("packing: %w", gowf.Canceled)},
	} {
		for _, err := range errs {
			a := &history.ExecutionCompletedAttributes{Result: payload.Payload("null")}
			if err != nil {
				a.Error = recorded(err)
			}
			executed := []*history.Event{at(0, history.EventType_WorkflowTaskStarted, &history.WorkflowTaskStartedAttributes{}), at(0, history.EventType_WorkflowExecutionFinished, a)}
			if got := outcome(executed); got != want {
				t.Errorf("%v: %q, want %q", err, got, want)
			}
		}
	}
}

func TestCheckpointErrors(t *testing.T) {
	b := on(nil, backend.ApplyOptions())
	wrong := []*history.Event{at(1, history.EventType_ActivityScheduled, &history.TimerFiredAttributes{})}
	odd := []*history.Event{at(1, 99, nil)}
	for name, do := range map[string]func() (workflow.Checkpoint, error){
		"state":      func() (workflow.Checkpoint, error) { return b.checkpoint(taskOf(parent), 7, nil, nil, nil, nil) },
		"executed":   func() (workflow.Checkpoint, error) { return b.checkpoint(taskOf(parent), 0, odd, nil, nil, nil) },
		"timers":     func() (workflow.Checkpoint, error) { return b.checkpoint(taskOf(parent), 0, nil, nil, odd, nil) },
		"activities": func() (workflow.Checkpoint, error) { return b.checkpoint(taskOf(parent), 0, nil, wrong, nil, nil) },
		"messages": func() (workflow.Checkpoint, error) {
			return b.checkpoint(taskOf(parent), 0, nil, nil, nil, []*history.WorkflowEvent{{WorkflowInstance: subChild, HistoryEvent: at(0, history.EventType_WorkflowExecutionStarted, nil)}})
		},
	} {
		if cp, err := do(); err == nil {
			t.Errorf("%s: %+v", name, cp)
		}
	}
}
