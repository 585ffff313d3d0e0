package recipe

import (
	"encoding/json"
	"strings"
	"testing"
)

// What a version without Strict began goes on by its rules, so that no order that runs is aborted by an upgrade: here the
// second condition or the answer fails a run that this version began.
func TestRunsOfOlderBuildsAreNotStrict(t *testing.T) {
	for _, tc := range []struct{ condition, answer, to string }{
		{"actions.a.result.good / actions.a.result.total < 0.9", `{"good":0,"total":0}`, "C"},
		{"actions.a.result.good / actions.a.result.total < 0.9", `{"good":1,"total":0}`, "C"},
		{"actions.a.result.good / actions.a.result.total < 0.9", `{"good":1,"total":4,"good":2}`, "B"},
		{"actions.a.result.good == 2", `{"good":1,"total":1,"good":2}`, "B"},
		{"actions.a.result.n >= 5", `{"n":1e999}`, "B"},
		{"actions.a.result.n >= 5", `{"n":-1e999}`, "C"},
		{"max(actions.a.result) > 1e300", `[1, 1e999]`, "B"},
		{"actions.a.result[job.parameters.i].n > 1e300", `[{}, {"n":1e999}]`, "B"},
		{"actions.a.result.n + 1 > 5", `{"n":9223372036854775807}`, "C"},
		{"0 - actions.a.result.n - 2 < 0", `{"n":9223372036854775807}`, "C"},
		{"actions.a.result.n * 2 > 5", `{"n":9223372036854775807}`, "C"},
		{"-(actions.a.result.n - 1) > 5", `{"n":-9223372036854775807}`, "C"},
		{"abs(actions.a.result.n - 1) > 5", `{"n":-9223372036854775807}`, "C"},
		{"actions.a.result.n ** 1000 > 5", `{"n":3}`, "B"},
		{"actions.a.result.s matches '" + strings.Repeat("a?", 100) + "b'", `{"s":"` + strings.Repeat("a", 50_000) + `"}`, "C"},
	} {
		recipe := "step A*\nstep B\nstep C\nA > B: " + tc.condition + "\nA > C: otherwise ! 1\ndo a @ A\ndo b @ B\ndo c @ C"
		r := begin(t, recipe, map[string]any{"i": 1})
		r.answer("a", tc.answer).want("Failed A [A]")

		r = begin(t, recipe, map[string]any{"i": 1})
		older := strings.Replace(string(r.execution), `,"strict":true`, "", 1) // as that version writes it
		if older == string(r.execution) {
			t.Fatal(older)
		}
		r.execution = []byte(older)
		r.answer("a", tc.answer).want("Running " + tc.to + " [" + tc.to + "]")
		if strings.Contains(string(r.execution), "strict") {
			t.Errorf("%s", r.execution)
		}

		r = newRun(t, recipe, map[string]any{"i": 1}) // that version accepted the order, this one starts it
		r.o.Lenient = true
		r.take(r.p.Start(r.o, "WM-1", "1-0", nil, r.now)).answer("a", tc.answer).want("Running " + tc.to + " [" + tc.to + "]")
	}
}

// What no version without Strict knew is strict in each run: values of $expr go to the machine.
func TestExpressionsInParametersAreStrict(t *testing.T) {
	for expression, want := range map[string]string{
		"actions.a.result.n + 1":     "is out of the range of whole numbers",
		"1 / (actions.a.result.n-1)": "",
		"actions.a.result.n / 0":     "is a division by zero",
	} {
		p := withParameters(t, `{"t":{"$expr":"`+expression+`"}}`)
		o := referenceOrder
		o.Lenient = true
		out := runTo(p, o, `{"n":9223372036854775807}`)
		if out.Docs.Execution.Strict || (out.Phase == PhaseFailed) != (want != "") || !strings.Contains(out.Docs.Execution.Error, want) {
			t.Errorf("%s: %s %s", expression, out.Phase, out.Docs.Execution.Error)
		}
	}
}

// What older builds compiled, this one does: a recipe that is stored runs on. A delivery is refused, for the kinds do not fit.
func TestMixedKindsOfOlderBuilds(t *testing.T) {
	const condition = "5 < (job.parameters.none ? not job.parameters.on : -job.parameters.n)"
	data := text("step A*\nstep B\nA > B: " + condition + "\nA > A: otherwise ! 1\ndo a @ A\ndo b @ B")
	if _, err := Compile(data); err != nil {
		t.Fatal(err)
	}
	if f := Check(data, Options{}); !HasErrors(f) {
		t.Error("a delivery is taken")
	}
	r := begin(t, "step A*\nstep B\nA > B: "+condition+"\nA > A: otherwise ! 1\ndo a @ A\ndo b @ B", map[string]any{"n": -7})
	r.answer("a", "").want("Running B [B]")
}

// An id of a parameter may look like a number.
func TestParameterWithANumberForItsID(t *testing.T) {
	o := Order{Parameters: map[string]any{"5": json.RawMessage(`7`)}}
	c, err := compileCondition("job.parameters[5] == 7 and job.parameters[5] > 6 and job.parameters['5'] == 7", nil)
	if err != nil {
		t.Fatal(err)
	}
	if holds, err := c.holds(scope{order: &o, execution: &Execution{}, cache: new(cache)}); err != nil || !holds {
		t.Errorf("%v, %v", holds, err)
	}
}
