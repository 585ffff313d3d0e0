package task_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/test/rig"
)

// slowTasks is how many tasks a slowInTheMiddle has: the slow one is slowAt.
const slowTasks, slowAt = 400, 200

// slowInTheMiddle is a row of quick tasks with a slow one among them: a worker with one slot has fetched some of those behind it when it begins.
type slowInTheMiddle struct {
	typ  *task.Type[int, task.None]
	slow chan string   // the worker that has begun the slow one
	pass chan struct{} // closed when it may end

	mu   sync.Mutex
	runs [slowTasks]int
}

func newSlowInTheMiddle() *slowInTheMiddle {
	return &slowInTheMiddle{typ: task.Define[int, task.None]("test:Row", task.Small), slow: make(chan string, 10), pass: make(chan struct{})}
}

func (s *slowInTheMiddle) submit(e *env) {
	e.t.Helper()
	args := make([]int, slowTasks)
	for i := range args {
		args[i] = i
	}
	if _, err := s.typ.SubmitMany(e.ctx(), e.client, args); err != nil {
		e.t.Fatal(err)
	}
}

func (s *slowInTheMiddle) handler() task.Handler {
	return s.typ.Handle(func(ctx context.Context, j *task.Job[int]) (task.None, error) {
		s.mu.Lock()
		s.runs[j.Args]++
		s.mu.Unlock()
		if j.Args == slowAt {
			s.slow <- j.ID
			select {
			case <-s.pass:
			case <-ctx.Done():
				return task.None{}, ctx.Err()
			}
		}
		return task.None{}, nil
	})
}

// ran is how many of the tasks have been begun.
func (s *slowInTheMiddle) ran() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, times := range s.runs {
		n += min(times, 1)
	}
	return n
}

// fetchedAhead fails the test if a worker fetched no more than the slow one. What it fetched and has not begun it gives back after a moment.
func (s *slowInTheMiddle) fetchedAhead(e *env, worker string) {
	e.t.Helper()
	if n, back := e.held(s.typ.Queue(), worker), e.held(s.typ.Queue(), worker+":back"); n+back < 2 {
		e.t.Fatalf("the worker holds %d entries and gave %d back, want some that it has not begun", n, back)
	}
}

// passes lets time pass in which something is not to happen: nothing tells of that.
func passes(d time.Duration) { <-time.After(d) }

// T12, plus-9: a worker that fetches ahead for quick handlers and then meets a slow one: what it fetched and has not begun goes to another that has a slot, what it runs is
// its own for many leases, and each task runs once.
func TestNothingRunsTwice(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	t.Parallel()
	e := newEnv(t)
	s := newSlowInTheMiddle()
	e.start(task.WorkerOptions{ID: "first", Lease: shortLease, Concurrency: map[task.Size]int{task.Small: 1}}, s.handler())
	s.submit(e)
	wait(t, "the slow one", s.slow)
	s.fetchedAhead(e, "first")
	e.start(task.WorkerOptions{ID: "second", Lease: shortLease, Concurrency: map[task.Size]int{task.Small: 1}}, s.handler())
	e.eventually("all others have run", func() bool { return s.ran() == slowTasks })
	passes(3 * shortLease) // in which nobody is to take the slow one over
	close(s.pass)
	e.idle()
	for i, n := range s.runs {
		if n != 1 {
			t.Errorf("task %d ran %d times", i, n)
		}
	}
}

// cutOff is a worker with a connection of its own, through a proxy.
func (e *env) cutOff(o task.WorkerOptions, handlers ...task.Handler) (*testenv.Proxy, func()) {
	e.t.Helper()
	c, proxy := e.behind()
	w, err := c.Worker(o, handlers...)
	if err != nil {
		e.t.Fatal(err)
	}
	return proxy, e.run(w)
}

