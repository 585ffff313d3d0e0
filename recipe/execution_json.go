package recipe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Encode writes the document: the members of spec G.1 in its order with their nulls, then
// Takt's own, which are left out when zero (but for recipe and started_at). The same
// execution gives the same bytes, which internal commits rely on.
func (x *Execution) Encode() []byte {
	w := writer{buf: make([]byte, 0, 512+256*len(x.Actions))}
	w.open('{')
	w.string("job_id", x.JobID)
	w.string("scope", x.Scope)
	w.string("work_master_id", x.WorkMasterID)
	w.string("current_step", x.CurrentStep)
	w.string("correlation_id", x.CorrelationID)
	w.key("active_steps")
	w.open('[')
	for _, s := range x.ActiveSteps {
		w.comma()
		w.quote(s)
	}
	w.close(']')
	w.key("actions")
	w.open('{')
	for i := range x.Actions {
		w.key(x.Actions[i].Name)
		w.action(&x.Actions[i])
	}
	w.close('}')
	w.boolean("completed", x.Completed)
	w.boolean("failed", x.Failed)
	w.stringOrNull("error", x.Error)

	w.string("recipe", x.Recipe)
	w.key("started_at")
	w.buf = strconv.AppendInt(w.buf, x.StartedAt, 10)
	w.number("begun_at", x.BegunAt)
	w.number("ended_at", x.EndedAt)
	w.flag("paused", x.Paused)
	w.number("paused_at", x.PausedAt)
	w.flag("stopped", x.Stopped)
	w.number("wake_at", x.WakeAt)
	w.key("steps")
	w.open('{')
	for _, s := range x.Steps {
		w.key(s.Name)
		w.open('{')
		w.number("since", s.Since)
		w.number("iteration", int64(s.Iteration))
		w.flag("choosing", s.Choosing)
		w.close('}')
	}
	w.close('}')
	if len(x.Cancels) > 0 {
		w.key("cancels")
		w.open('[')
		for i := range x.Cancels {
			w.comma()
			w.cancel(&x.Cancels[i])
		}
		w.close(']')
	}
	w.others(x.Other)
	w.close('}')
	return w.buf
}

func (w *writer) others(members []Kept) {
	for _, m := range members {
		w.key(m.Name)
		w.buf = append(w.buf, m.Value...)
	}
}

func (w *writer) action(a *ActionEntry) {
	w.open('{')
	w.string("name", a.Name)
	w.string("state", string(a.State))
	w.string("type_id", a.TypeID)
	w.stringOrNull("command_ce_id", a.CommandID)
	w.key("attempt")
	w.buf = strconv.AppendInt(w.buf, int64(a.Attempt), 10)
	w.raw("result", a.Result)
	w.stringOrNull("error", a.Error)
	w.number("iteration", int64(a.Iteration))
	w.number("first_attempt", int64(a.FirstAttempt))
	w.number("dispatched_at", a.DispatchedAt)
	w.number("deadline", a.Deadline)
	w.number("resend_at", a.ResendAt)
	w.number("left", a.Left)
	w.number("sent_at", a.SentAt)
	w.flag("last_call", a.LastCall)
	if a.Parameters != nil {
		w.key("parameters")
		w.buf = append(w.buf, a.Parameters...)
	}
	if a.Cancel.TypeID != "" {
		w.key("cancel")
		w.open('{')
		w.string("type_id", a.Cancel.TypeID)
		w.number("timeout_seconds", int64(a.Cancel.TimeoutSeconds))
		w.close('}')
	}
	w.others(a.Other)
	w.close('}')
}

