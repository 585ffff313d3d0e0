package fault_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/test/rig"
)

// boardWorld is a board with real processes on it.
type boardWorld struct {
	t       *testing.T
	b       *board.Board
	url     string
	dir     string
	restart func() // kills the server and starts it again
}

const boardTTL = taskLease // of claims and sessions

// boardWorlds runs a test on each kind of board, on a server of its own that keeps what it acknowledged.
func boardWorlds(t *testing.T, test func(w *boardWorld)) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		srv := testenv.StartRedis(t, embedded.RedisOptions{Persist: true, Config: []string{"appendfsync always"}})
		w := &boardWorld{t: t, url: srv.URL + "?namespace=" + srv.Prefix(t), restart: func() { restart(t, srv.Server) }}
		w.run(test)
	})
	t.Run("zookeeper", func(t *testing.T) {
		long.Test(t, "needs ZooKeeper")
		t.Parallel()
		srv := testenv.ZooKeeper(t)
		w := &boardWorld{t: t, url: "zookeeper://" + srv.Addr + srv.Path(t) + "/jobs", restart: func() { restart(t, srv.Server) }}
		w.run(test)
	})
}

func (w *boardWorld) run(test func(*boardWorld)) {
	var err error
	if w.b, err = (board.Connect{URL: w.url, Session: boardTTL}).Open(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.dir = w.t.TempDir()
	test(w)
	problems, err := w.b.Check(rig.Context(w.t))
	if err != nil {
		w.t.Error(err)
	}
	for _, p := range problems {
		w.t.Errorf("check: %s", p)
	}
	if err := w.b.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *boardWorld) post(names ...string) []*board.Posting {
	w.t.Helper()
	drafts := make([]board.Draft, len(names))
	for i, n := range names {
		drafts[i] = board.Draft{Name: n}
	}
	all, err := w.b.PostBatch(rig.Context(w.t), drafts)
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// worker starts takt board work with a command line.
func (w *boardWorld) worker(exec string, args ...string) *rig.Process {
	w.t.Helper()
	p := rig.Start(w.t, append([]string{"board", "work", "--board", w.url, "--session", boardTTL.String(), "--ttl", boardTTL.String(), "--backoff", "10ms", "--data", w.dir, "--exec", exec}, args...)...)
	p.Await("conductor is up")
	return p
}

// note is a command line that appends a line to a file of the test; written is what is there.
func (w *boardWorld) note(file, line string) string {
	return fmt.Sprintf("echo %s >> %s", line, filepath.Join(w.dir, file))
}

func (w *boardWorld) written(file string) []string {
	text, err := os.ReadFile(filepath.Join(w.dir, file))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return strings.Fields(string(text))
}

func (w *boardWorld) wait(what string, ok func() bool) {
	w.t.Helper()
	rig.Until(w.t, what, ok)
}

func (w *boardWorld) empty() {
	w.t.Helper()
	w.wait("everything is consumed", func() bool {
		n, err := w.b.Count(rig.Context(w.t))
		return err == nil && n == 0
	})
}

// Faults 1 and 25, the owner is killed in the middle; another has the posting when the claim's time is over, with a higher fence.
func TestBoardFault1OwnerKilled(t *testing.T) {
	boardWorlds(t, func(w *boardWorld) {
		w.post("one")
		first := w.worker(w.note("first", "$TAKT_BOARD_FENCE")+"; sleep 600", "--name", "first")
		w.wait("the first works", func() bool { return len(w.written("first")) == 1 })
		second := w.worker(w.note("second", "$TAKT_BOARD_FENCE"), "--name", "second")
		begin := time.Now()
		first.Kill()
		w.wait("the second works", func() bool { return len(w.written("second")) == 1 })
		t.Logf("handed over %v after the kill, of a claim that lives %v", time.Since(begin).Round(time.Millisecond), boardTTL)
		w.empty()
		second.Stop()
		fences := slices.Concat(w.written("first"), w.written("second"))
		if len(fences) != 2 || number(t, fences[1]) <= number(t, fences[0]) {
			t.Errorf("fences are %q", fences)
		}
	})
}

func number(t *testing.T, text string) (n uint64) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return n
}

// Fault 3, the owner is stopped past the time of its claim and goes on. It cannot consume what another has, or has consumed.
func TestBoardFault3OwnerStopped(t *testing.T) {
	boardWorlds(t, func(w *boardWorld) {
		w.post("one")
		gate := filepath.Join(w.dir, "gate")
		stale := w.worker(w.note("stale", "$TAKT_BOARD_OWNER")+"; while ! [ -e "+gate+" ]; do sleep 0.02; done", "--name", "stale")
		w.wait("the first works", func() bool { return len(w.written("stale")) == 1 })
		stale.Pause()
		fresh := w.worker(w.note("fresh", "$TAKT_BOARD_OWNER")+"; while ! [ -e "+gate+"2 ]; do sleep 0.02; done", "--name", "fresh", "--max", "1")
		w.wait("the second has it", func() bool { return len(w.written("fresh")) == 1 })
		if err := os.WriteFile(gate, nil, 0o600); err != nil { // the first one's command ends well
			t.Fatal(err)
		}
		stale.Continue()
		stale.Await("claim_lost")
		if n, err := w.b.Count(t.Context()); n != 1 || err != nil {
			t.Errorf("count is %d, %v: the stale owner must change nothing", n, err)
		}
		if err := os.WriteFile(gate+"2", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if code := fresh.Exit(); code != 0 {
			t.Errorf("exit status %d", code)
		}
		w.empty()
		stale.Stop()
	})
}

// Faults 5 and 25: the server is killed twice with work under way, and started again on what it kept. Nothing is lost, and what was acknowledged as consumed is not done again.
func TestBoardFault5ServerKilled(t *testing.T) {
	boardWorlds(t, func(w *boardWorld) {
		const count = 120
		names := make([]string, count)
		for i := range names {
			names[i] = "n"
		}
		all := w.post(names...)
		workers := []*rig.Process{}
		for i := range 3 {
			workers = append(workers, w.worker(w.note("done", "$TAKT_BOARD_UUID"), "--name", fmt.Sprint("w", i), "--concurrency", "2", "--max-attempts=-1", "--ttl", "30s", "--session", "30s")) // nothing but the kills ends a claim
		}
		for round := 1; round <= 2; round++ {
			w.wait("some is done", func() bool { return len(w.written("done")) >= round*count/4 })
			w.restart()
		}
		w.empty()
		times := map[string]int{}
		for _, uuid := range w.written("done") {
			times[uuid]++
		}
		again := 0
		for _, p := range all {
			if times[p.UUID] == 0 {
				t.Errorf("%s was lost", p.UUID)
			}
			again += max(0, times[p.UUID]-1)
		}
		// At each kill, each of the six slots has one posting at most whose end was not acknowledged.
		if again > 2*6 {
			t.Errorf("%d were done again", again)
		}
		t.Logf("%d were done again", again)
		stillUp(t, workers...)
	})
}

// Fault 7: everything in Redis is deleted with work under way. Those postings are lost, as everything is; the workers stay and take what is posted after.
func TestBoardFault7FlushAll(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	w := &boardWorld{t: t, url: srv.URL + "?namespace=" + srv.Prefix(t)}
	w.run(func(w *boardWorld) {
		w.post("a", "b", "c")
		p := w.worker(w.note("started", "$TAKT_BOARD_NAME")+"; case $TAKT_BOARD_NAME in new) ;; *) sleep 600;; esac", "--concurrency", "2", "--drain", "1ms")
		w.wait("two run", func() bool { return len(w.written("started")) == 2 })
		srv.Must(t, "FLUSHALL")
		w.post("new")
		w.wait("the new one runs", func() bool { return slices.Contains(w.written("started"), "new") })
		w.empty()
		p.Stop()
	})
}
