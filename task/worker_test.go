package task_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
)

// echo returns its argument.
var echo = task.Define[string, string]("test:Echo", task.Small)

func echoing() task.Handler {
	return echo.Handle(func(_ context.Context, j *task.Job[string]) (string, error) { return j.Args, nil })
}

// task-E1, W6, W17, plus-11, plus-24: a task runs and its value comes back, on every kind of server; nothing stays in the streams.
func TestDone(t *testing.T) {
	for name, srv := range map[string]func(testing.TB) *testenv.RedisServer{"redis": testenv.Redis, "cluster": testenv.RedisCluster, "miniredis": testenv.Miniredis} {
		t.Run(name, func(t *testing.T) {
			e := newEnvOn(t, srv(t))
			e.start(task.WorkerOptions{}, echoing())
			hs, err := echo.SubmitMany(e.ctx(), e.client, []string{"a", "b", "c"})
			if err != nil {
				t.Fatal(err)
			}
			hs = append(hs, send(e, echo, "d", task.In(20*time.Millisecond)))
			for i, h := range hs {
				if got, err := h.Await(e.ctx()); err != nil || got != string(rune('a'+i)) {
					t.Errorf("%d: %q, %v", i, got, err)
				}
			}
			e.idle()
			if n := e.number("HLEN", e.key("tasks:awaited")); n != 0 {
				t.Errorf("%d are still awaited", n)
			}
		})
	}
}

// T7, T17, W12, plus-16: a retry is the same task, under the same id; it runs 1 + Retries times, and the id has the final result. task-E2.
func TestRetryKeepsID_T7(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[int, string]("test:Retry", task.Retry(task.Backoff{Base: 5 * time.Millisecond, Retries: 3}))
	var mu sync.Mutex
	var ids []string
	var attempts []int
	var fences []uint64
	e.start(task.WorkerOptions{}, typ.Handle(func(_ context.Context, j *task.Job[int]) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		ids, attempts, fences = append(ids, j.ID), append(attempts, j.Attempt), append(fences, j.Fence)
		if j.MaxAttempts != 4 {
			t.Errorf("MaxAttempts %d", j.MaxAttempts)
		}
		return "", fmt.Errorf("failure %d", j.Attempt)
	}))
	h := send(e, typ, 1)
	_, err := h.Await(e.ctx())
	var failed *task.Error
	if !errors.As(err, &failed) || failed.Message != "failure 4" {
		t.Errorf("result %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(attempts, []int{1, 2, 3, 4}) || len(slices.Compact(slices.Clone(ids))) != 1 || ids[0] != h.ID {
		t.Errorf("attempts %v of %v", attempts, ids)
	}
	if !slices.IsSorted(fences) || len(slices.Compact(slices.Clone(fences))) != 4 {
		t.Errorf("fences %v do not grow", fences)
	}
	if n := e.number("HEXISTS", e.key("tasks:dead"), h.ID); n != 1 {
		t.Error("no dead letter")
	}
	e.idle()
}

// What a handler says wins over the policy: Cancel, RetryAfter, Snooze.
func TestVerdicts(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[string, string]("test:Verdict", task.Retry(task.Backoff{Base: time.Hour, Retries: 1}))
	boom := errors.New("boom")
	e.start(task.WorkerOptions{}, typ.Handle(func(_ context.Context, j *task.Job[string]) (string, error) {
		switch {
		case j.Args == "cancel":
			return "", fmt.Errorf("wrapped: %w", task.Cancel(boom))
		case j.Args == "after" && j.Attempt == 1:
			return "", task.RetryAfter(time.Millisecond, boom)
		case j.Args == "snooze" && time.Since(j.Enqueued) < 50*time.Millisecond:
			return "", task.Snooze(5 * time.Millisecond)
		}
		return "attempt " + strconv.Itoa(j.Attempt), nil
	}))
	if _, err := send(e, typ, "cancel").Await(e.ctx()); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("cancel: %v", err)
	}
	for args, want := range map[string]string{"after": "attempt 2", "snooze": "attempt 1"} {
		if got, err := send(e, typ, args).Await(e.ctx()); err != nil || got != want {
			t.Errorf("%s: %q, %v", args, got, err)
		}
	}
}

