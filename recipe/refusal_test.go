package recipe

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func orderWith(t testing.TB, parameters string) Order {
	t.Helper()
	o := Order{ID: "JO-1", Scope: "cell", Parameters: map[string]any{}}
	values := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(parameters), &values); err != nil {
		t.Fatal(err)
	}
	for id, v := range values {
		o.Parameters[id] = v
	}
	return o
}

// An order is judged by what its run can come to: of the transitions out of a place none is evaluated after the first that is
// true, and one that is false leads nowhere.
func TestRefusalFollowsTheOrder(t *testing.T) {
	const (
		division = "step A*\nstep B\nstep C\nA > B: job.parameters.m == 0\nA > C: job.parameters.n / job.parameters.m > 2 ! 1\nA > B: otherwise ! 2\ndo b @ B"
		mode     = "step A*\nstep B\nstep C\nA > B: job.parameters.mode == 'manual'\nA > C: job.parameters.force > 5 ! 1\nA > B: otherwise ! 2\ndo b @ B"
		steps    = "step A*\nstep B\nstep C\nstep D\nA > B: job.parameters.mode == 'manual'\nA > C: otherwise\nC > D: job.parameters.force > 5\ndo a @ A\ndo c @ C" +
			"\ndo d @ D with {\"f\":{\"$value\":\"job.parameters.torque\"}}"
		entries = "step A*\nstep P\nstep Q\nstep R\nA > X\nX > P: job.parameters.mode == 'manual'\nX > Q: otherwise ! 1\nX > R: job.parameters.force > 5 ! 2\nsel X: P | Q | R\ndo p @ P" +
			"\ndo q @ Q with {\"f\":{\"$expr\":\"job.parameters.n/job.parameters.m\"}}"
		first    = "step A*\nstep P\nstep Q\nA > X\nsel X: P | Q\ndo p @ P\ndo q @ Q with {\"f\":{\"$value\":\"job.parameters.torque\"}}"
		parallel = "step A*\nstep P\nstep P2\nstep Q\nstep Z\nA > X\nX > Z: job.parameters.force > 5\nsim X: P P2 | Q\ndo p2 @ P2 with {\"f\":{\"$value\":\"job.parameters.torque\"}}\ndo q @ Q"
		answers  = "step A*\nstep B\nstep C\nA > B: actions.a.result.n > 5\nA > C: job.parameters.force > 5 ! 1\nA > B: otherwise ! 2\ndo a @ A\ndo b @ B with {\"f\":{\"$value\":\"job.parameters.torque\"}}"
		timed    = "step A*\nstep B\nstep C\nA > B: step.t > 5\nB > C: job.parameters.force > 5\ndo c @ C"
		guarded  = "step A*\nstep B\nstep C\nA > B: job.parameters.mode == 'auto' and actions.a.result.x > job.parameters.limit\nA > C: otherwise ! 1\nB > C: job.parameters.force > 5\ndo a @ A\ndo b @ B"
		own      = "step A*\nstep B\nstep C\nA > B: actions.a.ok and job.parameters.mode == 'manual'\nA > C: actions.a.ok and job.parameters.force > 5 ! 1\nA > B: otherwise ! 2\ndo a @ A\ndo b @ B"
		paths    = "step A*\nstep P\nstep Q\nstep R\nstep Z\nA > X\nX > Z: actions.p.ok and actions.r.ok and job.parameters.mode == 'manual'\nX > A: job.parameters.force > 5 ! 1\nsim X: P Q | R\ndo p @ P\ndo r @ R\ndo z @ Z"
		loop     = "step A*\nstep B\nstep C\nA > B: job.parameters.m == 0\nA > C: otherwise\nB > A: actions.b.result.n > 1\nB > C: job.parameters.force > 5 ! 1\nC > A: job.id == 'x'\nC > D: otherwise\nstep D\ndo a @ A\ndo b @ B"
	)
	for _, tc := range []struct{ recipe, parameters, want string }{
		{division, `{"m":0,"n":5}`, ""},
		{division, `{"m":1,"n":5}`, ""},
		{mode, `{"mode":"manual","force":"n/a"}`, ""},
		{mode, `{"mode":"manual"}`, ""},
		{mode, `{"mode":"auto","force":"n/a"}`, "parameter force is a string, and must be a number"},
		{mode, `{"mode":"auto"}`, "parameter force is missing"},
		{steps, `{"mode":"manual","force":"n/a"}`, ""},
		{steps, `{"mode":"auto","force":"n/a","torque":1}`, "parameter force is a string, and must be a number"},
		{steps, `{"mode":"auto"}`, "parameters force, torque are missing"}, // all that the order lacks
		{steps, `{"mode":"auto","force":4}`, ""},
		{steps, `{"mode":"auto","force":6}`, "parameter torque is missing"},
		{entries, `{"mode":"manual","n":1,"m":0,"force":"n/a"}`, ""},
		{entries, `{"mode":"auto","n":1,"m":1,"force":7}`, ""},
		{entries, `{"mode":"auto","n":1,"m":0,"force":4}`, "action q: Parameters/f: job.parameters.n/job.parameters.m: 1 / 0 is a division by zero"},
		{first, `{}`, ""},
		{parallel, `{}`, "parameters force, torque are missing"},
		{parallel, `{"torque":1,"force":"n/a"}`, "parameter force is a string, and must be a number"},
		{answers, `{"force":6}`, "parameter torque is missing"}, // perhaps the answer leads to B
		{answers, `{"force":"6","torque":1}`, "parameter force is a string, and must be a number"},
		{timed, `{}`, "parameter force is missing"},
		{loop, `{"m":0}`, "parameter force is missing"},
		{loop, `{"m":1}`, ""},
		// A condition that looks at nothing but the order, and comes out without the parameter, does not need it.
		{"step A*\nstep B\nA > B: job.parameters.mode == 'manual' or job.parameters.force > 5\ndo b @ B", `{"mode":"manual"}`, ""},
		{"step A*\nstep B\nA > B: job.parameters.mode == 'manual' or job.parameters.force > 5\ndo b @ B", `{"mode":"auto"}`, "parameter force is missing"},
		{"step A*\nstep B\nA > B: job.parameters.mark contains 'x'\ndo b @ B", `{}`, "parameter mark is missing"}, // perhaps misspelt
		{"step A*\nstep B\nA > B: ['x', 'y'][job.parameters.i] == actions.a.result.n\ndo a @ A\ndo b @ B", `{}`, "parameter i is missing"},
		// It is evaluated from left to right, as in the run, as far as the order alone decides it.
		{guarded, `{"mode":"manual"}`, ""},
		{guarded, `{"mode":"auto","force":7}`, "parameter limit is missing"},
		{guarded, `{"mode":"auto","limit":7}`, "parameter force is missing"},
		{guarded, `{"mode":"auto","limit":7,"force":7}`, ""},
		{"step A*\nstep B\nA > B: job.parameters.n / job.parameters.m > actions.a.result.n\ndo a @ A", `{"n":1,"m":0}`,
			`condition "job.parameters.n / job.parameters.m > actions.a.result.n" from A to B failed: 1 / 0 is a division by zero`},
		{"step A*\nstep B\nA > B: actions.b.ok and job.parameters.n / job.parameters.m > 1\nA > A: otherwise ! 1\ndo a @ A\ndo b @ B", `{"n":1,"m":0}`, ""}, // perhaps it is not looked at
		// The actions of a step are completed when it is left, and those of all paths when a branch is.
		{own, `{"mode":"manual"}`, ""},
		{own, `{"mode":"auto"}`, "parameter force is missing"},
		{own, `{"mode":"auto","force":"n/a"}`, `condition "actions.a.ok and job.parameters.force > 5" from A to C failed: invalid operation: a string > a number`},
		{paths, `{"mode":"manual"}`, ""},
		{paths, `{"mode":"auto"}`, "parameter force is missing"},
		{strings.Replace(paths, "sim X", "sel X", 1), `{"mode":"manual"}`, "parameter force is missing"},
		// What follows a failure is not judged before it.
		{"step A*\nstep B\nstep C\nB > C: job.parameters.force > 5\nA > B: job.parameters.n / job.parameters.m > 2\ndo c @ C", `{"m":0,"n":5,"force":"n/a"}`,
			`condition "job.parameters.n / job.parameters.m > 2" from A to B failed: 5 / 0 is a division by zero`},
	} {
		p, err := Compile(text(tc.recipe))
		if err != nil {
			t.Errorf("%s: %v", tc.recipe, err)
			continue
		}
		if got := p.Refusal(orderWith(t, tc.parameters)); got != tc.want {
			t.Errorf("%s\nwith %s: %q, want %q", tc.recipe, tc.parameters, got, tc.want)
		}
	}
}

