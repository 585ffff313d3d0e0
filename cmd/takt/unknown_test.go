package main

import (
	"os"
	"strings"
	"testing"
)

// Each misspelt member of a file is named with its line and the name that was meant.
func TestMisspeltMembersOfFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("recipe.json", `{"AllowEndles": true,
"Steps": [{"Name": "Press", "Initial": true}], "Transitions": [],
"Actions": [{"Name": "press", "Step": "Press", "Qualifier": "N", "Interaction": "push_command", "TypeId": "t", "TimeoutSeconds": 5,
 "MaxAttemps": 5,
 "Paramters": {"force": 1},
 "TimeOutSeconds": 7}]}`)
	write("station.yaml", "scope: cell-07\nwork_masters: [{id: WM-1, recipe: recipe.json}]\n")
	write("order.json", "{\"JobOrderID\": \"MY-1\",\n \"Prioritty\": 3}")
	write("lower.json", `{"JobOrderId": "MY-1"}`)
	members := []string{
		`recipe.json:1: R036 error: the member "AllowEndles" is not known, did you mean AllowEndless?`,
		`recipe.json:4: R036 error: the member "MaxAttemps" is not known, did you mean MaxAttempts?`,
		`recipe.json:5: R036 error: the member "Paramters" is not known, did you mean Parameters?`,
		`recipe.json:6: R036 error: the member "TimeOutSeconds" is not known, did you mean TimeoutSeconds?`,
	}
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"recipe", "check", "recipe.json"}, exitFailed, members},
		{[]string{"station", "apply", "station.yaml"}, exitUsage, []string{"recipe.json:1:", `"MaxAttemps" is not known, did you mean MaxAttempts?`}},
		{[]string{"job", "store", "order.json", "--scope", "cell-07"}, exitUsage, []string{`order.json:2: member "Prioritty" is not known, did you mean Priority?`}},
		{[]string{"job", "store", "lower.json", "--scope", "cell-07"}, exitUsage, []string{`lower.json:1: member "JobOrderId" is not known, did you mean JobOrderID?`}},
	} {
		code, out, errOut := takt(c.args...)
		if code != c.code {
			t.Errorf("%v: exit status %d", c.args, code)
		}
		for _, want := range c.want {
			if !strings.Contains(out+errOut, want) {
				t.Errorf("%v does not say %s:\n%s%s", c.args, want, out, errOut)
			}
		}
	}
	if code, out, _ := takt("--unknown-members", "keep", "recipe", "check", "recipe.json"); code != 0 || !strings.Contains(out, "R036 warning") {
		t.Errorf("exit status %d:\n%s", code, out)
	}
	if code, _, errOut := takt("--unknown-members", "some", "recipe", "check", "recipe.json"); code != exitUsage || !strings.Contains(errOut, "unknown-members") {
		t.Errorf("exit status %d: %s", code, errOut)
	}
}
