package recipe

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// run drives one job through a program as an engine does: documents are stored as bytes
// between decisions, and read again.
type run struct {
	t         testing.TB
	p         *Program
	o         Order
	now       time.Time
	execution []byte
	past      *Execution // as the history has it
	record    []Recorded
	mail      map[string][]byte
	sent      []Command
	looked    int     // commands that wantSent has seen
	out       Outcome // the last
}

var epoch = time.UnixMilli(1_800_000_000_000).UTC()

func newRun(t testing.TB, recipe string, parameters map[string]any) *run {
	t.Helper()
	return &run{
		t: t, p: compile(t, string(recipeOf(recipe))), now: epoch, mail: map[string][]byte{},
		o: Order{ID: "JO-1", Scope: "cell-07", Parameters: parameters, WorkMasterID: "WM-1"},
	}
}

// begin is newRun and the start.
func begin(t testing.TB, recipe string, parameters map[string]any) *run {
	t.Helper()
	r := newRun(t, recipe, parameters)
	r.take(r.p.Start(r.o, "WM-1", "1-0", r.docs().Mailboxes, r.now))
	return r
}

func (r *run) docs() Docs {
	r.t.Helper()
	d := Docs{Mailboxes: map[string]*Mailbox{}}
	if r.execution != nil {
		d.Execution = r.x()
	}
	for typ, data := range r.mail {
		m, err := DecodeMailbox(data)
		if err != nil {
			r.t.Fatal(err)
		}
		d.Mailboxes[typ] = m
	}
	return d
}

func (r *run) x() *Execution {
	r.t.Helper()
	x, err := DecodeExecution(r.execution)
	if err != nil {
		r.t.Fatalf("%v\n%s", err, r.execution)
	}
	return x
}

// take commits an outcome.
func (r *run) take(out Outcome) *run {
	r.t.Helper()
	r.out = out
	if out.Stale {
		return r
	}
	r.store(out.Docs.Execution)
	r.checkFacts(out)
	r.record = append(r.record, Recorded{At: r.now, Facts: out.Facts})
	for _, typ := range out.ChangedMailboxes {
		if m := out.Docs.Mailboxes[typ]; m.Empty() {
			delete(r.mail, typ)
		} else {
			r.mail[typ] = m.Encode()
		}
	}
	r.sent = append(r.sent, out.Commands...)
	if !out.Due.Equal(r.x().Due()) || out.Phase != r.x().Phase() {
		r.t.Fatalf("outcome %v %v, document %v %v", out.Due, out.Phase, r.x().Due(), r.x().Phase())
	}
	return r
}

func (r *run) store(x *Execution) {
	r.execution = x.Encode()
	if again := r.x().Encode(); string(again) != string(r.execution) {
		r.t.Fatalf("the document reads back differently\n%s", cmp.Diff(string(r.execution), string(again)))
	}
	r.history(x)
}

// history checks that the document is rebuilt from what its history has of it.
func (r *run) history(x *Execution) {
	base := r.now.UnixMilli()
	change := x.AppendChange(nil, r.past, base)
	rebuilt, err := r.past.Changed(change, base)
	if err != nil {
		r.t.Fatalf("%v: %s", err, change)
	}
	if diff := cmp.Diff(string(r.execution), string(rebuilt.Encode())); diff != "" {
		r.t.Fatalf("the document is not what the history says (-document +history):\n%s\n%s", diff, change)
	}
	if _, err := (*Execution)(nil).Changed(change, base); (err == nil) != (r.past == nil) {
		r.t.Fatalf("%s of nothing: %v", change, err)
	}
	r.past = rebuilt
}

// checkFacts checks that the facts of a decision say which commands it sends, and that they can be read again.
func (r *run) checkFacts(out Outcome) {
	r.t.Helper()
	text := AppendFacts(nil, out.Facts, out.Docs.Execution)
	read, err := DecodeFacts(text, out.Docs.Execution)
	if diff := cmp.Diff(out.Facts, read, cmpopts.EquateEmpty()); diff != "" || err != nil {
		r.t.Fatalf("the facts read back differently, %v\n%s\n%s", err, diff, text)
	}
	var said, sent []string
	for _, f := range out.Facts {
		if f.Kind == FactCommand || f.Kind == FactRepeat {
			said = append(said, fmt.Sprint(f.Action, f.Iteration, f.Kind == FactRepeat))
		}
	}
	for _, c := range out.Commands {
		sent = append(sent, fmt.Sprint(c.Action, c.Iteration, c.Again))
	}
	if !slices.Equal(said, sent) {
		r.t.Fatalf("the facts say that %q were sent, not %q", said, sent)
	}
}

// last is the latest command for an action.
func (r *run) last(action string) Command {
	r.t.Helper()
	for i := len(r.sent) - 1; i >= 0; i-- {
		if r.sent[i].Action == action {
			return r.sent[i]
		}
	}
	r.t.Fatalf("no command for %s was sent", action)
	return Command{}
}

