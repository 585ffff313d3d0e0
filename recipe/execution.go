package recipe

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Execution is the document sfc:execution:{job}: one run of one recipe for one job order
// (spec B.1). The members down to Error are the page's and are written first, in its
// order, nulls included; the others are Takt's own, which other readers ignore.
//
// All times but BegunAt are installation time, in milliseconds; 0 is written as null and
// means "not set". Installation time is the wall clock less the time in which no process could
// take answers and less the steps of the clock. A value is never shared between goroutines while it is changed: the decisions and
// the methods of this file work on clones.
type Execution struct {
	JobID         string
	Scope         string
	WorkMasterID  string
	CurrentStep   string // a step, or the branch while inside one
	CorrelationID string // UUID; namespace of the command ids
	ActiveSteps   []string
	Actions       []ActionEntry // in the order of the recipe
	Completed     bool
	Failed        bool
	Error         string // why Failed; "" is null

	Recipe    string // SHA-256 of the recipe text that runs
	StartedAt int64
	BegunAt   int64 // StartedAt by the wall clock; 0: StartedAt is by the wall clock
	EndedAt   int64 // when Completed or Failed was set
	Paused    bool
	PausedAt  int64
	Stopped   bool        // Completed by Stop, with results in part
	WakeAt    int64       // when conditions over step.t are looked at again
	Steps     []StepEntry // steps and branches entered so far, in the order of first entry

	Cancels []CancelEntry // the latest, in the order in which they were decided

	Other []Kept // members of a newer version
}

// Kept is a member of a document that this version does not know, as it is stored.
type Kept struct {
	Name  string
	Value json.RawMessage
}

// ActionState is where an action of an execution stands.
type ActionState string

// The states of an action (spec B.1).
const (
	ActionPending    ActionState = "pending"
	ActionDispatched ActionState = "dispatched" // command committed to the outbox, unanswered
	ActionWaiting    ActionState = "waiting"    // event not yet arrived
	ActionCompleted  ActionState = "completed"
	ActionFailed     ActionState = "failed"
)

// ActionEntry is one action of an execution. Attempt counts the commands sent for it in
// this execution and never goes back; Iteration counts the entries of its step;
// FirstAttempt is the first Attempt of this Iteration.
type ActionEntry struct {
	Name      string
	State     ActionState
	TypeID    string
	CommandID string // command_ce_id of the latest attempt; "" is null
	Attempt   int
	Result    json.RawMessage // payload of the answer or event; nil is null
	Error     string          // of the latest attempt; "" is null
	// Parameters of the command in flight, when those of the recipe have references; else nil.
	Parameters json.RawMessage

	Iteration    int
	FirstAttempt int
	DispatchedAt int64 // or since when it waits
	Deadline     int64
	ResendAt     int64 // when the command is sent again under the same id
	Left         int64 // what was left of Deadline, in ms, when the job was paused
	SentAt       int64 // when the command was last sent again; 0: not since DispatchedAt
	LastCall     bool  // the command was sent once more at its deadline, which was put off for that

	Cancel Cancel // of the recipe, while the action is dispatched; zero: there is none

	Other []Kept // members of a newer version, until the action starts anew
}

// StepEntry is Takt's record of one step or branch.
type StepEntry struct {
	Name      string
	Since     int64 // last activation: zero of step.t; for a branch that is done, since then
	Iteration int   // entries so far
	// Choosing: a selection branch that found no path with a true condition yet.
	Choosing bool
}

// Terminal tells whether the run is over; nothing changes a terminal execution.
func (x *Execution) Terminal() bool { return x.Completed || x.Failed }

// Phase is the run as a whole: PhaseRunning (also while Paused), PhaseCompleted, PhaseFailed.
func (x *Execution) Phase() Phase {
	switch {
	case x.Failed:
		return PhaseFailed
	case x.Completed:
		return PhaseCompleted
	}
	return PhaseRunning
}

// Action returns the entry named name, nil if there is none. It points into x.
func (x *Execution) Action(name string) *ActionEntry {
	for i := range x.Actions {
		if x.Actions[i].Name == name {
			return &x.Actions[i]
		}
	}
	return nil
}

// Awaits tells whether c is still to be sent: its action is dispatched under its id, and
// the run is neither over nor paused. An outbox asks just before it sends; after
// Resume, commands held back are due to be sent again anyway.
func (x *Execution) Awaits(c Command) bool {
	a := x.Action(c.Action)
	return a != nil && a.State == ActionDispatched && a.CommandID == c.ID && !x.Terminal() && !x.Paused
}

// LastCalled is x once the broker has c, the last call of an action that is unanswered: its answer
// has c.LastCall from now on.
func (x *Execution) LastCalled(c Command, now time.Time) *Execution {
	changed := x.Clone()
	a := changed.Action(c.Action)
	a.Deadline, a.ResendAt = now.Add(c.LastCall).UnixMilli(), 0
	return changed
}

// Due returns when the next timer of x runs out: a time-out, a command to send again, or
// a look at conditions over step.t. Zero: none, which is so for ever when x is terminal,
// and until Resume when it is paused.
func (x *Execution) Due() time.Time {
	if x.Terminal() || x.Paused {
		return time.Time{}
	}
	due := x.WakeAt
	sooner := func(ms int64) {
		if ms != 0 && (due == 0 || ms < due) {
			due = ms
		}
	}
	for i := range x.Actions {
		sooner(x.Actions[i].Deadline)
		sooner(x.Actions[i].ResendAt)
	}
	if due == 0 {
		return time.Time{}
	}
	return time.UnixMilli(due).UTC()
}

// WaitingTypes lists the event types that x waits for, in the order of its actions, each
// once: the mailboxes in which x may stand as Waiting.
func (x *Execution) WaitingTypes() []string {
	var types []string
	for i := range x.Actions {
		if a := &x.Actions[i]; a.State == ActionWaiting && !slices.Contains(types, a.TypeID) {
			types = append(types, a.TypeID)
		}
	}
	return types
}

// Clone copies x so that changing one leaves the other alone. Results are shared: their
// bytes are never written to.
func (x *Execution) Clone() *Execution {
	c := *x
	c.ActiveSteps = append([]string(nil), x.ActiveSteps...)
	c.Actions = append([]ActionEntry(nil), x.Actions...)
	c.Steps = append([]StepEntry(nil), x.Steps...)
	return &c
}

// Result is one value for the job response: ID is "{action}.{member}" for a member of an
// object result, "{action}" for any other result.
type Result struct {
	ID    string
	Value json.RawMessage
}

// ActionError is why equipment refused or failed.
type ActionError struct {
	Kind    string
	Message string
}

// text is the error in at most 1000 bytes of UTF-8, for documents.
func (e *ActionError) text() string {
	s := e.Kind
	if e.Message != "" {
		s = strings.TrimPrefix(s+": "+e.Message, ": ")
	}
	return strings.ToValidUTF8(s[:min(len(s), 1000)], "")
}
