package goworkflows

import (
	"time"

	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/backend/payload"
	"github.com/cschleiden/go-workflows/core"
	gowf "github.com/cschleiden/go-workflows/workflow"
	"pgregory.net/rapid"
)

func drawEvent(t *rapid.T) *history.Event {
	e := &history.Event{
		ID:              rapid.String().Draw(t, "id"),
		SequenceID:      rapid.Int64().Draw(t, "sequence"),
		Type:            rapid.SampledFrom(samples()).Draw(t, "type").Type,
		Timestamp:       drawTime(t),
		ScheduleEventID: rapid.Int64().Draw(t, "ref"),
	}
	e.Attributes = drawAttributes(t, e.Type)
	if rapid.Bool().Draw(t, "has visible at") {
		at := drawTime(t)
		e.VisibleAt = &at
	}
	return e
}

func drawAttributes(t *rapid.T, of history.EventType) any {
	switch of {
	case history.EventType_WorkflowExecutionStarted:
		return &history.ExecutionStartedAttributes{Queue: drawQueue(t), Name: drawText(t), Metadata: drawMetadata(t), Inputs: drawPayloads(t), WorkflowSpanID: drawSpan(t)}
	case history.EventType_WorkflowExecutionFinished:
		return &history.ExecutionCompletedAttributes{Result: drawPayload(t), Error: drawError(t)}
	case history.EventType_WorkflowExecutionContinuedAsNew:
		return &history.ExecutionContinuedAsNewAttributes{Result: drawPayload(t), ContinuedExecutionID: drawText(t)}
	case history.EventType_WorkflowExecutionTerminated:
		return &Terminated{Reason: drawText(t)}
	case history.EventType_SubWorkflowScheduled:
		return &history.SubWorkflowScheduledAttributes{
			SubWorkflowQueue: drawQueue(t), SubWorkflowInstance: drawInstance(t), Name: drawText(t), Inputs: drawPayloads(t), Metadata: drawMetadata(t), WorkflowSpanID: drawSpan(t),
		}
	case history.EventType_SubWorkflowCancellationRequested:
		return &history.SubWorkflowCancellationRequestedAttributes{SubWorkflowInstance: drawInstance(t)}
	case history.EventType_SubWorkflowCompleted:
		return &history.SubWorkflowCompletedAttributes{Result: drawPayload(t)}
	case history.EventType_SubWorkflowFailed:
		return &history.SubWorkflowFailedAttributes{Error: drawError(t)}
	case history.EventType_ActivityScheduled:
		return &history.ActivityScheduledAttributes{Name: drawText(t), Attempt: rapid.Int().Draw(t, "attempt"), Inputs: drawPayloads(t), Metadata: drawMetadata(t), Queue: drawQueue(t)}
	case history.EventType_ActivityCompleted:
		return &history.ActivityCompletedAttributes{Result: drawPayload(t)}
	case history.EventType_ActivityFailed:
		return &history.ActivityFailedAttributes{Error: drawError(t)}
	case history.EventType_TimerScheduled:
		return &history.TimerScheduledAttributes{At: drawTime(t), Name: drawText(t)}
	case history.EventType_TimerFired:
		return &history.TimerFiredAttributes{ScheduledAt: drawTime(t), At: drawTime(t), Name: drawText(t), TraceContext: map[string]string(*drawMetadata(t))}
	case history.EventType_SignalReceived:
		return &history.SignalReceivedAttributes{Name: drawText(t), Arg: drawPayload(t)}
	case history.EventType_SideEffectResult:
		return &history.SideEffectResultAttributes{Result: drawPayload(t)}
	case history.EventType_TraceStarted:
		return &history.TraceStartedAttributes{SpanID: drawPayload(t)}
	}
	for _, e := range samples() { // of those that are left, none has a field
		if e.Type == of {
			return e.Attributes
		}
	}
	panic("no such type")
}

func drawText(t *rapid.T) string      { return rapid.String().Draw(t, "text") }
func drawQueue(t *rapid.T) core.Queue { return core.Queue(drawText(t)) }
func drawPayload(t *rapid.T) payload.Payload {
	return payload.Payload(rapid.SliceOf(rapid.Byte()).Draw(t, "payload"))
}

func drawPayloads(t *rapid.T) []payload.Payload {
	return rapid.SliceOfN(rapid.Custom(drawPayload), 0, 3).Draw(t, "payloads")
}

func drawSpan(t *rapid.T) [8]byte {
	return [8]byte(rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "span"))
}

func drawMetadata(t *rapid.T) *gowf.Metadata {
	m := gowf.Metadata(rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, "metadata"))
	return &m
}

func drawTime(t *rapid.T) time.Time {
	return time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).UTC()
}

func drawError(t *rapid.T) *gowf.Error {
	if rapid.Bool().Draw(t, "no error") {
		return nil
	}
	e := &gowf.Error{Type: drawText(t), Message: drawText(t), Permanent: rapid.Bool().Draw(t, "permanent"), Stacktrace: drawText(t)}
	if cause := drawError(t); cause != nil {
		e.Cause = cause
	}
	return e
}

func drawInstance(t *rapid.T) *core.WorkflowInstance {
	i := core.NewWorkflowInstance(drawText(t), drawText(t))
	if rapid.Bool().Draw(t, "is a child") {
		i.Parent, i.ParentEventID = drawInstance(t), rapid.Int64().Draw(t, "parent event")
	}
	return i
}
