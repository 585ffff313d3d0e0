package main

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A mutated script reaches a test in this way: the tests are built once a package, with go test -overlay, and package script replaces the texts of scripts as the file
// says that TAKT_MUTANT names. Nothing of it is in the tree. A mutant in Go is built with an overlay of its own file.
const hook = `package script

import (
	"encoding/json"
	"os"
	"strings"
)

type mutation struct{ From, To string }

var prelude, mutations = func() (prelude string, all []mutation) {
	name := os.Getenv("TAKT_MUTANT")
	if name == "" {
		return "", nil
	}
	var file struct {
		Prelude   string
		Mutations []mutation
	}
	text, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil {
		panic(err)
	}
	return file.Prelude, file.Mutations
}()

func mutated(src string) string {
	for _, m := range mutations {
		src = strings.Replace(src, m.From, m.To, 1)
	}
	return prelude + src
}
`

// prelude of scripts whose guards report when they refuse. Redis writes it to its log, which TAKT_TEST_LOGS shows.
const prelude = "local function reached__(n, refuses, c) if (c and true or false) == refuses and redis.log then redis.log(redis.LOG_WARNING, 'guard ' .. n .. ' refuses') end return c end\n"

var (
	refused = regexp.MustCompile(`guard (\d+) refuses`)
	ran     = regexp.MustCompile(`guard (\d+) runs`)
)

type mutation struct{ From, To string }

// lab builds and runs tests with mutants.
type lab struct {
	root, dir string // of the repository; for what is built
	tags      string
	limit     time.Duration // of a test that must fail by name
	only      *regexp.Regexp
	all       []Mutant // of Lua: the number of a guard in the logs is its place here

	binaries map[string]string // by package
	lists    map[string][]string
	passes   map[string]bool // by package and test: it passes without a mutant
}

func newLab(root, tags string, limit time.Duration, all []Mutant) (*lab, error) {
	dir, err := filepath.Abs(filepath.Join(root, "bin/mutate"))
	if err != nil {
		return nil, err
	}
	root, err = filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	return &lab{root: root, dir: dir, tags: tags, limit: limit, all: all, binaries: map[string]string{}, lists: map[string][]string{}, passes: map[string]bool{}}, os.MkdirAll(dir, 0o755)
}

// overlay writes the overlay that puts the hook into package script, and in Go mutants.
func (l *lab) overlay(m *Mutant) (string, error) {
	const file = "internal/redis/script/script.go"
	text, err := os.ReadFile(filepath.Join(l.root, file))
	if err != nil {
		return "", err
	}
	const begin = "func New(name, src string) *Script {\n"
	hooked := strings.Replace(string(text), begin, begin+"\tsrc = mutated(src)\n", 1)
	if hooked == string(text) {
		return "", fmt.Errorf("%s has no %q: say in internal/mutate where the texts of scripts go by", file, begin)
	}
	replace := make(map[string]string)
	put := func(at, name, text string) error {
		replace[filepath.Join(l.root, at)] = filepath.Join(l.dir, name)
		return os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o644)
	}
	err = errors.Join(put(file, "script.go.txt", hooked), put("internal/redis/script/mutated.go", "mutated.go.txt", hook))
	name := "overlay.json"
	if m != nil {
		err = errors.Join(err, put(m.File, "mutant.go.txt", m.mutated))
		name = "mutant.json"
	}
	if err != nil {
		return "", err
	}
	return l.write(name, map[string]any{"Replace": replace})
}

func (l *lab) write(name string, value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	name = filepath.Join(l.dir, name)
	return name, os.WriteFile(name, text, 0o644)
}

// build makes the test program of a package, m = nil: without a mutant in Go.
func (l *lab) build(pkg string, m *Mutant) (string, error) {
	name := strings.ReplaceAll(pkg, "/", "_") + ".test"
	if m != nil {
		name = "mutant_" + name
	} else if l.binaries[pkg] != "" {
		return l.binaries[pkg], nil
	}
	overlay, err := l.overlay(m)
	if err != nil {
		return "", err
	}
	out := filepath.Join(l.dir, name)
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-tags", l.tags, "-overlay", overlay, "-o", out, "./"+pkg)
	cmd.Dir = l.root
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the tests of %s: %w\n%s", pkg, err, said)
	}
	if m == nil {
		l.binaries[pkg] = out
	}
	return out, nil
}

var testName = regexp.MustCompile(`^(Test|Fuzz|Example)\w*$`)

// tests lists the tests of a package.
func (l *lab) tests(pkg string) ([]string, error) {
	if l.lists[pkg] != nil {
		return l.lists[pkg], nil
	}
	program, err := l.build(pkg, nil)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "-test.list", ".")
	cmd.Dir = filepath.Join(l.root, pkg)
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	list := []string{}
	for line := range strings.Lines(string(out)) {
		if name := strings.TrimSpace(line); testName.MatchString(name) {
			list = append(list, name)
		}
	}
	l.lists[pkg] = list
	return list, nil
}

// How a test ended.
const (
	passed = "passed"
	failed = "failed"
	hung   = "hung"
)