func (r *run) answerTo(id, result string) *run {
	r.t.Helper()
	return r.take(r.p.Answer(r.o, r.docs(), Answer{CommandID: id, Result: json.RawMessage(result)}, r.now))
}

func (r *run) answer(action, result string) *run {
	r.t.Helper()
	return r.answerTo(r.last(action).ID, result)
}

func (r *run) refuse(action, kind, message string) *run {
	r.t.Helper()
	return r.take(r.p.Answer(r.o, r.docs(), Answer{CommandID: r.last(action).ID, Error: &ActionError{kind, message}}, r.now))
}

// event delivers an event as the engine does: to whoever waits, else into the mailbox.
func (r *run) event(typ string, ev PullEvent) *run {
	r.t.Helper()
	docs := r.docs()
	m := docs.Mailboxes[typ]
	if m == nil {
		m = &Mailbox{}
	}
	belongs := ""
	if r.execution != nil && ev.CorrelationID == docs.Execution.CorrelationID {
		belongs = r.o.ID
	}
	if w, ok := m.Match(ev, r.o.Scope, belongs); ok {
		return r.take(r.p.Pulled(r.o, docs, w.Action, ev, r.now))
	}
	ev.At, ev.Until = r.now.UnixMilli(), r.now.Add(time.Minute).UnixMilli()
	m.Keep(ev, belongs)
	r.mail[typ] = m.Encode()
	r.out = Outcome{Stale: true, Note: "kept"}
	return r
}

func (r *run) pull(typ, data string) *run {
	r.t.Helper()
	return r.event(typ, PullEvent{ID: fmt.Sprint("ev-", r.now.UnixNano(), typ), Source: "eq", Subject: r.o.Scope, Data: json.RawMessage(data)})
}

// wait lets time pass, with a Tick at every time that is due.
func (r *run) wait(d time.Duration) *run {
	r.t.Helper()
	end := r.now.Add(d)
	for i := 0; ; i++ {
		due := r.x().Due()
		if due.IsZero() || due.After(end) {
			break
		}
		if due.After(r.now) {
			r.now = due
		}
		r.take(r.p.Tick(r.o, r.docs(), r.now))
		if i > 10_000 {
			r.t.Fatal("timers do not advance")
		}
	}
	r.now = end
	return r
}

// hold applies a method of Execution.
func (r *run) hold(x *Execution) *run {
	how, before := HoldNone, r.x()
	switch {
	case before.Terminal():
	case x.Stopped:
		how = HoldStop
	case x.Failed:
		how = HoldAbort
	case x.Paused && !before.Paused:
		how = HoldPause
	case before.Paused && !x.Paused:
		how = HoldResume
	}
	r.record = append(r.record, Recorded{At: r.now, Hold: how})
	r.store(x)
	return r
}

// want checks where the run is: "Phase current [active steps]".
func (r *run) want(where string) *run {
	r.t.Helper()
	x := r.x()
	if got := fmt.Sprintf("%s %s [%s]", x.Phase(), x.CurrentStep, strings.Join(x.ActiveSteps, " ")); got != where {
		r.t.Fatalf("at %s, want %s (error %q, note %q)", got, where, x.Error, r.out.Note)
	}
	return r
}

// wantSent checks the commands since the last look: "action/iteration/attempt", with * when
// sent again.
func (r *run) wantSent(want ...string) *run {
	r.t.Helper()
	var got []string
	for _, c := range r.sent[r.looked:] {
		s := fmt.Sprintf("%s/%d/%d", c.Action, c.Iteration, c.Attempt)
		if c.Again {
			s += "*"
		}
		got = append(got, s)
	}
	if !slices.Equal(got, want) {
		r.t.Fatalf("sent %q, want %q", got, want)
	}
	r.looked = len(r.sent)
	return r
}

func (r *run) wantStale() *run {
	r.t.Helper()
	if !r.out.Stale || r.out.Note == "" || len(r.out.Commands) > 0 || len(r.out.ChangedMailboxes) > 0 {
		r.t.Fatalf("not stale: %+v", r.out)
	}
	return r
}

func (r *run) wantError(parts ...string) *run {
	r.t.Helper()
	for _, part := range parts {
		if !strings.Contains(r.x().Error, part) {
			r.t.Fatalf("error %q, want %q", r.x().Error, part)
		}
	}
	return r
}

func (r *run) wantDue(after time.Duration) *run {
	r.t.Helper()
	due := r.x().Due()
	if after < 0 {
		if !due.IsZero() {
			r.t.Fatalf("due at %v, want never", due.Sub(epoch))
		}
		return r
	}
	if due.Sub(r.now) != after {
		r.t.Fatalf("due in %v, want %v", due.Sub(r.now), after)
	}
	return r
}
