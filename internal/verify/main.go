// Command verify runs the tests of a module and keeps what ran, and says whether each number of numbers.txt is in a test
// that ran and passed, or where else its line says.
//
//	verify run -results FILE [-dir MODULE] -- FLAGS OF go test     run all tests, append their outcome to FILE
//	verify numbers -results FILE [-show]                           check the numbers against FILE
package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
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

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("say run or numbers")
	}
	flags := flag.NewFlagSet(args[0], flag.ExitOnError)
	file := flags.String("results", "bin/results.json", "where the outcome of the tests is kept")
	dir := flags.String("dir", ".", "folder of the module")
	show := flags.Bool("show", false, "print where each number is")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "run":
		return runTests(*file, *dir, flags.Args())
	case "numbers":
		return check(numbersTxt, *file, *show)
	}
	return fmt.Errorf("%q is neither run nor numbers", args[0])
}

// outcome is one line of the results file: a test that ended.
type outcome struct{ Folder, Test, Action string }

func check(numbers, file string, show bool) error {
	list, err := parseNumbers(numbers)
	if err != nil {
		return err
	}
	passed, err := readResults(file)
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

// readResults returns the tests that passed, as "folder TestName" and "folder TestName/subtest".
func readResults(file string) (map[string]bool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w: run the tests first: make test", err)
	}
	passed := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		var o outcome
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if o.Action == "pass" {
			passed[o.Folder+" "+o.Test] = true
		}
	}
	return passed, nil
}

// runTests runs all tests of the module in dir, prints one line a package and what fails, and keeps the outcomes. A skipped
// test is a failure: what cannot be tested here is not shown to work.
func runTests(file, dir string, testFlags []string) error {
	list := exec.Command("go", "list", "-m")
	list.Dir = dir
	module, err := list.Output()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	kept, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer kept.Close()
	cmd := exec.Command("go", append(append([]string{"test", "-json"}, testFlags...), "./...")...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	skipped, err := follow(out, os.Stdout, strings.TrimSpace(string(module)), filepath.ToSlash(dir), json.NewEncoder(kept))
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	if len(skipped) > 0 {
		return fmt.Errorf("skipped: %s", strings.Join(skipped, " "))
	}
	return nil
}

// follow reads what go test -json says: it shows one line a package and what failed tests said, keeps how tests ended, and returns those that were skipped.
func follow(out io.Reader, show io.Writer, module, dir string, kept *json.Encoder) (skipped []string, err error) {
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
		name := folder + " " + e.Test
		switch e.Action {
		case "build-output":
			fmt.Fprint(show, e.Output)
		case "output":
			output[name] = append(output[name], e.Output)
			continue
		case "fail":
			fmt.Fprint(show, strings.Join(output[name], ""))
		case "skip":
			if e.Test != "" {
				skipped = append(skipped, name)
			}
		case "pass":
			if lines := output[name]; e.Test == "" && len(lines) > 0 {
				fmt.Fprint(show, lines[len(lines)-1])
			}
		}
		if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
			delete(output, name)
			if e.Test != "" {
				if err := kept.Encode(outcome{folder, e.Test, e.Action}); err != nil {
					return nil, err
				}
			}
		}
	}
	return skipped, scan.Err()
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
