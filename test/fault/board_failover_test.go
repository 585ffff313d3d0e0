package fault_test

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

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
			w := &boardWorld{t: t, url: s.URL + "?namespace=" + s.Prefix(t)}
			w.run(func(w *boardWorld) {
				wait := []string{"--redis-wait", strconv.Itoa(len(s.Replicas)), "--concurrency", "4", "--max-attempts=-1"}
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
						for _, id := range w.postSafely(len(s.Replicas), each) {
							mu.Lock()
							acknowledged = append(acknowledged, id)
							mu.Unlock()
						}
					})
				}
				w.wait("some is done", func() bool { return len(w.written("done")) >= posters*each/4 })
				again := gone(t, s)
				s.AwaitFailover(t)
				again()
				posted.Wait()
				w.empty()
				for _, p := range workers {
					p.Stop()
				}
				w.judge(acknowledged)
			})
		})
	}
}

// postSafely posts so many, each until replicas have it, and returns their UUIDs.
func (w *boardWorld) postSafely(replicas, count int) (all []string) {
	b, err := board.Connect{URL: w.url, Replicas: replicas}.Open(w.t.Context())
	if err != nil {
		w.t.Error(err)
		return nil
	}
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
