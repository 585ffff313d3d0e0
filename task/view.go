package task

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/taktworks/takt/task/internal/wire"
)

// State is where a task is in its life.
type State string

// States. The last three are ends.
const (
	StateWaiting   State = "waiting"   // in its queue, held by no worker, or given back by one that had fetched it too early
	StateRunning   State = "running"   // held by a worker: it runs, or is about to
	StateDelayed   State = "delayed"   // until it is due
	StateBlocked   State = "blocked"   // delayed, and woken before that when its locks are free
	StateCollected State = "collected" // until it is handed over with others of its kind, see Aggregate
	StateDone      State = "done"      // with a result that is still kept
	StateDead      State = "dead"      // failed for good
	StateCancelled State = "cancelled" // with a result that is still kept
)

// Task is what is stored of a task, for people. What does not apply to its state is zero.
type Task struct {
	Ref
	Name     string            `json:"name"` // "" = it has ended, and only its result is left
	State    State             `json:"state"`
	Attempt  int               `json:"attempt,omitempty"` // the one that runs or comes next, from 1
	History  []Failure         `json:"history,omitempty"` // failed attempts, oldest first, the newest ten
	Labels   map[string]string `json:"labels,omitempty"`
	Args     json.RawMessage   `json:"args,omitempty"`
	Kwargs   json.RawMessage   `json:"kwargs,omitempty"` // of Python submitters
	Group    string            `json:"group,omitempty"`
	Parent   string            `json:"parent,omitempty"`  // id of the task that submitted it
	Enqueued time.Time         `json:"enqueued,omitzero"` // when it was first submitted, as far as the message says
	Deadline time.Time         `json:"deadline,omitzero"` // it starts no later
	Unique   string            `json:"unique,omitempty"`  // key that it holds
	Snoozes  int               `json:"snoozes,omitempty"` // how often it put itself back
	Blocked  int               `json:"blocked,omitempty"` // how often it did not get its locks
	Unknown  int               `json:"unknown,omitempty"` // how often a worker did not know its name

	Worker     string    `json:"worker,omitempty"`     // that holds it, or was the last to
	Since      time.Time `json:"since,omitzero"`       // when that worker got it
	Deliveries int       `json:"deliveries,omitempty"` // how often it was begun, this one included

	Within string          `json:"within,omitempty"` // id of the aggregate that it is a member of; where that is, it is
	Died   time.Time       `json:"died,omitzero"`
	Error  *Error          `json:"error,omitempty"`  // of its end
	Result json.RawMessage `json:"result,omitempty"` // what it returned
	Took   time.Duration   `json:"took_ns,omitempty"`
	Raw    string          `json:"raw,omitempty"` // the message in hex, if it cannot be read

	raw string       // as it is stored
	msg wire.Message // decoded raw
}

// Failure is one failed attempt.
type Failure struct {
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	Error   string    `json:"error"`
}

// viewOf reads a stored message; one that cannot be read is shown in hex.
func viewOf(raw string) (t Task) {
	t.raw = raw
	m, err := wire.Decode([]byte(raw))
	if err != nil {
		t.Raw, t.Error = hex.EncodeToString([]byte(raw)), &Error{Type: "undecodable", Message: err.Error()}
		return t
	}
	t.msg = m
	t.ID, t.Name = m.ID, m.Name
	t.Queue = queueOfMessage(&m)
	t.Attempt = int(m.Labels.Int(retryLabel)) + 1
	t.Labels = userLabels(m.Labels)
	t.Group, t.Parent, t.Unique = m.Labels.String("group_id"), m.Meta.Parent, m.Meta.Unique
	t.Enqueued, t.Deadline = timeOf(m.Meta.Enqueued), timeOf(m.Meta.Deadline)
	t.Snoozes, t.Blocked, t.Unknown = int(m.Meta.Snoozes), int(m.Meta.Blocked), int(m.Meta.Unknown)
	t.Args, t.Kwargs = jsonOf(m.Args), nil
	if m.Kwargs != nil {
		t.Kwargs = jsonOf(m.Kwargs)
	}
	for _, f := range m.Meta.History {
		t.History = append(t.History, Failure{int(f.Attempt), timeOf(f.At), f.Error})
	}
	return t
}

func queueOfMessage(m *wire.Message) Queue {
	return queueOf(cmp.Or(Priority(m.Labels.String("priority")), Normal), cmp.Or(Size(m.Labels.String("size")), Medium))
}

func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// jsonOf is msgpack as JSON; what cannot be read is nil.
func jsonOf(raw []byte) json.RawMessage {
	text, err := wire.ToJSON(raw)
	if err != nil {
		return nil
	}
	return text
}

// ArgsOf are the arguments of a task of this type that List or Find gave, as a handler gets them. An error: it is of another type, they do not fit, or it has ended and only its result is
// left.
func (t *Type[T, R]) ArgsOf(of Task) (args T, err error) {
	if of.Name != t.name {
		return args, fmt.Errorf("task: arguments of %s: it is a %q, want %q", of.ID, of.Name, t.name)
	}
	if args, err = t.args.DecodeArgs(of.msg.Args); err != nil {
		return args, fmt.Errorf("task: arguments of %s: %w", of.ID, unfit(err))
	}
	return args, nil
}

// shows says whether the view is of the task with this id. The view of an aggregate that has it as a member becomes that of the member.
func (t *Task) shows(id string) bool {
	if t.ID == id {
		return true
	}
	for _, raw := range membersOf(&t.msg) {
		if m := viewOf(string(raw)); m.ID == id {
			m.Within, m.Queue, m.Entry = t.ID, t.Queue, t.Entry
			*t = m
			return true
		}
	}
	return false
}

// inQueue is the view of an entry of a stream.
func inQueue(q Queue, entry, raw string) Task {
	t := viewOf(raw)
	t.State, t.Queue, t.Entry = StateWaiting, q, entry
	if t.Enqueued.IsZero() {
		t.Enqueued = entryTime(entry).UTC()
	}
	return t
}

// heldBy adds who holds it. What was given back waits for any worker, but may have been begun before.
func (t *Task) heldBy(h held, now time.Time) {
	t.Deliveries = int(h.deliveries)
	if h.givenBack() {
		return
	}
	t.State, t.Worker = StateRunning, h.worker
	t.Since = now.Add(-h.idle).UTC().Truncate(time.Millisecond)
}

// ofLetter is the view of a dead letter.
func ofLetter(id string, l *letter) Task {
	t := viewOf(string(l.Message))
	t.State, t.ID, t.Died = StateDead, id, l.Died.UTC()
	if t.Name == "" {
		t.Queue = Queue(l.Queue)
	}
	t.Entry, t.Worker, t.Deliveries = l.Entry, l.Worker, int(l.Deliveries)
	t.Error = &Error{Type: l.ErrType, Message: l.ErrMessage, Traceback: l.Traceback}
	return t
}

// ofResult is the view of a task of which only the result is left.
func ofResult(id string, raw []byte) (Task, error) {
	t := Task{Ref: Ref{ID: id}, State: StateDone}
	w, err := wire.DecodeResult(raw)
	if err != nil {
		return t, err
	}
	t.Took = durationOf(&w)
	t.Labels = userLabels(w.Labels)
	t.Group = w.Labels.String("group_id")
	switch t.Error = failureOf(&w); {
	case t.Error == nil:
		t.Result = jsonOf(w.Value)
	case t.Error.Type == "cancelled":
		t.State = StateCancelled
	default:
		t.State = StateDead
	}
	return t, nil
}
