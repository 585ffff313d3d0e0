package takt_test

import (
	"os"
	"os/exec"
	"regexp"
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
