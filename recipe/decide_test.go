package recipe

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/taktworks/takt/internal/testenv/golden"
)

const gearbox = "com.acme.cell."

// G.4: the golden recipe with torque not ok twice and mark = label (conditions and
// loops), and in the end the results in the order of the recipe.
func TestGoldenRun(t *testing.T) {
	r := begin(t, string(testdata(t, "gearbox.json")), map[string]any{"mark": "label"})
	r.want("Running AwaitPallet [AwaitPallet]").wantSent()
	r.pull(gearbox+"pallet_arrived.v1", `{"pallet": "P-118"}`).want("Running PrepareParallel [PlaceCover CameraCheck]").wantSent("place_cover/1/1")
	r.answerTwice("place_cover", `null`)
	r.want("Running PrepareParallel [PressBearings CameraCheck]").wantSent("press_bearings/1/1")
	r.pull(gearbox+"camera_result.v1", `{"ok":true}`).want("Running PrepareParallel [PressBearings]").wantSent()
	r.answer("press_bearings", "").want("Running Tighten [Tighten]").wantSent("tighten_cover/1/1")
	for i, ok := range []string{"false", "false", "true"} {
		r.answer("tighten_cover", `{"torque_nm": 84.70, "turns": 3}`).want("Running InspectTorque [InspectTorque]").wantSent()
		r.pull(gearbox+"torque_result.v1", `{"ok":`+ok+`}`)
		if ok == "false" {
			r.want("Running Tighten [Tighten]").wantSent([]string{"tighten_cover/2/2", "tighten_cover/3/3"}[i])
		}
	}
	r.want("Running MarkMode [PrintLabel]").wantSent("print_label/1/1")
	r.answer("print_label", `"L-9"`).want("Running Release [Release]").wantSent("release_pallet/1/1")
	r.answer("release_pallet", `[1, 2]`).want("Completed Release []").wantSent().wantDue(-1)
	if it := r.x().Action("tighten_cover").Iteration; it != 3 {
		t.Errorf("tighten_cover iteration %d", it)
	}
	if r.x().Action("laser_mark").State != ActionPending || len(r.mail) != 0 {
		t.Errorf("laser_mark %v, mail %v", r.x().Action("laser_mark"), r.mail)
	}
	want := []Result{
		{"await_pallet.pallet", json.RawMessage(`"P-118"`)},
		{"camera_check.ok", json.RawMessage(`true`)},
		{"tighten_cover.torque_nm", json.RawMessage(`84.70`)},
		{"tighten_cover.turns", json.RawMessage(`3`)},
		{"inspect_torque.ok", json.RawMessage(`true`)},
		{"print_label", json.RawMessage(`"L-9"`)},
		{"release_pallet", json.RawMessage(`[1,2]`)},
	}
	if diff := cmp.Diff(want, r.x().Results()); diff != "" {
		t.Error(diff)
	}
}

// answerTwice is answer, with a repeat of it that must be stale (equipment answers a
// repeated command again).
func (r *run) answerTwice(action, result string) *run {
	r.t.Helper()
	id := r.last(action).ID
	r.answerTo(id, result)
	saved := r.out
	r.answerTo(id, result).wantStale()
	r.out = saved
	return r
}

