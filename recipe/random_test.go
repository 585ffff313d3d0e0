package recipe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// chooser is where randomness comes from: rapid, or the bytes of a fuzzer.
type chooser interface {
	intn(n int, label string) int // 0 to n-1
}

type rapidChooser struct{ t *rapid.T }

func (c rapidChooser) intn(n int, label string) int { return rapid.IntRange(0, n-1).Draw(c.t, label) }

type byteChooser struct{ data []byte }

func (c *byteChooser) intn(n int, _ string) int {
	if len(c.data) == 0 {
		return 0
	}
	b := int(c.data[0])
	c.data = c.data[1:]
	return b % n
}

func one[E any](c chooser, label string, of ...E) E { return of[c.intn(len(of), label)] }

// randomRecipe makes a valid recipe: a row of steps and branches, with ways back and
// ahead. Wherever there is a choice one way is always open, or opens in time.
func randomRecipe(c chooser) []byte {
	var b strings.Builder
	actions := 0
	step := func(name string) {
		fmt.Fprintf(&b, "step %s\n", name)
		for range c.intn(3, "actions") {
			kind := one(c, "kind", "do", "do", "on")
			fmt.Fprintf(&b, "%s a%d @ %s type t%d time %d", kind, actions, strings.TrimSuffix(name, "*"), c.intn(3, "type"), 1+c.intn(30, "time"))
			if kind == "do" {
				fmt.Fprintf(&b, " attempts %d", 1+c.intn(3, "attempts"))
				if c.intn(2, "cancel?") == 0 {
					b.WriteString(" cancel 5")
				}
			} else if c.intn(3, "asset?") == 0 {
				fmt.Fprintf(&b, ` with {"asset_id":"as%d"}`, c.intn(2, "asset"))
			}
			b.WriteString("\n")
			actions++
		}
	}
	condition := func() string {
		conditions := []string{"job.parameters.p == 1", "job.parameters.q > 1", "step.t > 3", "step.t >= 1.5 and job.parameters.p == 1", "never", "job.parameters.none == nil"}
		if actions > 0 {
			a := c.intn(actions, "asked")
			conditions = append(conditions, fmt.Sprintf("actions.a%d.ok", a), fmt.Sprintf("not actions.a%d.ok", a), fmt.Sprintf("actions.a%d.result.n > 2", a),
				fmt.Sprintf("(actions.a%d.result.n ?? 0) > 2", a), fmt.Sprintf("actions.a%d.result.n == 3", a))
		}
		return one(c, "condition", conditions...)
	}
	open := func() string { return one(c, "open", "always", "otherwise", "", "TRUE") } // a way that is never closed

	rows := 1 + c.intn(4, "rows")
	var places []string
	var edges strings.Builder
	for i := range rows {
		name := fmt.Sprint("S", i)
		if kind := one(c, "place", "step", "step", "sim", "sel"); kind == "step" || i == 0 {
			step(name + map[bool]string{true: "*"}[i == 0])
		} else {
			name = fmt.Sprint("B", i)
			var paths []string
			n := 2 + c.intn(2, "paths")
			for p := range n {
				var path []string
				for s := range 1 + c.intn(2, "length") {
					path = append(path, fmt.Sprintf("P%d-%d-%d", i, p, s))
					step(path[s])
				}
				paths = append(paths, strings.Join(path, " "))
				if kind == "sel" {
					cond := condition()
					if p == n-1 {
						cond = one(c, "last entry", "otherwise", "always", "step.t > 2")
					}
					fmt.Fprintf(&edges, "%s > %s: %s ! %d\n", name, path[0], cond, p)
				}
			}
			fmt.Fprintf(&b, "%s %s: %s\n", kind, name, strings.Join(paths, " | "))
		}
		places = append(places, name)
	}
	for i, from := range places {
		if i+1 == rows {
			break
		}
		most := 3
		if from[0] == 'B' {
			most = 2 // R016: exits of a simultaneous branch differ
		}
		for n := range c.intn(most, "other ways") {
			target := places[c.intn(rows, "target")]
			fmt.Fprintf(&edges, "%s > %s: %s ! %d\n", from, target, condition(), n)
		}
		fmt.Fprintf(&edges, "%s > %s: %s ! 9\n", from, places[i+1], open())
	}
	b.WriteString(edges.String())
	b.WriteString(`set {"MaxIterations": 4}`)
	if !HasErrors(Check(text(b.String()), Options{})) {
		return text(b.String())
	}
	for i, name := range append(places, "P1-0-0", "P1-1-0", "P1-2-0", "P2-0-0", "P2-1-0", "P2-2-0", "P3-0-0", "P3-1-0", "P3-2-0") {
		if strings.Contains(b.String(), "step "+name) { // a loop without actions: give each place one
			fmt.Fprintf(&b, "\ndo b%d @ %s", i, name)
		}
	}
	return text(b.String())
}

