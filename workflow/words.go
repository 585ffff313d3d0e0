package workflow

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// State is where an execution stands. The zero value is none of them.
type State string

const (
	Active         State = "active"
	ContinuedAsNew State = "continued_as_new" // ended, and another execution of the same instance took over
	Finished       State = "finished"
)

// Ended says that nothing more happens to an execution in that state.
func (s State) Ended() bool { return s == ContinuedAsNew || s == Finished }

// Outcome is how a finished execution ended; "" for one that has not.
type Outcome string

const (
	Completed  Outcome = "completed"
	Failed     Outcome = "failed"
	Canceled   Outcome = "canceled"
	Terminated Outcome = "terminated" // by Terminate: its code had no say in it
)

// Types of events that Takt itself makes or looks at. Those of an authoring library are its own, and opaque here.
const (
	EventTerminated  = "WorkflowExecutionTerminated" // last in the history of an instance that was terminated; Data {"reason": text}
	EventCanceled    = "WorkflowExecutionCanceled"   // asks an instance to end; Data {}
	EventSignal      = "SignalReceived"              // Data SignalData
	EventSubFailed   = "SubWorkflowFailed"           // Data {"error": {"type", "message"}}; what a parent gets of a child that was terminated
	EventTimerFired  = "TimerFired"
	EventActivityErr = "ActivityFailed" // Data {"error": {"type", "message"}}; what an instance gets of an activity that kills its workers
)

// SignalData is the Data of an EventSignal.
type SignalData struct {
	Name string `json:"name,omitempty"`
	Arg  []byte `json:"arg,omitempty"` // JSON, for programs with the usual converter
}

// SignalEvent is a signal of that name now, for Client.Signal. Its id is its identity: see Event. arg is what comes with it, in JSON.
func SignalEvent(id, name string, arg []byte) Event {
	data, _ := json.Marshal(SignalData{Name: name, Arg: arg}) // text and bytes always can
	return Event{ID: id, Type: EventSignal, Time: time.Now(), Data: data}
}

// CancelEvent asks an instance to end, now, for Client.Cancel.
func CancelEvent(id string) Event {
	return Event{ID: id, Type: EventCanceled, Time: time.Now(), Data: json.RawMessage("{}")}
}

// Instance names one execution of a workflow, and those it was started by. Two are the same execution if ID and Execution are the same.
type Instance struct {
	ID          string    `json:"id"`                     // chosen by who starts it; active once at a time. 1 to 128 bytes
	Execution   string    `json:"execution"`              // new for each start and each continuation; 1 to 64 bytes without colon. "" where the active one is meant
	Parent      *Instance `json:"parent,omitempty"`       // nil = was not started by another
	ParentEvent int64     `json:"parent_event,omitempty"` // Ref of the parent's event that started it
}

func (i Instance) String() string { return i.ID + ":" + i.Execution }

// ParseInstance reads what String writes. A text without colon is an ID alone.
func ParseInstance(text string) Instance {
	at := strings.LastIndexByte(text, ':')
	if at < 0 {
		return Instance{ID: text}
	}
	return Instance{ID: text[:at], Execution: text[at+1:]}
}

// Info is the document of one execution, as it is stored, in JSON.
type Info struct {
	Instance
	Queue        string            `json:"queue"`
	Name         string            `json:"name,omitempty"` // of the workflow; "" = who started it did not say
	State        State             `json:"state"`
	Outcome      Outcome           `json:"outcome,omitempty"`
	Created      time.Time         `json:"created"`
	Ended        *time.Time        `json:"ended,omitempty"`
	LastSequence int64             `json:"last_sequence"`        // of its history; 0 = it is empty
	LastEvent    string            `json:"last_event,omitempty"` // ID of the event with that number while it is active; another one after a loss of data
	Attributes   map[string]string `json:"attributes,omitempty"`
	Metadata     json.RawMessage   `json:"metadata,omitempty"` // of the authoring library
	Gate         *Gate             `json:"gate,omitempty"`     // nil = no limit
}

// Gate is a limit of how many instances with the same Key are active at once; others wait, in the order they came, before their first task. An execution that
// continues as new with the same Key keeps its place; with another, or none, it leaves it.
type Gate struct {
	Key string `json:"key"` // 1 to 128 bytes
	Max int    `json:"max"` // 1 or more; that of the newest instance counts
}

// Event is one event of an instance. What Data holds depends on Type and is the authoring library's.
type Event struct {
	ID        string          `json:"id"`            // unique: the same event is delivered once
	Type      string          `json:"type"`          //
	Sequence  int64           `json:"seq,omitempty"` // in the history, from 1; 0 = not there yet
	Ref       int64           `json:"ref,omitempty"` // which event of the instance it answers to, or is answered under; 0 = none
	Time      time.Time       `json:"time"`
	VisibleAt *time.Time      `json:"visible_at,omitempty"` // of a timer: when it is due
	Data      json.RawMessage `json:"data,omitempty"`
}

// Start is a new instance and its first event.
type Start struct {
	Instance   Instance          `json:"instance,omitzero"`
	Queue      string            `json:"queue"` // of its workflow tasks; and of activities that name none
	Name       string            `json:"name,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"` // to search for; at most 32, names and values up to 128 bytes
	Metadata   json.RawMessage   `json:"metadata,omitempty"`
	Gate       *Gate             `json:"gate,omitempty"` // nil = no limit
	Event      Event             `json:"event"`
}

// Activity is an activity to be run. Event.Ref is its number among those of its instance, and Event is what its worker gets. While one is open, another with its number is dropped.
type Activity struct {
	Queue string // "" = that of the instance
	Event Event
}

// Message is what one instance does to another: an event for one that is active, or the start of a new one.
type Message struct {
	To    Instance // Execution says which one is meant; if it has ended, the event is dropped
	Event *Event   // nil with Start
	Start *Start   // nil with Event
	// Rejected is what the sender gets when To.ID of Start is active already; nil = nothing.
	Rejected *Event
}

// Checkpoint is what came of a workflow task. All of it is recorded, or nothing.
type Checkpoint struct {
	State      State   // Active, or what the execution ended as
	Outcome    Outcome // of a finished one
	Executed   []Event // new history, Sequence going up by one
	Activities []Activity
	Timers     []Event // with VisibleAt and a Ref of their own
	Canceled   []int64 // Refs of timers that must not fire any more; those that have are left alone
	Messages   []Message
	// RemoveContinued removes this execution, and only this one, if State is ContinuedAsNew.
	RemoveContinued bool
}

const (
	maxName       = 128
	maxAttributes = 32
)

// NameError says what is wrong with a name.
type NameError struct{ Field, Value, Rule string }

func (e *NameError) Error() string {
	return fmt.Sprintf("workflow: %s %q: %s", e.Field, e.Value, e.Rule)
}

// checkName refuses what cannot be part of a key.
func checkName(field, s string) error {
	switch {
	case s == "":
		return &NameError{field, s, "must not be empty"}
	case len(s) > maxName:
		return &NameError{field, s[:maxName] + "...", fmt.Sprintf("must be at most %d bytes", maxName)}
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return &NameError{field, strings.ToValidUTF8(s, "?"), "must be UTF-8 without control characters"}
	}
	return nil
}
