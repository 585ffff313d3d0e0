package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNumbers(t *testing.T) {
	got, err := parseNumbers("# comment\nE-S1..E-S3 E-P9\nD28 # more\n" +
		"E-S2 -> publisher TestA TestB/with_sub; test/fault TestC\nX-1 -> docs/roadmap.md \"A `phrase`\"\nX-2 -> open\nX-2 -> sfc ExampleX\n")
	if want := []string{"E-S1", "E-S2", "E-S3", "E-P9", "D28", "X-1", "X-2"}; err != nil || !slices.Equal(got.wanted, want) {
		t.Errorf("got %v, %v, want %v", got.wanted, err, want)
	}
	if diff := cmp.Diff(map[string][]place{
		"E-S2": {{folder: "publisher", tests: []string{"TestA", "TestB/with_sub"}}, {folder: "test/fault", tests: []string{"TestC"}}},
		"X-1":  {{file: "docs/roadmap.md", phrase: "A `phrase`"}},
		"X-2":  {{}, {folder: "sfc", tests: []string{"ExampleX"}}},
	}, got.places, cmp.AllowUnexported(place{})); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{
		"E-S3..E-S1", "E-S1..E-P3", "D..D4", "X-1 -> ", "X-1 -> TestA", "X-1 -> sfc", "X-1 -> sfc TestA; ", "X-1 -> sfc TestA other", "X-1 X-2 -> sfc TestA", "-> sfc TestA", "X-1 -> docs/roadmap.md",
		"X-1 -> docs/roadmap.md \"\"",
	} {
		if got, err := parseNumbers(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}

// A number counts only in a test that ran, as a word of its own, in a name or a comment.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir("p", 0o700); err != nil {
		t.Fatal(err)
	}
	source := `package p

import "testing"

// Holds D1 and not D1x.
// task-B6 too.
func TestRan(t *testing.T) {
	_ = "E-S12" // and W3
	/* and
	W4 */
	want := "0 0 L5"
	t.Run("D6", nil)
}

// D2 is only here.
func TestDidNotRun(t *testing.T) {
	// D7
}

// D3 is in no test.
func helper() {}
`
	if err := os.WriteFile(filepath.Join("p", "p_test.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	where, err := find(".", map[string]bool{"p TestRan": true, "p TestRan/D4_of_the_name": true, "p TestOther_D5": true})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"D1": {"p.TestRan"}, "task-B6": {"p.TestRan"}, "W3": {"p.TestRan"}, "W4": {"p.TestRan"}, "D4": {"p.TestRan/D4_of_the_name"}, "D5": {"p.TestOther_D5"},
	}
	if diff := cmp.Diff(want, where); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(filepath.Join("p", "broken_test.go"), []byte("package"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := find(".", nil); err == nil || !strings.Contains(err.Error(), "broken_test.go") {
		t.Errorf("a file that is no Go: %v", err)
	}
}

// What go test says is told apart: how tests ended is returned, what the failed ones said is shown, and one line a package.
func TestFollow(t *testing.T) {
	const said = `{"Action":"start","Package":"m/p"}
{"Action":"run","Package":"m/p","Test":"TestGood"}
{"Action":"output","Package":"m/p","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"m/p","Test":"TestBad","Output":"bad.go:1: boom\n"}
{"Action":"pass","Package":"m/p","Test":"TestGood"}
{"Action":"pass","Package":"m/p","Test":"TestGood/sub"}
{"Action":"fail","Package":"m/p","Test":"TestBad"}
{"Action":"output","Package":"m/p","Test":"TestAway","Output":"away.go:1: no server\n"}
{"Action":"skip","Package":"m/p","Test":"TestAway"}
{"Action":"output","Package":"m/p","Output":"PASS\n"}
{"Action":"output","Package":"m/p","Output":"ok m/p 0.1s\n"}
{"Action":"pass","Package":"m/p"}
{"Action":"output","Package":"m/q","Output":"? m/q [no test files]\n"}
{"Action":"skip","Package":"m/q"}
{"ImportPath":"m/r","Action":"build-output","Output":"r.go:1: syntax error\n"}
no JSON at all
{"Action":"pass","Package":"m","Test":"TestRoot"}
`
	var shown strings.Builder
	outcomes, err := follow(strings.NewReader(said), &shown, "m", "sub")
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff("bad.go:1: boom\nok m/p 0.1s\nr.go:1: syntax error\nno JSON at all\n", shown.String()); diff != "" {
		t.Errorf("shown: %s", diff)
	}
	if diff := cmp.Diff([]outcome{
		{"sub/p", "TestGood", "pass"}, {"sub/p", "TestGood/sub", "pass"}, {"sub/p", "TestBad", "fail"}, {"sub/p", "TestAway", "skip"}, {"sub", "TestRoot", "pass"},
	}, outcomes); diff != "" {
		t.Errorf("outcomes: %s", diff)
	}
	if _, err := follow(fails{}, io.Discard, "m", "."); !errors.Is(err, errFull) {
		t.Errorf("what cannot be read: %v", err)
	}
}

var errFull = errors.New("full")

// fails cannot be read.
type fails struct{}

func (fails) Read([]byte) (int, error) { return 0, errFull }

// A number that is in no test that passed is an error that names it. A number with lines of its own is where each of them says, or open.
func TestCheck(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("docs", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("docs/later.md", []byte("Not now,\nbut `later`.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const sets = "D1..D2\n"
	type outcomes []outcome
	for name, c := range map[string]struct {
		numbers string
		results outcomes
		want    string
	}{
		"in the names of tests":        {sets, outcomes{{"p", "TestA/D1", "pass"}, {"p", "TestB_D2", "pass"}}, ""},
		"in a test that failed":        {sets, outcomes{{"p", "TestA/D1", "pass"}, {"p", "TestB_D2", "fail"}}, "in no test that ran: D2"},
		"in a test that was skipped":   {sets, outcomes{{"p", "TestA/D1", "skip"}, {"p", "TestB_D2", "pass"}}, "in no test that ran: D1"},
		"in tests that its line names": {"X-1 -> p TestA TestB/sub", outcomes{{"p", "TestA", "pass"}, {"p", "TestB/sub", "pass"}}, ""},
		"one of them failed":           {"X-1 -> p TestA TestB/sub", outcomes{{"p", "TestA", "pass"}, {"p", "TestB/sub", "fail"}, {"p", "TestB", "pass"}}, "X-1: TestB/sub of p did not run and pass"},
		"one is elsewhere":             {"X-1 -> q TestA", outcomes{{"p", "TestA", "pass"}}, "X-1: TestA of q did not run and pass"},
		"later":                        {"X-1 -> docs/later.md \"now, but `later`\"", nil, ""},
		"later, with other words":      {"X-1 -> docs/later.md \"sooner\"", nil, `X-1: docs/later.md does not have the phrase "sooner"`},
		"later, in no file":            {"X-1 -> docs/never.md \"later\"", nil, "X-1: open docs/never.md: no such file or directory"},
		"open":                         {"X-1..X-2\nX-1 -> open\nX-2 -> open", nil, ""},
		"one without a line":           {"X-1..X-2\nX-1 -> open", nil, "in no test that ran: X-2"},
		"no list":                      {"X-1 -> somewhere", nil, "numbers.txt"},
	} {
		for i, suite := range suites { // which suite a test belongs to does not matter
			r := result{Tree: "now", Passed: true}
			for k, o := range c.results {
				if k%len(suites) == i {
					r.Tests = append(r.Tests, o)
				}
			}
			if err := r.write("results", suite); err != nil {
				t.Fatal(err)
			}
		}
		if err := check(c.numbers, "results", "now", true); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Results that are missing, of other files, or of a run that failed are an error that says what to run.
func TestResultsAreOfTheseFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	says := func(wants ...string) {
		t.Helper()
		_, err := readResults(dir, "now")
		if len(wants) == 0 {
			if err != nil {
				t.Error(err)
			}
			return
		}
		if err == nil {
			t.Fatalf("no error, want %q", wants)
		}
		for i, line := range strings.Split(err.Error(), "\n") {
			if i >= len(wants) || !strings.Contains(line, wants[i]) {
				t.Errorf("line %d is %q, want %q", i, line, wants)
			}
		}
	}
	says("test has not been run to its end: make test", "make test-faults", "make test-interop")
	write := func(suite string, r result) {
		t.Helper()
		if err := r.write(dir, suite); err != nil {
			t.Fatal(err)
		}
	}
	write("test", result{Tree: "before", Passed: true})
	write("test-faults", result{Tree: "now"})
	write("test-interop", result{Tree: "now", Passed: true})
	says("files have changed since test was run: make test", "test-faults failed: make test-faults")
	write("test", result{Tree: "now", Passed: true})
	write("test-faults", result{Tree: "now", Passed: true})
	says()
	if err := os.WriteFile(resultsFile(dir, "test"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	says("test.json: unexpected end of JSON input")
}

func TestRunRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"say run, numbers, stores or busy": nil, `"test" is none of`: {"test"}, "say one of": {"run"}, "is none of": {"run", "all"}, "say what to run": {"busy"},
	} {
		if err := run(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}