// task-A10, task-E3: without a retry policy the first failure is the last, and a dead letter; Discard leaves none.
func TestNoRetry(t *testing.T) {
	e := newEnv(t)
	dead := task.Define[int, int]("test:Dead")
	gone := task.Define[int, int]("test:Gone", task.Discard())
	fail := func(context.Context, *task.Job[int]) (int, error) { return 0, errors.New("no") }
	e.start(task.WorkerOptions{}, dead.Handle(fail), gone.Handle(fail))
	for typ, letters := range map[*task.Type[int, int]]int64{dead: 1, gone: 0} {
		h := send(e, typ, 1)
		if _, err := h.Await(e.ctx()); err == nil {
			t.Error("no error")
		}
		if n := e.number("HEXISTS", e.key("tasks:dead"), h.ID); n != letters {
			t.Errorf("%s: %d dead letters, want %d", typ.Name(), n, letters)
		}
	}
	if n := e.number("ZCARD", e.key("tasks:delayed")); n != 0 {
		t.Errorf("%d delayed", n)
	}
}

// A panic is the failure of one task, with its stack; the worker goes on (fault 15).
func TestPanic(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[int, int]("test:Panic")
	e.start(task.WorkerOptions{}, echoing(), typ.Handle(func(context.Context, *task.Job[int]) (int, error) { panic("ouch") }))
	var failed *task.Error
	if _, err := send(e, typ, 1).Await(e.ctx()); !errors.As(err, &failed) || !strings.Contains(failed.Message, "ouch") || !strings.Contains(failed.Traceback, "worker_test.go") {
		t.Errorf("%v\n%v", err, failed)
	}
	if _, err := send(e, echo, "x").Await(e.ctx()); err != nil {
		t.Error(err)
	}
}

