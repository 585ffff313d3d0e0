package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/build/constraint"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// suites are the targets of the Makefile that run tests. Together they run every test of the repository once:
//
//	test         the packages of the module in the root but those of the other suites
//	test-faults  ./test/fault, and the tests in files with //go:build faults
//	test-interop ./test/interop, all other modules, and the tests in files with //go:build interop
var suites = []string{"test", "test-faults", "test-interop"}

// own are the packages that belong to a suite as a whole.
var own = map[string]string{"test-faults": "test/fault", "test-interop": "test/interop"}

// slow are the packages whose tests take longest, the longest first. They begin first: one that begins last runs alone at the end, with idle processors.
var slow = []string{"task", "workflow", "test/e2e", "cmd/takt", "jobstore", "publisher"}

// testFunc is a test of a file.
var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz|Benchmark)\w*)\(`)

// step is one call of go test.
type step struct {
	dir  string // of the module, below the root of the repository
	args []string
}

// plan returns the calls of go test that run a suite. root is the root of the repository, modules are the folders of all modules below it.
func plan(root, suite string, modules []string) ([]step, error) {
	packages, err := goList(root)
	if err != nil {
		return nil, err
	}
	if suite == "test" {
		var rest []string
		for _, p := range packages {
			if !slices.ContainsFunc(suites, func(s string) bool { return own[s] != "" && within(p, own[s]) }) {
				rest = append(rest, "./"+p)
			}
		}
		slices.SortStableFunc(rest, func(a, b string) int { return rank(a) - rank(b) })
		// Most packages, and most tests, wait most of the time: for a lease to end, for a server to notice.
		n := strconv.Itoa(2 * runtime.NumCPU())
		return []step{{".", append([]string{"-p", n, "-parallel", n}, rest...)}}, nil
	}
	steps := []step{{".", []string{"./" + own[suite] + "/..."}}}
	tag := strings.TrimPrefix(suite, "test-")
	tests, folders, err := tagged(root, tag, modules)
	if err != nil {
		return nil, err
	}
	if len(tests) > 0 {
		steps = append(steps, step{".", append([]string{"-tags", tag, "-run", "^(" + strings.Join(tests, "|") + ")$"}, folders...)})
	}
	if suite == "test-interop" {
		for _, m := range modules {
			if m != "." {
				steps = append(steps, step{m, []string{"-tags", tag, "./..."}})
			}
		}
	}
	return steps, nil
}

// rank is the place of a package, ./FOLDER, in the order in which packages begin.
func rank(p string) int {
	if i := slices.Index(slow, strings.TrimPrefix(p, "./")); i >= 0 {
		return i
	}
	return len(slow)
}

func within(folder, of string) bool { return folder == of || strings.HasPrefix(folder, of+"/") }

// goList returns the folders of the packages of the module in root, "." for the root itself.
func goList(root string) ([]string, error) {
	out, err := command(root, "go", "list", "-f", "{{.Module.Path}} {{.ImportPath}}", "./...")
	if err != nil {
		return nil, err
	}
	var folders []string
	for line := range strings.Lines(out) {
		module, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		folder := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
		if folder == "" {
			folder = "."
		}
		folders = append(folders, folder)
	}
	return folders, nil
}

// command runs a program in dir and returns what it prints.
func command(dir string, args ...string) (string, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

// tagged returns the tests in files of the module in root that need a build tag, and the packages they are in.
func tagged(root, tag string, modules []string) (tests, folders []string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if folder != "." && slices.Contains(modules, filepath.ToSlash(folder)) || d.Name() == ".git" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !needsTag(text, tag) {
			return nil
		}
		for _, m := range testFunc.FindAllSubmatch(text, -1) {
			if name := string(m[1]); name != "TestMain" && !strings.HasPrefix(name, "Benchmark") {
				tests = append(tests, name)
			}
		}
		if f := "./" + filepath.ToSlash(filepath.Dir(folder)); !slices.Contains(folders, f) {
			folders = append(folders, f)
		}
		return nil
	})
	slices.Sort(tests)
	return slices.Compact(tests), folders, err
}

// needsTag reports whether a file is built only with tag.
func needsTag(text []byte, tag string) bool {
	for line := range bytes.Lines(text) {
		line := strings.TrimSpace(string(line))
		if strings.HasPrefix(line, "package ") {
			break
		}
		if expr, err := constraint.Parse(line); err == nil && constraint.IsGoBuild(line) {
			return !expr.Eval(func(t string) bool { return t != tag }) && expr.Eval(func(string) bool { return true })
		}
	}
	return false
}

// runSuite runs the tests of a suite, all of them even if some fail, and keeps their outcomes. A skipped test is a failure: what cannot be tested here is not shown to work.
func runSuite(root, dir, suite string, flags []string, show io.Writer) error {
	if !slices.Contains(suites, suite) {
		return fmt.Errorf("%q is none of %q", suite, suites)
	}
	modules, err := command(root, "scripts/modules")
	if err != nil {
		return err
	}
	steps, err := plan(root, suite, strings.Fields(modules))
	if err != nil {
		return err
	}
	if err := os.Remove(resultsFile(dir, suite)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r := result{}
	if r.Tree, err = tree(root); err != nil {
		return err
	}
	var failed []error
	for _, s := range steps {
		outcomes, err := runTests(root, s, flags, show)
		r.Tests = append(r.Tests, outcomes...)
		failed = append(failed, err)
	}
	err = errors.Join(failed...)
	r.Passed = err == nil
	return errors.Join(err, r.write(dir, suite))
}

// runTests runs one step, shows one line a package and what failed tests said, and returns how the tests ended.
func runTests(root string, s step, flags []string, show io.Writer) ([]outcome, error) {
	dir := filepath.Join(root, s.dir)
	module, err := command(dir, "go", "list", "-m")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", slices.Concat([]string{"test", "-json"}, flags, s.args)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	outcomes, err := follow(out, show, strings.TrimSpace(module), s.dir)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return outcomes, fmt.Errorf("go test in %s: %w", s.dir, err)
	}
	var skipped []string
	for _, o := range outcomes {
		if o.Action == "skip" {
			skipped = append(skipped, o.name())
		}
	}
	if len(skipped) > 0 {
		return outcomes, fmt.Errorf("skipped: %s", strings.Join(skipped, " "))
	}
	return outcomes, nil
}
