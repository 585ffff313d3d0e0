package fault_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/test/rig"
)

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
				w.wait("it is acknowledged", func() bool { _, err := w.b.Post(rig.Context(w.t), d); return err == nil })
			})
		}
		restart(t, srv.Server)
		storm.Wait()
		if n, err := w.b.Count(rig.Context(t)); n != 1 || err != nil {
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
