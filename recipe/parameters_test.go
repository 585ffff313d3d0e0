package recipe

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// withParameters is a recipe of steps A and B, each with one command; the second has Parameters.
func withParameters(t *testing.T, parameters string) *Program {
	t.Helper()
	p, err := Compile(recipeWith(parameters))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func recipeWith(parameters string) []byte {
	return []byte(`{"Steps":[{"Name":"A","Initial":true},{"Name":"B"}],"Transitions":[{"Source":"A","Target":"B","Condition":""}],"Actions":[
		{"Name":"a","Step":"A","Qualifier":"N","Interaction":"push_command","TypeId":"t","TimeoutSeconds":30},
		{"Name":"b","Step":"B","Qualifier":"N","Interaction":"push_command","TypeId":"t","TimeoutSeconds":30,"MaxAttempts":2,"Parameters":` + parameters + `}]}`)
}

var referenceOrder = Order{ID: "JO-1", Scope: "cell", Parameters: map[string]any{
	"torque": json.RawMessage(`85.50`), "big": json.RawMessage(`12345678901234567890`), "list": json.RawMessage(`[1.0, {"deep":[2.50]}]`),
	"text": json.RawMessage(`"a<b"`), "null": json.RawMessage(`null`), "on": json.RawMessage(`true`), "object": json.RawMessage(`{"x":1,"x":2}`),
}}

// runTo answers a and returns what the decision made of b.
func runTo(p *Program, o Order, result string) Outcome {
	out := p.Start(o, "WM", "k", nil, epoch)
	return p.Answer(o, out.Docs, Answer{CommandID: out.Commands[0].ID, Result: json.RawMessage(result)}, epoch)
}

// A reference is an object with exactly one of the three members; a value is copied as it was sent, digits and all.
func TestReferences(t *testing.T) {
	for parameters, want := range map[string]string{
		`{"t":{"$value":"job.parameters.torque"}}`:                               `{"t":85.50}`,
		`{"t":[1,{"n":{"$value":"job.parameters.big"}}]}`:                        `{"t":[1,{"n":12345678901234567890}]}`,
		`{"t":{"$value":"job.parameters.list[1].deep[0]"}}`:                      `{"t":2.50}`,
		`{"t":{"$value":"job.parameters.list"}}`:                                 `{"t":[1.0,{"deep":[2.50]}]}`,
		`{"t":{"$value":"job.parameters[\"text\"]"}}`:                            `{"t":"a<b"}`,
		`{"t":{"$value":"job.id"}}`:                                              `{"t":"JO-1"}`,
		`{"t":{"$value":"actions.a.result.depth"}}`:                              `{"t":1.50}`,
		`{"t":{"$value":"actions.a.ok"}}`:                                        `{"t":true}`,
		`{"t":{"$value":"job.parameters.none ?? job.parameters.torque"}}`:        `{"t":85.50}`,
		`{"t":{"$value":"job.parameters.none ?? 7.5"}}`:                          `{"t":7.5}`,
		`{"t":{"$value":"job.parameters.null ?? 'x'"}}`:                          `{"t":"x"}`,
		`{"$value":"job.parameters.object"}`:                                     `{"x":1,"x":2}`,
		`{"t":{"$expr":"job.parameters.torque * 2"}}`:                            `{"t":171}`,
		`{"t":{"$expr":"job.parameters.torque > 80 and job.parameters.on"}}`:     `{"t":true}`,
		`{"t":{"$expr":"actions.a.result.depth + 1"}}`:                           `{"t":2.5}`,
		`{"t":{"$expr":"[job.parameters.torque, job.id]"}}`:                      `{"t":[85.5,"JO-1"]}`,
		`{"t":{"$expr":"upper(job.parameters.text)"}}`:                           `{"t":"A<B"}`,
		`{"t":{"$expr":"job.parameters.none ?? 3"}}`:                             `{"t":3}`,
		`{"t":{"$literal":{"$value":"job.id"}}}`:                                 `{"t":{"$value":"job.id"}}`,
		`{"t":{"$literal":null}}`:                                                `{"t":null}`,
		`{"t":{"$value":"job.id","x":1}}`:                                        `{"t":{"$value":"job.id","x":1}}`,
		`{"t":"$value","u":{"value":"job.id"},"v":"${job.id}"}`:                  `{"t":"$value","u":{"value":"job.id"},"v":"${job.id}"}`,
		`{"\u0024value":"job.parameters.object"}`:                                `{"x":1,"x":2}`,
		`{"a":{"$value":"job.id"},"b":1.0,"c":[{"$value":"job.id"}, {"d" : 1}]}`: `{"a":"JO-1","b":1.0,"c":["JO-1",{"d":1}]}`,
	} {
		p := withParameters(t, parameters)
		out := runTo(p, referenceOrder, `{"depth":1.50}`)
		if len(out.Commands) != 1 {
			t.Errorf("%s: %s", parameters, out.Note)
			continue
		}
		if got := string(out.Commands[0].Parameters); got != want {
			t.Errorf("%s: %s, want %s", parameters, got, want)
		}
		if f := Check(recipeWith(parameters), Options{}); HasErrors(f) {
			t.Errorf("%s: %v", parameters, f)
		}
	}
}

// A command has the same body whenever it is sent again, by whichever program: also after its document was stored and
// read, and after results that it refers to have changed. Another attempt looks anew.
func TestRepeatsHaveEqualParameters(t *testing.T) {
	p := withParameters(t, `{"t":{"$expr":"step.t + job.parameters.torque"}}`)
	out := runTo(p, referenceOrder, `1`)
	first := string(out.Commands[0].Parameters)
	if first != `{"t":85.5}` {
		t.Fatal(first)
	}
	stored, err := DecodeExecution(out.Docs.Execution.Encode())
	if err != nil {
		t.Fatal(err)
	}
	changed := referenceOrder
	changed.Parameters = map[string]any{}
	again := p.Tick(changed, Docs{Execution: stored}, epoch.Add(10*time.Second))
	if len(again.Commands) != 1 || !again.Commands[0].Again || string(again.Commands[0].Parameters) != first {
		t.Fatalf("%+v %s", again.Commands, again.Note)
	}
	next := p.Tick(referenceOrder, Docs{Execution: stored}, epoch.Add(30*time.Second))
	if len(next.Commands) != 1 || next.Commands[0].Again || string(next.Commands[0].Parameters) != `{"t":115.5}` {
		t.Fatalf("%s %s", next.Commands[0].Parameters, next.Note)
	}
	if done := p.Answer(referenceOrder, out.Docs, Answer{CommandID: out.Commands[0].ID}, epoch); strings.Contains(string(done.Docs.Execution.Encode()), "parameters") {
		t.Error("kept after the answer")
	}
}

// What cannot be put in place fails the job before its command leaves, and names the reference and the reason.
func TestReferencesThatFail(t *testing.T) {
	deep := strings.Repeat("[", 55) + strings.Repeat("]", 55)
	o := referenceOrder
	o.Parameters = map[string]any{
		"deep": json.RawMessage(deep), "long": json.RawMessage(`"` + strings.Repeat("x", MaxParametersBytes) + `"`), "text": json.RawMessage(`"abc"`),
		"many": json.RawMessage("[" + strings.Repeat("1,", MaxParametersElements) + "1]"), "n": json.RawMessage(`5`),
	}
	for parameters, want := range map[string]string{
		`{"t":{"$value":"job.parameters.none"}}`:                       "Parameters/t: job.parameters.none is missing",
		`{"t":{"$value":"job.parameters.none ?? actions.a.result.x"}}`: "Parameters/t: job.parameters.none and actions.a.result.x is missing",
		`{"t":[{"$value":"actions.a.result.x"}]}`:                      "Parameters/t/0: actions.a.result.x is missing",
		`{"t":{"$expr":"job.parameters.text * 2"}}`:                    "Parameters/t: job.parameters.text * 2: invalid operation: a string * a number",
		`{"t":{"$expr":"actions.a.result.x"}}`:                         "Parameters/t: actions.a.result.x has no value: actions.a.result.x is missing",
		`{"t":{"$expr":"1 / 0"}}`:                                      "1 / 0 is a division by zero",
		`{"t":{"$value":"job.parameters.long"}}`:                       "and may have 262144",
		`{"t":{"$value":"job.parameters.many"}}`:                       "they must not have more than 10000 elements",
		`{"$value":"job.parameters.n"}`:                                "they must be an object, and are a number",
		`{"t":[[[[[[[[[{"$value":"job.parameters.deep"}]]]]]]]]]}`:     "they must not nest deeper than 60",
	} {
		p := withParameters(t, parameters)
		out := runTo(p, o, `{}`)
		if out.Phase != PhaseFailed || len(out.Commands) != 0 || !strings.Contains(out.Docs.Execution.Error, want) {
			t.Errorf("%s: %s %q, want %q", parameters, out.Phase, out.Docs.Execution.Error, want)
		}
		if strings.Contains(parameters, "actions.") {
			continue
		}
		if why := p.Refusal(o); why == "" {
			t.Errorf("%s: the order alone tells that it fails", parameters)
		}
	}
}

// In a recipe that is stored, a reference with a fault is what it was before there were references: an object that is
// sent as it is.
func TestStoredReferencesWithFaultsAreSent(t *testing.T) {
	for _, parameters := range []string{`{"a":{"$value":5}}`, `{"a":{"$value":"price in $"}}`, `{"a":{"$expr":"x"}}`} {
		out := runTo(withParameters(t, parameters), referenceOrder, "1")
		if len(out.Commands) != 1 || string(out.Commands[0].Parameters) != parameters {
			t.Errorf("%s: %+v", parameters, out.Commands)
		}
	}
}

// Needed is what a condition or a command can fail for want of, and nothing else.
func TestNeededParameters(t *testing.T) {
	for condition, want := range map[string]string{
		"job.parameters.a > 5":                                   "a",
		"5 <= job.parameters.a":                                  "a",
		"1 < job.parameters.a < 5":                               "a",
		"job.parameters.a + 1 == 2":                              "a",
		"-job.parameters.a == 2":                                 "a",
		"job.parameters.a in ['x']":                              "a",
		"'x' in job.parameters.a":                                "a",
		"'x' in [job.parameters.a]":                              "",
		"job.parameters.a contains 'x'":                          "a",
		"job.parameters.a matches 'x'":                           "a",
		"job.parameters.a startsWith 'x'":                        "a",
		"len(job.parameters.a) == 1":                             "a",
		"string(job.parameters.a) == ''":                         "",
		"job.parameters.a == 5":                                  "",
		"job.parameters.a != 5":                                  "",
		"job.parameters.a":                                       "",
		"not job.parameters.a":                                   "",
		"(job.parameters.a ?? 1) > 5":                            "",
		"(job.parameters.a ?? job.parameters.b) > 5":             "b",
		"((job.parameters.a + 1) ?? 1) > 5":                      "a",
		"job.parameters.a != nil and job.parameters.a > 5":       "",
		"nil != job.parameters.a && job.parameters.a > 5":        "",
		"job.parameters.a == nil or job.parameters.a > 5":        "",
		"not (job.parameters.a == nil) and job.parameters.a > 5": "",
		"not (job.parameters.a == nil or job.parameters.b == nil) and job.parameters.a > job.parameters.b": "",
		"job.parameters.a == nil and job.parameters.a > 5":                                                 "a",
		"job.parameters.a != nil or job.parameters.a > 5":                                                  "a",
		"job.parameters.a != nil ? job.parameters.a > 5 : true":                                            "",
		"job.parameters.a == nil ? true : job.parameters.a > 5":                                            "",
		"job.parameters.a == nil ? job.parameters.a > 5 : true":                                            "a",
		"job.parameters.a == 'x' and job.parameters.a contains 'x'":                                        "",
		"job.parameters.a and job.parameters.a > 5":                                                        "",
		"'a' in job.parameters and job.parameters.a > 5":                                                   "",
		"'b' in job.parameters and job.parameters.a > 5":                                                   "a",
		"job.parameters.a.b > 5":                                                                           "a.b",
		"job.parameters.a?.b > 5":                                                                          "a.b",
		"job.parameters.a.b != nil and job.parameters.a.b > 5":                                             "",
		"job.parameters.a.b != nil and len(job.parameters.a) > 5":                                          "",
		"job.parameters.a[0] > job.parameters['b-c']":                                                      "a[0],b-c",
		"job.parameters.a[job.parameters.i] > 5":                                                           "i,a",
		"(job.parameters.on ? job.parameters.a : job.parameters.b) > 5":                                    "a,b",
		"actions.x.result.n > 5 and job.id contains 'x' and step.t > 1":                                    "",
	} {
		c, err := compileCondition(condition, map[string]bool{"x": true})
		if err != nil {
			t.Errorf("%s: %v", condition, err)
			continue
		}
		var names []string
		for _, n := range c.needs {
			if !n.optional && len(n.given) == 0 {
				names = append(names, n.name)
			}
		}
		if got := strings.Join(names, ","); got != want {
			t.Errorf("%s needs %q, want %q", condition, got, want)
		}
		for _, parameters := range []map[string]any{{}, {"b": 1}} { // what is not needed does no harm
			s := scope{order: &Order{Parameters: parameters}, execution: &Execution{}, cache: new(cache)}
			if _, err := c.holds(s); want == "" && err != nil && !c.later() {
				t.Errorf("%s: %v", condition, err)
			}
		}
	}
}

// What a condition can fail for is found before the machine works: a parameter that is missing, or a value with which it cannot work. What is not
// refused can be evaluated.
func TestWhatAnOrderLacks(t *testing.T) {
	for _, tc := range []struct{ condition, parameters, want string }{
		// A member of a parameter is needed of an order that has the parameter, if the expression looks whether it is there.
		{"job.parameters.a != nil and job.parameters.a.b > 3", `{}`, ""},
		{"job.parameters.a != nil and job.parameters.a.b > 3", `{"a":null}`, ""},
		{"job.parameters.a != nil and job.parameters.a.b > 3", `{"a":{"b":4}}`, ""},
		{"job.parameters.a != nil and job.parameters.a.b > 3", `{"a":{"c":4}}`, "parameter a.b is missing"},
		{"job.parameters.a != nil and job.parameters.a.b > 3", `{"a":{"b":"x"}}`, "parameter a.b is a string, and must be a number"},
		{"job.parameters.a == nil or job.parameters.a[0].c > 3", `{}`, ""},
		{"job.parameters.a == nil or job.parameters.a[0].c > 3", `{"a":[{}]}`, "parameter a[0].c is missing"},
		{"'a' in job.parameters and job.parameters.a.b > 3", `{}`, ""},
		{"'a' in job.parameters and job.parameters.a.b > 3", `{"a":null}`, "parameter a.b is missing"},
		{"'a' in job.parameters and job.parameters.a > 3", `{"a":null}`, "parameter a is missing"},
		{"'a' in job.parameters and job.parameters.a > 3", `{}`, ""},
		{"job.parameters.a != nil ? job.parameters.a.b > 3 : true", `{}`, ""},
		{"job.parameters.a and job.parameters.x.y > 3", `{}`, ""},
		{"job.parameters.a and job.parameters.x.y > 3", `{"a":true}`, "parameter x.y is missing"},
		{"job.parameters.a != nil and job.parameters.x.y > 3", `{}`, ""},
		{"job.parameters.a != nil and job.parameters.x.y > 3", `{"a":1}`, "parameter x.y is missing"},
		{"job.parameters.a != nil and job.parameters.a.b contains 'x'", `{"a":{}}`, "parameter a.b is missing"},
		{"actions.x.ok and job.parameters.x.y > 3", `{}`, "parameter x.y is missing"},
		{"job.parameters.a.b > 3 or (job.parameters.a != nil and job.parameters.a.b > 3)", `{}`, "parameter a.b is missing"},
		{"(job.parameters.a != nil and job.parameters.a.b > 3) or job.parameters.a.b > 5", `{}`, "parameter a.b is missing"},
		// A value of a kind that a condition cannot work with, but only where it is certain to be looked at.
		{"job.parameters.force >= 5", `{"force":5.5}`, ""},
		{"job.parameters.force >= 5", `{"force":"5"}`, "parameter force is a string, and must be a number"},
		{"5 < job.parameters.force", `{"force":true}`, "parameter force is true or false, and must be a number"},
		{"job.parameters.force >= step.t", `{"force":"5"}`, "parameter force is a string, and must be a number"},
		{"job.parameters.force > -1", `{"force":[1]}`, "parameter force is an array, and must be a number"},
		{"-job.parameters.force < actions.x.result.n", `{"force":{}}`, "parameter force is an object, and must be a number"},
		{"job.parameters.force + 1 == 6", `{"force":"5"}`, "parameter force is a string, and must be a number"},
		{"abs(job.parameters.force) == 6", `{"force":"5"}`, "parameter force is a string, and must be a number"},
		{"(job.parameters.force ?? 1) > 5", `{}`, ""},
		{"(job.parameters.force ?? 1) > 5", `{"force":"5"}`, "parameter force is a string, and must be a number"},
		{"job.parameters.lot > 'm'", `{"lot":"n"}`, ""},
		{"job.parameters.lot > 'm'", `{"lot":5}`, "parameter lot is a number, and must be a string"},
		{"job.parameters.lot startsWith 'm'", `{"lot":5}`, "parameter lot is a number, and must be a string"},
		{"job.parameters.lot contains upper(actions.x.result.s)", `{"lot":5}`, "parameter lot is a number, and must be a string"},
		{"job.id contains job.parameters.lot", `{"lot":5}`, "parameter lot is a number, and must be a string"},
		{"job.parameters.lot matches 'm'", `{"lot":5}`, "parameter lot is a number, and must be a string"},
		{"upper(job.parameters.lot) == 'M'", `{"lot":5}`, "parameter lot is a number, and must be a string"},
		{"job.parameters.on", `{"on":1}`, "parameter on is a number, and must be true or false"},
		{"job.parameters.on", `{}`, ""},
		{"not job.parameters.on and true", `{"on":"yes"}`, "parameter on is a string, and must be true or false"},
		{"job.parameters.a != nil and job.parameters.a > 5", `{"a":"5"}`, "parameter a is a string, and must be a number"},
		{"job.parameters.a == nil or job.parameters.a > 5", `{"a":"5"}`, "parameter a is a string, and must be a number"},
		{"job.parameters.a == nil ? true : job.parameters.a > 5", `{"a":"5"}`, "parameter a is a string, and must be a number"},
		{"job.parameters.b != nil and job.parameters.a > 5", `{"a":"5","b":1}`, "parameter a is a string, and must be a number"},
		// Perhaps it is not looked at, or as something else.
		{"job.parameters.b != nil and job.parameters.a > 5", `{"a":"5"}`, ""},
		{"job.parameters.kind == 'n' and job.parameters.a > 5", `{"kind":"s","a":"5"}`, ""},
		{"job.parameters.kind == 'n' ? job.parameters.a > 5 : job.parameters.a > 'x'", `{"kind":"s","a":"5"}`, ""},
		{"actions.x.ok or job.parameters.a > 5", `{"a":"5"}`, ""},
		{"(job.parameters.b ?? job.parameters.a) > 5", `{"a":"5","b":7}`, ""},
		{"job.parameters.a < job.parameters.b", `{"a":"5","b":"7"}`, ""},
		{"job.parameters.a < job.parameters.b", `{"a":"5","b":7}`, `condition "job.parameters.a < job.parameters.b" from A to B failed: invalid operation: a string < a number`},
		{"job.parameters.a > actions.x.result.n", `{"a":"5"}`, ""},
		{"job.parameters.a == 5", `{"a":"5"}`, ""},
		{"job.parameters.a contains actions.x.result.s", `{"a":5}`, ""}, // false, if the answer has no s
		{"actions.x.result.s startsWith job.parameters.a", `{"a":5}`, ""},
		{"job.parameters.a endsWith (actions.x.result.s ?? actions.x.result.t)", `{"a":5}`, ""},
		{"job.parameters.a[job.parameters.i] > 5", `{"a":[7],"i":0}`, ""},
		{"len(job.parameters.a) > 5", `{"a":"5"}`, ""},
		{"max(job.parameters.a) > 5", `{"a":[5]}`, ""},
		{"int(job.parameters.a) > 5", `{"a":"5"}`, ""},
		// What is out of the range of numbers, if that can be seen from the order.
		{"job.parameters.n >= 5", `{"n":1e999}`, "parameter n is 1e999, which is out of the range of numbers"},
		{"job.parameters.n == 5", `{"n":-1e999}`, ""},
		{"job.parameters.n + 1 > 5", `{"n":9223372036854775807}`, `condition "job.parameters.n + 1 > 5" from A to B failed: 9223372036854775807 + 1 is out of the range of whole numbers`},
		{"8 / job.parameters.n > 5", `{"n":0}`, `condition "8 / job.parameters.n > 5" from A to B failed: 8 / 0 is a division by zero`},
		{"job.parameters.n == 1 and job.parameters.n + 9223372036854775807 > 5", `{"n":0}`, ""},
	} {
		p, err := Compile(text("step A*\nstep B\ndo x @ A\nA > B: " + tc.condition + "\nA > A: otherwise ! 1"))
		if err != nil {
			t.Fatalf("%s: %v", tc.condition, err)
		}
		o := Order{ID: "JO-1", Parameters: map[string]any{}}
		values := json.NewDecoder(strings.NewReader(tc.parameters))
		values.UseNumber()
		if err := values.Decode(&o.Parameters); err != nil {
			t.Fatal(err)
		}
		if got := p.Refusal(o); got != tc.want {
			t.Errorf("%s with %s: %q, want %q", tc.condition, tc.parameters, got, tc.want)
		}
		if x := (&Execution{Actions: []ActionEntry{{Name: "x", State: ActionCompleted, Result: json.RawMessage(`{"n":"1"}`)}}}); tc.want == "" {
			if _, err := p.places["A"].exits[0].condition.holds(scope{order: &o, execution: x, cache: new(cache)}); err != nil {
				t.Errorf("%s with %s: %v", tc.condition, tc.parameters, err)
			}
		}
	}
}

// A number that is out of range is refused with the order where it is calculated with, and sent as it came elsewhere.
func TestOrdersOutOfRange(t *testing.T) {
	p := withParameters(t, `{"n":{"$expr":"job.parameters.n * 4"},"m":{"$expr":"job.parameters.m"}}`)
	o := Order{Parameters: map[string]any{"n": json.RawMessage(`4611686018427387904`), "m": json.RawMessage(`1e999`)}}
	if got, want := p.Refusal(o), "action b: Parameters/n: job.parameters.n * 4: 4611686018427387904 * 4 is out of the range of whole numbers"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	o.Parameters["n"] = json.RawMessage(`2`)
	if out := runTo(p, o, `1`); len(out.Commands) != 1 || string(out.Commands[0].Parameters) != `{"n":8,"m":1e999}` { // as it came
		t.Errorf("%+v %s", out.Commands, out.Note)
	}
}

// Commands that leave together are bounded together: an order whose values make them too large is refused, not aborted.
func TestCommandsTooLargeTogether(t *testing.T) {
	const large = `with {"n":{"$value":"job.parameters.large"}}`
	var actions, paths, later string
	for i := range 5 {
		actions += fmt.Sprintf("do a%d @ A %s\n", i, large)
		paths += fmt.Sprintf("step P%[1]d\ndo p%[1]d @ P%[1]d %[2]s\n", i, large)
		later += fmt.Sprintf("step P%[1]d\nstep Q%[1]d\ndo p%[1]d @ P%[1]d\ndo q%[1]d @ Q%[1]d %[2]s\n", i, large)
	}
	order := func(bytes int) Order {
		return Order{ID: "JO-1", Parameters: map[string]any{"large": json.RawMessage(`"` + strings.Repeat("x", bytes-len(`{"n":""}`)) + `"`)}}
	}
	for name, tc := range map[string]struct{ recipe, refused string }{
		"one step":       {"step A*\n" + actions, "the Parameters of actions a0, a1, a2, a3, a4, which are sent together, have 1049600 bytes, and may have 1048576"},
		"parallel":       {"step A*\nA > X\nsim X: P0 | P1 | P2 | P3 | P4\n" + paths, "the Parameters of actions p0, p1, p2, p3, p4, which are sent together, have 1049600 bytes, and may have 1048576"},
		"parallel later": {"step A*\nA > X\nsim X: P0 Q0 | P1 Q1 | P2 Q2 | P3 Q3 | P4 Q4\n" + later, ""}, // perhaps not at the same time
		"one of them":    {"step A*\nA > X\nsel X: P0 | P1 | P2 | P3 | P4\n" + paths, ""},
	} {
		p, err := Compile(text(tc.recipe))
		if err != nil {
			t.Fatal(name, err)
		}
		if got := p.Refusal(order(MaxResultsBytes/5 + 205)); got != tc.refused {
			t.Errorf("%s: %q, want %q", name, got, tc.refused)
		}
		small := order(MaxResultsBytes / 5)
		if got := p.Refusal(small); got != "" {
			t.Errorf("%s: %q", name, got)
		}
		if out := p.Start(small, "WM", "k", nil, epoch); out.Phase != PhaseRunning && out.Phase != PhaseCompleted {
			t.Errorf("%s: %s", name, out.Note)
		}
	}
}

func TestRefusal(t *testing.T) {
	p := withParameters(t, `{"t":{"$value":"job.parameters.torque"},"u":{"$value":"job.parameters.unit ?? 'nm'"},"v":{"$expr":"job.parameters.turns * 2"}}`)
	parameters := map[string]any{}
	for _, step := range []struct {
		add  string
		with any
		want string
	}{
		{"", nil, "parameters torque, turns are missing"},
		{"torque", json.RawMessage(`null`), "parameters torque, turns are missing"},
		{"torque", json.RawMessage(`85`), "parameter turns is missing"},
		{"turns", json.RawMessage(`"two"`), "parameter turns is a string, and must be a number"},
		{"turns", json.RawMessage(`2`), ""},
	} {
		parameters[step.add] = step.with
		if got := p.Refusal(Order{ID: "JO-1", Parameters: parameters}); got != step.want {
			t.Errorf("%v: %q, want %q", parameters, got, step.want)
		}
	}
	if why := withParameters(t, `{"t":{"$value":"actions.a.result.x"}}`).Refusal(Order{}); why != "" {
		t.Errorf("what only a result tells was refused: %s", why)
	}
}

// A pattern cannot hold up the decisions of others: patterns and texts are bounded, together.
func TestPatternsAreBounded(t *testing.T) {
	const evil = "a{0,1000}a{0,1000}a{0,1000}$x"
	c, err := compileCondition(fmt.Sprintf("job.parameters.s matches %q", evil), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.patterns.instructions <= MaxPatternInstructions {
		t.Errorf("%d instructions", c.patterns.instructions)
	}
	o := Order{Parameters: map[string]any{"s": strings.Repeat("a", 16_000)}}
	_, err = c.holds(scope{order: &o, execution: &Execution{}, cache: new(cache)})
	if err == nil || !strings.Contains(err.Error(), "job.parameters.s has 16000 bytes, and may have") {
		t.Errorf("a stored recipe: %v", err)
	}
	data := text("step A*\nstep B\nA > B: job.parameters.s matches '^[A-Z]{2}-[0-9]+$' or job.parameters.s matches 'x.*y'\nA > A: otherwise ! 1\ndo a @ A")
	if findings := Check(data, Options{}); len(findings) > 0 {
		t.Errorf("%v", findings)
	}
	o.Parameters["s"] = strings.Repeat("a", MaxResultBytes)
	if c, err = compileCondition("job.parameters.s matches 'x.*y'", nil); err != nil {
		t.Fatal(err)
	}
	if holds, err := c.holds(scope{order: &o, execution: &Execution{}, cache: new(cache)}); err != nil || holds {
		t.Errorf("a simple pattern on the largest result: %v, %v", holds, err)
	}
}
