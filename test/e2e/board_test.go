package e2e_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/test/rig"
)

// boardShell is the command line on one board.
type boardShell struct {
	t          *testing.T
	board, dir string
}

// run runs takt board, fails the test unless it ends with code, and returns its standard output.
func (s *boardShell) run(code int, args ...string) string {
	s.t.Helper()
	return s.feed(code, "", args...)
}

func (s *boardShell) feed(code int, stdin string, args ...string) string {
	s.t.Helper()
	r := rig.RunCommand(s.t, rig.Command{Args: append(append([]string{"board"}, args...), "--board", s.board, "--data", s.dir), Stdin: stdin})
	if r.Code != code {
		s.t.Errorf("takt board %q: exit status %d, want %d\n%s%s", args, r.Code, code, r.Stdout, r.Stderr)
	}
	return strings.TrimSpace(r.Stdout)
}

// list is what takt board list --json prints.
func (s *boardShell) list(args ...string) []map[string]any {
	s.t.Helper()
	return rig.Lines[map[string]any](s.t, s.run(0, append([]string{"list", "--json"}, args...)...))
}

// A board by the command line alone: posted, listed, claimed, worked on by a command, put aside, restored; refusals have exit statuses.
func TestBoardCommands(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	testBoardCommands(t, &boardShell{t: t, board: srv.URL + "?namespace=" + srv.Prefix(t), dir: t.TempDir()}, true)
}

func testBoardCommands(t *testing.T, s *boardShell, expires bool) {
	low := s.run(0, "post", "low", "--priority", "low")
	high := s.run(0, "post", "high", "--priority", "HIGH", "--details", `{"n": 1, "big": 9007199254740993}`, "--book", "log:11111111-2222-3333-4444-555555555555")
	s.feed(0, `{"name": "a", "details": {"n": 2}}`+"\n\n"+`{"name": "b", "priority": "VERY_HIGH"}`+"\n", "post", "--lines")
	all := s.list()
	var names []string
	for _, v := range all {
		names = append(names, v["name"].(string))
		for _, key := range []string{"uuid", "name", "priority", "state", "owner", "created_on", "last_modified", "sequence", "book", "details"} {
			if _, ok := v[key]; !ok {
				t.Errorf("list --json has no %s: %v", key, v)
			}
		}
		if v["state"] != "UNCLAIMED" || v["last_modified"] == nil {
			t.Errorf("state %v, modified %v", v["state"], v["last_modified"])
		}
	}
	if want := []string{"b", "high", "a", "low"}; !slices.Equal(names, want) {
		t.Errorf("listed %q, want %q", names, want)
	}
	if out := s.run(0, "show", high); !strings.Contains(out, "9007199254740993") || !strings.Contains(out, "log:11111111-2222-3333-4444-555555555555") {
		t.Errorf("show prints %s", out)
	}
	s.run(3, "show", "11111111-2222-3333-4444-555555555555")
	s.run(2, "post")
	s.run(2, "post", "n", "--priority", "URGENT")
	s.run(2, "post", "n", "--details", "[1]")
	s.run(2, "post", "n", "--details", `{"n": [18446744073709551616]}`)
	s.run(2, "post", "n", "--details", `{"n": 1e400}`)
	s.run(2, "claim", "--who", "me")

	if expires {
		var claim struct{ UUID, Owner string }
		testenv.Must(t, json.Unmarshal([]byte(s.run(0, "claim", high, "--who", "me", "--ttl", "1m", "--json")), &claim))
		s.run(3, "claim", high, "--who", "you")
		s.run(3, "consume", high, "--owner", "you")
		s.run(0, "abandon", high, "--owner", claim.Owner)
		s.run(3, "abandon", high, "--owner", claim.Owner)
	} else {
		s.run(2, "claim", high, "--who", "me") // it would end with the command
		p := rig.Start(t, "board", "claim", high, "--who", "me", "--hold", "--board", s.board, "--data", s.dir)
		p.Await("the claim is held")
		s.run(3, "consume", high, "--owner", "you")
		p.Stop()
	}
	if n := len(s.list("--unclaimed")); n != 4 {
		t.Errorf("%d are unclaimed", n)
	}

	out := s.run(0, "work", "--exec", `read -r line; echo "$TAKT_BOARD_NAME $TAKT_BOARD_ATTEMPT"; case $TAKT_BOARD_NAME in a) exit 65;; esac`, "--max", "3")
	if want := "b 1\nhigh 2\na 1"; out != want {
		t.Errorf("the command printed %q, want %q", out, want)
	}
	if left := s.list(); len(left) != 1 || left[0]["uuid"] != low {
		t.Errorf("left are %v", left)
	}
	loud := s.run(0, "post", "loud")
	if out := s.run(0, "work", "--match", "loud", "--max", "1", "--exec", "head -c 2000000 /dev/zero | tr '\\0' x"); len(out) != 1<<20 {
		t.Errorf("%d bytes of 2 MB are passed through, want 1 MiB", len(out))
	}
	s.run(3, "show", loud) // it is done, whatever it printed
	held := s.run(0, "post", "held")
	if out := s.run(0, "work", "--match", "held", "--max", "1", "--exec", "sleep 60 & echo done"); out != "done" {
		t.Errorf("the command printed %q", out)
	}
	odd := s.run(0, "post", "odd\n\x1b[31m")
	for _, out := range []string{s.run(0, "list"), s.run(0, "show", odd)} {
		if !strings.Contains(out, `"odd\n\x1b[31m"`) || strings.Contains(out, "\x1b") {
			t.Errorf("an odd name is shown as it is: %q", out)
		}
	}
	s.run(0, "work", "--match", "odd\n\x1b[31m", "--max", "1", "--exec", "true")
	s.run(3, "show", held) // it is done, whatever it left behind
	if out := s.run(0, "work", "--match", "low", "--max", "1", "--exec", "echo half; exit 1"); out != "half" {
		t.Errorf("a command that failed printed %q", out)
	}

	aside := s.list("--trash")
	if len(aside) != 1 || aside[0]["name"] != "a" || aside[0]["state"] != "TRASHED" {
		t.Fatalf("put aside are %v", aside)
	}
	s.run(0, "restore", aside[0]["uuid"].(string))
	s.run(0, "work", "--exec", "exit 65", "--match", "a", "--max", "1")
	s.run(0, "purge", aside[0]["uuid"].(string))
	s.run(3, "purge", aside[0]["uuid"].(string))
	var stats struct{ Unclaimed, Claimed, Trashed int }
	if err := json.Unmarshal([]byte(s.run(0, "stats", "--json")), &stats); err != nil || stats.Unclaimed != 1 || stats.Claimed+stats.Trashed != 0 {
		t.Errorf("stats are %+v, %v", stats, err)
	}
	s.run(0, "entities", "--json")
	s.run(0, "check")
}

// A board that is not there, or is named wrongly, ends a command with an exit status of its own.
func TestBoardAway(t *testing.T) {
	long.Test(t, "runs a command for each address that is wrong")
	t.Parallel()
	s := &boardShell{t: t, dir: t.TempDir()}
	for board, code := range map[string]int{
		"": 2, "http://127.0.0.1": 2, "redis://127.0.0.1:1": 4, "redis://127.0.0.1:1?port=2": 2, "zookeeper://127.0.0.1:1/taskflow/jobs": 4, "zookeeper://127.0.0.1:1/taskflow/jobs/": 2, "zookeeper://127.0.0.1:1/": 2,
	} {
		s.board = board
		s.run(code, "stats")
	}
}
