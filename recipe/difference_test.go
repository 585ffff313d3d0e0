package recipe_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/recipe"
)

// Two editions differ in what was added, removed and changed, part by part; how a text is laid out makes no difference.
func TestCompare(t *testing.T) {
	const text = `{"Version": "1",
		"Steps": [{"Name": "A", "Initial": true}, {"Name": "B"}, {"Name": "End"}],
		"Transitions": [{"Source": "A", "Target": "B", "Condition": "true", "Priority": 1}, {"Source": "A", "Target": "B", "Condition": "step.t > 5", "Priority": 2}, {"Source": "B", "Target": "End", "Condition": "true", "Priority": 1}],
		"Actions": [
			{"Name": "clamp", "Step": "A", "Qualifier": "N", "Interaction": "push_command", "TypeId": "com.acme.clamp", "TimeoutSeconds": 10, "Parameters": {"force": 100000000000000000001, "side": "left"}},
			{"Name": "drill", "Step": "A", "Qualifier": "N", "Interaction": "push_command", "TypeId": "com.acme.drill", "TimeoutSeconds": 10}]}`
	before, findings := recipe.Decode([]byte(text))
	if before == nil {
		t.Fatal(findings)
	}
	for _, row := range []struct {
		name string
		edit []string // pairs of what is replaced
		want string   // change, part, name, field, before, after
	}{
		{"nothing", nil, ""},
		{"layout and spelling of members", []string{"\n", " ", `"Steps"`, `"steps"`, `{"force": 100000000000000000001, "side": "left"}`, `{"side":"left","force":100000000000000000001}`}, ""},
		{"order of steps", []string{`{"Name": "B"}, {"Name": "End"}`, `{"Name": "End"}, {"Name": "B"}`}, ""},
		{"version", []string{`"1",`, `"2",`}, "changed recipe||Version|1|2"},
		{"a member of the recipe", []string{`"Version": "1"`, `"Version": "1", "MaxIterations": 5`}, "changed recipe||MaxIterations||5"},
		{"a step with another name", []string{`"B"`, `"C"`}, `removed step|B|||
added step|C|||
removed transition|A > B||Condition: true, Priority: 1|
removed transition|A > B (2)||Condition: step.t > 5, Priority: 2|
removed transition|B > End||Condition: true, Priority: 1|
added transition|A > C|||Condition: true, Priority: 1
added transition|A > C (2)|||Condition: step.t > 5, Priority: 2
added transition|C > End|||Condition: true, Priority: 1`},
		{"the second transition of two between the same steps", []string{"step.t > 5", "step.t > 6"}, "changed transition|A > B (2)|Condition|step.t > 5|step.t > 6"},
		{"a number of many digits", []string{"100000000000000000001", "100000000000000000002"},
			`changed action|clamp|Parameters|{"force":100000000000000000001,"side":"left"}|{"force":100000000000000000002,"side":"left"}`},
		{"the order of dispatch", []string{`"clamp"`, `"x"`, `"drill"`, `"clamp"`, `"x"`, `"drill"`, "com.acme.drill", "com.acme.y", "com.acme.clamp", "com.acme.drill", "com.acme.y", "com.acme.clamp",
			`, "Parameters": {"force": 100000000000000000001, "side": "left"}`, "", `clamp", "TimeoutSeconds": 10`, `clamp", "TimeoutSeconds": 10, "Parameters": {"force": 100000000000000000001, "side": "left"}`},
			"changed action||Order|clamp, drill|drill, clamp"},
		{"a way to cancel", []string{`drill", "TimeoutSeconds": 10`, `drill", "TimeoutSeconds": 10, "Cancel": {"TypeId": "com.acme.stop", "TimeoutSeconds": 3}`},
			`changed action|drill|Cancel||{"TimeoutSeconds":3,"TypeId":"com.acme.stop"}`},
	} {
		edited := text
		for i := 0; i < len(row.edit); i += 2 {
			edited = strings.ReplaceAll(edited, row.edit[i], row.edit[i+1])
		}
		after, findings := recipe.Decode([]byte(edited))
		if after == nil {
			t.Fatalf("%s: %v", row.name, findings)
		}
		var got []string
		for _, d := range recipe.Compare(before, after) {
			got = append(got, fmt.Sprintf("%s %s|%s|%s|%s|%s", d.Change, d.Part, d.Name, d.Field, d.Before, d.After))
		}
		if diff := cmp.Diff(row.want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s:\n%s", row.name, diff)
		}
	}
}

// A branch is a part, too.
func TestCompareBranches(t *testing.T) {
	before, _ := recipe.Decode([]byte(`{"Steps": [], "Transitions": [], "Actions": [], "Branches": [{"Name": "both", "Type": "simultaneous", "Branches": [["A"], ["B"]]}]}`))
	after, _ := recipe.Decode([]byte(`{"Steps": [], "Transitions": [], "Actions": [], "Branches": [{"Name": "both", "Type": "selection", "Branches": [["A"], ["B", "C"]]}]}`))
	if before == nil || after == nil {
		t.Fatal("the recipes cannot be read")
	}
	want := []recipe.Difference{
		{Change: recipe.DifferenceChanged, Part: "branch", Name: "both", Field: "Branches", Before: `[["A"],["B"]]`, After: `[["A"],["B","C"]]`},
		{Change: recipe.DifferenceChanged, Part: "branch", Name: "both", Field: "Type", Before: "simultaneous", After: "selection"},
	}
	if diff := cmp.Diff(want, recipe.Compare(before, after)); diff != "" {
		t.Error(diff)
	}
}
