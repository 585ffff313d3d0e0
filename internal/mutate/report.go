package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
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

// write keeps the verdicts of the mutants that are there, in their order, below the state of the whole in words.
func (r report) write(name string, all []Mutant) error {
	var b strings.Builder
	counts, left := make(map[string]int), make(map[string]int)
	for _, m := range all {
		if v, ok := r[m.id()]; ok {
			counts[v.Outcome]++
			fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", v.Outcome, v.Kind, m.id(), v.By)
		} else {
			left[m.File]++
		}
	}
	head := "# Written by make mutate: each guard removed alone, and the test that fails then. See docs/testing.md.\n" +
		fmt.Sprintf("# %d mutants: %d killed, %d excepted, %d survived, %d hang", len(all), counts[killed], counts[excepted], counts[survived], counts[hangs])
	switch {
	case len(left) > 0:
		head += ". Incomplete: not run yet are"
		for i, file := range slices.Sorted(maps.Keys(left)) {
			if i > 0 {
				head += ","
			}
			head += fmt.Sprintf(" %d of %s", left[file], file)
		}
		head += "; MUTANTS=-resume make mutate runs them"
	case counts[survived]+counts[hangs] == 0:
		head += ". Complete: a test fails without each of them"
	}
	return os.WriteFile(name, []byte(head+".\n"+b.String()), 0o644)
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