// W10: a run ends at its timeout, or the task's deadline, with that as the cause.
func TestTimeout_W10(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[string, int]("test:Timeout", task.Timeout(30*time.Millisecond))
	causes := make(chan error, 10)
	e.start(task.WorkerOptions{}, typ.Handle(func(ctx context.Context, j *task.Job[string]) (int, error) {
		if d, ok := ctx.Deadline(); !ok || !d.Equal(j.Deadline) {
			t.Errorf("Deadline %v %v, in the job %v", d, ok, j.Deadline)
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return 0, ctx.Err()
	}))
	for _, opt := range []task.SubmitOption{task.Keep(time.Minute), task.RunTimeout(20 * time.Millisecond), task.Deadline(time.Now().Add(300 * time.Millisecond))} {
		var failed *task.Error
		if _, err := send(e, typ, "", opt).Await(e.ctx()); !errors.As(err, &failed) || failed.Type != "timeout" {
			t.Errorf("%v", err)
		}
		if cause := wait(t, "cause", causes); !errors.Is(cause, task.ErrTimeout) {
			t.Errorf("cause %v", cause)
		}
	}
	var failed *task.Error
	if _, err := send(e, typ, "", task.Deadline(time.Now().Add(-time.Second))).Await(e.ctx()); !errors.As(err, &failed) || failed.Type != "timeout" {
		t.Errorf("after its deadline: %v", err)
	}
	if len(causes) != 0 {
		t.Error("it was begun after its deadline")
	}
}

// T10, task-E7: a task whose name this worker does not know waits for one that does, and is dead after a while.
func TestUnknownName_T10(t *testing.T) {
	e := newEnv(t)
	other := task.Define[int, int]("test:Other", task.Small)
	rare := task.Define[int, int]("test:Nobody", task.Small)
	_, stop := e.start(task.WorkerOptions{ID: "old", MaxUnknown: 1}, echoing())
	nobody := send(e, rare, 1)
	e.eventually("put back", func() bool { return e.number("ZCARD", e.key("tasks:delayed")) == 1 })
	var failed *task.Error
	if _, err := nobody.Await(e.ctx()); !errors.As(err, &failed) || failed.Type != "unknown" {
		t.Errorf("%v", err)
	}
	known := send(e, other, 1)
	e.eventually("put back", func() bool { return e.number("ZCARD", e.key("tasks:delayed")) == 1 })
	stop()
	e.start(task.WorkerOptions{ID: "new"}, other.Handle(func(_ context.Context, j *task.Job[int]) (int, error) {
		if j.Attempt != 1 {
			t.Errorf("attempt %d: being unknown is no failure", j.Attempt)
		}
		return 7, nil
	}))
	if got, err := known.Await(e.ctx()); err != nil || got != 7 {
		t.Errorf("%d, %v", got, err)
	}
}

// T9, task-E8, plus-22: what is no message becomes a dead letter with its bytes; what comes after it runs.
func TestUndecodable_T9(t *testing.T) {
	e := newEnv(t)
	stream := e.key("tasks:normal:small")
	e.must("XADD", stream, "*", "data", "\xc1garbage")
	e.must("XADD", stream, "*", "other", "field")
	e.must("XADD", stream, "*", "data", "", "x", "y")
	e.start(task.WorkerOptions{}, echoing())
	if got, err := send(e, echo, "x").Await(e.ctx()); err != nil || got != "x" {
		t.Errorf("%q, %v", got, err)
	}
	e.idle()
	if n := e.number("HLEN", e.key("tasks:dead")); n != 3 {
		t.Errorf("%d dead letters, want 3", n)
	}
}

// Arguments of another type than the handler's are dead at once: no repetition mends them.
func TestWrongArguments(t *testing.T) {
	e := newEnv(t)
	asText := task.Define[struct{ S string }, string]("test:Shape", task.Retry(task.Backoff{}))
	asInt := task.Define[struct{ S int }, string]("test:Shape", task.Retry(task.Backoff{}))
	e.start(task.WorkerOptions{}, asInt.Handle(func(context.Context, *task.Job[struct{ S int }]) (string, error) { return "ran", nil }))
	if _, err := send(e, asText, struct{ S string }{"x"}).Await(e.ctx()); err == nil || !strings.Contains(err.Error(), "S") {
		t.Errorf("%v", err)
	}
}

// C3: a result that cannot be written down is a failure of the task.
func TestUnfitResult_C3(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[int, any]("test:Any")
	e.start(task.WorkerOptions{}, typ.Handle(func(context.Context, *task.Job[int]) (any, error) { return make(chan int), nil }))
	if _, err := send(e, typ, 1).Await(e.ctx()); err == nil || !strings.Contains(err.Error(), "result") {
		t.Errorf("%v", err)
	}
	large := task.Define[int, string]("test:Large")
	e.start(task.WorkerOptions{ID: "b"}, large.Handle(func(context.Context, *task.Job[int]) (string, error) { return strings.Repeat("x", 2<<20), nil }))
	if _, err := send(e, large, 1).Await(e.ctx()); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("%v", err)
	}
}

// T11, plus-13: what was submitted before there was any worker, or group, is delivered.
func TestSubmittedBeforeAnyGroup_T11(t *testing.T) {
	e := newEnv(t)
	h := send(e, echo, "early")
	e.start(task.WorkerOptions{}, echoing())
	if got, err := h.Await(e.ctx()); err != nil || got != "early" {
		t.Errorf("%q, %v", got, err)
	}
}

// W1, plus-7: a realtime task is begun after at most one of many background tasks ends.
func TestRealtimeOvertakes_W1(t *testing.T) {
	e := newEnv(t)
	slow := task.Define[string, task.None]("test:Slow", task.Background, task.Small)
	begun, pass := make(chan string, 1000), make(chan struct{})
	args := make([]string, 400)
	if _, err := slow.SubmitMany(e.ctx(), e.client, args); err != nil {
		t.Fatal(err)
	}
	e.start(task.WorkerOptions{Concurrency: map[task.Size]int{task.Small: 2}, Policy: task.Strict{}}, slow.Handle(func(ctx context.Context, j *task.Job[string]) (task.None, error) {
		begun <- j.Args
		select {
		case <-pass:
		case <-ctx.Done():
		}
		return task.None{}, nil
	}))
	wait(t, "start", begun)
	wait(t, "start", begun)
	send(e, slow, "urgent", task.Realtime)
	pass <- struct{}{}
	if got := wait(t, "start", begun); got != "urgent" {
		t.Error("a background task was begun before the realtime one")
	}
	close(pass)
}

