// Command mutate removes the guards of Lua scripts one at a time, and says which test notices. docs/testing.md explains it.
//
//	mutate [flags] [file or folder ...]     only the mutants of these
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

//go:embed exceptions.txt
var exceptionsTxt string

const reportFile = "internal/mutate/report.txt"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("mutate", flag.ExitOnError)
	list := flags.Bool("list", false, "only list the mutants")
	missing := flags.Bool("resume", false, "only those that the report does not have as killed")
	tags := flags.String("tags", "", "build tags of the tests")
	limit := flags.Duration("limit", 4*time.Minute, "after which a test hangs; those that wait for something give up after 3 min")
	only := flags.String("run", "", "only the tests of the guard's own package whose names match; what they do not kill keeps its verdict")
	quick := flags.Duration("quick", 30*time.Second, "after which another test is tried first")
	if err := flags.Parse(args); err != nil {
		return err
	}
	all, err := findAll(".", bySourceTxt)
	if err != nil {
		return err
	}
	reasons, err := exceptions(exceptionsTxt)
	if err != nil {
		return err
	}
	wanted := func(m Mutant) bool {
		return flags.NArg() == 0 || slices.ContainsFunc(flags.Args(), func(a string) bool { return a == m.File || a == m.pkg() })
	}
	if *list {
		for _, m := range all {
			if wanted(m) {
				_, id, _ := strings.Cut(m.id(), "\t")
				fmt.Printf("%s:%d: %s: %s\n", m.File, m.line(), m.Kind, id)
			}
		}
		return nil
	}
	r, err := readReport(reportFile)
	if err != nil {
		return err
	}
	l, err := newLab(".", *tags, *limit, all)
	if err != nil {
		return err
	}
	if l.only, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	var bad []string
	for i := range all {
		m := &all[i]
		id := m.id()
		if !wanted(*m) || *missing && r[id].Outcome == killed {
			continue
		}
		v := verdict{Outcome: excepted, Kind: m.Kind}
		if reasons[id] == "" {
			if v, err = l.judge(m, r[id].By, *quick); err != nil {
				return err
			}
		}
		if *only == "" || v.Outcome == killed || v.Outcome == excepted {
			r[id] = v
		}
		fmt.Printf("%-8s %s:%d %s %s\n", v.Outcome, m.File, m.line(), strings.SplitN(id, "\t", 2)[1], v.By)
		if v.Outcome != killed && v.Outcome != excepted {
			bad = append(bad, fmt.Sprintf("%s: %s:%d: %s", v.Outcome, m.File, m.line(), id))
		}
		if err := r.write(reportFile, all); err != nil {
			return err
		}
	}
	for _, id := range stale(all, reasons) {
		bad = append(bad, "exceptions.txt: there is no such guard: "+id)
	}
	if len(bad) > 0 {
		return errors.New("\n" + strings.Join(bad, "\n"))
	}
	return nil
}

// judge looks for a test that fails with a mutant: the one that did before, then those of the package in which the guard refuses, the quickest first, then
// those of the packages that import it.
func (l *lab) judge(m *Mutant, before string, quick time.Duration) (v verdict, err error) {
	type place struct {
		pkg, test string
		seconds   float64
	}
	v = verdict{Outcome: survived, Kind: m.Kind}
	var slow []place
	try := func(p place, limit time.Duration) (bool, error) {
		outcome, err := l.try(m, p.pkg, p.test, limit)
		switch {
		case err != nil:
			return false, err
		case outcome == failed:
			v.Outcome, v.By = killed, p.pkg+" "+p.test
			return true, nil
		case outcome == hung && limit < l.limit:
			slow = append(slow, p)
		case outcome == hung:
			v.Outcome, v.By = hangs, p.pkg+" "+p.test
		}
		return false, nil
	}
	if pkg, test, ok := strings.Cut(before, " "); ok && l.only.MatchString(test) {
		if tests, err := l.tests(pkg); err == nil && slices.Contains(tests, test) {
			if done, err := try(place{pkg, test, 0}, l.limit); done || err != nil {
				return v, err
			}
		}
	}
	packages := []string{m.pkg()}
	if l.only.String() == "" {
		if packages, err = l.packagesOf(m); err != nil {
			return v, err
		}
	}
	for _, pkg := range packages {
		known, err := l.reached(pkg, m.File, func(format string, args ...any) { fmt.Printf(format+"\n", args...) })
		if err != nil {
			return v, err
		}
		var places, unseen []place
		for test, r := range known {
			p := place{pkg, test, r.Seconds}
			switch {
			case !l.only.MatchString(test):
			case !m.lua() || slices.Contains(r.Guards, m.id()):
				places = append(places, p)
			default:
				unseen = append(unseen, p)
			}
		}
		if len(places) == 0 && l.only.String() != "" {
			places = unseen // miniredis has no log, so probes say nothing there
		}
		slices.SortFunc(places, func(a, b place) int {
			if a.seconds != b.seconds {
				return int(1000 * (a.seconds - b.seconds))
			}
			return strings.Compare(a.test, b.test)
		})
		for _, p := range places {
			if done, err := try(p, max(quick, time.Duration(4*p.seconds)*time.Second)); done || err != nil {
				return v, err
			}
		}
	}
	for _, p := range slow[:min(len(slow), 3)] {
		if done, err := try(p, l.limit); done || err != nil {
			return v, err
		}
	}
	return v, nil
}

// packagesOf returns the package of a mutant, and those that import it and have scripts or decisions of their own.
func (l *lab) packagesOf(m *Mutant) ([]string, error) {
	folders := []string{m.pkg()}
	for _, p := range packages {
		if p == m.pkg() {
			continue
		}
		files, err := filepath.Glob(filepath.Join(l.root, p, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				return nil, err
			}
			if strings.Contains(string(text), `"github.com/taktworks/takt/`+m.pkg()+`"`) {
				folders = append(folders, p)
				break
			}
		}
	}
	return folders, nil
}
