package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// outcome is how a test ended: pass, fail or skip.
type outcome struct{ Folder, Test, Action string }

func (o outcome) name() string { return o.Folder + " " + o.Test }

// result is what the last complete run of a suite left.
type result struct {
	Tree   string // of the files that were tested
	Passed bool   // the suite as a whole
	Tests  []outcome
}

func resultsFile(dir, suite string) string { return filepath.Join(dir, suite+".json") }

func (r result) write(dir, suite string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(resultsFile(dir, suite), text, 0o644)
}

// readResults returns the tests of all suites that passed, as outcome.name has them. A suite that was not run on these files, or failed, is an error that names its target.
func readResults(dir, now string) (map[string]bool, error) {
	passed := make(map[string]bool)
	var wrong []error
	for _, suite := range suites {
		file := resultsFile(dir, suite)
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			wrong = append(wrong, fmt.Errorf("%s has not been run to its end: make %s", suite, suite))
			continue
		}
		var r result
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Errorf("%s: %w", file, err))
		case r.Tree != now:
			wrong = append(wrong, fmt.Errorf("files have changed since %s was run: make %s", suite, suite))
		case !r.Passed:
			wrong = append(wrong, fmt.Errorf("%s failed: make %s", suite, suite))
		}
		for _, o := range r.Tests {
			if o.Action == "pass" {
				passed[o.name()] = true
			}
		}
	}
	return passed, errors.Join(wrong...)
}

// untested are the folders whose files no test reads.
var untested = []string{"changelog", "docs/adr"}

// tree is a hash of all files of the repository, those not yet in git included, but what git ignores and what is untested.
func tree(root string) (string, error) {
	list, err := command(root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return "", err
	}
	names := strings.Split(strings.TrimRight(list, "\x00"), "\x00")
	slices.Sort(names)
	sum := sha256.New()
	for _, name := range slices.Compact(names) {
		if slices.ContainsFunc(untested, func(folder string) bool { return within(name, folder) }) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) { // deleted, which git does not know yet
			continue
		}
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%q %d\n", name, len(text))
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// follow reads what go test -json says: it shows one line a package and what failed tests said, and returns how tests ended.
func follow(out io.Reader, show io.Writer, module, dir string) (outcomes []outcome, err error) {
	output := make(map[string][]string) // by test, shown when it fails
	scan := bufio.NewScanner(out)
	scan.Buffer(nil, 16<<20)
	for scan.Scan() {
		var e struct{ Action, Package, ImportPath, Test, Output string }
		if json.Unmarshal(scan.Bytes(), &e) != nil {
			fmt.Fprintln(show, scan.Text())
			continue
		}
		folder := strings.TrimPrefix(filepath.ToSlash(filepath.Join(dir, strings.TrimPrefix(e.Package, module))), "./")
		o := outcome{folder, e.Test, e.Action}
		name := o.name()
		switch e.Action {
		case "build-output":
			fmt.Fprint(show, e.Output)
		case "output":
			output[name] = append(output[name], e.Output)
			continue
		case "fail":
			fmt.Fprint(show, strings.Join(output[name], ""))
		case "pass":
			if lines := output[name]; e.Test == "" && len(lines) > 0 {
				fmt.Fprint(show, lines[len(lines)-1])
			}
		}
		if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
			delete(output, name)
			if e.Test != "" {
				outcomes = append(outcomes, o)
			}
		}
	}
	return outcomes, scan.Err()
}
