package task_test

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/test/rig"
)

// A worker is killed while it takes over what another one held that was killed: it has some of it, or has been given some and never heard of it. No lock
// is left behind that would keep others from the rest: a third worker takes over what both held, page by page, in seconds.
func TestTakeOverIsTakenOver(t *testing.T) {
	long.Test(t, "kills processes")
	const n, some = 300, 20
	const queue = task.Queue("normal:small")
	for name, dies := range map[string]func(e *env, first *rig.Process){
		"between two pages": func(e *env, first *rig.Process) {
			second := e.process(e.srv.URL, "second", some)
			first.Kill()
			e.dead("first")
			e.eventually("the second holds a page", func() bool { return e.held(queue, "second") == some })
			second.Kill()
		},
		"before it hears of the first page": func(e *env, first *rig.Process) {
			proxy := testenv.CountingProxy(e.t, e.srv.URL)
			caught, dead := make(chan struct{}), make(chan struct{})
			claims, over := false, false
			proxy.Tap(func(fromClient bool, data []byte) {
				claims = claims || fromClient && bytes.Contains(data, []byte("takeover:")) && bytes.Contains(data, []byte("first"))
				// Once it is carried out nothing passes any more. Before that the proxy must not be held up: the claim may not have left yet.
				if claims && !fromClient && !over && e.held(queue, "second") > 0 {
					over = true
					close(caught)
					<-dead
				}
			})
			second := e.process(proxy.URL, "second", some)
			first.Kill()
			e.dead("first")
			wait(e.t, "the claim", caught)
			second.Kill()
			close(dead)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			args := make([]string, n)
			for i := range args {
				args[i] = doHang
			}
			sendMany(e, mortal, args)
			first := e.process(e.srv.URL, "first", n)
			e.eventually("the first runs all", func() bool { // what it held and had not begun it would give back
				all := e.workers()
				return len(all) == 1 && all[0].InHand == n
			})
			dies(e, first)
			e.dead("second")
			if a, b, back := e.held(queue, "first"), e.held(queue, "second"), e.held(queue, "second:back"); a == 0 || b+back == 0 || a+b+back != n {
				t.Fatalf("the first holds %d, the second %d and gave %d back: it was not killed in the middle", a, b, back)
			}
			var mu sync.Mutex
			runs := make(map[string]int)
			began := time.Now()
			e.start(task.WorkerOptions{ID: "third", Lease: processLease}, mortal.Handle(func(_ context.Context, j *task.Job[string]) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				runs[j.ID]++
				return 0, nil
			}))
			e.idle()
			t.Logf("all was taken over after %v, the lease is %v", time.Since(began), processLease)
			mu.Lock()
			defer mu.Unlock()
			for id, times := range runs {
				if times != 1 {
					t.Errorf("%s ran %d times", id, times)
				}
			}
			if len(runs) != n {
				t.Errorf("%d of %d ran", len(runs), n)
			}
			e.eventually("nothing is left of the dead", func() bool { _, found := e.check(0); return len(found) == 0 })
		})
	}
}

// Handlers that use all of the processor do not stop the heartbeat: it is renewed while they run, and the task runs once.
func TestBusyHandlerKeepsLease(t *testing.T) {
	long.Test(t, "keeps all processors busy")
	e := newEnv(t)
	typ := task.Define[int, int]("test:Busy", task.Small)
	var runs atomic.Int64
	var enough atomic.Bool
	busy := make(chan string, 10)
	for _, id := range []string{"w0", "w1"} {
		e.start(task.WorkerOptions{ID: id, Lease: 5 * time.Second}, typ.Handle(func(ctx context.Context, _ *task.Job[int]) (int, error) {
			runs.Add(1)
			busy <- id
			var all sync.WaitGroup
			for range 2 * runtime.GOMAXPROCS(0) {
				all.Go(func() {
					for !enough.Load() {
					}
				})
			}
			all.Wait()
			return 0, ctx.Err()
		}))
	}
	h := send(e, typ, 1)
	heartbeat := e.keys().Worker(wait(t, "the task runs", busy))
	for range 2 {
		left := e.number("PTTL", heartbeat)
		e.eventually("the heartbeat is renewed", func() bool {
			before := left
			left = e.number("PTTL", heartbeat)
			return left > before
		})
	}
	enough.Store(true)
	if _, err := h.Await(e.ctx()); err != nil || runs.Load() != 1 {
		t.Errorf("%d runs, %v", runs.Load(), err)
	}
}
