package recipe

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// textOf is a JSON string of n bytes, quotes included.
func textOf(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }

// objectOf is a JSON object of n members.
func objectOf(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"m%d":1`, i)
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}"
}

// answers decides on answers to actions without storing the documents as bytes between
// decisions, which takes long for large results. It returns the last outcome that is not
// stale.
func answers(t *testing.T, r *run, out Outcome, pairs ...string) Outcome {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		e := out.Docs.Execution.Action(pairs[i])
		next := r.p.Answer(r.o, out.Docs, Answer{CommandID: e.CommandID, Result: json.RawMessage(pairs[i+1])}, r.now)
		if !next.Stale {
			out = next
		}
	}
	return out
}

// wantRun checks the phase and parts of the error.
func wantRun(t *testing.T, out Outcome, phase Phase, parts ...string) {
	t.Helper()
	if out.Phase != phase {
		t.Fatalf("%s, want %s (error %q)", out.Phase, phase, out.Docs.Execution.Error)
	}
	for _, part := range parts {
		if !strings.Contains(out.Docs.Execution.Error, part) {
			t.Fatalf("error %q, want %q", out.Docs.Execution.Error, part)
		}
	}
}

// pushes is a recipe of n push_command actions a0, a1, … in one step.
func pushes(n int) string { return "step A*\n" + many(n, "do a%d @ A") }

// All results together have a limit in bytes and in values; the result that exceeds it
// fails its action.
func TestResultsHaveALimitTogether(t *testing.T) {
	const quarter = MaxResultsBytes / 4 // the most that one result may have
	for name, c := range map[string]struct {
		results []string
		failed  int    // which one fails the run, -1 = none
		reason  string // of it
	}{
		"bytes, at the limit":         {[]string{textOf(quarter), textOf(quarter), textOf(quarter), textOf(quarter)}, -1, ""},
		"bytes, one more":             {[]string{textOf(quarter), textOf(quarter), textOf(quarter), textOf(quarter - 1), textOf(2), textOf(quarter)}, 4, "action a4 was answered, but its result of 2 bytes makes all results 1048577 bytes, and they may have 1048576"},
		"white space does not count":  {[]string{textOf(quarter), textOf(quarter), textOf(quarter), textOf(quarter-3) + "  ", "[ 1 ]"}, -1, ""},
		"null fits always":            {[]string{textOf(quarter), textOf(quarter), textOf(quarter), textOf(quarter), "null", ""}, -1, ""},
		"values, at the limit":        {[]string{objectOf(2500), objectOf(2499), "7"}, -1, ""},
		"values, one more":            {[]string{objectOf(2500), objectOf(2500), "[1,2,3]"}, 2, "its result of 1 values makes all results 5001 values, and they may have 5000"},
		"values of one result":        {[]string{objectOf(5001)}, 0, "its result of 5001 values makes all results 5001 values, and they may have 5000"},
		"an empty object is no value": {[]string{objectOf(5000), "{}"}, -1, ""},
		"elements are no values":      {[]string{"[" + strings.Repeat("1,", 6000) + "1]"}, -1, ""},
		"9 of 200 kB":                 {[]string{textOf(200e3), textOf(200e3), textOf(200e3), textOf(200e3), textOf(200e3), textOf(200e3), textOf(200e3), textOf(200e3), textOf(200e3)}, 5, "its result of 200000 bytes makes all results 1200000 bytes, and they may have 1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			r := begin(t, pushes(len(c.results)), nil)
			out := r.out
			for i, result := range c.results {
				out = answers(t, r, out, fmt.Sprint("a", i), result)
				if i == c.failed {
					wantRun(t, out, PhaseFailed, c.reason)
					break
				}
			}
			if c.failed < 0 {
				wantRun(t, out, PhaseCompleted)
			}
			all, size := out.Docs.Execution.Results(), 0
			for _, v := range all {
				size += len(v.Value)
			}
			if size > MaxResultsBytes || len(all) > MaxResultValues {
				t.Errorf("%d bytes, %d values", size, len(all))
			}
		})
	}
}

// A result too many counts as an attempt, and what a loop overwrites does not count.
func TestResultsLimitAttemptsAndLoops(t *testing.T) {
	full := textOf(MaxResultBytes)
	r := begin(t, "step A*\ndo a @ A\ndo b @ A\ndo c @ A\ndo d @ A\ndo e @ A attempts 2", nil)
	out := answers(t, r, r.out, "a", full, "b", full, "c", full, "d", full, "e", "12")
	wantRun(t, out, PhaseRunning)
	if len(out.Commands) != 1 || out.Commands[0].Action != "e" || out.Commands[0].Attempt != 2 {
		t.Errorf("sent %+v", out.Commands)
	}
	wantRun(t, answers(t, r, out, "e", "12"), PhaseFailed, "may have 1048576", "(attempt 2 of 2)")

	loop := begin(t, "step A*\nstep B\nA > A: actions.a.result != 'end'\nA > B: otherwise ! 1\ndo a @ A", nil)
	out = loop.out
	for range 9 {
		out = answers(t, loop, out, "a", textOf(200e3))
		wantRun(t, out, PhaseRunning)
	}
	wantRun(t, answers(t, loop, out, "a", `"end"`), PhaseCompleted)
}

// Events count like answers, whether they come early or to an action that waits.
func TestResultsLimitOfEvents(t *testing.T) {
	recipe := "step A*\nstep B\nA > B\ndo a @ A\ndo b @ A\ndo c @ A\ndo d @ A\non e @ B type t"
	const reason = "action e got its event, but its result of 12 bytes makes all results 1048588 bytes"
	full := textOf(MaxResultBytes)
	pulled := PullEvent{ID: "1", Source: "eq", Subject: "cell-07", Data: json.RawMessage(textOf(12))}
	for _, early := range []bool{true, false} {
		r := begin(t, recipe, nil)
		out := r.out
		if early {
			r.event("t", pulled)
			out.Docs.Mailboxes = r.docs().Mailboxes
		}
		out = answers(t, r, out, "a", full, "b", full, "c", full, "d", full)
		if !early {
			wantRun(t, out, PhaseRunning)
			out = r.p.Pulled(r.o, out.Docs, "e", pulled, r.now)
		}
		wantRun(t, out, PhaseFailed, reason)
		if !out.Docs.Mailboxes["t"].Empty() {
			t.Errorf("early %v: %+v is left", early, out.Docs.Mailboxes["t"])
		}
	}
	// While paused the failure is recorded, and ends the run when it goes on.
	r := begin(t, recipe, nil)
	out := answers(t, r, r.out, "a", full, "b", full, "c", full, "d", full)
	out.Docs.Execution = out.Docs.Execution.Pause(r.now)
	out = r.p.Pulled(r.o, out.Docs, "e", pulled, r.now)
	wantRun(t, out, PhaseRunning)
	out.Docs.Execution = out.Docs.Execution.Resume(r.now)
	wantRun(t, r.p.Evaluate(r.o, out.Docs, r.now), PhaseFailed, reason)
}

// A loop of conditions over a large result ends, and decodes the result once.
func TestLoopDecodesAResultOnce(t *testing.T) {
	recipe := `step A*
		step B
		step C
		step D
		A > B
		B > C: actions.a.result[0] == 1 and actions.b.result.n == 1
		B > D: otherwise ! 1
		C > B: len(actions.a.result) > 9
		C > D: otherwise ! 1
		do a @ A
		do b @ A
		set {"MaxIterations": 1000000}`
	large := "[" + strings.Repeat("1,", 120_000) + "1]"
	r := begin(t, recipe, nil).answer("b", `{"n":1}`)
	docs, a := r.docs(), r.last("a")
	r.answerTo(a.ID, large).wantError("the recipe does not rest: 1000 steps at once, the last B")
	if r.out.Phase != PhaseFailed || len(r.out.Commands) > 0 {
		t.Errorf("%+v", r.out)
	}

	d := r.p.decide(&r.o, docs, r.now) // the same decision, to look into it
	d.accept(d.x.Action("a"), json.RawMessage(large))
	d.settle()
	if !d.x.Failed || d.entered != maxEntered+1 || d.cache.decodes != 2 {
		t.Errorf("failed %v, %d steps, %d results decoded; want true, %d, 2", d.x.Failed, d.entered, d.cache.decodes, maxEntered+1)
	}
}

// A new result of the same action is decoded anew within a decision.
func TestCacheFollowsTheResult(t *testing.T) {
	c := new(cache)
	for i, raw := range []json.RawMessage{json.RawMessage(`1`), json.RawMessage(`2`), nil, json.RawMessage(`{"n":3}`)} {
		for range 2 {
			if want := plain(raw); fmt.Sprint(c.result("a", raw)) != fmt.Sprint(want) {
				t.Errorf("%d: %v, want %v", i, c.result("a", raw), want)
			}
		}
	}
	if c.decodes != 3 {
		t.Errorf("%d results decoded, want 3", c.decodes)
	}
}

// A pass through a recipe of as many steps as there may be is no loop.
func TestLargestRecipeInOneDecision(t *testing.T) {
	var paths []string
	for i := range MaxSteps - 2 {
		paths = append(paths, fmt.Sprint("S", i))
	}
	begin(t, "step A*\n"+many(MaxSteps-2, "step S%d")+"step Z\nA > X\nX > Z\nsim X: "+strings.Join(paths, " | "), nil).want("Completed Z []")
}