// W2: Weighted starves nobody, and StrictWithAgeing neither; Strict does what it says.
func TestPolicies_W2(t *testing.T) {
	for name, c := range map[string]struct {
		policy  task.Policy
		starved bool
	}{"strict": {task.Strict{}, true}, "weighted": {task.Weighted{}, false}, "ageing": {task.StrictWithAgeing{MaxWait: 50 * time.Millisecond}, false}} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			typ := task.Define[string, task.None]("test:T", task.Small)
			send(e, typ, "low", task.Background)
			ended := make(chan string, 10_000)
			ctx, stop := context.WithCancel(e.ctx())
			defer stop()
			high := make([]string, 64)
			for range 4 { // there is always something of realtime
				if _, err := typ.SubmitMany(ctx, e.client, high, task.Realtime); err != nil {
					t.Fatal(err)
				}
			}
			e.start(task.WorkerOptions{Policy: c.policy, Concurrency: map[task.Size]int{task.Small: 1}}, typ.Handle(func(ctx context.Context, j *task.Job[string]) (task.None, error) {
				if ctx.Err() == nil && j.Args == "" {
					if _, err := typ.Submit(ctx, j.Client(), "", task.Realtime); err != nil && ctx.Err() == nil {
						return task.None{}, err
					}
				}
				select {
				case ended <- j.Args:
				default:
				}
				return task.None{}, nil
			}))
			seen := 0
			for deadline := time.After(patience); ; seen++ {
				select {
				case v := <-ended:
					if v == "low" {
						if c.starved {
							t.Errorf("run after %d others", seen)
						}
						return
					}
				case <-deadline:
					t.Fatal("nothing ends")
				}
				if c.starved && seen == 1000 {
					return
				}
			}
		})
	}
}

// plus-9, T12, W4: entries that are fetched but not begun run once, though leases are short and there are two workers.
func TestNothingRunsTwice_T12(t *testing.T) {
	e := newEnv(t)
	const n = 300
	typ := task.Define[int, task.None]("test:Once", task.Small)
	var mu sync.Mutex
	runs := map[int]int{}
	handler := typ.Handle(func(ctx context.Context, j *task.Job[int]) (task.None, error) {
		mu.Lock()
		defer mu.Unlock()
		runs[j.Args]++
		return task.None{}, nil
	})
	args := make([]int, n)
	for i := range args {
		args[i] = i
	}
	if _, err := typ.SubmitMany(e.ctx(), e.client, args); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		e.start(task.WorkerOptions{ID: fmt.Sprint("w", i), Lease: 2 * time.Second, Concurrency: map[task.Size]int{task.Small: 1}}, handler)
	}
	e.idle()
	mu.Lock()
	defer mu.Unlock()
	for i := range n {
		if runs[i] != 1 {
			t.Errorf("task %d ran %d times", i, runs[i])
		}
	}
}

// cutOff is a worker with a connection of its own, through a proxy.
func (e *env) cutOff(o task.WorkerOptions, handlers ...task.Handler) (*testenv.Proxy, func()) {
	e.t.Helper()
	proxy := testenv.CountingProxy(e.t, e.srv.URL)
	rdb := e.srv.Connect(e.t, redis.Options{URL: proxy.URL, DialTimeout: time.Second})
	c, err := task.New(rdb, task.Options{Prefix: e.prefix, LockPrefix: e.prefix + ":"})
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(c.Close)
	w, err := c.Worker(o, handlers...)
	if err != nil {
		e.t.Fatal(err)
	}
	return proxy, e.run(w)
}

// T13, plus-5, plus-8, W4: a worker that is cut off past its lease loses its tasks; another runs them, what the first returns changes nothing, and its
// handler's context ends with ErrLost (faults 3 and 19).
func TestStaleWorkerChangesNothing_T13(t *testing.T) {
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
	proxy, _ := e.cutOff(task.WorkerOptions{ID: "stale", Lease: 300 * time.Millisecond}, handler("stale"))
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
	e.idle()
	if again, err := h.Result(e.ctx()); err != nil || again.Value != got {
		t.Errorf("the result is %q now, was %q (%v)", again.Value, got, err)
	}
}

