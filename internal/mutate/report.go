package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Outcomes of mutants.
const (
	killed   = "killed"
	survived = "survived"
	hangs    = "hang"     // some tests do not end, and none fails
	excepted = "excepted" // see exceptions.txt
)

// verdict is what became of a mutant.
type verdict struct {
	Outcome string
	Kind    string
	By      string // package and test; of an exception: empty
}

// report is the verdicts by the ids of mutants, as they stand in report.txt.
type report map[string]verdict

// readReport reads lines of outcome, kind, file, guard and test, with tabs between them.
func readReport(name string) (report, error) {
	r := make(report)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) != 5 {
			return nil, fmt.Errorf("%s: %q: want five fields", name, line)
		}
		r[f[2]+"\t"+f[3]] = verdict{Outcome: f[0], Kind: f[1], By: f[4]}
	}
	return r, err
}

// write keeps the verdicts of the mutants that are there, in their order.
func (r report) write(name string, all []Mutant) error {
	var b strings.Builder
	b.WriteString("# Written by make mutate: each guard removed alone, and the test that fails then. See docs/testing.md.\n")
	counts := make(map[string]int)
	for _, m := range all {
		if v, ok := r[m.id()]; ok {
			counts[v.Outcome]++
			fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", v.Outcome, v.Kind, m.id(), v.By)
		}
	}
	fmt.Fprintf(&b, "# %d mutants: %d killed, %d excepted, %d survived, %d hang\n", len(all), counts[killed], counts[excepted], counts[survived], counts[hangs])
	return os.WriteFile(name, []byte(b.String()), 0o644)
}

// exceptions reads lines of file, guard and reason, with tabs between them.
func exceptions(text string) (map[string]string, error) {
	all := make(map[string]string)
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 3 || f[2] == "" {
			return nil, fmt.Errorf("exceptions.txt: %q: want file, guard and reason, with tabs between them", line)
		}
		all[f[0]+"\t"+f[1]] = f[2]
	}
	return all, nil
}

// stale returns the exceptions that belong to no mutant.
func stale(all []Mutant, reasons map[string]string) []string {
	var ids []string
	for id := range reasons {
		if !slices.ContainsFunc(all, func(m Mutant) bool { return m.id() == id }) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
