package goworkflows

import (
	"encoding/json"
	"fmt"

	"github.com/cschleiden/go-workflows/backend/history"

	"github.com/taktworks/takt/workflow"
)

// Terminated are the attributes of an EventType_WorkflowExecutionTerminated, for which the library has none. Its client answers such an instance with client.ErrWorkflowTerminated.
type Terminated struct {
	Reason string `json:"reason,omitempty"`
}

// eventTypes are all types of the library, by the name that the core stores.
var eventTypes = func() map[string]history.EventType {
	types := map[string]history.EventType{}
	for t := history.EventType_WorkflowExecutionStarted; t <= history.EventType_TraceStarted; t++ {
		types[t.String()] = t
	}
	return types
}()

// toEvent translates an event of the library. Its attributes become Data in the library's own JSON.
func toEvent(e *history.Event) (workflow.Event, error) {
	name := e.Type.String()
	if eventTypes[name] != e.Type || e.Type == 0 {
		return workflow.Event{}, fmt.Errorf("goworkflows: event %s: type %d: is none of go-workflows v1.4", e.ID, e.Type)
	}
	data, err := history.SerializeAttributes(e.Attributes)
	if err != nil {
		return workflow.Event{}, fmt.Errorf("goworkflows: event %s: attributes of %s: %w", e.ID, name, err)
	}
	if string(data) == "{}" { // what fromEvent takes for nothing; every third event of a history is like that
		data = nil
	}
	return workflow.Event{
		ID:        e.ID,
		Type:      name,
		Sequence:  e.SequenceID,
		Ref:       e.ScheduleEventID,
		Time:      e.Timestamp,
		VisibleAt: e.VisibleAt,
		Data:      data,
	}, nil
}

// fromEvent is the way back. Data that is missing or null stands for attributes without a value, so that Attributes always has the type that the library expects of the event's type.
func fromEvent(e workflow.Event) (*history.Event, error) {
	t, ok := eventTypes[e.Type]
	if !ok {
		return nil, fmt.Errorf("goworkflows: event %s: type %q: is none of go-workflows v1.4", e.ID, e.Type)
	}
	attributes, err := fromData(t, e.Data)
	if err != nil {
		return nil, fmt.Errorf("goworkflows: event %s: data of %s: %w", e.ID, e.Type, err)
	}
	return &history.Event{
		ID:              e.ID,
		SequenceID:      e.Sequence,
		Type:            t,
		Timestamp:       e.Time,
		ScheduleEventID: e.Ref,
		Attributes:      attributes,
		VisibleAt:       e.VisibleAt,
	}, nil
}

func fromData(t history.EventType, data json.RawMessage) (any, error) {
	if t == history.EventType_WorkflowExecutionTerminated {
		a := &Terminated{}
		if json.Unmarshal(data, a) != nil {
			return &Terminated{}, nil // that it was terminated counts, whoever wrote the reason
		}
		return a, nil
	}
	if len(data) == 0 {
		data = json.RawMessage("{}")
	}
	if read, ok := failures[t]; ok {
		return read(data)
	}
	attributes, err := history.DeserializeAttributes(t, data)
	if err == nil && attributes == nil { // of null
		return history.DeserializeAttributes(t, json.RawMessage("{}"))
	}
	return attributes, err
}

func toEvents(events []*history.Event) ([]workflow.Event, error) {
	out := make([]workflow.Event, len(events))
	for i, e := range events {
		var err error
		if out[i], err = toEvent(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func fromEvents(events []workflow.Event) ([]*history.Event, error) {
	out := make([]*history.Event, len(events))
	for i, e := range events {
		var err error
		if out[i], err = fromEvent(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}