// W5, plus-10: a task that took its worker with it five times is dead, with that as the reason; it is not begun again.
func TestDeliveryLimit_W5(t *testing.T) {
	e := newEnv(t)
	h := send(e, echo, "killer")
	stream, group := e.key("tasks:normal:small"), e.key("tasks:workers")
	e.must("XGROUP", "CREATE", stream, group, "0")
	e.must("XREADGROUP", "GROUP", group, "gone", "COUNT", "1", "STREAMS", stream, ">")
	e.must("XCLAIM", stream, group, "gone", "0", h.Entry, "RETRYCOUNT", "5", "JUSTID")
	e.start(task.WorkerOptions{}, echo.Handle(func(context.Context, *task.Job[string]) (string, error) {
		t.Error("it was begun")
		return "", nil
	}))
	var failed *task.Error
	if _, err := h.Await(e.ctx()); !errors.As(err, &failed) || failed.Type != "deliveries" {
		t.Errorf("%v", err)
	}
	if n := e.number("HEXISTS", e.key("tasks:dead"), h.ID); n != 1 {
		t.Error("no dead letter")
	}
}

// W8, plus-12, T11: FLUSHALL, and a restart that loses everything, are outlived; what is submitted after them runs (fault 7).
func TestOutlivesFlushAndRestart_W8(t *testing.T) {
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

// W9, plus-21: at the stop, what runs may finish; what is not begun goes to others at once; what does not finish in time is broken off, handed
// back, and no failure (fault 4).
func TestStop_W9(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[string, string]("test:Stop", task.Small)
	begun, pass := make(chan string, 100), make(chan struct{})
	causes := make(chan error, 1)
	w, err := e.client.Worker(task.WorkerOptions{ID: "first", Drain: 300 * time.Millisecond, Concurrency: map[task.Size]int{task.Small: 2}}, typ.Handle(func(ctx context.Context, j *task.Job[string]) (string, error) {
		begun <- j.Args
		if j.Args == "finishes" {
			<-pass
			return "by the first", nil
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return "", ctx.Err()
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- w.Run(ctx) }()
	finishes, hangs := send(e, typ, "finishes"), send(e, typ, "hangs")
	wait(t, "start", begun)
	wait(t, "start", begun)
	waits := send(e, typ, "waits")
	stop()
	close(pass)
	e.start(task.WorkerOptions{ID: "second"}, typ.Handle(func(_ context.Context, j *task.Job[string]) (string, error) {
		if j.Attempt != 1 {
			t.Errorf("%s: attempt %d", j.Args, j.Attempt)
		}
		return "by the second", nil
	}))
	for h, want := range map[*task.Handle[string]]string{finishes: "by the first", hangs: "by the second", waits: "by the second"} {
		if got, err := h.Await(e.ctx()); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	if cause := wait(t, "cause", causes); !errors.Is(cause, task.ErrStopped) {
		t.Errorf("cause %v", cause)
	}
	if err := wait(t, "end of Run", end); err != nil {
		t.Error(err)
	}
}

// W10: a handler that ignores the end of its context does not keep the process; Run names it.
func TestStuckHandler_W10(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[int, int]("test:Stuck")
	begun, pass := make(chan struct{}), make(chan struct{})
	w, err := e.client.Worker(task.WorkerOptions{Drain: 10 * time.Millisecond, Margin: 20 * time.Millisecond}, typ.Handle(func(context.Context, *task.Job[int]) (int, error) {
		close(begun)
		<-pass
		return 0, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- w.Run(ctx) }()
	h := send(e, typ, 1)
	wait(t, "start", begun)
	stop()
	var stuck *task.StuckError
	if err := wait(t, "end of Run", end); !errors.As(err, &stuck) || len(stuck.Tasks) != 1 || !strings.Contains(stuck.Tasks[0], h.ID) {
		t.Errorf("%v", err)
	}
	close(pass)
}

// W11, task-E9, task-D6: handlers that use all of the processor do not stop the heartbeat: the task runs once, longer than its lease.
func TestBusyHandlerKeepsLease_W11(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[int, int]("test:Busy", task.Small)
	var runs atomic.Int64
	handler := typ.Handle(func(ctx context.Context, _ *task.Job[int]) (int, error) {
		runs.Add(1)
		n := 0
		for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); n++ {
		}
		return n, ctx.Err()
	})
	for i := range 2 {
		e.start(task.WorkerOptions{ID: fmt.Sprint("w", i), Lease: time.Second}, handler)
	}
	if _, err := send(e, typ, 1).Await(e.ctx()); err != nil || runs.Load() != 1 {
		t.Errorf("%d runs, %v", runs.Load(), err)
	}
}

// T8, S7, plus-14: delayed tasks with any content reach their own queues when due; what is no message is a dead letter; ten thousand due at once all run.
func TestPromotion_T8(t *testing.T) {
	e := newEnv(t)
	type anything struct {
		At time.Time
		B  []byte
	}
	typ := task.Define[anything, task.None]("test:Delayed", task.Small)
	const n = 10_000
	var runs atomic.Int64
	all := make(chan struct{})
	e.must("ZADD", e.key("tasks:delayed"), "1", "\xc1corrupt")
	e.must("ZADD", e.key("tasks:delayed"), "1", string(fromHex(t, "85a77461736b5f6964a178a97461736b5f6e616d65a178a66c6162656c7381a87072696f72697479a6757267656e74a97461736b5f6172677390ab7461736b5f6b776172677380")))
	for range n / 500 {
		page := make([]anything, 500)
		for i := range page {
			page[i] = anything{time.Now(), []byte{0, byte(i), byte(i >> 8)}}
		}
		if _, err := typ.SubmitMany(e.ctx(), e.client, page, task.In(500*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
	handler := typ.Handle(func(_ context.Context, j *task.Job[anything]) (task.None, error) {
		if runs.Add(1) == n {
			close(all)
		}
		return task.None{}, nil
	})
	for i := range 2 {
		e.start(task.WorkerOptions{ID: fmt.Sprint("w", i)}, handler)
	}
	wait(t, "all run", all)
	e.idle()
	if runs.Load() != n {
		t.Errorf("%d runs of %d", runs.Load(), n)
	}
	if got := e.number("HLEN", e.key("tasks:dead")); got != 2 {
		t.Errorf("%d dead letters, want 2", got)
	}
}

// A delayed task is not early, by the server's clock, and late by no poll.
func TestDelayedToTheMillisecond(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[int, int64]("test:When", task.Small)
	e.start(task.WorkerOptions{}, typ.Handle(func(ctx context.Context, j *task.Job[int]) (int64, error) {
		now, err := j.Client().Now(ctx)
		return now.UnixMicro(), err
	}))
	send(e, typ, 0, task.In(time.Hour)) // not this one's business
	for _, d := range []time.Duration{0, 30 * time.Millisecond, 100 * time.Millisecond} {
		h := send(e, typ, 1, task.In(d))
		at, err := h.Await(e.ctx())
		if err != nil {
			t.Fatal(err)
		}
		if late := time.UnixMicro(at).Sub(h.Due); late < -time.Millisecond || late > 900*time.Millisecond {
			t.Errorf("in %v: %v late", d, late)
		}
	}
}

// W16: what a task costs, counted: one command to submit it, and of the rest hardly any.
func TestCommandsPerTask_W16(t *testing.T) {
	e := newEnv(t)
	const n = 5000
	var ran atomic.Int64
	all := make(chan struct{})
	typ := task.Define[int, task.None]("test:Cost", task.Small)
	for range n / 500 {
		if _, err := typ.SubmitMany(e.ctx(), e.client, make([]int, 500)); err != nil {
			t.Fatal(err)
		}
	}
	before, err := e.client.Usage(e.ctx())
	if err != nil {
		t.Fatal(err)
	}
	_, stop := e.start(task.WorkerOptions{}, typ.Handle(func(context.Context, *task.Job[int]) (task.None, error) {
		if ran.Add(1) == n {
			close(all)
		}
		return task.None{}, nil
	}))
	wait(t, "all run", all)
	stop()
	after, err := e.client.Usage(e.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if per := float64(after.Commands-before.Commands) / n; per > 1 {
		t.Errorf("%.2f commands to run a task, want at most 1", per)
	}
	if after.Bytes > 10_000 {
		t.Errorf("%d bytes are left over", after.Bytes)
	}
}

// Middleware runs around the handler, the first outermost; Observe sees every end.
func TestMiddlewareAndObserve(t *testing.T) {
	e := newEnv(t)
	var mu sync.Mutex
	var seen []string
	note := func(s string) { mu.Lock(); defer mu.Unlock(); seen = append(seen, s) }
	around := func(name string) task.Middleware {
		return func(ctx context.Context, info task.Info, next func(context.Context) error) error {
			note(name + " " + info.Name)
			err := next(ctx)
			note(name + " out")
			return err
		}
	}
	events := make(chan task.Event, 1)
	e.start(task.WorkerOptions{Middleware: []task.Middleware{around("a"), around("b")}, Observe: func(ev task.Event) { events <- ev }}, echoing())
	h := send(e, echo, "x")
	if got, err := h.Await(e.ctx()); err != nil || got != "x" {
		t.Errorf("%q, %v", got, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"a test:Echo", "b test:Echo", "b out", "a out"}; !slices.Equal(seen, want) {
		t.Errorf("%v, want %v", seen, want)
	}
	if ev := wait(t, "event", events); ev.Outcome != task.Done || ev.Info.ID != h.ID || ev.Err != nil {
		t.Errorf("%+v", ev)
	}
}

// A result that is not kept cannot be awaited, and says so; Keep keeps it.
func TestNotKept(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[int, task.None]("test:None")
	e.start(task.WorkerOptions{}, typ.Handle(func(context.Context, *task.Job[int]) (task.None, error) { return task.None{}, nil }))
	if _, err := send(e, typ, 1).Await(e.ctx()); !errors.Is(err, task.ErrNotKept) {
		t.Errorf("%v", err)
	}
	if _, err := send(e, typ, 1, task.Keep(time.Minute)).Await(e.ctx()); err != nil {
		t.Errorf("%v", err)
	}
	if _, err := echo.HandleOf(e.client, "nobody").Result(e.ctx()); !errors.Is(err, task.ErrResultMissing) {
		t.Errorf("%v", err)
	}
	short, cancel := context.WithTimeout(e.ctx(), 20*time.Millisecond)
	defer cancel()
	if _, err := echo.HandleOf(e.client, "nobody").Await(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if n := e.number("EXISTS", e.key("tasks:awaited")); n != 0 {
		t.Error("the wish to be told is left over")
	}
}

// Many wait for one result, in two processes; a lost push is found by looking.
func TestAwaitTogether(t *testing.T) {
	e := newEnv(t)
	other := e.connect(task.Options{})
	h := send(e, echo, "x")
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			mine := h
			if i%2 == 1 {
				mine = echo.HandleOf(other, h.ID)
			}
			if got, err := mine.Await(e.ctx()); err != nil || got != "x" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	e.eventually("awaited", func() bool { return e.number("HLEN", e.key("tasks:awaited")) == 1 })
	e.start(task.WorkerOptions{}, echoing())
	all.Wait()
}

// A task knows who submitted it.
func TestParent(t *testing.T) {
	e := newEnv(t)
	outer := task.Define[int, string]("test:Outer", task.Small)
	inner := task.Define[int, string]("test:Inner", task.Medium)
	e.start(task.WorkerOptions{}, outer.Handle(func(ctx context.Context, j *task.Job[int]) (string, error) {
		h, err := inner.Submit(ctx, task.ClientFrom(ctx), 1)
		if err != nil {
			return "", err
		}
		return h.Await(ctx)
	}), inner.Handle(func(_ context.Context, j *task.Job[int]) (string, error) { return j.ParentID, nil }))
	h := send(e, outer, 1)
	if got, err := h.Await(e.ctx()); err != nil || got != h.ID {
		t.Errorf("%q, %v, want %q", got, err, h.ID)
	}
}

func fromHex(t *testing.T, s string) []byte {
	t.Helper()
	b := make([]byte, 0, len(s)/2)
	for i := 0; i < len(s); i += 2 {
		n, err := strconv.ParseUint(s[i:i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, byte(n))
	}
	return b
}