// T13, plus-5, plus-8, W4: a worker that is cut off past its lease loses its tasks; another runs them, what the first returns changes nothing, and its
// handler's context ends with ErrLost (faults 3 and 19).
func TestStaleWorkerChangesNothing(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	e := newEnv(t)
	typ := task.Define[int, string]("test:Stale", task.Small)
	begun, causes, pass := make(chan string, 10), make(chan error, 10), make(chan struct{})
	handler := func(who string) task.Handler {
		return typ.Handle(func(ctx context.Context, j *task.Job[int]) (string, error) {
			begun <- who
			if who == "stale" {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				<-pass
			}
			return who + " " + strconv.FormatUint(j.Fence, 10), nil
		})
	}
	proxy, stop := e.cutOff(task.WorkerOptions{ID: "stale", Lease: 300 * time.Millisecond}, handler("stale"))
	h := send(e, typ, 1)
	wait(t, "start", begun)
	proxy.Stall(true)
	e.start(task.WorkerOptions{ID: "fresh"}, handler("fresh"))
	got, err := h.Await(e.ctx())
	if err != nil || !strings.HasPrefix(got, "fresh") {
		t.Errorf("%q, %v", got, err)
	}
	if cause := wait(t, "cause", causes); !errors.Is(cause, task.ErrLost) {
		t.Errorf("cause %v", cause)
	}
	proxy.Stall(false)
	close(pass)
	stop() // it has told Redis what it had to tell
	e.idle()
	if again, err := h.Result(e.ctx()); err != nil || again.Value != got {
		t.Errorf("the result is %q now, was %q (%v)", again.Value, got, err)
	}
}

// W5, plus-10: a task that kills its process, as often as it is begun, is dead after five deaths, with that as the reason; it is not begun again, and others are not dead
// with it.
func TestDeliveryLimit(t *testing.T) {
	long.Test(t, "starts and ends processes")
	t.Parallel()
	e := newEnv(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	killer := send(e, mortal, doKill)
	others, err := mortal.SubmitMany(e.ctx(), e.client, make([]string, 10))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := killer.Await(ctx)
		ended <- err
	}()
	deaths := 0
	for len(ended) == 0 && deaths < 10 {
		id := fmt.Sprint("w", deaths)
		p := e.process(e.srv.URL, id, 4)
		e.eventually("the worker dies, or the task does", func() bool { return p.Gone() || len(ended) > 0 })
		if p.Gone() {
			if code := p.Exit(); code != -1 {
				t.Fatalf("a worker ended with status %d, want a signal: %s", code, p.Stderr())
			}
			e.dead(id)
			deaths++
		}
	}
	if deaths != 5 {
		t.Fatalf("%d workers died, want 5", deaths)
	}
	var failed *task.Error
	if err := <-ended; !errors.As(err, &failed) || failed.Type != "deliveries" {
		t.Errorf("%v", err)
	}
	if l, err := e.client.DeadLetters().Show(e.ctx(), killer.ID); err != nil || l.Reason != "deliveries" {
		t.Errorf("dead letter %+v, %v", l, err)
	}
	for _, h := range others {
		if _, err := h.Await(ctx); err != nil {
			t.Error(err)
		}
	}
	e.idle()
}

// W3, W4: a worker is killed while it takes over what another one held that was killed: it has some of it, or has been given some and never heard of it. No lock
// is left behind that would keep others from the rest: a third worker takes over what both held, page by page, in seconds.
func TestTakeOverIsTakenOver(t *testing.T) {
	long.Test(t, "starts and ends processes")
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
			if _, err := mortal.SubmitMany(e.ctx(), e.client, args); err != nil {
				t.Fatal(err)
			}
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

// W8, plus-12, T11: FLUSHALL, and a restart that loses everything, are outlived; what is submitted after them runs (fault 7).
func TestOutlivesFlushAndRestart(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	srv := testenv.StartRedis(t, embedded.RedisOptions{})
	e := newEnvOn(t, srv)
	e.start(task.WorkerOptions{Lease: time.Second}, echoing())
	try := func(what string) {
		t.Helper()
		var h *task.Handle[string]
		e.eventually("submitted after "+what, func() (ok bool) {
			var err error
			h, err = echo.Submit(e.ctx(), e.client, what)
			return err == nil
		})
		if got, err := h.Await(e.ctx()); err != nil || got != what {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	try("start")
	e.must("FLUSHALL")
	try("FLUSHALL")
	e.must("SCRIPT", "FLUSH")
	try("SCRIPT FLUSH")
	if err := srv.Server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := srv.Server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	try("restart")
}

// W11, task-E9, task-D6: handlers that use all of the processor do not stop the heartbeat: it is renewed while they run, and the task runs once.
func TestBusyHandlerKeepsLease(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
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
