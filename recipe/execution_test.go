package recipe

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// G.1: the document of the page reads, and is written with the same members in the same
// order, nulls included, before our own.
func TestGoldenExecution(t *testing.T) {
	data := testdata(t, "execution.json")
	x, err := DecodeExecution(data)
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := json.Compact(&want, data); err != nil {
		t.Fatal(err)
	}
	ours := `,"recipe":"","started_at":0,"steps":{}}`
	if got, want := string(x.Encode()), strings.TrimSuffix(want.String(), "}")+ours; got != want {
		t.Error(cmp.Diff(want, got))
	}
	if x.Action("press_bearings").Attempt != 2 || string(x.Action("await_pallet").Result) != `{"pallet":"P-118"}` || x.Action("none") != nil {
		t.Errorf("%+v", x)
	}
	if types := x.WaitingTypes(); len(types) != 1 || types[0] != "com.acme.cell.camera_result.v1" {
		t.Error(types)
	}
}

// All members survive, in any mixture of zero and set; the JSON of the type is the document.
func TestExecutionRoundTrip(t *testing.T) {
	full := &Execution{
		JobID: "J <&> \"ü\" \u2028", Scope: "s", WorkMasterID: "w", CurrentStep: "A", CorrelationID: "c", ActiveSteps: []string{"A", "B"},
		Actions: []ActionEntry{
			{Name: "z", State: ActionDispatched, TypeID: "t", CommandID: "i", Attempt: 3, Result: json.RawMessage(`{"b":1,"a":12345678901234567890}`), Error: "line\nbreak", Iteration: 2, FirstAttempt: 2, DispatchedAt: 1, Deadline: 2, ResendAt: 3, Left: 4},
			{Name: "a", State: ActionPending},
		},
		Completed: true, Failed: true, Error: `"quoted" \ <tag>`, Recipe: "sha", StartedAt: 5, EndedAt: 6, Paused: true, PausedAt: 7, Stopped: true, WakeAt: 8, BegunAt: 4,
		Steps: []StepEntry{{Name: "A", Since: 9, Iteration: 1}, {Name: "X", Since: 10, Iteration: 2, Choosing: true}},
	}
	for name, x := range map[string]*Execution{"full": full, "least": {JobID: "J"}} {
		data, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		var again Execution
		if err := json.Unmarshal(data, &again); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, data)
		}
		if diff := cmp.Diff(x, &again); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := string((&Execution{JobID: "J"}).Encode()); !strings.Contains(got, `"active_steps":[],"actions":{},"completed":false,"failed":false,"error":null`) {
		t.Error(got)
	}
	if got := string(full.Encode()); !strings.Contains(got, "J <&> \\\"ü\\\" \u2028") {
		t.Error(got)
	}
}

