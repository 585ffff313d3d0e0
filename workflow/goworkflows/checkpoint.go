package goworkflows

import (
	"errors"
	"fmt"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/core"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/workflow"
)

// checkpoint translates what came of a workflow task.
func (b *Backend) checkpoint(
	task *backend.WorkflowTask, state core.WorkflowInstanceState,
	executed, activities, timers []*history.Event, messages []*history.WorkflowEvent,
) (cp workflow.Checkpoint, err error) {
	cp.RemoveContinued = b.options.RemoveContinuedAsNewInstances
	if cp.State, err = toState(state); err != nil {
		return cp, err
	}
	if cp.Executed, err = toEvents(executed); err != nil {
		return cp, err
	}
	if cp.Timers, err = toEvents(timers); err != nil {
		return cp, err
	}
	for _, e := range executed {
		if e.Type == history.EventType_TimerCanceled {
			cp.Canceled = append(cp.Canceled, e.ScheduleEventID)
		}
	}
	if cp.State == workflow.Finished {
		cp.Outcome = outcome(executed)
	}
	for _, e := range activities {
		a, err := activity(e)
		if err != nil {
			return cp, err
		}
		cp.Activities = append(cp.Activities, a)
	}
	for _, m := range messages {
		msg, err := message(task, m)
		if err != nil {
			return cp, err
		}
		cp.Messages = append(cp.Messages, msg)
	}
	return cp, nil
}

// outcome is how an execution with these last events ended.
func outcome(executed []*history.Event) workflow.Outcome {
	for _, e := range executed {
		a, ok := e.Attributes.(*history.ExecutionCompletedAttributes)
		if !ok || a.Error == nil {
			continue
		}
		if canceled(a.Error) {
			return workflow.Canceled
		}
		return workflow.Failed
	}
	return workflow.Completed
}

// canceled reports that e is or wraps gowf.Canceled. Recorded errors keep only type and text, and that one's type is the empty one.
func canceled(e *gowf.Error) bool {
	for e != nil {
		if e.Type == "" && e.Message == gowf.Canceled.Error() {
			return true
		}
		var cause *gowf.Error
		errors.As(e.Cause, &cause)
		e = cause
	}
	return false
}

func activity(event *history.Event) (workflow.Activity, error) {
	a, ok := event.Attributes.(*history.ActivityScheduledAttributes)
	if !ok {
		return workflow.Activity{}, fmt.Errorf("goworkflows: activity %s: attributes are %T, must be *history.ActivityScheduledAttributes", event.ID, event.Attributes)
	}
	e, err := toEvent(event)
	return workflow.Activity{Queue: string(a.Queue), Event: e}, err
}

// message is what task's execution does to another instance, or to its own by continuing as new.
func message(task *backend.WorkflowTask, m *history.WorkflowEvent) (workflow.Message, error) {
	msg := workflow.Message{To: toInstance(m.WorkflowInstance)}
	if m.HistoryEvent.Type != history.EventType_WorkflowExecutionStarted {
		e, err := toEvent(m.HistoryEvent)
		msg.Event = &e
		return msg, err
	}
	var err error
	if msg.Start, err = start(m.WorkflowInstance, m.HistoryEvent, task.Queue); err != nil {
		return msg, err
	}
	if !isParent(task.WorkflowInstance, m.WorkflowInstance) { // it continues as new, and stays what it was started as
		if h, err := held(task); err == nil {
			msg.Start.Gate, msg.Start.Attributes = h.task.Gate, h.task.Attributes
		}
		return msg, nil
	}
	exists, err := toEvent(history.NewPendingEvent(time.Now(), history.EventType_SubWorkflowFailed,
		&history.SubWorkflowFailedAttributes{Error: recorded(backend.ErrInstanceAlreadyExists)},
		history.ScheduleEventID(m.WorkflowInstance.ParentEventID)))
	msg.Rejected = &exists
	return msg, err
}

func isParent(i, child *core.WorkflowInstance) bool {
	return child.Parent != nil && child.Parent.InstanceID == i.InstanceID && child.Parent.ExecutionID == i.ExecutionID
}
