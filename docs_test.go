package takt_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Tests that the documentation names as proof exist.
func TestNamedTestsExist(t *testing.T) {
	list := func(pattern string) []string {
		out, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", pattern).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	matches := func(pattern, expression string, found func(path, name string)) {
		for _, path := range list(pattern) {
			text, err := os.ReadFile(path)
			if err != nil && !os.IsNotExist(err) { // deleted and not yet committed
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(string(text), -1) {
				found(path, m[1])
			}
		}
	}
	exists := make(map[string]bool)
	matches("*_test.go", `(?m)^func ((?:Test|Example|Fuzz|Benchmark)\w*)\(`, func(_, name string) { exists[name] = true })
	matches("*.md", "`((?:Test|Example|Fuzz|Benchmark)[A-Z]\\w*)(?:/[^`]*)?`", func(path, name string) {
		if !exists[name] {
			t.Errorf("%s names %s, which is no test", path, name)
		}
	})
}

// docs/adr/README.md lists each decision, and no other.
func TestDecisionsAreListed(t *testing.T) {
	text, err := os.ReadFile("docs/adr/README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("docs/adr/0*.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, page := range pages {
		pages[i] = filepath.Base(page)
	}
	var listed []string
	for _, m := range regexp.MustCompile(`(?m)^- \[\d+\]\(([^)]+)\): `).FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	if !slices.Equal(listed, pages) {
		t.Errorf("listed are\n%q, the pages are\n%q", listed, pages)
	}
}

// ARCHITECTURE.md names paths that exist, and in the tables of flows symbols that their file has.
func TestArchitectureIsCurrent(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	isPath := regexp.MustCompile(`^[\w.-]+(/[\w.-]+)+$|^\w+\.(go|md)$`)
	for line := range strings.Lines(read("ARCHITECTURE.md")) {
		cells := strings.Split(line, "|")
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			path := isPath.MatchString(m[1]) && m[1] != "application/json" ||
				len(cells) == 4 && strings.Contains(cells[1], m[0]) // a row of the rooms
			if _, err := os.Stat(m[1]); path && err != nil {
				t.Errorf("ARCHITECTURE.md: %v", err)
			}
		}
		if len(cells) != 5 || !strings.Contains(cells[1], ".go`") {
			continue
		}
		text := read(strings.Trim(strings.Split(cells[1], ",")[0], " `"))
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			if !regexp.MustCompile(`(?m)^(func|type) (\([^)]*\) )?` + m[1] + `\b`).MatchString(text) {
				t.Errorf("ARCHITECTURE.md: no %s in%s", m[1], cells[1])
			}
		}
	}
}