func (w *writer) cancel(c *CancelEntry) {
	w.open('{')
	w.string("action", c.Action)
	w.number("attempt", int64(c.Attempt))
	w.string("command_ce_id", c.CommandID)
	w.string("cancels", c.Cancels)
	w.string("type_id", c.TypeID)
	w.number("sent_at", c.SentAt)
	w.number("deadline", c.Deadline)
	w.string("state", string(c.State))
	w.raw("result", c.Result)
	w.stringOrNull("error", c.Error)
	w.close('}')
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

func (w *writer) open(c byte)  { w.buf = append(w.buf, c) }
func (w *writer) close(c byte) { w.buf = append(w.buf, c) }

func (w *writer) comma() {
	if last := w.buf[len(w.buf)-1]; last != '{' && last != '[' {
		w.buf = append(w.buf, ',')
	}
}

func (w *writer) key(name string) {
	w.comma()
	w.quote(name)
	w.buf = append(w.buf, ':')
}

func (w *writer) quote(s string) { w.buf = appendQuoted(w.buf, s) }

func (w *writer) string(key, value string) {
	w.key(key)
	w.quote(value)
}

func (w *writer) stringOrNull(key, value string) {
	w.key(key)
	if value == "" {
		w.buf = append(w.buf, "null"...)
		return
	}
	w.quote(value)
}

// raw is JSON as it stands; nil is null.
func (w *writer) raw(key string, value json.RawMessage) {
	w.key(key)
	if value == nil {
		value = json.RawMessage("null")
	}
	w.buf = append(w.buf, value...)
}

func (w *writer) boolean(key string, value bool) {
	w.key(key)
	w.buf = strconv.AppendBool(w.buf, value)
}

// flag and number leave out what is zero.
func (w *writer) flag(key string, value bool) {
	if value {
		w.boolean(key, value)
	}
}

func (w *writer) number(key string, value int64) {
	if value != 0 {
		w.key(key)
		w.buf = strconv.AppendInt(w.buf, value, 10)
	}
}

// appendQuoted appends s as a JSON string, with no more escapes than JSON needs.
func appendQuoted(buf []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			_ = e.Encode(s) // a string always encodes
			return append(buf, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
		}
	}
	buf = append(buf, '"')
	buf = append(buf, s...)
	return append(buf, '"')
}

