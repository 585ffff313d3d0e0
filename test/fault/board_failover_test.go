package fault_test

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/test/rig"
)

// Faults 8 and 25: Sentinel makes a replica the master, since the master is killed, or hangs and comes back, or although it lives. What was acknowledged as posted
// is done, and no two claims have one fence, if both wait for all replicas.
func TestBoardFault8SentinelFailover(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(*testing.T, *testenv.Sentinels) (again func()){
		"killed":   func(t *testing.T, s *testenv.Sentinels) func() { return killed(t, s.Master) },
		"hangs":    func(t *testing.T, s *testenv.Sentinels) func() { return hangs(t, s.Master) },
		"replaced": func(t *testing.T, s *testenv.Sentinels) func() { s.Replace(t); return func() {} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testenv.StartSentinels(t)
			boardFailover(t, s.URL+"?namespace="+s.Prefix(t), len(s.Replicas), func() {
				again := gone(t, s)
				s.AwaitFailover(t)
				again()
			})
		})
	}
}

// Faults 9 and 25: the master of the cluster that has the board is killed, or hangs and comes back; its replica takes over. What was acknowledged is done, as above.
func TestBoardFault9ClusterFailover(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(*testing.T, *testenv.Node) (again func()){"killed": killed, "hangs": hangs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testenv.StartCluster(t)
			prefix := c.Prefix(t)
			owner := c.Owner(t, prefix)
			boardFailover(t, c.URL+"?namespace="+prefix, 1, func() {
				again := gone(t, c.Nodes[owner])
				c.Nodes[owner+3].AwaitRole(t, "master")
				again()
				c.Nodes[owner].AwaitRole(t, "slave") // else there is no replica to wait for
			})
		})
	}
}

// boardFailover has postings made and done by two workers while fail lets another server become the master. All of them wait for so many replicas, which are all.
func boardFailover(t *testing.T, url string, replicas int, fail func()) {
	t.Helper()
	w := &boardWorld{t: t, url: url}
	w.run(func(w *boardWorld) {
		wait := []string{"--redis-wait", strconv.Itoa(replicas), "--concurrency", "4", "--max-attempts=-1"}
		workers := []*rig.Process{
			w.worker(w.note("done", "$TAKT_BOARD_UUID:$TAKT_BOARD_FENCE"), append(wait, "--name", "one")...),
			w.worker(w.note("done", "$TAKT_BOARD_UUID:$TAKT_BOARD_FENCE"), append(wait, "--name", "two")...),
		}
		const posters, each = 4, 75
		var posted sync.WaitGroup
		var mu sync.Mutex
		var acknowledged []string
		for range posters {
			posted.Go(func() {
				for _, id := range w.postSafely(replicas, each) {
					mu.Lock()
					acknowledged = append(acknowledged, id)
					mu.Unlock()
				}
			})
		}
		w.wait("some is done", func() bool { return len(w.written("done")) >= posters*each/4 })
		begin := time.Now()
		fail()
		probe := w.postSafely(replicas, 1)[0]
		w.wait("a posting is done again", func() bool {
			return slices.ContainsFunc(w.written("done"), func(line string) bool { return strings.HasPrefix(line, probe) })
		})
		t.Logf("a posting is acknowledged and done again %v after the master was gone", time.Since(begin).Round(10*time.Millisecond))
		posted.Wait()
		w.empty()
		for _, p := range workers {
			p.Stop()
		}
		w.judge(append(acknowledged, probe))
	})
}

// postSafely posts so many, each until replicas have it, and returns their UUIDs.
func (w *boardWorld) postSafely(replicas, count int) (all []string) {
	var b *board.Board
	w.wait("the board can be opened", func() (ok bool) { // not while no master has the slots
		var err error
		b, err = board.Connect{URL: w.url, Replicas: replicas}.Open(w.t.Context())
		return err == nil
	})
	defer b.Close()
	for range count {
		d := board.Draft{Name: "n", UUID: uuid.NewString()}
		w.wait("it is acknowledged", func() bool { _, err := b.Post(rig.Context(w.t), d); return err == nil })
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
