package recipe

import (
	"fmt"
	"strings"
)

// The severities of a finding.
const (
	SeverityError   = "error"   // the recipe cannot run
	SeverityWarning = "warning" // it runs, perhaps not as meant, or not the same elsewhere
)

// Finding is one result of a check: which rule of spec A.4 (Code), where (Pointer, a JSON
// pointer with the keys as the text spells them; Line, counted from 1, 0 = unknown), what
// is wrong (Message) and what to change (Fix).
type Finding struct {
	Code     string `json:"code"`
	Severity string `json:"severity"`
	Pointer  string `json:"pointer"`
	Line     int    `json:"line"`
	Message  string `json:"message"`
	Fix      string `json:"fix"`
}

// String is the finding on one line without the name of a file: "12: R009 error: ...".
func (f Finding) String() string {
	s := fmt.Sprintf("%d: %s %s: %s", f.Line, f.Code, f.Severity, f.Message)
	if f.Pointer != "" {
		s += " (at " + f.Pointer + ")"
	}
	if f.Fix != "" {
		s += "; " + f.Fix
	}
	return s
}

// HasErrors tells whether any of findings forbids to run the recipe.
func HasErrors(findings []Finding) bool {
	for _, f := range findings {
		if f.Severity == SeverityError {
			return true
		}
	}
	return false
}

// InvalidError is what Compile returns for a recipe that cannot run. Findings holds all
// findings, warnings too, so that a report is complete.
type InvalidError struct {
	Findings []Finding
}

// Error lists the errors among the findings on one line, the first ten of them.
func (e *InvalidError) Error() string {
	var lines []string
	for _, f := range e.Findings {
		if f.Severity == SeverityError {
			lines = append(lines, "line "+f.String())
		}
	}
	if more := len(lines) - 10; more > 0 {
		lines = append(lines[:10], fmt.Sprintf("and %d more", more))
	}
	return "recipe: invalid: " + strings.Join(lines, "; ")
}