// DecodeExecution reads a document of Takt or of the Python system. active_steps may be
// {} or null for none, unknown members are kept, an id of the Python system's form
// "{job}:{action}:{attempt}" is no command id. data is copied.
func DecodeExecution(data []byte) (*Execution, error) {
	src, syntax := parse(bytes.Clone(data), maxDepth+8)
	if syntax != nil {
		return nil, fmt.Errorf("recipe: execution: %w", syntax)
	}
	d := documentReader{source: &src}
	x := d.execution(&src.root)
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

func (d *documentReader) execution(n *node) *Execution {
	if n.kind != '{' {
		d.fail("not an object")
		return nil
	}
	x := &Execution{
		JobID:         d.string(n, "job_id"),
		Scope:         d.string(n, "scope"),
		WorkMasterID:  d.string(n, "work_master_id"),
		CurrentStep:   d.string(n, "current_step"),
		CorrelationID: d.string(n, "correlation_id"),
		ActiveSteps:   d.activeSteps(n.member("active_steps")),
		Completed:     d.boolean(n, "completed"),
		Failed:        d.boolean(n, "failed"),
		Error:         d.string(n, "error"),
		Recipe:        d.string(n, "recipe"),
		StartedAt:     d.number(n, "started_at"),
		BegunAt:       d.number(n, "begun_at"),
		EndedAt:       d.number(n, "ended_at"),
		Paused:        d.boolean(n, "paused"),
		PausedAt:      d.number(n, "paused_at"),
		Stopped:       d.boolean(n, "stopped"),
		WakeAt:        d.number(n, "wake_at"),
		Other:         d.others(n, executionMembers),
	}
	if x.JobID == "" {
		d.fail("job_id is missing")
	}
	d.each(n, "actions", func(name string, e *node) { x.Actions = append(x.Actions, d.action(name, e)) })
	d.each(n, "steps", func(name string, e *node) {
		x.Steps = append(x.Steps, StepEntry{
			Name: name, Since: d.number(e, "since"), Iteration: int(d.number(e, "iteration")), Choosing: d.boolean(e, "choosing"),
		})
	})
	if list := n.member("cancels"); list != nil && list.kind == '[' {
		for i := range list.kids {
			x.Cancels = append(x.Cancels, d.cancel(&list.kids[i]))
		}
	}
	return x
}

func (d *documentReader) cancel(n *node) CancelEntry {
	if n.kind != '{' {
		d.fail("an element of cancels is " + n.describe())
		return CancelEntry{}
	}
	c := CancelEntry{
		Action: d.string(n, "action"), Attempt: int(d.number(n, "attempt")), CommandID: d.string(n, "command_ce_id"), Cancels: d.string(n, "cancels"),
		TypeID: d.string(n, "type_id"), SentAt: d.number(n, "sent_at"), Deadline: d.number(n, "deadline"), State: ActionState(d.string(n, "state")), Error: d.string(n, "error"),
	}
	if r := n.member("result"); r != nil && r.kind != 'n' {
		c.Result = d.raw(r)
	}
	return c
}

func (d *documentReader) action(name string, n *node) ActionEntry {
	a := ActionEntry{
		Name:         name, // the key is what scripts and readers go by
		State:        ActionState(d.string(n, "state")),
		TypeID:       d.string(n, "type_id"),
		CommandID:    d.string(n, "command_ce_id"),
		Attempt:      int(d.number(n, "attempt")),
		Error:        d.string(n, "error"),
		Iteration:    int(d.number(n, "iteration")),
		FirstAttempt: int(d.number(n, "first_attempt")),
		DispatchedAt: d.number(n, "dispatched_at"),
		Deadline:     d.number(n, "deadline"),
		ResendAt:     d.number(n, "resend_at"),
		Left:         d.number(n, "left"),
		SentAt:       d.number(n, "sent_at"),
		LastCall:     d.boolean(n, "last_call"),
		Other:        d.others(n, actionMembers),
	}
	if a.CommandID == "" {
		if id := d.string(n, "correlation_id"); uuid.Validate(id) == nil {
			a.CommandID = id
		}
	}
	if r := n.member("result"); r != nil && r.kind != 'n' {
		a.Result = d.raw(r)
	}
	if p := n.member("parameters"); p != nil && p.kind == '{' {
		a.Parameters = d.raw(p)
	}
	if c := n.member("cancel"); c != nil && c.kind == '{' {
		a.Cancel = Cancel{TypeID: d.string(c, "type_id"), TimeoutSeconds: int(d.number(c, "timeout_seconds"))}
	}
	switch a.State {
	case ActionPending, ActionDispatched, ActionWaiting, ActionCompleted, ActionFailed:
	default:
		d.fail(fmt.Sprintf("action %q has the unknown state %q", name, a.State))
	}
	return a
}

// The members of the document that this version knows, or drops.
var (
	executionMembers = []string{
		"job_id", "scope", "work_master_id", "current_step", "correlation_id", "active_steps", "actions", "completed", "failed", "error",
		"recipe", "started_at", "begun_at", "references", "ended_at", "paused", "paused_at", "stopped", "wake_at", "steps", "cancels",
	}
	actionMembers = []string{
		"name", "state", "type_id", "command_ce_id", "correlation_id", "attempt", "result", "error", "iteration", "first_attempt",
		"dispatched_at", "deadline", "resend_at", "left", "sent_at", "last_call", "parameters", "cancel",
	}
)

// others are the members of n that are not known. The store's own, which begin with _, are not kept.
func (d *documentReader) others(n *node, known []string) (others []Kept) {
	for i := range n.kids {
		kid := &n.kids[i]
		if !slices.Contains(known, kid.key) && !strings.HasPrefix(kid.key, "_") && n.member(kid.key) == kid {
			others = append(others, Kept{kid.key, d.raw(kid)})
		}
	}
	return others
}

// activeSteps takes {} for [], which is what cjson makes of an empty list.
func (d *documentReader) activeSteps(n *node) []string {
	if n == nil || n.kind == 'n' || n.kind == '{' && len(n.kids) == 0 {
		return nil
	}
	if n.kind != '[' {
		d.fail("active_steps is " + n.describe())
		return nil
	}
	var steps []string
	for _, s := range n.kids {
		if s.kind != '"' {
			d.fail("an element of active_steps is " + s.describe())
		}
		steps = append(steps, s.text)
	}
	return steps
}

func (d *documentReader) each(n *node, key string, do func(name string, e *node)) {
	m := n.member(key)
	if m == nil || m.kind == 'n' {
		return
	}
	if m.kind != '{' {
		d.fail(key + " is " + m.describe())
		return
	}
	for i := range m.kids {
		kid := &m.kids[i]
		if kid.kind != '{' {
			d.fail(fmt.Sprintf("%q of %s is %s", kid.key, key, kid.describe()))
			return
		}
		do(kid.key, kid)
	}
}

// string, boolean and number take null and absence for zero.
func (d *documentReader) string(n *node, key string) string {
	m := n.member(key)
	if m == nil || m.kind == 'n' {
		return ""
	}
	if m.kind != '"' {
		d.fail(key + " is " + m.describe())
	}
	return m.text
}

func (d *documentReader) boolean(n *node, key string) bool {
	m := n.member(key)
	if m == nil || m.kind == 'n' {
		return false
	}
	if m.kind != 't' && m.kind != 'f' {
		d.fail(key + " is " + m.describe())
	}
	return m.kind == 't'
}

func (d *documentReader) number(n *node, key string) int64 {
	m := n.member(key)
	if m == nil || m.kind == 'n' {
		return 0
	}
	i, ok := m.integer(d.data)
	if !ok || i < 0 || i > 1<<53 {
		d.fail(key + " is not a whole number that is not negative")
	}
	return i
}
