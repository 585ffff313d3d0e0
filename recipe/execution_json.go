package recipe

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/taktworks/takt/internal/jsonscan"
)

// documentField is a member of an object of the document: its name, its name in the history (see Change), what stands for its zero value, and where the value is kept.
type documentField[T any] struct {
	name  string
	code  string
	zero  zeroForm
	value func(*T) any // a pointer to it
}

// zeroForm is how a zero value is written.
type zeroForm int

const (
	asItIs zeroForm = iota
	asNull
	leftOut
)

// The members in the order in which they are written: those of spec G.1, then Takt's own.
var (
	executionFields = []documentField[Execution]{
		{"job_id", "j", asItIs, func(x *Execution) any { return &x.JobID }},
		{"scope", "o", asItIs, func(x *Execution) any { return &x.Scope }},
		{"work_master_id", "w", asItIs, func(x *Execution) any { return &x.WorkMasterID }},
		{"current_step", "c", asItIs, func(x *Execution) any { return &x.CurrentStep }},
		{"correlation_id", "n", asItIs, func(x *Execution) any { return &x.CorrelationID }},
		{"active_steps", "a", asItIs, func(x *Execution) any { return &x.ActiveSteps }},
		{"actions", "A", asItIs, func(x *Execution) any { return &x.Actions }},
		{"completed", "C", asItIs, func(x *Execution) any { return &x.Completed }},
		{"failed", "F", asItIs, func(x *Execution) any { return &x.Failed }},
		{"error", "e", asNull, func(x *Execution) any { return &x.Error }},

		{"recipe", "r", asItIs, func(x *Execution) any { return &x.Recipe }},
		{"started_at", "t", asItIs, func(x *Execution) any { return &x.StartedAt }},
		{"begun_at", "b", leftOut, func(x *Execution) any { return &x.BegunAt }},
		{"ended_at", "E", leftOut, func(x *Execution) any { return &x.EndedAt }},
		{"paused", "p", leftOut, func(x *Execution) any { return &x.Paused }},
		{"paused_at", "P", leftOut, func(x *Execution) any { return &x.PausedAt }},
		{"stopped", "S", leftOut, func(x *Execution) any { return &x.Stopped }},
		{"wake_at", "W", leftOut, func(x *Execution) any { return &x.WakeAt }},
		{"steps", "s", asItIs, func(x *Execution) any { return &x.Steps }},
		{"cancels", "x", leftOut, func(x *Execution) any { return &x.Cancels }},
	}
	actionFields = []documentField[ActionEntry]{
		{"name", "n", asItIs, func(a *ActionEntry) any { return &a.Name }},
		{"state", "s", asItIs, func(a *ActionEntry) any { return &a.State }},
		{"type_id", "y", asItIs, func(a *ActionEntry) any { return &a.TypeID }},
		{"command_ce_id", "c", asNull, func(a *ActionEntry) any { return &a.CommandID }},
		{"attempt", "a", asItIs, func(a *ActionEntry) any { return &a.Attempt }},
		{"result", "r", asNull, func(a *ActionEntry) any { return &a.Result }},
		{"error", "e", asNull, func(a *ActionEntry) any { return &a.Error }},
		{"iteration", "i", leftOut, func(a *ActionEntry) any { return &a.Iteration }},
		{"first_attempt", "f", leftOut, func(a *ActionEntry) any { return &a.FirstAttempt }},
		{"dispatched_at", "t", leftOut, func(a *ActionEntry) any { return &a.DispatchedAt }},
		{"deadline", "d", leftOut, func(a *ActionEntry) any { return &a.Deadline }},
		{"resend_at", "g", leftOut, func(a *ActionEntry) any { return &a.ResendAt }},
		{"left", "l", leftOut, func(a *ActionEntry) any { return &a.Left }},
		{"sent_at", "T", leftOut, func(a *ActionEntry) any { return &a.SentAt }},
		{"last_call", "L", leftOut, func(a *ActionEntry) any { return &a.LastCall }},
		{"parameters", "p", leftOut, func(a *ActionEntry) any { return &a.Parameters }},
		{"cancel", "x", leftOut, func(a *ActionEntry) any { return &a.Cancel }},
	}
	stepFields = []documentField[StepEntry]{
		{"since", "t", leftOut, func(s *StepEntry) any { return &s.Since }},
		{"iteration", "i", leftOut, func(s *StepEntry) any { return &s.Iteration }},
		{"choosing", "c", leftOut, func(s *StepEntry) any { return &s.Choosing }},
	}
	cancelFields = []documentField[CancelEntry]{
		{"action", "n", asItIs, func(c *CancelEntry) any { return &c.Action }},
		{"attempt", "a", leftOut, func(c *CancelEntry) any { return &c.Attempt }},
		{"command_ce_id", "c", asItIs, func(c *CancelEntry) any { return &c.CommandID }},
		{"cancels", "x", asItIs, func(c *CancelEntry) any { return &c.Cancels }},
		{"type_id", "y", asItIs, func(c *CancelEntry) any { return &c.TypeID }},
		{"sent_at", "t", leftOut, func(c *CancelEntry) any { return &c.SentAt }},
		{"deadline", "d", leftOut, func(c *CancelEntry) any { return &c.Deadline }},
		{"state", "s", asItIs, func(c *CancelEntry) any { return &c.State }},
		{"result", "r", asNull, func(c *CancelEntry) any { return &c.Result }},
		{"error", "e", asNull, func(c *CancelEntry) any { return &c.Error }},
	}
	cancelCommandFields = []documentField[Cancel]{
		{"type_id", "y", asItIs, func(c *Cancel) any { return &c.TypeID }},
		{"timeout_seconds", "t", leftOut, func(c *Cancel) any { return &c.TimeoutSeconds }},
	}
)