// world runs one job with random events and checks what must always hold.
type world struct {
	*run
	c        chooser
	rests    bool              // the recipe always has a way on
	ids      map[string]string // command id -> action/iteration/attempt
	keys     map[string]string // and back
	attempts map[string]int
	held     bool

	before   *Execution // at the last check
	answered string     // the action that is answered now, "" = none
}

func newWorld(t testing.TB, c chooser, p *Program) *world {
	r := &run{t: t, p: p, now: epoch, mail: map[string][]byte{}, o: Order{
		ID: "JO-1", Scope: "cell-07", Parameters: map[string]any{"p": c.intn(3, "p"), "q": c.intn(4, "q"), "mark": "label"},
	}}
	w := &world{run: r, c: c, ids: map[string]string{}, keys: map[string]string{}, attempts: map[string]int{}}
	for _, typ := range p.PullTypes() {
		w.mail[typ] = (&Mailbox{Waiting: []Waiting{foreign}}).Encode()
	}
	w.commit(func() Outcome { return p.Start(r.o, "WM-1", "1-0", r.docs().Mailboxes, r.now) })
	return w
}

// foreign waits in every mailbox and is nobody of ours.
var foreign = Waiting{JobID: "JO-2", Action: "e", Asset: "another", CorrelationID: "c-2", Since: 1 << 50}

// commit decides twice, compares, checks, and stores.
func (w *world) commit(decide func() Outcome) {
	w.t.Helper()
	before := string(w.execution)
	out, again := decide(), decide()
	if diff := cmp.Diff(out, again); diff != "" {
		w.t.Fatalf("decisions differ: %s", diff)
	}
	var x *Execution
	if w.execution != nil {
		x = w.x()
	}
	if out.Stale && (len(out.Commands) > 0 || len(out.ChangedMailboxes) > 0 || out.Note == "") {
		w.t.Fatalf("stale, but %+v", out)
	}
	if x != nil && x.Terminal() && !out.Stale {
		w.t.Fatal("a run that is over was decided on")
	}
	w.take(out)
	if out.Stale && string(w.execution) != before {
		w.t.Fatal("stale, but stored")
	}
	w.check(out)
}

// pure decides on documents and checks that they stay as they are.
func (w *world) pure(decide func(Docs) Outcome) {
	w.t.Helper()
	docs := w.docs()
	w.commit(func() Outcome {
		out := decide(docs)
		if !bytes.Equal(docs.Execution.Encode(), w.execution) {
			w.t.Fatal("the execution decided on was changed")
		}
		for typ, m := range docs.Mailboxes {
			if w.mail[typ] == nil || !bytes.Equal(m.Encode(), w.mail[typ]) {
				w.t.Fatalf("mailbox %s decided on was changed", typ)
			}
		}
		return out
	})
}

