package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	quoted    = regexp.MustCompile("`([^`]*)`")
	namedTest = regexp.MustCompile(`^(?:Test|Example|Fuzz|Benchmark)[A-Z]\w*$`)
	folder    = regexp.MustCompile(`^[a-z/]+$`)
	// A row of the table of tasks in faults.md: its tests are named without TestTaskFault and the number.
	faultRow  = regexp.MustCompile(`(?m)^\| (\d+) \| ([^|]*) \|`)
	faultName = regexp.MustCompile("`([A-Z]\\w*)`")
)

// files calls f for every file of the repository under dir whose name ends so.
func files(t *testing.T, dir, end string, f func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, end) {
			return err
		}
		text, err := os.ReadFile(path)
		f(path, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Tests that numbers.txt and tables of the documentation name as proof are there. The package stands before the first of its tests and holds up to a semicolon; those without one are in task, test/fault or
// test/e2e.
func TestNamedTestsExist(t *testing.T) {
	there := make(map[string][]string) // folders by name
	files(t, ".", "_test.go", func(path, text string) {
		for _, m := range testFunc.FindAllStringSubmatch(text, -1) {
			there[m[1]] = append(there[m[1]], filepath.ToSlash(filepath.Dir(path)))
		}
	})
	named := 0
	wants := func(path, name string, folders ...string) {
		named++
		if !slices.ContainsFunc(there[name], func(in string) bool {
			return slices.ContainsFunc(folders, func(f string) bool { return strings.HasSuffix(in, "/"+f) })
		}) {
			t.Errorf("%s names %s of %q, which is in %q", path, name, folders, there[name])
		}
	}
	files(t, "docs", ".md", func(path, text string) {
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "|") {
				continue
			}
			for part := range strings.FieldsFuncSeq(line, func(r rune) bool { return r == '|' || r == ';' }) {
				folders := []string{"task", "test/fault", "test/e2e"}
				for _, m := range quoted.FindAllStringSubmatch(part, -1) {
					if namedTest.MatchString(m[1]) {
						wants(path, m[1], folders...)
					} else if folder.MatchString(m[1]) {
						folders = []string{m[1]}
					}
				}
			}
		}
		if filepath.Base(path) != "faults.md" {
			return
		}
		_, tasks, _ := strings.Cut(text, "\n| # | Test |")
		rows := faultRow.FindAllStringSubmatch(tasks, -1)
		if len(rows) < 20 {
			t.Errorf("%s: the table of tasks has %d rows, there were 25", path, len(rows))
		}
		for _, row := range rows {
			for _, m := range faultName.FindAllStringSubmatch(row[2], -1) {
				if !strings.HasPrefix(m[1], "Test") {
					wants(path, "TestTaskFault"+row[1]+m[1], "test/fault")
				}
			}
		}
	})
	// numbers.txt too: a misspelled line fails here, not only once all tests have run.
	list, err := parseNumbers(numbersTxt)
	if err != nil {
		t.Fatal(err)
	}
	for n, places := range list.places {
		for _, p := range places {
			for _, test := range p.tests {
				name, _, _ := strings.Cut(test, "/")
				wants("numbers.txt: "+n, name, p.folder)
			}
			if p.file != "" {
				if _, wrong := p.check("../..", nil); wrong != nil {
					t.Errorf("numbers.txt: %s: %q", n, wrong)
				}
			}
		}
	}
	if named < 200 {
		t.Errorf("the documentation names %d tests, there were more than 200", named)
	}
}
