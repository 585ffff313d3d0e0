package fault_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

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
	w.b, err = (board.Connect{URL: w.url, Session: boardTTL}).Open(w.t.Context())
	testenv.Must(w.t, err)
	w.dir = w.t.TempDir()
	test(w)
	problems, err := w.b.Check(testenv.Within(w.t))
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
	all, err := w.b.PostBatch(testenv.Within(w.t), drafts)
	testenv.Must(w.t, err)
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
	testenv.Eventually(w.t, what, ok)
}

func (w *boardWorld) empty() {
	w.t.Helper()
	w.wait("everything is consumed", func() bool {
		n, err := w.b.Count(testenv.Within(w.t))
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
		testenv.Must(t, os.WriteFile(gate, nil, 0o600)) // the first one's command ends well
		stale.Continue()
		stale.Await("claim_lost")
		if n, err := w.b.Count(t.Context()); n != 1 || err != nil {
			t.Errorf("count is %d, %v: the stale owner must change nothing", n, err)
		}
		testenv.Must(t, os.WriteFile(gate+"2", nil, 0o600))
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

// boardLoad is a board on Redis with 300 postings that are made and done while something happens to it.
type boardLoad struct {
	*boardWorld
	srv     *testenv.RedisServer
	proxy   *testenv.Proxy
	workers map[string]*rig.Process
}

func (w *boardLoad) begin(name string) {
	w.workers[name] = w.worker(w.note("done", "$TAKT_BOARD_UUID:$TAKT_BOARD_FENCE"), "--name", name, "--concurrency", "4", "--max-attempts=-1", "--ttl", "10s") // longer than a busy machine holds a worker up
}

func (w *boardLoad) lasts(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.t.Context().Done():
	}
}

// Faults 4, 11, 17 and 20 under load: no posting that was acknowledged is lost, no fence is given twice, and none is done again but where a claim may have run out.
func TestBoardFaultsUnderLoad(t *testing.T) {
	t.Parallel()
	const posters, each, slots = 4, 75, 8
	for name, c := range map[string]struct {
		again int // that may be done again
		do    func(w *boardLoad)
	}{
		"4 workers are stopped and started in turn": {0, func(w *boardLoad) {
			for range 2 {
				for _, name := range []string{"one", "two"} {
					w.workers[name].Stop()
					w.begin(name)
				}
			}
		}},
		"11 Redis is 30 ms late each way": {0, func(w *boardLoad) {
			w.proxy.Delay(30 * time.Millisecond)
			w.lasts(3 * time.Second)
			w.proxy.Delay(0)
		}},
		"17 the memory of Redis is full": {slots, func(w *boardLoad) {
			w.srv.Must(w.t, "CONFIG", "SET", "maxmemory", "1")
			w.lasts(3 * time.Second)
			w.srv.Must(w.t, "CONFIG", "SET", "maxmemory", "0")
		}},
		"20 Redis forgets its scripts": {0, func(w *boardLoad) {
			for range 300 {
				w.srv.Must(w.t, "SCRIPT", "FLUSH")
				w.lasts(10 * time.Millisecond)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testenv.StartRedis(t, embedded.RedisOptions{Persist: true, Config: []string{"appendfsync always"}})
			proxy := testenv.CountingProxy(t, srv.URL)
			w := &boardLoad{boardWorld: &boardWorld{t: t, url: proxy.URL + "?namespace=" + srv.Prefix(t)}, srv: srv, proxy: proxy, workers: map[string]*rig.Process{}}
			w.run(func(*boardWorld) {
				w.begin("one")
				w.begin("two")
				var posted sync.WaitGroup
				var mu sync.Mutex
				var acknowledged []string
				for range posters {
					posted.Go(func() {
						ids := w.postSafely(each)
						mu.Lock()
						defer mu.Unlock()
						acknowledged = append(acknowledged, ids...)
					})
				}
				w.wait("some is done", func() bool { return len(w.written("done")) >= posters*each/10 })
				c.do(w)
				over, had := time.Now(), len(w.written("done"))
				w.wait("more is done", func() bool { return len(w.written("done")) > had || had >= posters*each })
				t.Logf("%d of %d were done when it was over; the next was %v later", had, posters*each, time.Since(over).Round(time.Millisecond))
				posted.Wait()
				w.empty()
				for _, p := range w.workers {
					p.Stop()
				}
				w.judge(acknowledged)
				if again := len(w.written("done")) - posters*each; again > c.again {
					t.Errorf("I4: %d were done again, want %d at most", again, c.again)
				}
			})
		})
	}
}

// Fault 14: one posting is made by 200 at once under one UUID, and Redis is killed meanwhile. It is one posting, and done once. On ZooKeeper only repetitions that follow each
// other are known.
func TestBoardFault14RetryStorm(t *testing.T) {
	t.Parallel()
	srv := testenv.StartRedis(t, embedded.RedisOptions{Persist: true, Config: []string{"appendfsync always"}})
	w := &boardWorld{t: t, url: srv.URL + "?namespace=" + srv.Prefix(t)}
	w.run(func(w *boardWorld) {
		const callers = 200
		d := board.Draft{Name: "storm", UUID: "6f1dd0a4-0d6f-4d0c-9b39-0d7c1a4f5a11"}
		var storm sync.WaitGroup
		for range callers {
			storm.Go(func() {
				w.wait("it is acknowledged", func() bool { _, err := w.b.Post(testenv.Within(w.t), d); return err == nil })
			})
		}
		restart(t, srv.Server)
		storm.Wait()
		if n, err := w.b.Count(testenv.Within(t)); n != 1 || err != nil {
			t.Errorf("%d postings, %v", n, err)
		}
		p := w.worker(w.note("done", "$TAKT_BOARD_UUID"))
		w.empty()
		p.Stop()
		if done := w.written("done"); !slices.Equal(done, []string{d.UUID}) {
			t.Errorf("done: %q", done)
		}
	})
}

// postSafely posts so many, each until it is acknowledged, and returns their UUIDs.
func (w *boardWorld) postSafely(count int) (all []string) {
	b, err := board.Open(w.t.Context(), w.url)
	if err != nil {
		w.t.Error(err)
		return nil
	}
	defer b.Close()
	for range count {
		d := board.Draft{Name: "n", UUID: uuid.NewString()}
		w.wait("it is acknowledged", func() bool { _, err := b.Post(testenv.Within(w.t), d); return err == nil })
		all = append(all, d.UUID)
	}
	return all
}

// judge compares what was acknowledged as posted with what was done, and under which fences.
func (w *boardWorld) judge(acknowledged []string) {
	w.t.Helper()
	var done, fences []string
	for _, line := range w.written("done") {
		id, fence, _ := strings.Cut(line, ":")
		done, fences = append(done, id), append(fences, fence)
	}
	slices.Sort(done)
	slices.Sort(fences)
	lost := 0
	for _, id := range acknowledged {
		if _, there := slices.BinarySearch(done, id); !there {
			lost++
		}
	}
	if lost > 0 {
		w.t.Errorf("I1: %d of %d acknowledged postings were lost", lost, len(acknowledged))
	}
	if unique := len(slices.Compact(slices.Clone(fences))); unique != len(fences) {
		w.t.Errorf("I3: %d claims had the fence of another", len(fences)-unique)
	}
	w.t.Logf("%d acknowledged, %d done again", len(acknowledged), len(done)-len(slices.Compact(done)))
}