// Where the order alone decides the way, it is refused exactly if a condition of its run fails.
func TestRefusalIsWhatARunMeets(t *testing.T) {
	conditions := []string{
		"never", "job.parameters.m == 0", "job.parameters.m == 1", "job.parameters.n / job.parameters.m > 2", "job.parameters.mode == 'manual'",
		"job.parameters.mode != 'manual' and job.parameters.force > 5", "job.parameters.force > 5", "job.parameters.n > 1", "job.id == 'JO-1'",
	}
	ways := append([]string{"always", "otherwise", "otherwise"}, conditions...)
	rapid.Check(t, func(t *rapid.T) {
		const last = 5
		var b strings.Builder
		names := make([]string, last+1)
		for i := range names {
			names[i] = fmt.Sprint("S", i)
			switch kind := rapid.SampledFrom([]string{"step", "step", "sim", "sel"}).Draw(t, "kind"); {
			case i == 0:
				b.WriteString("step S0*\n")
			case kind == "step":
				fmt.Fprintf(&b, "step S%d\n", i)
			default:
				names[i] = fmt.Sprint("B", i)
				fmt.Fprintf(&b, "step P%[1]d\nstep Q%[1]d\nstep R%[1]d\n%[2]s B%[1]d: P%[1]d Q%[1]d | R%[1]d\n", i, kind)
				if kind == "sel" {
					fmt.Fprintf(&b, "B%[1]d > P%[1]d: %[2]s\nB%[1]d > R%[1]d: %[3]s ! 1\n", i, rapid.SampledFrom(conditions[1:]).Draw(t, "path"), rapid.SampledFrom(ways).Draw(t, "other path"))
				}
			}
		}
		for i, from := range names[:last] {
			if from[0] == 'S' {
				action := rapid.Bool().Draw(t, "action")
				if action {
					fmt.Fprintf(&b, "do a%[1]d @ S%[1]d\n", i)
				}
				for n := range rapid.IntRange(0, 2).Draw(t, "exits") {
					condition := rapid.SampledFrom(conditions[1:]).Draw(t, "condition")
					if action && rapid.Bool().Draw(t, "ok") {
						condition = fmt.Sprintf("actions.a%d.ok and %s", i, condition)
					}
					fmt.Fprintf(&b, "%s > %s: %s ! %d\n", from, names[rapid.IntRange(0, last).Draw(t, "to")], condition, n)
				}
			}
			fmt.Fprintf(&b, "%s > %s: %s ! 9\n", from, names[i+1], rapid.SampledFrom(ways).Draw(t, "way"))
		}
		b.WriteString(`set {"MaxIterations": 3}`)
		p, err := Compile(text(b.String()))
		if err != nil {
			t.Skip(err) // it is no recipe: rapid draws another, and fails if it finds too few
		}
		o := Order{ID: "JO-1", Parameters: map[string]any{
			"m": rapid.IntRange(0, 1).Draw(t, "m"), "n": rapid.IntRange(0, 3).Draw(t, "n"), "mode": rapid.SampledFrom([]string{"manual", "auto"}).Draw(t, "mode"),
		}}
		if force := rapid.SampledFrom([]any{nil, 4, 6, "n/a"}).Draw(t, "force"); force != nil {
			o.Parameters["force"] = force
		}
		why, out := p.Refusal(o), p.Start(o, "WM", "k", nil, epoch)
		for len(out.Commands) > 0 {
			out = p.Answer(o, out.Docs, Answer{CommandID: out.Commands[0].ID}, epoch)
		}
		if fails := strings.HasPrefix(out.Note, "condition "); fails != (why != "") {
			t.Fatalf("%s\n%v: refused %q, the run: %s", b.String(), o.Parameters, why, out.Note)
		}
	})
}
