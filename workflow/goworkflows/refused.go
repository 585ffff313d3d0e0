package goworkflows

import (
	"errors"
	"slices"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/core"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/workflow"
)

// refused reports that the core cannot record something, however often it is tried: an event is too large, or a name cannot be part of a key. The code that made it must hear of it,
// for otherwise it would be run again and again, to the same end.
func refused(err error) bool {
	if err == nil {
		return false
	}
	var event *workflow.EventError
	var name *workflow.NameError
	return errors.As(err, &event) || errors.As(err, &name)
}

// failedActivity is the result of an activity instead of one that is refused. No other attempt would end otherwise.
func failedActivity(result *history.Event, err error) (workflow.Event, error) {
	return toEvent(history.NewPendingEvent(time.Now(), history.EventType_ActivityFailed,
		&history.ActivityFailedAttributes{Error: recorded(gowf.NewPermanentError(err))}, history.ScheduleEventID(result.ScheduleEventID)))
}

// failedExecution is what is recorded of a workflow task instead of what is refused: that its events came, and that the workflow failed of them.
func (b *Backend) failedExecution(task *backend.WorkflowTask, executed []*history.Event, err error) (workflow.Checkpoint, error) {
	came := executed
	for n, e := range executed {
		if e.Type != history.EventType_WorkflowTaskStarted && !slices.Contains(task.NewEvents, e) { // from here on it is what the workflow did
			came = executed[:n]
			break
		}
	}
	last := task.LastSequenceID
	if n := len(came); n > 0 {
		last = came[n-1].SequenceID
	}
	now, failure := time.Now(), recorded(gowf.NewPermanentError(err))
	end := history.NewHistoryEvent(last+1, now, history.EventType_WorkflowExecutionFinished, &history.ExecutionCompletedAttributes{Error: failure})
	var tell []*history.WorkflowEvent
	if i := task.WorkflowInstance; i.SubWorkflow() {
		tell = []*history.WorkflowEvent{{WorkflowInstance: i.Parent, HistoryEvent: history.NewPendingEvent(now, history.EventType_SubWorkflowFailed,
			&history.SubWorkflowFailedAttributes{Error: failure}, history.ScheduleEventID(i.ParentEventID))}}
	}
	return b.checkpoint(task, core.WorkflowInstanceStateFinished, append(slices.Clone(came), end), nil, nil, tell)
}