// Encode writes the document: the members of spec G.1 in its order with their nulls, then
// Takt's own, which are left out when zero (but for recipe and started_at). The same
// execution gives the same bytes, which internal commits rely on.
func (x *Execution) Encode() []byte {
	w := writer{buf: make([]byte, 0, 512+256*len(x.Actions))}
	writeObject(&w, x, executionFields, x.Other)
	return w.buf
}

// MarshalJSON is Encode.
func (x *Execution) MarshalJSON() ([]byte, error) { return x.Encode(), nil }

// UnmarshalJSON is DecodeExecution.
func (x *Execution) UnmarshalJSON(data []byte) error {
	read, err := DecodeExecution(data)
	if err != nil {
		return err
	}
	*x = *read
	return nil
}

// writer appends JSON members, with commas where they belong.
type writer struct {
	buf []byte
}

func writeObject[T any](w *writer, of *T, fields []documentField[T], others []Kept) {
	w.buf = append(w.buf, '{')
	for i := range fields {
		f := &fields[i]
		value := f.value(of)
		zero := f.zero != asItIs && isZero(value)
		if zero && f.zero == leftOut {
			continue
		}
		w.key(f.name)
		if zero {
			w.buf = append(w.buf, "null"...)
			continue
		}
		w.value(value)
	}
	for _, m := range others {
		w.key(m.Name)
		w.buf = append(w.buf, m.Value...)
	}
	w.buf = append(w.buf, '}')
}

func isZero(value any) bool {
	switch v := value.(type) {
	case *string:
		return *v == ""
	case *int:
		return *v == 0
	case *int64:
		return *v == 0
	case *bool:
		return !*v
	case *json.RawMessage:
		return *v == nil
	case *Cancel:
		return v.TypeID == ""
	case *[]CancelEntry:
		return len(*v) == 0
	}
	return false
}

func (w *writer) value(value any) {
	switch v := value.(type) {
	case *string:
		w.buf = jsonscan.AppendString(w.buf, *v)
	case *ActionState:
		w.buf = jsonscan.AppendString(w.buf, string(*v))
	case *int:
		w.buf = strconv.AppendInt(w.buf, int64(*v), 10)
	case *int64:
		w.buf = strconv.AppendInt(w.buf, *v, 10)
	case *bool:
		w.buf = strconv.AppendBool(w.buf, *v)
	case *json.RawMessage:
		w.buf = append(w.buf, *v...)
	case *Cancel:
		writeObject(w, v, cancelCommandFields, nil)
	case *[]string:
		w.buf = append(w.buf, '[')
		for _, s := range *v {
			w.comma()
			w.buf = jsonscan.AppendString(w.buf, s)
		}
		w.buf = append(w.buf, ']')
	case *[]CancelEntry:
		w.buf = append(w.buf, '[')
		for i := range *v {
			w.comma()
			writeObject(w, &(*v)[i], cancelFields, nil)
		}
		w.buf = append(w.buf, ']')
	case *[]ActionEntry:
		w.buf = append(w.buf, '{')
		for i := range *v {
			a := &(*v)[i]
			w.key(a.Name)
			writeObject(w, a, actionFields, a.Other)
		}
		w.buf = append(w.buf, '}')
	case *[]StepEntry:
		w.buf = append(w.buf, '{')
		for i := range *v {
			s := &(*v)[i]
			w.key(s.Name)
			writeObject(w, s, stepFields, nil)
		}
		w.buf = append(w.buf, '}')
	}
}

func (w *writer) comma() {
	if last := w.buf[len(w.buf)-1]; last != '{' && last != '[' {
		w.buf = append(w.buf, ',')
	}
}

func (w *writer) key(name string) {
	w.comma()
	w.buf = append(jsonscan.AppendString(w.buf, name), ':')
}