// run runs one test alone, with the mutations that file names, "" = none.
func (l *lab) run(program, pkg, test, file string, limit time.Duration, env ...string) (outcome, output string) {
	ctx, cancel := context.WithTimeout(context.Background(), limit+30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-test.run", "^"+test+"$", "-test.v", "-test.failfast", "-test.timeout", limit.String())
	cmd.Dir = filepath.Join(l.root, pkg)
	cmd.Env = append(append(os.Environ(), "TAKT_MUTANT="+file), env...)
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	switch text := out.String(); {
	case err == nil:
		return passed, text
	case ctx.Err() != nil || strings.Contains(text, "panic: test timed out after"):
		return hung, text
	default:
		return failed, text
	}
}

// reach says which guards refuse in a test, and how long it takes. A test in which a guard never refuses cannot notice that it is gone.
type reach struct {
	Of      map[string]string // by script: hash of the guards that were looked for
	Guards  []string          // ids
	Seconds float64
	Outcome string
}

// reached measures the tests of a package that were not measured with the guards that file has now, and returns what all of them reach.
// A mutant that source.txt names counts as reached when its script runs.
func (l *lab) reached(pkg, script string, show func(string, ...any)) (map[string]reach, error) {
	tests, err := l.tests(pkg)
	if err != nil {
		return nil, err
	}
	name := "reach_" + strings.ReplaceAll(pkg, "/", "_") + ".json"
	known := make(map[string]reach)
	if text, err := os.ReadFile(filepath.Join(l.dir, name)); err == nil {
		if err := json.Unmarshal(text, &known); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	maps.DeleteFunc(known, func(test string, _ reach) bool { return !slices.Contains(tests, test) })
	byFile, ids := make(map[string][]int), make(map[string]string)
	for i, m := range l.all {
		if m.lua() {
			byFile[m.File] = append(byFile[m.File], i)
			ids[m.File] += m.id() + "\n"
		}
	}
	of := make(map[string]string)
	for file, text := range ids {
		of[file] = fmt.Sprintf("%x", sha1.Sum([]byte(text)))
	}
	var probes struct {
		Prelude   string
		Mutations []mutation
	}
	probes.Prelude = prelude
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		numbers := byFile[file]
		original := l.all[numbers[0]].original
		text, named := probed(original, l.all, numbers), ""
		for _, n := range numbers {
			if l.all[n].condition[1] == 0 {
				named += fmt.Sprintf("if redis.log then redis.log(redis.LOG_WARNING, 'guard %d runs') end\n", n)
			}
		}
		probes.Mutations = append(probes.Mutations, mutation{original, named + text})
	}
	file, err := l.write("probes.json", probes)
	if err != nil {
		return nil, err
	}
	for _, test := range tests {
		if r, ok := known[test]; ok && r.Of[script] == of[script] || !l.only.MatchString(test) {
			continue
		}
		began := time.Now()
		outcome, out := l.run(l.binaries[pkg], pkg, test, file, l.limit, "TAKT_TEST_LOGS=1")
		r := reach{Of: of, Outcome: outcome, Seconds: time.Since(began).Seconds()}
		for _, m := range refused.FindAllStringSubmatch(out, -1) {
			n, _ := strconv.Atoi(m[1])
			for i, other := range l.all { // all terms of the condition
				if other.File == l.all[n].File && other.condition == l.all[n].condition && !slices.Contains(r.Guards, l.all[i].id()) {
					r.Guards = append(r.Guards, l.all[i].id())
				}
			}
		}
		for _, m := range ran.FindAllStringSubmatch(out, -1) {
			n, _ := strconv.Atoi(m[1])
			if id := l.all[n].id(); !slices.Contains(r.Guards, id) {
				r.Guards = append(r.Guards, id)
			}
		}
		known[test] = r
		if outcome != passed {
			show("%s %s %s with probes in the scripts", pkg, test, outcome)
		}
		if _, err := l.write(name, known); err != nil {
			return nil, err
		}
	}
	return known, nil
}

// without reports whether a test passes with no mutant.
func (l *lab) without(pkg, test string) bool {
	key := pkg + " " + test
	if pass, ok := l.passes[key]; ok {
		return pass
	}
	program, err := l.build(pkg, nil)
	if err != nil {
		return false
	}
	outcome, _ := l.run(program, pkg, test, "", l.limit)
	l.passes[key] = outcome == passed
	return l.passes[key]
}

// try runs a mutant through a test, and again if it fails: only what fails twice with it and passes without it has noticed it.
func (l *lab) try(m *Mutant, pkg, test string, limit time.Duration) (string, error) {
	program, err := l.build(pkg, nil)
	if err != nil {
		return "", err
	}
	file := ""
	if m.lua() {
		file, err = l.write("mutant.lua.json", map[string]any{"Mutations": []mutation{{m.original, m.mutated}}})
	} else {
		program, err = l.build(pkg, m)
	}
	if err != nil {
		return "", err
	}
	outcome, _ := l.run(program, pkg, test, file, limit)
	if outcome != failed {
		return outcome, nil
	}
	if again, _ := l.run(program, pkg, test, file, limit); again != failed || !l.without(pkg, test) {
		return passed, nil
	}
	return failed, nil
}
