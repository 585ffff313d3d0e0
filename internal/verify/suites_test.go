package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// repository makes a repository of two modules, with tests of every suite.
func repository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"scripts/modules":           "#!/bin/sh\necho .\necho bench\n",
		"go.mod":                    "module m\n\ngo 1.24\n",
		"a.go":                      "package m\n",
		"p/p.go":                    "package p\n",
		"p/p_test.go":               "package p\n\nimport \"testing\"\n\nfunc TestP(*testing.T) {}\n",
		"p/zoo_test.go":             "//go:build interop\n\npackage p\n\nimport \"testing\"\n\nfunc TestZoo(*testing.T) {}\n\nfunc FuzzZoo(f *testing.F) { f.Fuzz(func(*testing.T, string) {}) }\n",
		"p/kill_test.go":            "//go:build faults && unix\n\npackage p\n\nimport \"testing\"\n\nfunc TestMain(m *testing.M) { m.Run() }\n\nfunc TestKill(*testing.T) {}\n",
		"p/unix_test.go":            "//go:build unix\n\npackage p\n\nimport \"testing\"\n\nfunc TestUnix(*testing.T) {}\n",
		"q/q.go":                    "package q\n",
		"q/zoo_test.go":             "//go:build interop\n\npackage q\n\nimport \"testing\"\n\nfunc TestAZoo(*testing.T) {}\n",
		"test/fault/f_test.go":      "package fault\n\nimport \"testing\"\n\nfunc TestF(*testing.T) {}\n",
		"test/interop/i_test.go":    "package interop\n\nimport \"testing\"\n\nfunc TestI(*testing.T) {}\n",
		"bench/go.mod":              "module m/bench\n\ngo 1.24\n",
		"bench/b.go":                "package bench\n",
		"bench/b_test.go":           "package bench\n\nimport \"testing\"\n\nfunc TestB(*testing.T) {}\n",
		"bench/other/other_test.go": "//go:build interop\n\npackage other\n\nimport \"testing\"\n\nfunc TestOther(*testing.T) {}\n",
	} {
		write(t, root, name, text)
	}
	if err := os.Chmod(filepath.Join(root, "scripts/modules"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := command(root, "git", "init", "-q"); err != nil {
		t.Fatal(err)
	}
	return root
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	file := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Every test is in exactly one suite: by its folder, its module, or the build tag of its file.
func TestSuitesDivideTheTests(t *testing.T) {
	t.Parallel()
	root, all := repository(t), map[string][]string{}
	for _, suite := range suites {
		dir := filepath.Join(root, "bin")
		if err := runSuite(root, dir, suite, nil, io.Discard); err != nil {
			t.Fatal(err)
		}
		r := read(t, dir, suite)
		for _, o := range r.Tests {
			all[suite] = append(all[suite], o.name()+" "+o.Action)
		}
		slices.Sort(all[suite])
		if !r.Passed {
			t.Errorf("%s did not pass", suite)
		}
	}
	if diff := cmp.Diff(map[string][]string{
		"test":         {"p TestP pass", "p TestUnix pass"},
		"test-faults":  {"p TestKill pass", "test/fault TestF pass"},
		"test-interop": {"bench TestB pass", "bench/other TestOther pass", "p FuzzZoo pass", "p TestZoo pass", "q TestAZoo pass", "test/interop TestI pass"},
	}, all); diff != "" {
		t.Error(diff)
	}
}

// The packages that take longest begin first; each of them is there.
func TestSlowPackagesBeginFirst(t *testing.T) {
	t.Parallel()
	steps, err := plan(filepath.Join("..", ".."), "test", []string{"."})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, p := range slow {
		want = append(want, "./"+p)
	}
	args := steps[0].args
	packages := args[slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "./") }):]
	if diff := cmp.Diff(want, packages[:len(want)]); diff != "" {
		t.Error(diff)
	}
}

func read(t *testing.T, dir, suite string) (r result) {
	t.Helper()
	text, err := os.ReadFile(resultsFile(dir, suite))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// A suite with a test that fails or is skipped fails, runs the rest, and keeps how each ended. What was kept before is gone when it begins.
func TestSuiteFails(t *testing.T) {
	t.Parallel()
	for action, call := range map[string]string{"fail": "Error", "skip": "Skip"} {
		root := repository(t)
		write(t, root, "test/fault/f_test.go", "package fault\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) { t."+call+"() }\n")
		dir := filepath.Join(root, "bin")
		if err := runSuite(root, dir, "test-faults", nil, io.Discard); err == nil {
			t.Errorf("%s is no error", action)
		}
		if diff := cmp.Diff([]outcome{{"test/fault", "TestF", action}, {"p", "TestKill", "pass"}}, read(t, dir, "test-faults").Tests); diff != "" {
			t.Error(diff)
		}
		write(t, root, "a.go", "no Go\n")
		if err := runSuite(root, dir, "test-faults", nil, io.Discard); err == nil {
			t.Error("a root that cannot be built is no error")
		}
		if r := read(t, dir, "test-faults"); r.Passed {
			t.Errorf("kept of a run that failed: %+v", r)
		}
	}
}

// The hash of the files changes with each that a test may read, one that git does not know included.
func TestTree(t *testing.T) {
	t.Parallel()
	root := repository(t)
	hash := func() string {
		t.Helper()
		h, err := tree(root)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	last := hash()
	changes := func(what string, want bool) {
		t.Helper()
		if now := hash(); (now != last) != want {
			t.Errorf("%s: changed %v, want %v", what, now != last, want)
		}
		last = hash()
	}
	changes("nothing", false)
	write(t, root, "a.go", "package m // more\n")
	changes("a file", true)
	write(t, root, "docs/page.md", "text\n")
	changes("a new file", true)
	write(t, root, "changelog/unreleased/new.md", "text\n")
	changes("the changelog", false)
	write(t, root, ".gitignore", "/bin/\n")
	changes("what git ignores", true)
	write(t, root, "bin/takt", "binary")
	changes("an ignored file", false)
	if _, err := command(root, "git", "add", "."); err != nil {
		t.Fatal(err)
	}
	changes("the index of git", false)
	if err := os.Remove(filepath.Join(root, "a.go")); err != nil {
		t.Fatal(err)
	}
	changes("a file that is gone", true)
	if _, err := tree(filepath.Join(root, "no such folder")); err == nil {
		t.Error("no folder, no error")
	}
}

func TestBurnEndsWithItsInput(t *testing.T) {
	if err := burn(strings.NewReader("")); err != nil {
		t.Error(err)
	}
	if err := burn(fails{}); !errors.Is(err, errFull) {
		t.Errorf("input that cannot be read: %v", err)
	}
}