// DecodeExecution reads a document of Takt or of the Python system. active_steps may be
// {} or null for none, unknown members are kept, an id of the Python system's form
// "{job}:{action}:{attempt}" is no command id. Nothing of data is kept.
func DecodeExecution(data []byte) (*Execution, error) {
	src, syntax := parse(data, maxDepth+8)
	if syntax != nil {
		return nil, fmt.Errorf("recipe: execution: %w", syntax)
	}
	d := documentReader{source: &src}
	x := &Execution{}
	x.Other = readObject(&d, &src.root, "the document", x, executionFields)
	if x.JobID == "" {
		d.fail("job_id is missing")
	}
	if d.err != nil {
		return nil, fmt.Errorf("recipe: execution: %w", d.err)
	}
	return x, nil
}

// documentReader reads members of the type it expects and keeps the first surprise.
type documentReader struct {
	*source
	err error
}

func (d *documentReader) fail(what string) {
	if d.err == nil {
		d.err = errors.New(what)
	}
}

// readObject reads the members of n into a zero value and returns those that are not known, but for the store's own,
// which begin with _. name is for errors.
func readObject[T any](d *documentReader, n *node, name string, into *T, fields []documentField[T]) (others []Kept) {
	if !d.is(n, '{', name) {
		return nil
	}
	for i := range n.kids {
		kid := &n.kids[i]
		if at := slices.IndexFunc(fields, func(f documentField[T]) bool { return f.name == kid.key }); at >= 0 {
			if n.member(kid.key) == kid && kid.kind != 'n' {
				d.value(kid, fields[at].value(into))
			}
		} else if !strings.HasPrefix(kid.key, "_") && n.member(kid.key) == kid {
			others = append(others, Kept{kid.key, d.raw(kid)})
		}
	}
	return others
}

// is tells whether n is of that kind, and fails if it is not.
func (d *documentReader) is(n *node, kind byte, name string) bool {
	if n.kind != kind {
		d.fail(name + " is " + n.describe())
	}
	return n.kind == kind
}

// value reads n, which is not null, into what value points to.
func (d *documentReader) value(n *node, value any) {
	switch v := value.(type) {
	case *string:
		if d.is(n, '"', n.key) {
			*v = n.text
		}
	case *ActionState:
		if d.is(n, '"', n.key) {
			*v = ActionState(n.text)
		}
	case *int:
		*v = int(d.number(n))
	case *int64:
		*v = d.number(n)
	case *bool:
		if n.kind != 'f' && d.is(n, 't', n.key) {
			*v = true
		}
	case *json.RawMessage:
		*v = d.raw(n)
	case *Cancel:
		readObject(d, n, n.key, v, cancelCommandFields)
	case *[]string:
		if n.kind == '{' && len(n.kids) == 0 { // what cjson makes of an empty list
			return
		}
		for _, s := range d.elements(n, '[') {
			if d.is(&s, '"', "an element of "+n.key) {
				*v = append(*v, s.text)
			}
		}
	case *[]CancelEntry:
		for _, kid := range d.elements(n, '[') {
			c := CancelEntry{}
			readObject(d, &kid, "an element of "+n.key, &c, cancelFields)
			*v = append(*v, c)
		}
	case *[]ActionEntry:
		for _, kid := range d.elements(n, '{') {
			*v = append(*v, d.action(&kid))
		}
	case *[]StepEntry:
		for _, kid := range d.elements(n, '{') {
			s := StepEntry{Name: kid.key}
			readObject(d, &kid, fmt.Sprintf("%q of %s", kid.key, n.key), &s, stepFields)
			*v = append(*v, s)
		}
	}
}

// elements are those of n, none if it is of another kind.
func (d *documentReader) elements(n *node, kind byte) []node {
	if !d.is(n, kind, n.key) {
		return nil
	}
	return n.kids
}

func (d *documentReader) action(n *node) (a ActionEntry) {
	others := readObject(d, n, fmt.Sprintf("%q of actions", n.key), &a, actionFields)
	a.Name = n.key // what scripts and readers go by
	a.Other = slices.DeleteFunc(others, func(m Kept) bool { return m.Name == "correlation_id" })
	if id := n.member("correlation_id"); a.CommandID == "" && id != nil && uuid.Validate(id.text) == nil {
		a.CommandID = id.text // of the Python system
	}
	switch a.State {
	case ActionPending, ActionDispatched, ActionWaiting, ActionCompleted, ActionFailed:
	default:
		d.fail(fmt.Sprintf("action %q has the unknown state %q", a.Name, a.State))
	}
	return a
}

func (d *documentReader) number(n *node) int64 {
	i, ok := n.integer(d.data)
	if !ok || i < 0 || i > 1<<53 {
		d.fail(n.key + " is not a whole number that is not negative")
	}
	return i
}
