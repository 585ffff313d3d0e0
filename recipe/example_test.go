package recipe_test

import (
	"fmt"
	"time"

	"github.com/taktworks/takt/recipe"
)

// What would make a recipe hang or be ambiguous is found before it runs, with its place and what to change.
func ExampleCheck() {
	findings := recipe.Check([]byte(`{
	  "Steps": [{"Name": "Drill", "Initial": true}, {"Name": "Deburr"}],
	  "Transitions": [{"Source": "Drill", "Target": "Debur", "Condition": "actions.drill.result.depth_mm >= 12"}],
	  "Actions": [{"Name": "drill", "Step": "Drill", "Qualifier": "N", "Interaction": "push_command", "TypeId": "com.acme.drill.v1", "TimeoutSeconds": 0}]
	}`), recipe.Options{})
	for _, f := range findings {
		if f.Severity == recipe.SeverityError {
			fmt.Printf("line %d: %s at %s: %s\n", f.Line, f.Code, f.Pointer, f.Message)
		}
	}
	// Output:
	// line 3: R009 at /Transitions/0/Target: there is no step or branch "Debur", did you mean Deburr?
	// line 4: R027 at /Actions/0/TimeoutSeconds: action drill has a time-out of 0 s
}

// A decision is pure, so it can be asked what would happen: here, an answer that comes too late.
func ExampleProgram_Tick() {
	program, err := recipe.Compile([]byte(`{
	  "Steps": [{"Name": "Drill", "Initial": true}],
	  "Transitions": [],
	  "Actions": [{"Name": "drill", "Step": "Drill", "Qualifier": "N", "Interaction": "push_command", "TypeId": "com.acme.drill.v1", "TimeoutSeconds": 60, "MaxAttempts": 2}]
	}`))
	if err != nil {
		panic(err)
	}
	order := recipe.Order{ID: "JO-1", Scope: "cell-07"}
	begin := time.Date(2026, 11, 23, 6, 0, 0, 0, time.UTC)
	out := program.Start(order, "WM-1", "work entry 1-0", nil, begin)
	for out.Phase == recipe.PhaseRunning {
		for _, c := range out.Commands {
			fmt.Println(c.Action, "attempt", c.Attempt, "again", c.Again)
		}
		out = program.Tick(order, out.Docs, out.Due) // nobody answers
	}
	fmt.Println(out.Phase, "after", out.Docs.Execution.EndedAt-begin.UnixMilli(), "ms:", out.Docs.Execution.Error)
	// Output:
	// drill attempt 1 again false
	// drill attempt 1 again true
	// drill attempt 1 again true
	// drill attempt 2 again false
	// drill attempt 2 again true
	// drill attempt 2 again true
	// Failed after 120000 ms: action drill timed out: no answer within 60 s (attempt 2 of 2)
}
