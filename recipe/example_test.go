package recipe_test

import (
	"fmt"

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
