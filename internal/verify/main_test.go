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

func TestNumbers(t *testing.T) {
	got, err := numbers("# comment\nE-S1..E-S3 E-P9\nD28 # more\n")
	if want := []string{"E-S1", "E-S2", "E-S3", "E-P9", "D28"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"E-S3..E-S1", "E-S1..E-P3", "D..D4"} {
		if got, err := numbers(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
	if _, err := numbers(numbersTxt); err != nil {
		t.Error(err)
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

// What go test says is told apart: tests that passed, failed and were skipped are kept, what the failed ones said is shown, and one line a package.
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
	var shown, kept strings.Builder
	skipped, err := follow(strings.NewReader(said), &shown, "m", "sub", json.NewEncoder(&kept))
	if err != nil || !slices.Equal(skipped, []string{"sub/p TestAway"}) {
		t.Errorf("skipped %q, %v", skipped, err)
	}
	if diff := cmp.Diff("bad.go:1: boom\nok m/p 0.1s\nr.go:1: syntax error\nno JSON at all\n", shown.String()); diff != "" {
		t.Errorf("shown: %s", diff)
	}
	if diff := cmp.Diff(`{"Folder":"sub/p","Test":"TestGood","Action":"pass"}
{"Folder":"sub/p","Test":"TestGood/sub","Action":"pass"}
{"Folder":"sub/p","Test":"TestBad","Action":"fail"}
{"Folder":"sub/p","Test":"TestAway","Action":"skip"}
{"Folder":"sub","Test":"TestRoot","Action":"pass"}
`, kept.String()); diff != "" {
		t.Errorf("kept: %s", diff)
	}
	if _, err := follow(strings.NewReader(said), io.Discard, "m", ".", json.NewEncoder(fails{})); !errors.Is(err, errFull) {
		t.Errorf("what cannot be kept: %v", err)
	}
	if _, err := follow(fails{}, io.Discard, "m", ".", json.NewEncoder(io.Discard)); !errors.Is(err, errFull) {
		t.Errorf("what cannot be read: %v", err)
	}
}

var errFull = errors.New("full")

// fails neither reads nor writes.
type fails struct{}

func (fails) Read([]byte) (int, error)  { return 0, errFull }
func (fails) Write([]byte) (int, error) { return 0, errFull }

// A number that is in no test that passed is an error that names it, and so are results that are not there or cannot be read.
func TestCheck(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := check("results.json", false); err == nil || !strings.Contains(err.Error(), "make test") {
		t.Errorf("without results: %v", err)
	}
	all, err := numbers(numbersTxt)
	if err != nil {
		t.Fatal(err)
	}
	write := func(lines ...outcome) {
		t.Helper()
		var text strings.Builder
		for _, o := range lines {
			if err := json.NewEncoder(&text).Encode(o); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile("results.json", []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	most, last := outcome{"p", "TestMost/" + strings.Join(all[:len(all)-1], "_"), "pass"}, outcome{"p", "TestLast/" + all[len(all)-1], "pass"}
	write(most, last)
	if err := check("results.json", false); err != nil {
		t.Errorf("all are there: %v", err)
	}
	for _, how := range []string{"fail", "skip"} {
		last.Action = how
		write(most, last)
		if err := check("results.json", false); err == nil || err.Error() != "in no test that ran: "+all[len(all)-1] {
			t.Errorf("the last %s: %v", how, err)
		}
	}
	if err := os.WriteFile("results.json", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := check("results.json", false); err == nil || !strings.Contains(err.Error(), "results.json") {
		t.Errorf("results that are no JSON: %v", err)
	}
}

func TestRunRefuses(t *testing.T) {
	for want, args := range map[string][]string{"say run or numbers": nil, `"test" is neither`: {"test"}} {
		if err := run(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
