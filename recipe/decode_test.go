package recipe

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func testdata(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func compile(t testing.TB, text string) *Program {
	t.Helper()
	p, err := Compile([]byte(text))
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	return p
}

// Spec D.1, cases 2 to 7, 9 and 12: what is written, and that it reads back.
func TestElementsAsWritten(t *testing.T) {
	for name, c := range map[string]struct {
		element any
		want    string
	}{
		"step":                   {Step{Name: "A"}, `{"Name":"A","Initial":false}`},
		"initial step":           {Step{Name: "A", Initial: true}, `{"Name":"A","Initial":true}`},
		"transition":             {Transition{Source: "A", Target: "B", Condition: "x"}, `{"Source":"A","Target":"B","Condition":"x","Priority":0}`},
		"action":                 {Action{Name: "a", Step: "A", Qualifier: QualifierP0, Interaction: InteractionPull, TypeID: "t", TimeoutSeconds: 3}, `{"Name":"a","Step":"A","Qualifier":"P0","Interaction":"pull_event","TypeId":"t","TimeoutSeconds":3}`},
		"action with parameters": {Action{Name: "a", Parameters: json.RawMessage(`{"n":1.50}`), MaxAttempts: 2}, `{"Name":"a","Step":"","Qualifier":"","Interaction":"","TypeId":"","TimeoutSeconds":0,"Parameters":{"n":1.50},"MaxAttempts":2}`},
		"branch":                 {Branch{Name: "B", Type: SelectionBranch, Paths: [][]string{{"a", "b"}, {"c"}}}, `{"Name":"B","Type":"selection","Branches":[["a","b"],["c"]]}`},
		"recipe":                 {Recipe{Steps: []Step{}, Transitions: []Transition{}, Actions: []Action{}}, `{"Steps":[],"Transitions":[],"Actions":[]}`},
	} {
		got, err := json.Marshal(c.element)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
	for _, q := range []Qualifier{QualifierN, QualifierP, QualifierP0, QualifierP1, QualifierS, QualifierR, QualifierL, QualifierD} {
		text := strings.Replace(minimal, `"N"`, `"`+string(q)+`"`, 1)
		if r, findings := Decode([]byte(text)); len(findings) > 0 || r.Actions[0].Qualifier != q {
			t.Errorf("qualifier %s: %v", q, findings)
		}
	}
}

const minimal = `{
  "Steps": [{"Name": "A", "Initial": true}],
  "Transitions": [],
  "Actions": [{"Name": "a", "Step": "A", "Qualifier": "N", "Interaction": "push_command", "TypeId": "t", "TimeoutSeconds": 5}]
}`

// Spec D.1, case 10: the golden recipe reads, keeps everything, and writes again.
func TestGoldenRecipeRoundTrip(t *testing.T) {
	data := testdata(t, "gearbox.json")
	r, findings := Decode(data)
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	if len(r.Steps) != 9 || len(r.Transitions) != 8 || len(r.Actions) != 9 || len(r.Branches) != 2 {
		t.Errorf("%d steps, %d transitions, %d actions, %d branches", len(r.Steps), len(r.Transitions), len(r.Actions), len(r.Branches))
	}
	if got := string(r.Actions[4].Parameters); got != `{"program":7,"torque_nm":85}` {
		t.Errorf("parameters %s", got)
	}
	var want bytes.Buffer
	if err := json.Compact(&want, data); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(r)
	if err != nil || string(got) != want.String() {
		t.Errorf("written: %v\n%s", err, cmp.Diff(want.String(), string(got)))
	}
	var again Recipe
	if err := json.Unmarshal(got, &again); err != nil || !cmp.Equal(&again, r) {
		t.Errorf("read again: %v\n%s", err, cmp.Diff(r, &again))
	}
}

func TestSnakeCase(t *testing.T) {
	pascal, findings := Decode([]byte(`{
		"Steps": [{"Name": "A", "Initial": true}, {"Name": "B"}, {"Name": "C", "Initial": null}],
		"Transitions": [{"Source": "A", "Target": "X", "Condition": "", "Priority": 3}],
		"Actions": [{"Name": "a", "Step": "A", "Qualifier": "N", "Interaction": "push_command", "TypeId": "t", "TimeoutSeconds": 5, "Parameters": {"Keep": 1}, "MaxAttempts": 2}],
		"Branches": [{"Name": "X", "Type": "simultaneous", "Branches": [["B"], ["C"]]}],
		"Version": "4.2", "Semantics": "compat", "AllowEndless": true, "MaxIterations": 7
	}`))
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	snake, findings := Decode([]byte(`{
		"steps": [{"name": "A", "initial": true}, {"name": "B"}, {"name": "C", "initial": null}],
		"transitions": [{"source": "A", "target": "X", "condition": "", "priority": 3}],
		"actions": [{"name": "a", "step": "A", "qualifier": "N", "interaction": "push_command", "type_id": "t", "timeout_seconds": 5, "parameters": {"Keep": 1}, "max_attempts": 2}],
		"branches": [{"name": "X", "type": "simultaneous", "branches": [["B"], ["C"]]}],
		"version": "4.2", "semantics": "compat", "allow_endless": true, "max_iterations": 7
	}`))
	if len(findings) > 0 || !cmp.Equal(pascal, snake) || pascal.Version != "4.2" {
		t.Errorf("%v\n%s", findings, cmp.Diff(pascal, snake))
	}
	if r, findings := Decode([]byte(`{"steps": 5, "Steps": [], "Transitions": [], "actions": [], "branches": null, "unknown": [1]}`)); len(findings) > 0 || len(r.Steps) != 0 {
		t.Errorf("PascalCase does not win: %v", findings)
	}
}

// A.3: what the Python system coerces or refuses with an exception is a finding here.
func TestStrictShape(t *testing.T) {
	with := func(old, new string) string {
		if !strings.Contains(minimal, old) {
			t.Fatalf("no %q", old)
		}
		return strings.Replace(minimal, old, new, 1)
	}
	for name, c := range map[string]struct {
		text, code, pointer string
		line                int
	}{
		"not JSON":              {"{\n\"Steps\": [}", "R001", "", 2},
		"nothing":               {"", "R001", "", 1},
		"an array":              {"[]", "R001", "", 1},
		"not UTF-8":             {"{\n\"\xff\": 1}", "R001", "", 2},
		"string without an end": {"{\n\"Steps\": \"a", "R001", "", 2},
		"control character":     {"{\n\"Steps\": \"a\t\"}", "R001", "", 2},
		"missing member":        {with(`"Transitions": [],`, ``), "R001", "", 1},
		"missing in element":    {with(`"Step": "A", `, ``), "R001", "/Actions/0", 4},
		"null for a string":     {with(`"TypeId": "t"`, `"TypeId": null`), "R001", "/Actions/0/TypeId", 4},
		"null for a list":       {with(`"Transitions": []`, `"Transitions": null`), "R001", "/Transitions", 3},
		"element no object":     {with(`"Transitions": []`, `"Transitions": [3]`), "R001", "/Transitions/0", 3},
		"list is an object":     {with(`"Transitions": []`, `"Transitions": {}`), "R001", "/Transitions", 3},
		"string for an integer": {with(`: 5`, `: "30"`), "R001", "/Actions/0/TimeoutSeconds", 4},
		"fraction":              {with(`: 5`, `: 3.7`), "R001", "/Actions/0/TimeoutSeconds", 4},
		"exponent":              {with(`: 5`, `: 3e1`), "R001", "/Actions/0/TimeoutSeconds", 4},
		"huge":                  {with(`: 5`, `: 99999999999999999999`), "R001", "/Actions/0/TimeoutSeconds", 4},
		"string for a bool":     {with(`true`, `"false"`), "R001", "/Steps/0/Initial", 2},
		"number for a string":   {with(`"Name": "A"`, `"Name": 1`), "R001", "/Steps/0/Name", 2},
		"number for a word":     {with(`"N"`, `1`), "R001", "/Actions/0/Qualifier", 4},
		"version a number":      {with(`"Transitions": []`, `"Transitions": [], "Version": 4.2`), "R001", "/Version", 3},
		"parameters a list":     {with(`: 5`, `: 5, "Parameters": []`), "R001", "/Actions/0/Parameters", 4},
		"member twice":          {with(`: 5`, `: 5, "TimeoutSeconds": 6`), "R001", "/Actions/0/TimeoutSeconds", 4},
		"attempts out of range": {with(`: 5`, `: 5, "max_attempts": 0`), "R001", "/Actions/0/max_attempts", 4},
		"paths missing":         {with(`"Transitions": []`, `"Transitions": [], "Branches": [{"Name": "X", "Type": "selection"}]`), "R001", "/Branches/0", 3},
		"paths no array":        {with(`"Transitions": []`, `"Transitions": [], "Branches": [{"Name": "X", "Type": "selection", "Branches": {}}]`), "R001", "/Branches/0/Branches", 3},
		"path no array":         {with(`"Transitions": []`, `"Transitions": [], "Branches": [{"Name": "X", "Type": "selection", "Branches": ["A"]}]`), "R001", "/Branches/0/Branches/0", 3},
		"path of numbers":       {with(`"Transitions": []`, `"Transitions": [], "Branches": [{"Name": "X", "Type": "selection", "Branches": [[null]]}]`), "R001", "/Branches/0/Branches/0/0", 3},
		"qualifier lower case":  {with(`"N"`, `"n"`), "R002", "/Actions/0/Qualifier", 4},
		"qualifier SD":          {with(`"N"`, `"SD"`), "R002", "/Actions/0/Qualifier", 4},
		"interaction":           {with(`push_command`, `push`), "R002", "/Actions/0/Interaction", 4},
		"semantics":             {with(`"Transitions": []`, `"Transitions": [], "semantics": "iec"`), "R002", "/semantics", 3},
		"too deep":              {with(`: 5`, `: 5, "Parameters": {"a": `+strings.Repeat("[", 70)+strings.Repeat("]", 70)+`}`), "R034", "", 4},
		"far too deep":          {strings.Repeat("[", 20000), "R034", "", 1},
	} {
		r, findings := Decode([]byte(c.text))
		if len(findings) != 1 || findings[0].Code != c.code || findings[0].Pointer != c.pointer || findings[0].Line != c.line || findings[0].Severity != SeverityError {
			t.Errorf("%s: %v; want %s at %q on line %d", name, findings, c.code, c.pointer, c.line)
		}
		if (r != nil) != (c.code == "R002") {
			t.Errorf("%s: recipe %v", name, r)
		}
		if len(findings) > 0 && (findings[0].Message == "" || findings[0].Fix == "") {
			t.Errorf("%s: %+v does not say what to do", name, findings[0])
		}
	}
	var r Recipe
	if err := r.UnmarshalJSON([]byte(with(`"N"`, `"n"`))); err == nil || !strings.Contains(err.Error(), "R002") {
		t.Errorf("UnmarshalJSON: %v", err)
	}
}

func TestStringsWithEscapes(t *testing.T) {
	r, findings := Decode([]byte(`{"Steps": [], "Actions": [], "\u0054ransitions": [{"Source": "a\"\\\u00e9", "Target": "", "Condition": "\ud83d\ude00", "Priority": -1}]}`))
	if len(findings) > 0 || r.Transitions[0].Source != "a\"\\é" || r.Transitions[0].Condition != "😀" || r.Transitions[0].Priority != -1 {
		t.Errorf("%v %+v", findings, r)
	}
}

// A byte order mark is passed over, in recipes and in answers, and UTF-16 is named.
func TestByteOrderMarks(t *testing.T) {
	const mark = "\xef\xbb\xbf"
	good := text("step A*\ndo a @ A")
	if f := Check(append([]byte(mark), good...), Options{}); HasErrors(f) {
		t.Error(f)
	}
	if f := Check([]byte("\xff\xfe{\x00}\x00"), Options{}); len(f) != 1 || f[0].Code != "R001" || !strings.Contains(f[0].Message, "UTF-16") {
		t.Error(f)
	}
	if got, err := payload([]byte(mark + ` {"n": 1}`)); err != nil || string(got) != `{"n":1}` {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := payload([]byte("{\x00}\x00")); err == nil || !strings.Contains(err.Error(), "UTF-16") {
		t.Error(err)
	}
}
