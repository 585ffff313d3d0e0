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
