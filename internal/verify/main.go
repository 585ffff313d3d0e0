// Command verify runs the tests of a suite and keeps how they ended, and says whether each number of numbers.txt is in a test
// that ran and passed, or where else its line says.
//
//	verify run SUITE -- FLAGS OF go test     run test, test-faults or test-interop; the outcome goes to bin/results/SUITE.json
//	verify numbers [-show]                   check the numbers against the outcomes of all suites
//	verify stores [PART ...] -- FLAGS        run the contract and fault tests on each store of stores.go; PART is a package or test-faults
//	verify busy -- PROGRAM                   run a program while another one keeps every processor busy
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:embed numbers.txt
var numbersTxt string

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "verify:", err)
		os.Exit(1)
	}
}

const results = "bin/results"

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("say run, numbers, stores or busy")
	}
	flags := flag.NewFlagSet(args[0], flag.ExitOnError)
	switch args[0] {
	case "run":
		if len(args) == 1 {
			return fmt.Errorf("say one of %q", suites)
		}
		if err := flags.Parse(args[2:]); err != nil {
			return err
		}
		return runSuite(".", results, args[1], flags.Args(), os.Stdout)
	case "numbers":
		show := flags.Bool("show", false, "print where each number is")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		now, err := tree(".")
		if err != nil {
			return err
		}
		return check(numbersTxt, results, now, *show)
	case "stores":
		parts, rest := cut(args[1:])
		return runStores(".", parts, rest, os.Stdout)
	case "busy":
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return busy(flags.Args())
	case "burn": // of busy
		return burn(os.Stdin)
	}
	return fmt.Errorf("%q is none of run, numbers, stores and busy", args[0])
}

// cut splits arguments at "--".
func cut(args []string) (before, after []string) {
	if i := slices.Index(args, "--"); i >= 0 {
		return args[:i], args[i+1:]
	}
	return args, nil
}

// check reports the numbers that no test shows whose outcome is in dir and of the files with the hash now.
func check(numbers, dir, now string, show bool) error {
	list, err := parseNumbers(numbers)
	if err != nil {
		return err
	}
	passed, err := readResults(dir, now)
	if err != nil {
		return err
	}
	found, err := find(".", passed)
	if err != nil {
		return err
	}
	var missing, wrong []string
	open := 0
	for _, n := range list.wanted {
		where := found[n]
		for _, p := range list.places[n] {
			if p.open() {
				where = append(where, "open")
				continue
			}
			at, bad := p.check(".", passed)
			where = append(where, at...)
			for _, b := range bad {
				wrong = append(wrong, n+": "+b)
			}
		}
		switch {
		case slices.Contains(where, "open"):
			open++
		case len(where) == 0 && len(list.places[n]) == 0:
			missing = append(missing, n)
		}
		if show {
			fmt.Printf("%-6s %s\n", n, strings.Join(where, " "))
		}
	}
	fmt.Printf("%d defect numbers, %d of them open; %d tests ran and passed\n", len(list.wanted), open, len(passed))
	if len(missing) > 0 {
		wrong = append(wrong, "in no test that ran: "+strings.Join(missing, " "))
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\n"))
	}
	return nil
}

// word is a number as it is written in tests. Those of the first job orders and of tasks have letters of their own; the behaviours of tasks have
// the prefix task-, defects of boards board-, those of workflows workflow-, but A, which stands alone too.
var word = regexp.MustCompile(`\b(E-[SP]|task-[A-H]|board-D|workflow-D|plus-|[ADTLWSC])[0-9]+\b`)

// find maps each number to the tests that passed and hold it: in their name, in that of a subtest, or in a comment above or within them. Other text does not count: a cron
// expression may have an L5 in it.
func find(root string, passed map[string]bool) (map[string][]string, error) {
	where := make(map[string][]string)
	add := func(text, test string) {
		for _, n := range word.FindAllString(text, -1) {
			if n[0] == 'A' {
				n = "task-" + n
			}
			if !slices.Contains(where[n], test) {
				where[n] = append(where[n], test)
			}
		}
	}
	for test := range passed {
		add(strings.NewReplacer("_", " ", "/", " ").Replace(test), strings.ReplaceAll(test, " ", "."))
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(filepath.Dir(path))
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !passed[folder+" "+f.Name.Name] {
				continue
			}
			from := f.Pos()
			if f.Doc != nil {
				from = f.Doc.Pos()
			}
			for _, c := range file.Comments {
				if from <= c.Pos() && c.End() <= f.End() {
					add(c.Text(), folder+"."+f.Name.Name)
				}
			}
		}
		return nil
	})
	for n := range where {
		slices.Sort(where[n])
	}
	return where, err
}