func (w *world) check(out Outcome) {
	w.t.Helper()
	x := w.x()
	w.cancels(x)
	if (x.Terminal() || x.Paused) && len(out.Commands) > 0 {
		w.t.Fatalf("commands although terminal or paused: %+v", out.Commands)
	}
	for _, c := range out.Commands {
		key := fmt.Sprintf("%s/%d/%d", c.Action, c.Iteration, c.Attempt)
		if c.Again != (w.ids[c.ID] != "") {
			w.t.Fatalf("command %s: again %v", key, c.Again)
		}
		if k, ok := w.ids[c.ID]; ok && k != key {
			w.t.Fatalf("one id for %s and %s", k, key)
		}
		if id, ok := w.keys[key]; ok && id != c.ID {
			w.t.Fatalf("two ids for %s", key)
		}
		if !c.Again && c.Attempt != w.attempts[c.Action]+1 {
			w.t.Fatalf("attempt %s after %d", key, w.attempts[c.Action])
		}
		w.ids[c.ID], w.keys[key], w.attempts[c.Action] = key, c.ID, c.Attempt
	}
	if x.Completed && x.Failed || x.Failed != (x.Error != "") {
		w.t.Fatalf("completed %v failed %v error %q", x.Completed, x.Failed, x.Error)
	}
	steps := w.p.Recipe().Steps
	for _, active := range x.ActiveSteps {
		if !slices.ContainsFunc(steps, func(s Step) bool { return s.Name == active }) {
			w.t.Fatalf("step %s is active", active)
		}
	}
	if w.p.places[x.CurrentStep] == nil {
		w.t.Fatalf("current step %s", x.CurrentStep)
	}
	open := false
	for i, a := range x.Actions {
		busy := a.State == ActionDispatched || a.State == ActionWaiting
		open = open || busy
		if busy && !x.Terminal() && !slices.Contains(x.ActiveSteps, w.p.actions[i].Step) {
			w.t.Fatalf("action %s is %s in an inactive step", a.Name, a.State)
		}
		if busy != (a.Deadline != 0 || a.Left != 0) && !x.Terminal() {
			w.t.Fatalf("action %s is %s with deadline %d", a.Name, a.State, a.Deadline)
		}
		if !w.held {
			w.inMailbox(x, &a)
		}
	}
	for _, typ := range w.p.PullTypes() {
		if m, err := DecodeMailbox(w.mail[typ]); err != nil || !slices.Contains(m.Waiting, foreign) {
			w.t.Fatalf("another job's place in mailbox %s is gone: %v", typ, err)
		}
	}
	switch {
	case x.Terminal() || x.Paused:
		if !x.Due().IsZero() {
			w.t.Fatal("due although terminal or paused")
		}
	case open && x.Due().IsZero(), w.rests && x.Due().IsZero():
		w.t.Fatalf("at %s %v nothing is due", x.CurrentStep, x.ActiveSteps)
	default:
		w.fixed(x)
	}
}

// cancels: a command that is given up unanswered is called off, once, and no other is.
func (w *world) cancels(x *Execution) {
	w.t.Helper()
	if w.before != nil {
		for _, a := range w.before.Actions {
			is := x.Action(a.Name)
			givenUp := (x.Terminal() || is.CommandID != a.CommandID || is.State != ActionDispatched) && w.answered != a.Name
			had := w.before.cancelOf(CancelID(a.CommandID)) >= 0
			want := had || a.State == ActionDispatched && a.Cancel.TypeID != "" && !w.before.Terminal() && givenUp
			if has := x.cancelOf(CancelID(a.CommandID)) >= 0; has != want && a.CommandID != "" {
				w.t.Fatalf("command %s of %s, %s before and %s now, is called off: %v", a.CommandID, a.Name, a.State, is.State, has)
			}
		}
	}
	for i, c := range x.Cancels {
		if w.ids[c.Cancels] == "" || x.cancelOf(c.CommandID) != i {
			w.t.Fatalf("cancel of %s, which was not sent, or a second one: %+v", c.Cancels, x.Cancels)
		}
	}
	w.before = x
}

// answer hands an answer to the run.
func (w *world) answer(a Answer) {
	w.t.Helper()
	w.answered, _, _ = strings.Cut(w.ids[a.CommandID], "/")
	w.pure(func(d Docs) Outcome { return w.p.Answer(w.o, d, a, w.now) })
	w.answered = ""
}

