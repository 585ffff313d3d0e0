package goworkflows

import (
	"encoding/json"
	"fmt"

	"github.com/cschleiden/go-workflows/core"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/workflow"
)

func toInstance(i *core.WorkflowInstance) workflow.Instance {
	out := workflow.Instance{ID: i.InstanceID, Execution: i.ExecutionID, ParentEvent: i.ParentEventID}
	if i.Parent != nil {
		parent := toInstance(i.Parent)
		out.Parent = &parent
	}
	return out
}

func fromInstance(i workflow.Instance) *core.WorkflowInstance {
	out := &core.WorkflowInstance{InstanceID: i.ID, ExecutionID: i.Execution, ParentEventID: i.ParentEvent}
	if i.Parent != nil {
		out.Parent = fromInstance(*i.Parent)
	}
	return out
}

// states by those of the core. One that is missing here is none.
var states = map[workflow.State]core.WorkflowInstanceState{
	workflow.Active:         core.WorkflowInstanceStateActive,
	workflow.ContinuedAsNew: core.WorkflowInstanceStateContinuedAsNew,
	workflow.Finished:       core.WorkflowInstanceStateFinished,
}

func fromState(s workflow.State) (core.WorkflowInstanceState, error) {
	state, ok := states[s]
	if !ok {
		return 0, fmt.Errorf("goworkflows: state %q: must be active, continued_as_new or finished", s)
	}
	return state, nil
}

func toState(s core.WorkflowInstanceState) (workflow.State, error) {
	for state, is := range states {
		if is == s {
			return state, nil
		}
	}
	return "", fmt.Errorf("goworkflows: state %d: must be 0, 1 or 2", s)
}

func toMetadata(m *gowf.Metadata) (json.RawMessage, error) {
	if m == nil {
		return nil, nil
	}
	return json.Marshal(m)
}

// fromMetadata never returns nil: the library's propagators look into it without asking.
func fromMetadata(data json.RawMessage) (*gowf.Metadata, error) {
	m := gowf.Metadata{}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &m); err != nil {
			return nil, fmt.Errorf("goworkflows: metadata %q: %w", data, err)
		}
	}
	if m == nil { // of null
		m = gowf.Metadata{}
	}
	return &m, nil
}