// The start writes one entry per action and the SHA-256 of the
// recipe that runs; the correlation id is of this start.
func TestStart(t *testing.T) {
	r := begin(t, "step A*\nstep B\nA > B\ndo a @ A time 30 with {\"n\":1}\ndo b @ B", nil)
	x := r.x()
	if x.JobID != "JO-1" || x.Scope != "cell-07" || x.WorkMasterID != "WM-1" || x.Recipe != r.p.SHA() || len(x.Recipe) != 64 || x.StartedAt != epoch.UnixMilli() {
		t.Errorf("%+v", x)
	}
	if len(x.Actions) != 2 || x.Actions[0].State != ActionDispatched || x.Actions[1].State != ActionPending || x.Actions[1].TypeID != "do.b" {
		t.Errorf("%+v", x.Actions)
	}
	c := r.sent[0]
	want := Command{
		ID: CommandID(x.CorrelationID, "a", 1, 1), JobID: "JO-1", Scope: "cell-07", Action: "a", TypeID: "do.a", CorrelationID: x.CorrelationID,
		Attempt: 1, Iteration: 1, Parameters: json.RawMessage(`{"n":1}`), Deadline: epoch.Add(30 * time.Second),
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
	if x.Actions[0].CommandID != c.ID {
		t.Error("the document has another command id")
	}
	again := r.p.Start(r.o, "WM-1", "1-0", nil, epoch)
	other := r.p.Start(r.o, "WM-1", "2-0", nil, epoch)
	if again.Docs.Execution.CorrelationID != x.CorrelationID || other.Docs.Execution.CorrelationID == x.CorrelationID {
		t.Error("correlation id: not the same for a repeated start, or the same for another")
	}
}

func TestCommandID(t *testing.T) {
	if CorrelationID("JO-1", "1-0") == CorrelationID("JO-11", "-0") {
		t.Error("order and start key run together")
	}
	const corr = "5d0a3c1e-7f52-4b0e-9a6c-2f8f6f0a9b41"
	got := CommandID(corr, "press", 2, 3)
	if want := uuid.NewSHA1(uuid.MustParse(corr), []byte("press/2/3")).String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	seen := map[string]bool{}
	for _, corr := range []string{corr, "0107f192-0b2b-5707-8a9e-6d93b206d9b3", "not a uuid", ""} {
		for i := 1; i < 3; i++ {
			for n := 1; n < 3; n++ {
				seen[CommandID(corr, "a", i, n)] = true
			}
		}
	}
	if len(seen) != 16 {
		t.Errorf("%d ids of 16", len(seen))
	}
}

// The last answer completes the run in its own decision, and the phase says so.
func TestCompletionPhase(t *testing.T) {
	r := begin(t, "step A*\nstep B\nA > B\ndo a @ A\ndo b @ B", nil)
	r.answer("a", "{}")
	if r.out.Phase != PhaseRunning {
		t.Error(r.out.Phase)
	}
	r.now = r.now.Add(time.Second)
	r.answer("b", "{}")
	x := r.x()
	if r.out.Phase != PhaseCompleted || !x.Completed || x.Failed || x.Error != "" || x.EndedAt != r.now.UnixMilli() || r.out.Note != "completed" || !r.out.Due.IsZero() {
		t.Errorf("%v %+v", r.out, x)
	}
}

// Steps without actions, first, in the middle and last, alone and in paths.
func TestActionFreeSteps(t *testing.T) {
	for name, c := range map[string]struct{ recipe, where string }{
		"alone":            {"step A*", "Completed A []"},
		"first":            {"step A*\nstep B\nA > B\ndo b @ B", "Running B [B]"},
		"middle":           {"step A*\nstep B\nstep C\nA > B\nB > C\ndo c @ C", "Running C [C]"},
		"all":              {"step A*\nstep B\nstep C\nA > B\nB > C", "Completed C []"},
		"both paths":       {"step A*\nstep B\nstep C\nstep D\nA > X\nX > D\nsim X: B | C\ndo d @ D", "Running D [D]"},
		"one path":         {"step A*\nstep B\nstep C\nstep D\nstep E\nA > X\nX > E\nsim X: B D | C\ndo d @ D", "Running X [D]"},
		"branch at end":    {"step A*\nstep B\nstep C\nA > X\nsim X: B | C", "Completed X []"},
		"selection at end": {"step A*\nstep B\nstep C\nA > X\nsel X: B | C", "Completed X []"},
		"branches":         {"step A*\nstep B\nstep C\nstep D\nstep E\nstep F\nA > X\nX > Y\nY > F\nsim X: B | C\nsel Y: D | E\ndo f @ F", "Running F [F]"},
	} {
		t.Run(name, func(t *testing.T) { begin(t, c.recipe, nil).want(c.where) })
	}
}

// The answer of a step that is not active changes nothing, even where the document
// says the action is dispatched; a step of a path is never taken for a linear one.
func TestInactiveStepsNeverAdvance(t *testing.T) {
	const recipe = "step A*\nstep B\nstep C\nstep D\nA > X\nX > D\nsim X: B | C\ndo a @ A\ndo b @ B\ndo c @ C\ndo d @ D"
	r := begin(t, recipe, nil).answer("a", "")
	b := r.last("b").ID
	r.answer("b", "").answer("c", "").want("Running D [D]")
	x := r.x()
	x.Action("b").State = ActionDispatched // a stale copy, written back
	x.Action("b").Deadline = r.now.UnixMilli() + 1
	r.store(x)
	r.answerTo(b, "").wantStale().want("Running D [D]")
	r.wait(time.Millisecond).want("Running D [D]")
	if b := r.x().Action("b"); b.State != ActionDispatched || b.Deadline != 0 {
		t.Errorf("the inactive action was touched, or its timer would not rest: %+v", b)
	}

	x = r.x()
	x.Action("b").State = ActionFailed
	r.store(x)
	r.take(r.p.Evaluate(r.o, r.docs(), r.now)).want("Running D [D]")

	x = r.x()
	x.CurrentStep, x.ActiveSteps = "C", []string{"C"} // as if linear: it would look like the end
	r.store(x)
	r.take(r.p.Evaluate(r.o, r.docs(), r.now)).want("Failed C [C]").wantError("inside branch X")

	for _, bad := range []func(*Execution){
		func(x *Execution) { x.CurrentStep = "nowhere" },
		func(x *Execution) { x.CurrentStep = "X"; x.ActiveSteps = []string{"D"} },
		func(x *Execution) { x.CurrentStep = "X"; x.ActiveSteps = []string{"nowhere"} },
	} {
		r := begin(t, recipe, nil)
		x := r.x()
		bad(x)
		r.store(x)
		r.take(r.p.Evaluate(r.o, r.docs(), r.now))
		if r.out.Phase != PhaseFailed {
			t.Errorf("%+v", r.out)
		}
	}
	r = begin(t, recipe, nil)
	x = r.x()
	x.ActiveSteps = nil
	r.store(x)
	r.take(r.p.Evaluate(r.o, r.docs(), r.now)).want("Running A []")
}

// A.5.1, A.5.4: which transition is taken.
func TestChoice(t *testing.T) {
	const plain = "step A*\nstep B\nstep C\nstep D\nA > D: never\nA > C: otherwise ! 1\nA > B: job.parameters.n == 1 ! 5\nA > D: job.parameters.n >= 1 ! 7\ndo b @ B\ndo c @ C\ndo d @ D"
	const exits = "step A*\nstep P\nstep Q\nstep B\nstep C\nA > X\nX > C: otherwise ! 1\nX > B: job.parameters.n == 1\nsim X: P | Q\ndo b @ B\ndo c @ C"
	const paths = "step A*\nstep P\nstep Q\nA > X\nX > Q: job.parameters.n == 2\nX > P: job.parameters.n == 1 ! 1\nsel X: P | Q\ndo p @ P\ndo q @ Q"
	for name, c := range map[string]struct {
		recipe, n, where string
	}{
		"first by priority":       {plain, "1", "Running B [B]"},
		"second":                  {plain, "2", "Running D [D]"},
		"otherwise goes last":     {plain, "0", "Running C [C]"},
		"exit":                    {exits, "1", "Running B [B]"},
		"exit otherwise":          {exits, "2", "Running C [C]"},
		"path":                    {paths, "1", "Running X [P]"},
		"other path":              {paths, "2", "Running X [Q]"},
		"no path":                 {paths, "3", "Running X []"},
		"first path, no entries":  {"step A*\nstep P\nstep Q\nA > X\nsel X: P | Q\ndo p @ P", "1", "Running X [P]"},
		"order breaks ties":       {"step A*\nstep B\nstep C\nA > B: job.id != 'x'\nA > C: job.id == 'x'\ndo b @ B", "1", "Running B [B]"},
		"none true: stays":        {"step A*\nstep B\nA > B: job.parameters.n == 9", "1", "Running A [A]"},
		"run-time error":          {"step A*\nstep B\nA > B: job.parameters.none > 9", "1", "Failed A [A]"},
		"run-time error in entry": {"step A*\nstep P\nstep Q\nA > X\nX > P: job.parameters.none > 9\nX > Q: otherwise ! 1\nsel X: P | Q", "1", "Failed X []"},
	} {
		t.Run(name, func(t *testing.T) {
			r := begin(t, c.recipe, map[string]any{"n": json.Number(c.n)}).want(c.where)
			if r.out.Phase == PhaseFailed {
				r.wantError("job.parameters.none > 9", "job.parameters.none is missing")
			}
		})
	}
}

// A step whose conditions are all false stays, and is looked at with every event of the
// job and every full second of step.t.
func TestWaitingForACondition(t *testing.T) {
	r := begin(t, "step A*\nstep B\nA > B: step.t >= 2.5\ndo b @ B", nil).want("Running A [A]").wantDue(time.Second)
	r.now = r.now.Add(300 * time.Millisecond)
	r.take(r.p.Tick(r.o, r.docs(), r.now)).wantStale()
	r.wait(1900 * time.Millisecond).want("Running A [A]").wantDue(800 * time.Millisecond).wantSent()
	r.wait(time.Second).want("Running B [B]").wantSent("b/1/1")

	// The same for the exit of a branch, and the entry of one.
	r = begin(t, "step A*\nstep P\nstep Q\nstep B\nA > X\nX > B: step.t > 1\nsim X: P | Q\ndo b @ B\ndo p @ P", nil).want("Running X [P]")
	r.wait(5 * time.Second)
	r.answer("p", "").want("Running X []").wantDue(time.Second)
	r.wait(time.Second).want("Running X []").wait(time.Second).want("Running B [B]")
	r = begin(t, "step A*\nstep P\nstep Q\nA > X\nX > P: step.t >= 1\nX > Q: step.t >= 5 ! 1\nsel X: P | Q\ndo p @ P", nil).want("Running X []").wantDue(time.Second)
	r.wait(time.Second).want("Running X [P]").wantSent("p/1/1")

	// Pause does not count.
	r = begin(t, "step A*\nstep B\nA > B: step.t >= 3", nil)
	r.wait(1500 * time.Millisecond)
	r.hold(r.x().Pause(r.now)).wantDue(-1).wait(time.Hour)
	r.hold(r.x().Resume(r.now)).wantDue(0)
	r.take(r.p.Evaluate(r.o, r.docs(), r.now)).want("Running A [A]").wantDue(500 * time.Millisecond)
	r.wait(1499 * time.Millisecond).want("Running A [A]").wait(time.Millisecond).want("Completed B []")
}

// A.5.3: loops reset actions; attempts go on counting; the old result is gone.
func TestLoop(t *testing.T) {
	r := begin(t, "step A*\nstep B\nstep C\nA > B\nB > C: actions.b.result.n == 3\nB > A: otherwise ! 1\ndo a @ A attempts 2\ndo b @ B\ndo c @ C", nil)
	r.refuse("a", "BUSY", "").answer("a", "").answer("b", `{"n":1}`)
	r.wantSent("a/1/1", "a/1/2", "b/1/1", "a/2/3")
	if a := r.x().Action("a"); a.State != ActionDispatched || a.FirstAttempt != 3 || a.Error != "" {
		t.Errorf("%+v", a)
	}
	if b := r.x().Action("b"); b.State != ActionCompleted || string(b.Result) != `{"n":1}` {
		t.Errorf("b keeps its result until B is entered again: %+v", b)
	}
	r.answer("a", "")
	if b := r.x().Action("b"); b.State != ActionDispatched || b.Result != nil || b.Iteration != 2 {
		t.Errorf("%+v", b)
	}
	// The answer of the first iteration does not count in the second.
	r.answerTo(CommandID(r.x().CorrelationID, "b", 1, 1), `{"n":3}`).wantStale()
	r.answer("b", `{"n":3}`).want("Running C [C]")
}

// A.5.3, compat: every qualifier runs as N, at the entry of the step, and blocks it.
func TestQualifiersRunAsN(t *testing.T) {
	for _, q := range []string{"N", "P", "P0", "P1", "S", "R", "L", "D"} {
		r := begin(t, "step A*\nstep B\nA > B\ndo a @ A as "+q, nil).want("Running A [A]").wantSent("a/1/1")
		r.answer("a", "").want("Completed B []")
	}
}

// Two last answers at a convergence, decided on one document. The second commit finds
// the document changed, decides again, and the branch is left once.
func TestConvergenceRace(t *testing.T) {
	r := begin(t, "step A*\nstep B\nstep C\nstep D\nA > X\nX > D\nsim X: B | C\ndo b @ B\ndo c @ C\ndo d @ D", nil)
	docs := r.docs()
	answer := func(docs Docs, action string) Outcome {
		return r.p.Answer(r.o, docs, Answer{CommandID: r.last(action).ID}, r.now)
	}
	if out := answer(docs, "b"); out.Docs.Execution.CurrentStep != "X" {
		t.Errorf("%+v", out)
	}
	r.take(answer(docs, "c")).want("Running X [B]")
	r.take(answer(r.docs(), "b")).want("Running D [D]").wantSent("b/1/1", "c/1/1", "d/1/1")
	r.take(answer(r.docs(), "c")).wantStale().want("Running D [D]")
}

// A guard against loops that never end.
func TestMaxIterations(t *testing.T) {
	r := begin(t, "step A*\nstep B\nA > A: actions.a.ok\nA > B: otherwise ! 1\ndo a @ A\nset {\"MaxIterations\": 3}", nil)
	r.answer("a", "").answer("a", "").want("Running A [A]")
	r.answer("a", "").want("Failed A [A]").wantError("A was entered 3 times")
	if r.out.Phase != PhaseFailed || len(r.out.Commands) > 0 {
		t.Error("commands of a decision that failed")
	}
	// By default 1000, inside one decision.
	r = begin(t, "step A*\nstep B\nA > A: job.parameters.n == 1\nA > B: otherwise ! 1", map[string]any{"n": 1})
	r.want("Failed A [A]").wantError("A was entered 1000 times")
	// A branch counts as well.
	r = begin(t, "step A*\nstep B\nstep C\nA > X\nX > X: job.parameters.n == 1\nX > D: otherwise ! 1\nsim X: B | C\nstep D\nset {\"MaxIterations\": 2}", map[string]any{"n": 1})
	r.wantError("X was entered 2 times")
	// And one decision has an end of its own.
	r = begin(t, "step A*\nstep B\nA > A: job.parameters.n == 1\nA > B: otherwise ! 1\nset {\"MaxIterations\": 1000000}", map[string]any{"n": 1})
	r.wantError("does not rest", "1000 steps at once")
}

// The time-out is in the document and outlives any process; resent every
// third of it under the same id; then the job fails with action and time-out.
func TestTimeout(t *testing.T) {
	r := begin(t, "step A*\ndo a @ A time 30", nil).wantDue(10 * time.Second)
	id := r.last("a").ID
	if x := r.x(); x.Actions[0].Deadline != epoch.Add(30*time.Second).UnixMilli() {
		t.Error("no deadline in the document")
	}
	r.wait(29999*time.Millisecond).wantSent("a/1/1", "a/1/1*", "a/1/1*").want("Running A [A]").wantDue(time.Millisecond)
	if r.x().Actions[0].CommandID != id {
		t.Error("another id")
	}
	r.wait(time.Millisecond).want("Failed A [A]").wantError("action a timed out", "30 s").wantSent().wantDue(-1)
	r.answerTo(id, "{}").wantStale().want("Failed A [A]")
	r.take(r.p.Tick(r.o, r.docs(), r.now)).wantStale()
}

// The text of a time-out names the asset, for the usual cause is an id that no equipment has.
func TestTimeoutNamesTheAsset(t *testing.T) {
	r := begin(t, `step A*`+"\n"+`do a @ A time 30 with {"asset_id":"press-99"}`, nil)
	r.wait(30 * time.Second).wantError("action a timed out: no answer of press-99 within 30 s")
	r = begin(t, `step A*`+"\n"+`on e @ A type t time 60 with {"asset_id":"cam-1"}`, nil)
	r.wait(60 * time.Second).wantError("action e timed out: no event t of cam-1 within 60 s")
}

// What is sent again has the id and deadline of the first time.
func TestResendKeepsTheID(t *testing.T) {
	r := begin(t, "step A*\ndo a @ A time 30", nil)
	first := r.sent[0]
	r.wait(10 * time.Second)
	again := r.sent[1]
	if !again.Again || again.ID != first.ID || !again.Deadline.Equal(first.Deadline) || again.Attempt != 1 {
		t.Errorf("%+v\n%+v", first, again)
	}
	// A tick that comes late sends once, not twice.
	r = begin(t, "step A*\ndo a @ A time 30", nil)
	r.now = r.now.Add(25 * time.Second)
	r.take(r.p.Tick(r.o, r.docs(), r.now)).wantSent("a/1/1", "a/1/1*").wantDue(5 * time.Second)
	// Nothing that is not due is sent by looking.
	r.take(r.p.Evaluate(r.o, r.docs(), r.now)).wantSent()
	if r.out.Stale {
		t.Error("Evaluate is stale, so timers would not be written")
	}
}

// Attempts: after a time-out or a refusal the next one has a new id.
func TestAttempts(t *testing.T) {
	r := begin(t, "step A*\nstep B\nA > B\ndo a @ A time 30 attempts 3\ndo b @ B", nil)
	first := r.last("a").ID
	r.wait(30*time.Second).wantSent("a/1/1", "a/1/1*", "a/1/1*", "a/1/2")
	second := r.x().Action("a").CommandID
	if second == first || second != CommandID(r.x().CorrelationID, "a", 1, 2) {
		t.Error(second)
	}
	// A refusal of an attempt that was given up does not count; an answer to it does.
	refusal := &ActionError{"JAMMED", "tool"}
	r.take(r.p.Answer(r.o, r.docs(), Answer{CommandID: first, Error: refusal}, r.now)).wantStale()
	r.take(r.p.Answer(r.o, r.docs(), Answer{CommandID: second, Error: refusal}, r.now)).wantSent("a/1/3")
	r.take(r.p.Answer(r.o, r.docs(), Answer{CommandID: second, Error: refusal}, r.now)).wantStale()
	late := r.docs()
	for _, id := range []string{first, second, r.x().Action("a").CommandID} {
		if out := r.p.Answer(r.o, late, Answer{CommandID: id, Result: json.RawMessage(`1`)}, r.now); out.Stale || out.Docs.Execution.CurrentStep != "B" {
			t.Errorf("late answer %s: %+v", id, out)
		}
	}
	third := r.x().Action("a").CommandID
	r.take(r.p.Answer(r.o, r.docs(), Answer{CommandID: third, Error: refusal}, r.now)).want("Failed A [A]")
	r.wantError("action a was refused: JAMMED: tool (attempt 3 of 3)")
}

// What cannot be the result of an attempt that was given up fails no other attempt: the answer to that one still counts.
func TestLateAnswersThatCannotBeRead(t *testing.T) {
	for name, late := range map[string]Answer{
		"content type":       {Unreadable: "text/xml"},
		"not JSON":           {Result: json.RawMessage(`<ok/>`)},
		"member twice":       {Result: json.RawMessage(`{"good":1,"good":2}`)},
		"too long":           {Result: json.RawMessage(`"` + strings.Repeat("x", MaxResultBytes) + `"`)},
		"too many values":    {Result: json.RawMessage(objectOf(MaxResultValues + 1))},
		"refused, no reason": {Error: &ActionError{}},
	} {
		t.Run(name, func(t *testing.T) {
			r := begin(t, "step A*\nstep B\nA > B\ndo a @ A time 30 attempts 2\ndo b @ B", nil)
			late.CommandID = r.last("a").ID
			r.wait(30 * time.Second)
			r.take(r.p.Answer(r.o, r.docs(), late, r.now)).wantStale().want("Running A [A]")
			r.answer("a", `{"good":1}`).want("Running B [B]")
		})
	}
	// To the attempt that is awaited, each of them counts.
	r := begin(t, "step A*\nstep B\nA > B\ndo a @ A time 30 attempts 2\ndo b @ B", nil)
	r.take(r.p.Answer(r.o, r.docs(), Answer{CommandID: r.last("a").ID, Unreadable: "text/xml"}, r.now)).wantSent("a/1/1", "a/1/2")
	r.answer("a", `{"good":1,"good":2}`).want("Failed A [A]").wantError("/good")
}

// A refusal is no success; the results so far are kept.
func TestNegativeAnswer(t *testing.T) {
	r := begin(t, "step A*\nstep B\nA > B\ndo a @ A\ndo b @ B", nil)
	r.answer("a", `{"n": 1}`).refuse("b", "JAMMED", `the "tool" is stuck`).want("Failed B [B]").wantError(`action b was refused: JAMMED: the "tool" is stuck`)
	if r.out.Phase != PhaseFailed || r.x().Completed || r.out.Note != r.x().Error {
		t.Errorf("%+v", r.out)
	}
	if b := r.x().Action("b"); b.State != ActionFailed || b.Error == "" {
		t.Errorf("%+v", b)
	}
	if got := r.x().Results(); len(got) != 1 || got[0].ID != "a.n" || string(got[0].Value) != "1" {
		t.Errorf("%+v", got)
	}
	long := begin(t, "step A*\ndo a @ A", nil).refuse("a", "", strings.Repeat("ü", 4000))
	if e := long.x().Error; len(e) > 1100 || !strings.HasPrefix(e, "action a was refused: ü") {
		t.Error(e)
	}
}

// An answer whose result cannot be kept is no success either.
func TestUnusableResult(t *testing.T) {
	for name, c := range map[string]struct{ result, reason string }{
		"not JSON":     {`{"a":`, "not JSON"},
		"too deep":     {strings.Repeat("[", 80) + strings.Repeat("]", 80), "deeper than 64"},
		"far too deep": {strings.Repeat("[", 9000) + strings.Repeat("]", 9000), "deeper than 64"},
		"too long":     {`"` + strings.Repeat("x", MaxResultBytes) + `"`, "may have 262144"},
		"no UTF-8":     {"\"\xff\"", "UTF-8"},
		"member twice": {`{"ok":false,"ok":true}`, `"/ok" of the payload is there twice`},
		"twice below":  {`{"a":[1,{"b":{"c":1,"c":1}}]}`, `"/a/1/b/c" of the payload is there twice`},
		"twice of 40":  {`{"a":[` + strings.TrimSuffix(objectOf(40), "}") + `,"m7":1}]}`, `"/a/0/m7" of the payload is there twice`},
	} {
		t.Run(name, func(t *testing.T) {
			begin(t, "step A*\ndo a @ A", nil).answer("a", c.result).want("Failed A [A]").wantError("action a was answered", c.reason)
		})
	}
	r := begin(t, "step A*\ndo a @ A", nil).answer("a", ` { "n" : 12345678901234567890.10 } `)
	if got := string(r.x().Actions[0].Result); got != `{"n":12345678901234567890.10}` {
		t.Error(got)
	}
}

// A run that is over changes no more, whatever comes; completed and failed are
// never both true.
func TestTerminalRunsDoNotChange(t *testing.T) {
	done := begin(t, "step A*\ndo a @ A", nil).answer("a", "")
	failed := begin(t, "step A*\ndo a @ A", nil).refuse("a", "K", "m")
	aborted := begin(t, "step A*\ndo a @ A\non e @ A", nil)
	aborted.hold(aborted.x().Abort("aborted by MES", aborted.now))
	stopped := begin(t, "step A*\ndo a @ A\non e @ A", nil)
	stopped.hold(stopped.x().Stop(stopped.now))
	for i, r := range []*run{done, failed, aborted, stopped} {
		before := string(r.execution)
		x := r.x()
		r.now = r.now.Add(time.Hour)
		for _, out := range []Outcome{
			r.p.Answer(r.o, r.docs(), Answer{CommandID: x.Actions[0].CommandID}, r.now),
			r.p.Answer(r.o, r.docs(), Answer{CommandID: x.Actions[0].CommandID, Error: &ActionError{}}, r.now),
			r.p.Pulled(r.o, r.docs(), "e", PullEvent{}, r.now),
			r.p.Tick(r.o, r.docs(), r.now),
			r.p.Evaluate(r.o, r.docs(), r.now),
		} {
			r.take(out).wantStale()
			if out.Phase != x.Phase() || !out.Due.IsZero() {
				t.Errorf("%d: %+v", i, out)
			}
		}
		for _, y := range []*Execution{x.Abort("again", r.now), x.Stop(r.now), x.Pause(r.now), x.Resume(r.now)} {
			if string(y.Encode()) != before {
				t.Errorf("%d: changed\n%s", i, cmp.Diff(before, string(y.Encode())))
			}
		}
		if x.Completed == x.Failed {
			t.Errorf("%d: completed %v, failed %v", i, x.Completed, x.Failed)
		}
	}
	if e := aborted.x().Error; e != "aborted by MES" {
		t.Error(e)
	}
	if !stopped.x().Stopped || stopped.x().Error != "" {
		t.Errorf("%+v", stopped.x())
	}
}

// What cannot be decided on.
func TestUnfitDocuments(t *testing.T) {
	r := begin(t, "step A*\ndo a @ A", nil)
	r.take(r.p.Tick(r.o, Docs{}, r.now)).wantStale()
	other := compile(t, string(text("step A*\ndo a @ A time 11")))
	r.take(other.Answer(r.o, r.docs(), Answer{CommandID: r.last("a").ID}, r.now)).wantStale() // only the recipe of the start
	r.take(r.p.Answer(r.o, r.docs(), Answer{CommandID: "unknown"}, r.now)).wantStale()
	r.take(r.p.Pulled(r.o, r.docs(), "a", PullEvent{}, r.now)).wantStale()
	r.take(r.p.Pulled(r.o, r.docs(), "unknown", PullEvent{}, r.now)).wantStale()

	// A document without entries, or in another order, is brought into the recipe's.
	p := compile(t, string(text("step A*\nstep B\nA > B\ndo a @ A\ndo b @ B")))
	x := p.Start(r.o, "WM", "k", nil, epoch).Docs.Execution
	x.Actions = []ActionEntry{{Name: "zzz", State: ActionPending}, x.Actions[0]}
	out := p.Answer(r.o, Docs{Execution: x}, Answer{CommandID: x.Actions[1].CommandID}, epoch)
	if y := out.Docs.Execution; out.Stale || len(y.Actions) != 2 || y.Actions[1].Name != "b" || y.Actions[1].State != ActionDispatched {
		t.Errorf("%+v", out)
	}
}

func TestMermaidGolden(t *testing.T) {
	for name, recipe := range map[string]string{
		"gearbox": string(testdata(t, "gearbox.json")),
		"escapes": string(text("step A*\nstep B\nstep C\nA > B: job.id == \"a;#b<c>`\" and true\nA > A ! 1\nB > X\nX > X\nsim X: C | D\nstep D\ndo a @ A\ndo c @ C\non d @ D\nset {\"AllowEndless\": true}")),
	} {
		golden.Check(t, "testdata/"+name+".mmd", compile(t, recipe).Mermaid())
	}
}
