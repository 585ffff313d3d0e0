package workflow_test

import (
	"fmt"
	"slices"

	"github.com/taktworks/takt/workflow"
)

// flow is an execution as the model has it.
type flow struct {
	i       workflow.Instance
	pending []modelEvent   // that its code has not seen, but timers
	history []string       // what its code has seen, but timers
	open    map[int64]bool // activities, and whether somebody has them
	timers  map[int64]bool // that may fire
	held    bool           // somebody has its task
	end     workflow.Outcome
	state   workflow.State
}

type modelEvent struct {
	name  string
	carry bool // over a continuation
}

// world is all executions, by the plainest of rules.
type world struct {
	active map[string]*flow
	all    []*flow
	paused map[string]bool
	refs   int64
}

// nameOf is how the model calls an event.
func nameOf(e workflow.Event) string {
	if e.Type == workflow.EventSubFailed {
		return fmt.Sprint(e.Type, e.Ref)
	}
	return e.Type
}

func (m *world) start(i workflow.Instance, carried ...modelEvent) {
	f := &flow{i: i, open: map[int64]bool{}, timers: map[int64]bool{}, state: workflow.Active, pending: append([]modelEvent{{name: "Started"}}, carried...)}
	m.active[i.ID] = f
	m.all = append(m.all, f)
}

func (m *world) end(f *flow, state workflow.State, outcome workflow.Outcome) {
	f.state, f.end = state, outcome
	f.open, f.timers = nil, nil
	delete(m.active, f.i.ID)
	if state == workflow.Finished {
		delete(m.paused, f.i.ID)
	}
}

// tell gives an event to one execution, if it is active.
func (m *world) tell(to workflow.Instance, e modelEvent) bool {
	f := m.active[to.ID]
	if f == nil || to.Execution != "" && f.i.Execution != to.Execution {
		return false
	}
	f.pending = append(f.pending, e)
	return true
}

// runnable says whether somebody who asks for a task must get one.
func (m *world) runnable() bool {
	for id, f := range m.active {
		if len(f.pending) > 0 && !f.held && !m.paused[id] {
			return true
		}
	}
	return false
}

func (m *world) waiting() bool {
	for _, f := range m.active {
		for _, held := range f.open {
			if !held {
				return true
			}
		}
	}
	return false
}

func (m *world) flow(i workflow.Instance) *flow {
	at := slices.IndexFunc(m.all, func(f *flow) bool { return f.i.String() == i.String() })
	if at < 0 {
		return nil
	}
	return m.all[at]
}