// inMailbox: what waits stands in its mailbox once, nothing else does.
func (w *world) inMailbox(x *Execution, a *ActionEntry) {
	w.t.Helper()
	n := 0
	if data := w.mail[a.TypeID]; data != nil {
		m, err := DecodeMailbox(data)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range m.Waiting {
			if e.JobID == x.JobID && e.Action == a.Name {
				n++
			}
		}
	}
	if want := a.State == ActionWaiting && !x.Terminal(); (n == 1) != want || n > 1 {
		w.t.Fatalf("action %s is %s and stands %d times in its mailbox", a.Name, a.State, n)
	}
}

// fixed: to look again at the same time moves nothing.
func (w *world) fixed(x *Execution) {
	w.t.Helper()
	if !x.Due().IsZero() && !x.Due().After(w.now) {
		return // something is due
	}
	out := w.p.Evaluate(w.o, w.docs(), w.now)
	if len(out.Commands) > 0 || string(out.Docs.Execution.Encode()) != string(w.execution) {
		w.t.Fatalf("not at rest: %s", cmp.Diff(string(w.execution), string(out.Docs.Execution.Encode())))
	}
}

var results = []string{`{"n":1}`, `{"n":3}`, `{"n":5}`, `{}`, `null`, ``, `[1]`, `"x"`, `{"n":"x"}`}

// event makes one thing happen.
func (w *world) event() {
	w.t.Helper()
	c, x := w.c, w.x()
	switch op := c.intn(16, "event"); op {
	case 0, 1, 2, 3:
		w.respond(one(c, "result", results...), nil)
	case 4:
		w.respond("", &ActionError{"BUSY", "try again"})
	case 5: // an id of any time, once more
		var ids []string
		for id := range w.ids {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		ids = append(ids, "unknown")
		a := Answer{CommandID: one(c, "id", ids...), Result: json.RawMessage(one(c, "result", results...))}
		if c.intn(2, "refused?") == 0 {
			a.Error = &ActionError{Kind: "LATE"}
		}
		w.answer(a)
	case 6: // an id of the iteration to come
		if len(x.Actions) > 0 {
			a := one(c, "action", x.Actions...)
			w.pure(func(d Docs) Outcome {
				return w.p.Answer(w.o, d, Answer{CommandID: CommandID(x.CorrelationID, a.Name, a.Iteration+1, a.Attempt)}, w.now)
			})
		}
	case 7, 8, 9:
		w.pullEvent()
	case 10, 11:
		w.now = w.now.Add(time.Duration(c.intn(40_000, "ms")) * time.Millisecond)
		w.pure(func(d Docs) Outcome { return w.p.Tick(w.o, d, w.now) })
	case 12:
		w.pure(func(d Docs) Outcome { return w.p.Evaluate(w.o, d, w.now) })
	case 13:
		w.held = w.held || x.Terminal()
		w.hold(x.Pause(w.now))
		w.check(Outcome{})
	case 14:
		w.resume()
	case 15:
		if c.intn(12, "end?") == 0 {
			w.held = true // its mailboxes are put right by whoever aborts it
			w.hold(one(c, "how", x.Abort("aborted by MES", w.now), x.Stop(w.now)))
			w.check(Outcome{})
		}
	}
}

func (w *world) resume() {
	w.t.Helper()
	w.hold(w.x().Resume(w.now))
	w.pure(func(d Docs) Outcome { return w.p.Evaluate(w.o, d, w.now) })
}

// respond answers one of the commands that are open.
func (w *world) respond(result string, refusal *ActionError) {
	w.t.Helper()
	var open []string
	for _, a := range w.x().Actions {
		if a.State == ActionDispatched && a.CommandID != "" {
			open = append(open, a.CommandID)
		}
	}
	if len(open) == 0 {
		return
	}
	a := Answer{CommandID: one(w.c, "open", open...), Result: json.RawMessage(result), Error: refusal}
	wasOver := w.x().Terminal()
	w.answer(a)
	if w.out.Stale != wasOver {
		w.t.Fatalf("the answer to an open command: %+v", w.out)
	}
}

// pullEvent delivers an event of one of the types, as an engine does.
func (w *world) pullEvent() {
	w.t.Helper()
	types := w.p.PullTypes()
	if len(types) == 0 {
		return
	}
	typ := one(w.c, "event type", types...)
	x := w.x()
	ev := PullEvent{
		ID: fmt.Sprint(w.now.UnixMilli(), "-", w.c.intn(5, "event id")), Source: "eq",
		Subject:       one(w.c, "subject", "cell-07", "cell-07/as0", "cell-07/as1"),
		CorrelationID: one(w.c, "correlation", "", "", x.CorrelationID, "trace"),
		Data:          json.RawMessage(one(w.c, "data", append(results, "{")...)),
		Until:         w.now.Add(time.Minute).UnixMilli(),
	}
	belongs := ""
	if ev.CorrelationID == x.CorrelationID && !x.Terminal() {
		belongs = x.JobID
	}
	m, err := DecodeMailbox(w.mail[typ])
	if err != nil {
		w.t.Fatal(err)
	}
	waiting, ok := m.Match(ev, w.o.Scope, belongs)
	switch {
	case ok && waiting.JobID == x.JobID:
		w.pure(func(d Docs) Outcome { return w.p.Pulled(w.o, d, waiting.Action, ev, w.now) })
	case !ok && m.Keep(ev, belongs):
		w.mail[typ] = m.Encode()
	}
}

// finish plays on with willing equipment until the run is over.
func (w *world) finish() {
	w.t.Helper()
	for i := 0; !w.x().Terminal(); i++ {
		if i > 3000 {
			w.t.Fatalf("no end; at %s %v", w.x().CurrentStep, w.x().ActiveSteps)
		}
		if w.x().Paused {
			w.resume()
		}
		w.respond(`{"n":3}`, nil)
		for _, a := range w.x().Actions {
			if a.State == ActionWaiting && !w.x().Terminal() {
				w.pure(func(d Docs) Outcome {
					return w.p.Pulled(w.o, d, a.Name, PullEvent{ID: fmt.Sprint(i), Data: json.RawMessage(`{"n":3}`)}, w.now)
				})
				break
			}
		}
		if due := w.x().Due(); !due.IsZero() && due.After(w.now) && i%2 == 0 {
			w.now = due
		}
		w.pure(func(d Docs) Outcome { return w.p.Tick(w.o, d, w.now) })
	}
}

// Random recipes and random orders of events in all mixtures. See world.check for what must hold.
func TestRandomRuns(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := rapidChooser{rt}
		tb := rapidTB{t, rt}
		w := newWorld(tb, c, compile(tb, string(randomRecipe(c))))
		w.rests = true
		for range c.intn(40, "events") {
			w.event()
		}
		w.finish()
		w.replayed()
	})
}

