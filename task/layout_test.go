package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/taktworks/takt/task"
)

type (
	mailOld     struct{ To, Text string }
	mailRenamed struct{ To, Body string }
)

// A task of another version of its type is put back for a worker that knows it, and is dead with the reason if none comes.
func TestAnotherLayout(t *testing.T) {
	e := newEnv(t)
	before := task.Define[mailOld, string]("layout:Renamed")
	now := task.Define[mailRenamed, mailRenamed]("layout:Renamed")
	lost := send(e, before, mailOld{To: "ada", Text: "hello"})
	never := now.Handle(func(_ context.Context, j *task.Job[mailRenamed]) (mailRenamed, error) {
		if j.Args.Body == "" {
			t.Errorf("the handler ran with %+v", j.Args)
		}
		return j.Args, nil
	})
	_, stop := e.start(task.WorkerOptions{MaxUnknown: 1}, never)
	var failed *task.Error
	if _, err := lost.Await(e.ctx()); !errors.As(err, &failed) || failed.Type != "layout" || !strings.Contains(failed.Message, `"Text"`) || !strings.Contains(failed.Message, "put back 1 times") {
		t.Errorf("%v", err)
	}
	stop()

	h := send(e, before, mailOld{To: "ada", Text: "hello"})
	_, stop = e.start(task.WorkerOptions{}, never)
	e.eventually("it is put back", func() bool { return e.find(h.Ref).Unknown > 0 })
	stop()
	e.start(task.WorkerOptions{}, before.Handle(func(_ context.Context, j *task.Job[mailOld]) (string, error) {
		return j.Args.To + " " + j.Args.Text, nil
	}),
		task.Define[mailRenamed, mailRenamed]("layout:Result").Handle(func(_ context.Context, j *task.Job[mailRenamed]) (mailRenamed, error) { return j.Args, nil }))
	if r, err := h.Await(e.ctx()); err != nil || r != "ada hello" {
		t.Errorf("%q %v", r, err)
	}

	// A result of another version is a typed error of Await.
	r, err := task.Define[mailRenamed, mailOld]("layout:Result").Submit(e.ctx(), e.client, mailRenamed{To: "ada"})
	e.ok(err)
	if got, err := r.Await(e.ctx()); !errors.Is(err, task.ErrLayout) {
		t.Errorf("%+v %v", got, err)
	}
}

// Arguments in the other form, and more of them than the type takes, wait for a worker that takes them, and are dead with a reason that names the form. Fields of missing
// arguments and members are zero.
func TestFormsOfArguments(t *testing.T) {
	type letter struct {
		To   string `json:"to"`
		Text string `json:"text,omitempty"`
		Sent func() `json:"-"`
	}
	e := newEnv(t)
	handle := func(_ context.Context, j *task.Job[letter]) (letter, error) { return j.Args, nil }
	byName, byPosition := task.Define[letter, letter]("form:ByName"), task.Define[letter, letter]("form:ByPosition", task.Positional())
	one := task.Define[int, int]("form:One").Handle(func(_ context.Context, j *task.Job[int]) (int, error) { return j.Args, nil })
	e.start(task.WorkerOptions{MaxUnknown: 1}, byName.Handle(handle), byPosition.Handle(handle), one)
	const named, listed = `task_test.letter travels by name, {"to": ..., "text": ...}: submit it so, or register the type with task.Positional()`,
		`task_test.letter travels by position, [to, text]: submit it so, or register the type without task.Positional()`
	for _, c := range []struct{ name, args, result, reason string }{
		{"form:ByName", `{"to": "ada", "text": "hello"}`, `{"to":"ada","text":"hello"}`, ""},
		{"form:ByName", `[{"text": "hello"}]`, `{"to":"","text":"hello"}`, ""},
		{"form:ByName", `{}`, `{"to":"","text":""}`, ""},
		{"form:ByName", `[]`, `{"to":"","text":""}`, ""},
		{"form:ByName", ``, `{"to":"","text":""}`, ""},
		{"form:ByName", `["ada", "hello"]`, "", "has arguments by position, and " + named},
		{"form:ByName", `"ada"`, "", "has arguments by position, and " + named},
		{"form:ByName", `{"To": "ada"}`, "", `has the member "To", which task_test.letter lacks, and not its field to`},
		{"form:ByPosition", `["ada", "hello"]`, `["ada","hello"]`, ""},
		{"form:ByPosition", `"ada"`, `["ada",""]`, ""},
		{"form:ByPosition", `[]`, `["",""]`, ""},
		{"form:ByPosition", `{"to": "ada", "text": "hello"}`, "", "has arguments by name, and " + listed},
		{"form:ByPosition", `["ada", "hello", 1]`, "", "arguments given: 3, taken by task_test.letter: 2 at most"},
		{"form:One", `[1, 2]`, "", "arguments given: 2, taken by int: 1 at most"},
	} {
		ref, _, err := defineJSON(t, c.name).Submit(e.ctx(), e.client, json.RawMessage(c.args))
		e.ok(err)
		r, err := e.client.AwaitJSON(e.ctx(), ref.ID)
		switch {
		case err != nil:
			t.Errorf("%s %s: %v", c.name, c.args, err)
		case c.reason == "" && (r.Err != nil || string(r.Value) != c.result):
			t.Errorf("%s %s: %s %v, want %s", c.name, c.args, r.Value, r.Err, c.result)
		case c.reason != "" && (r.Err == nil || r.Err.Type != "layout" || !strings.Contains(r.Err.Message, c.reason) || !strings.Contains(r.Err.Message, "put back 1 times")):
			t.Errorf("%s %s: %s %v, want %s", c.name, c.args, r.Value, r.Err, c.reason)
		}
	}
}
