package e2e_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/test/rig"
)

// modules is how many Go modules the repository has. Each is linted and tested: who adds one counts it here.
const modules = 3

// scripts/modules lists the modules that there are, and lint runs in each; internal/verify has the tests of which suite runs them.
func TestModulesAreCounted(t *testing.T) {
	long.Test(t, "runs whole processes")
	root := rig.Root(t)
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || path == filepath.Join(root, "bin") || path == filepath.Join(root, "takt-data")) {
			return fs.SkipDir
		}
		if d.Name() == "go.mod" {
			rel, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			found = append(found, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != modules {
		t.Errorf("%d modules: %v, want %d", len(found), found, modules)
	}
	out, err := exec.Command(filepath.Join(root, "scripts", "modules")).Output()
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Fields(string(out))
	slices.Sort(found)
	slices.Sort(listed)
	if !slices.Equal(found, listed) {
		t.Errorf("scripts/modules lists %v, there are %v", listed, found)
	}

	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	if recipe := makeRecipe(string(makefile), "lint"); !strings.Contains(recipe, "in $$(scripts/modules)") {
		t.Errorf("make lint does not run in every module:\n%s", recipe)
	}
}

// makeRecipe is what a target of a Makefile runs, with the targets that it needs.
func makeRecipe(makefile, target string) string {
	rule := regexp.MustCompile(`(?m)^` + target + `:([^#\n]*).*\n((?:\t.*\n)*)`).FindStringSubmatch(makefile)
	if rule == nil {
		return ""
	}
	recipe := rule[2]
	for needed := range strings.FieldsSeq(rule[1]) {
		recipe += makeRecipe(makefile, needed)
	}
	return recipe
}