// replayed: the record of a run leads to the same end with the same recipe.
func (w *world) replayed() {
	w.t.Helper()
	got, err := w.p.Replay(w.o, "WM-1", w.record, time.Hour)
	if err != nil {
		w.t.Fatal(err)
	}
	if got.Parted != nil {
		w.t.Fatalf("entry %d of %d parts: %s", got.Parted.Entry, len(w.record), cmp.Diff(got.Parted.Recorded, got.Parted.Replayed))
	}
	end := func(x *Execution) string {
		text := fmt.Sprint(x.CurrentStep, x.ActiveSteps, x.Completed, x.Failed, x.Stopped, x.Error != "")
		for _, a := range x.Actions {
			text += fmt.Sprintf(" %s %s %d %s", a.Name, a.State, a.Iteration, a.Result)
		}
		return text
	}
	if diff := cmp.Diff(end(w.x()), end(got.Execution)); diff != "" || len(got.Left) > 0 {
		w.t.Fatalf("left %q, end (-run +replay): %s", got.Left, diff)
	}
}

// rapidTB lets helpers for testing.TB fail a rapid test.
type rapidTB struct {
	testing.TB
	rt *rapid.T
}

func (t rapidTB) Helper()                           {}
func (t rapidTB) Fatal(args ...any)                 { t.rt.Fatal(args...) }
func (t rapidTB) Fatalf(format string, args ...any) { t.rt.Fatalf(format, args...) }
func (t rapidTB) Error(args ...any)                 { t.rt.Error(args...) }
func (t rapidTB) Errorf(format string, args ...any) { t.rt.Errorf(format, args...) }