// 0.3, B.1: what other writers do.
func TestForeignExecutions(t *testing.T) {
	x, err := DecodeExecution([]byte(`{"job_id":"J","active_steps":{},"unknown":[{}],"error":null,"actions":{
		"a":{"name":"a","state":"completed","correlation_id":"J:a:2","attempt":2,"result":null},
		"b":{"name":"b","state":"waiting","command_ce_id":null,"correlation_id":"0e8f8a0c-2b0d-4f0a-8a55-7c1d2d3e4f50"}}}`))
	if err != nil || len(x.ActiveSteps) != 0 || x.Actions[0].CommandID != "" || x.Actions[1].CommandID != "0e8f8a0c-2b0d-4f0a-8a55-7c1d2d3e4f50" {
		t.Errorf("%+v, %v", x, err)
	}
	if !strings.Contains(string(x.Encode()), `"active_steps":[]`) {
		t.Error("active_steps is not []")
	}
	for _, bad := range []string{
		``, `[]`, `{}`, `{"job_id":""}`, `{"job_id":5}`,
		`{"job_id":"J","active_steps":{"a":1}}`, `{"job_id":"J","active_steps":"A"}`, `{"job_id":"J","active_steps":[1]}`,
		`{"job_id":"J","actions":[]}`, `{"job_id":"J","actions":{"a":1}}`, `{"job_id":"J","actions":{"a":{}}}`, `{"job_id":"J","actions":{"a":{"state":"lost"}}}`,
		`{"job_id":"J","completed":"yes"}`, `{"job_id":"J","started_at":1.5}`, `{"job_id":"J","started_at":-1}`, `{"job_id":"J","started_at":9999999999999999}`,
		`{"job_id":"J","steps":{"A":{"choosing":1}}}`, `{"job_id":"J","paused":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
	} {
		if _, err := DecodeExecution([]byte(bad)); err == nil || !strings.HasPrefix(err.Error(), "recipe: execution: ") {
			t.Errorf("%s: %v", bad, err)
		}
		var x Execution
		if err := x.UnmarshalJSON([]byte(bad)); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

// The bytes that a document was read from are not kept.
func TestDecodeCopies(t *testing.T) {
	data := []byte(`{"job_id":"J","actions":{"a":{"state":"completed","result":{"n":1}}}}`)
	x, err := DecodeExecution(data)
	if err != nil {
		t.Fatal(err)
	}
	clear(data)
	if string(x.Actions[0].Result) != `{"n":1}` || x.JobID != "J" {
		t.Errorf("%+v", x)
	}
}

func TestResults(t *testing.T) {
	x := &Execution{JobID: "J", Actions: []ActionEntry{
		{Name: "b", State: ActionCompleted, Result: json.RawMessage(`{"z":{"y":[1]},"a":null,"z":2.50}`)},
		{Name: "a", State: ActionCompleted, Result: json.RawMessage(`7`)},
		{Name: "none", State: ActionCompleted},
		{Name: "open", State: ActionDispatched, Result: json.RawMessage(`7`)},
		{Name: "list", State: ActionCompleted, Result: json.RawMessage(`[{"a":1}]`)},
		{Name: "empty", State: ActionCompleted, Result: json.RawMessage(`{}`)},
	}}
	want := []Result{{"b.a", json.RawMessage("null")}, {"b.z", json.RawMessage("2.50")}, {"a", json.RawMessage("7")}, {"list", json.RawMessage(`[{"a":1}]`)}}
	if diff := cmp.Diff(want, x.Results()); diff != "" {
		t.Error(diff)
	}
}

// After Abort and while paused no command is sent. Answers and events are recorded
// while paused, and take effect on Resume.
func TestAbortAndPauseSendNothing(t *testing.T) {
	const recipe = "step A*\nstep B\nA > B\ndo a @ A time 30\non e @ A type t time 60\ndo b @ B"
	r := begin(t, recipe, nil).wantSent("a/1/1").wantDue(10 * time.Second)
	a := r.x().Action("a").CommandID
	r.hold(r.x().Abort("aborted by MES", r.now)).want("Failed A [A]").wantError("aborted by MES").wantDue(-1)
	r.answerTo(a, "").wantStale()
	r.pull("t", "").wantStale()
	r.wait(time.Hour).wantSent().want("Failed A [A]")
	if r.x().EndedAt != epoch.UnixMilli() {
		t.Error(r.x().EndedAt)
	}

	r = begin(t, recipe, nil)
	a = r.x().Action("a").CommandID
	r.wait(4 * time.Second).wantSent("a/1/1")
	r.hold(r.x().Pause(r.now)).wantDue(-1)
	r.hold(r.x().Pause(r.now.Add(time.Second))) // again: nothing changes
	r.wait(time.Hour)
	r.take(r.p.Tick(r.o, r.docs(), r.now)).wantStale()
	r.take(r.p.Evaluate(r.o, r.docs(), r.now)).wantStale()
	r.answerTo(a, `{"n":1}`).wantSent()
	r.pull("t", `{"m":2}`).wantSent().want("Running A [A]")
	if x := r.x(); x.Action("a").State != ActionCompleted || string(x.Action("e").Result) != `{"m":2}` || len(r.mail) != 0 {
		t.Errorf("not recorded: %+v", x)
	}
	r.hold(r.x().Resume(r.now)).take(r.p.Evaluate(r.o, r.docs(), r.now)).want("Running B [B]").wantSent("b/1/1")
}

// An outbox entry that a later decision made pointless is not sent.
func TestAwaits(t *testing.T) {
	r := begin(t, "step A*\nstep B\nA > B\ndo a @ A attempts 2\ndo b @ B", nil)
	first, x := r.sent[0], r.x()
	if !x.Awaits(first) || x.Pause(r.now).Awaits(first) || x.Abort("r", r.now).Awaits(first) || x.Stop(r.now).Awaits(first) {
		t.Error("dispatched, paused, aborted or stopped")
	}
	if !x.Pause(r.now).Resume(r.now).Awaits(first) || x.Awaits(Command{Action: "none"}) {
		t.Error("resumed, or unknown")
	}
	if r.refuse("a", "K", ""); r.x().Awaits(first) || !r.x().Awaits(r.last("a")) {
		t.Error("second attempt")
	}
	if r.answer("a", ""); r.x().Awaits(r.last("a")) {
		t.Error("answered")
	}
}

// B.9: what was left of the time-outs goes on after Resume; an unanswered command is sent
// again under the same id, also if only the timer looks.
func TestPauseKeepsWhatWasLeft(t *testing.T) {
	for _, look := range []func(*Program, Order, Docs, time.Time) Outcome{(*Program).Evaluate, (*Program).Tick} {
		r := begin(t, "step A*\ndo a @ A time 30\non e @ A type t time 60", nil)
		r.wait(25*time.Second).wantSent("a/1/1", "a/1/1*", "a/1/1*")
		r.hold(r.x().Pause(r.now)).wait(time.Hour)
		r.hold(r.x().Resume(r.now)).wantDue(0)
		if x := r.x(); x.Action("a").Deadline != r.now.Add(5*time.Second).UnixMilli() || x.Action("e").Deadline != r.now.Add(35*time.Second).UnixMilli() || x.Paused || x.PausedAt != 0 {
			t.Errorf("%+v", x)
		}
		r.hold(r.x().Resume(r.now.Add(time.Minute))) // again: nothing changes
		r.take(look(r.p, r.o, r.docs(), r.now)).wantSent("a/1/1*").wantDue(5 * time.Second)
		r.wait(5 * time.Second).want("Failed A [A]").wantError("action a timed out")
	}
	// A time-out that was over when the pause came is over after it.
	r := begin(t, "step A*\ndo a @ A time 1", nil)
	r.now = r.now.Add(5 * time.Second)
	r.hold(r.x().Pause(r.now)).hold(r.x().Resume(r.now))
	r.wait(time.Second).want("Failed A [A]")
	// A refusal while paused is acted on after it.
	r = begin(t, "step A*\ndo a @ A attempts 2\nset {\"MaxIterations\": 1}", nil)
	r.hold(r.x().Pause(r.now)).refuse("a", "K", "m").want("Running A [A]").wantSent("a/1/1")
	r.hold(r.x().Resume(r.now)).take(r.p.Evaluate(r.o, r.docs(), r.now)).wantSent("a/1/2").want("Running A [A]")
	r.hold(r.x().Pause(r.now)).refuse("a", "K", "m").want("Running A [A]")
	r.hold(r.x().Resume(r.now)).take(r.p.Tick(r.o, r.docs(), r.now)).want("Failed A [A]")
}

// B.9: Stop keeps what was done.
func TestStop(t *testing.T) {
	r := begin(t, "step A*\nstep B\nA > B\ndo a @ A\ndo b @ B", nil).answer("a", `{"n":1}`)
	r.hold(r.x().Pause(r.now)).hold(r.x().Stop(r.now)).want("Completed B [B]").wantDue(-1)
	if x := r.x(); len(x.Results()) != 1 || !x.Stopped || x.Paused || x.Actions[1].Left != 0 {
		t.Errorf("%+v", x)
	}
}

// The methods leave the document they are called on alone.
func TestHoldsClone(t *testing.T) {
	x := begin(t, "step A*\ndo a @ A", nil).x()
	before := string(x.Encode())
	x.Abort("r", epoch)
	x.Stop(epoch)
	paused := x.Pause(epoch)
	mid := string(paused.Encode())
	paused.Resume(epoch.Add(time.Second))
	if string(x.Encode()) != before || string(paused.Encode()) != mid {
		t.Error("changed")
	}
}

// A document of a newer version loses nothing when this one carries the run on.
func TestExecutionKeepsUnknownMembers(t *testing.T) {
	r := begin(t, "step A*\nstep B\nA > B\ndo a @ A\ndo b @ B", nil)
	stored := strings.Replace(string(r.x().Encode()), `"actions":{"a":{`, `"_dataschema":"u","future":{"n":1.0,"l":[1]},"actions":{"a":{"hint":"x",`, 1)
	x, err := DecodeExecution([]byte(stored))
	if err != nil {
		t.Fatal(err)
	}
	out := r.p.Answer(r.o, Docs{Execution: x}, Answer{CommandID: x.Action("a").CommandID}, r.now)
	got := string(out.Docs.Execution.Encode())
	if !strings.Contains(got, `"future":{"n":1.0,"l":[1]}`) || !strings.Contains(got, `"hint":"x"`) || strings.Contains(got, "_dataschema") {
		t.Errorf("%s", got)
	}
	if again, err := DecodeExecution([]byte(got)); err != nil || string(again.Encode()) != got {
		t.Errorf("%v", err)
	}
}
