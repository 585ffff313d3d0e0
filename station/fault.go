package station

import (
	"fmt"
	"strings"
)

// Fault is one thing wrong in a file typed by people.
type Fault struct {
	File  string
	Line  int    // from 1, 0 = the file as a whole
	Field string // path of the member, e.g. "commands[2].takes", "" = the document
	Value string // what stands there, shortened; "" = nothing does
	Rule  string // what has to stand there, as a sentence part: "must be ..."
}

// String is the fault on one line: file:line: field value: rule.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	b.WriteString(": ")
	if f.Field != "" {
		b.WriteString(f.Field + " ")
	}
	if f.Value != "" {
		fmt.Fprintf(&b, "%q ", f.Value)
	}
	return b.String() + f.Rule
}

// InvalidError is a file that cannot be used, with everything that is wrong in it, in the order of its lines.
type InvalidError struct{ Faults []Fault }

// Error has one line per fault.
func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}
