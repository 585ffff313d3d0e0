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

	"github.com/taktworks/takt/task"
)

// echo returns its argument.
var echo = task.Define[string, string]("test:Echo", task.Small)

func echoing() task.Handler {
	return echo.Handle(func(_ context.Context, j *task.Job[string]) (string, error) { return j.Args, nil })
}

// A task runs and its value comes back, on every kind of server; nothing stays in the streams.
func TestDone(t *testing.T) {
	onBoth(t, testDone)
}

func testDone(t *testing.T, e *env) {
	e.start(task.WorkerOptions{}, echoing())
	hs := sendMany(e, echo, []string{"a", "b", "c"})
	hs = append(hs, send(e, echo, "d", task.In(20*time.Millisecond)))
	for i, h := range hs {
		returned(e, h, string(rune('a'+i)))
	}
	e.idle()
	e.counts(0, "HLEN", e.key("tasks:awaited"))
}

// A retry is the same task, under the same id and in its own queue; it runs 1 + Retries times, the policy is asked with the
// handler's own error, and the id has the final result, which is there only then.
func TestRetryKeepsID(t *testing.T) {
	e := newEnv(t)
	asked := make(policyAsked, 10)
	typ := task.Define[int, string]("test:Retry", task.Realtime, task.Large, task.Retry(asked))
	var mu sync.Mutex
	var ids []string
	var attempts []int
	var fences []uint64
	e.start(task.WorkerOptions{}, typ.Handle(func(_ context.Context, j *task.Job[int]) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		ids, attempts, fences = append(ids, j.ID), append(attempts, j.Attempt), append(fences, j.Fence)
		if j.MaxAttempts != 4 || j.Queue != "realtime:large" {
			t.Errorf("MaxAttempts %d, in %s", j.MaxAttempts, j.Queue)
		}
		fails(t, errOf(typ.HandleOf(j.Client(), j.ID).Result(e.ctx())), task.ErrResultMissing)
		return "", failure(j.Attempt)
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
	for attempt := 1; attempt <= 3; attempt++ {
		if got := wait(t, "a question to the policy", asked); got != failure(attempt) {
			t.Errorf("the policy was asked about %v after attempt %d", got, attempt)
		}
	}
	if got := e.find(task.Ref{ID: h.ID}); got.State != task.StateDead || len(got.History) != 4 || e.number("EXISTS", e.key("results:"+h.ID)) != 1 {
		t.Errorf("%+v", got)
	}
	e.idle()
	e.healthy(0)
}

// failure is an error by which policies may tell what happened.
type failure int

func (f failure) Error() string { return fmt.Sprintf("failure %d", int(f)) }

// policyAsked retries three times and tells of the errors that it is asked about.
type policyAsked chan failure

func (p policyAsked) MaxAttempts() int { return 4 }

func (p policyAsked) Delay(attempt int, err error) (time.Duration, bool) {
	var f failure
	errors.As(err, &f)
	p <- f
	return 5 * time.Millisecond, attempt <= 3
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
	says(t, "cancel", errOf(send(e, typ, "cancel").Await(e.ctx())), "boom")
	for args, want := range map[string]string{"after": "attempt 2", "snooze": "attempt 1"} {
		returned(e, send(e, typ, args), want)
	}
}

// Without a retry policy the first failure is the last, and a dead letter; Discard leaves none.
func TestNoRetry(t *testing.T) {
	e := newEnv(t)
	dead := task.Define[int, int]("test:Dead")
	gone := task.Define[int, int]("test:Gone", task.Discard())
	fail := func(context.Context, *task.Job[int]) (int, error) { return 0, errors.New("no") }
	e.start(task.WorkerOptions{NoPromote: true}, dead.Handle(fail), gone.Handle(fail))
	for typ, letters := range map[*task.Type[int, int]]int64{dead: 1, gone: 0} {
		h := send(e, typ, 1)
		refused(t, "no error", errOf(h.Await(e.ctx())))
		e.counts(letters, "HEXISTS", e.key("tasks:dead"), h.ID)
	}
	if r := e.healthy(0); r.Dead != 1 || r.Delayed != 0 || r.Unfinished() != 0 {
		t.Errorf("%+v", r)
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
	done(e, send(e, echo, "x"))
}

// A run ends at its timeout, or the task's deadline, with that as the cause.
func TestTimeout(t *testing.T) {
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
	ends := func(what string, opts ...task.SubmitOption) {
		t.Helper()
		failed(e, send(e, typ, "", opts...), "timeout")
	}
	begun := func(what string) {
		t.Helper()
		if cause := wait(t, "cause", causes); !errors.Is(cause, task.ErrTimeout) {
			t.Errorf("%s: cause %v", what, cause)
		}
	}
	ends("timeout of the type")
	begun("timeout of the type")
	ends("timeout of the task", task.RunTimeout(20*time.Millisecond))
	begun("timeout of the task")
	for left := 200 * time.Millisecond; len(causes) == 0; left *= 2 { // a busy machine begins a task after its deadline, and then does not begin it
		if left > time.Minute {
			t.Fatal("a task with a deadline is never begun")
		}
		ends("deadline", task.RunTimeout(time.Hour), task.Deadline(time.Now().Add(left)))
	}
	begun("deadline")
	ends("after its deadline", task.Deadline(time.Now().Add(-time.Second)))
	if len(causes) != 0 {
		t.Error("it was begun after its deadline")
	}
}

// A task whose name this worker does not know waits for one that does, and is dead after a while.
func TestUnknownName(t *testing.T) {
	e := newEnv(t)
	other := task.Define[int, int]("test:Other", task.Small)
	rare := task.Define[int, int]("test:Nobody", task.Small)
	_, stop := e.start(task.WorkerOptions{ID: "old", MaxUnknown: 1}, echoing())
	nobody := send(e, rare, 1)
	failed(e, nobody, "unknown")
	same(t, e.counter(task.Unknown, rare.Name()), 1)
	stop()
	_, stop = e.start(task.WorkerOptions{ID: "old", MaxUnknown: 1, NoPromote: true}, echoing()) // which does not come back to what it put back
	known := send(e, other, 1)
	e.eventually("put back", func() bool { return e.number("ZCARD", e.key("tasks:delayed")) == 1 })
	stop()
	e.start(task.WorkerOptions{ID: "new"}, other.Handle(func(_ context.Context, j *task.Job[int]) (int, error) {
		if j.Attempt != 1 {
			t.Errorf("attempt %d: being unknown is no failure", j.Attempt)
		}
		return 7, nil
	}))
	returned(e, known, 7)
}

// What is no message becomes a dead letter with its bytes; what comes after it runs.
func TestUndecodable(t *testing.T) {
	e := newEnv(t)
	stream := e.key("tasks:normal:small")
	e.must("XADD", stream, "*", "data", "\xc1garbage")
	e.must("XADD", stream, "*", "other", "field")
	e.must("XADD", stream, "*", "data", "", "x", "y")
	e.start(task.WorkerOptions{}, echoing())
	returned(e, send(e, echo, "x"), "x")
	e.idle()
	e.counts(3, "HLEN", e.key("tasks:dead"))
}

// Arguments of another type than the handler's are dead at once: no repetition mends them.
func TestWrongArguments(t *testing.T) {
	e := newEnv(t)
	asText := task.Define[struct{ S string }, string]("test:Shape", task.Retry(task.Backoff{}))
	asInt := task.Define[struct{ S int }, string]("test:Shape", task.Retry(task.Backoff{}))
	e.start(task.WorkerOptions{}, asInt.Handle(func(context.Context, *task.Job[struct{ S int }]) (string, error) { return "ran", nil }))
	says(t, "", errOf(send(e, asText, struct{ S string }{"x"}).Await(e.ctx())), "S")
}

// A result that cannot be written down is a failure of the task.
func TestUnfitResult(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[int, any]("test:Any")
	e.start(task.WorkerOptions{}, typ.Handle(func(context.Context, *task.Job[int]) (any, error) { return make(chan int), nil }))
	says(t, "", errOf(send(e, typ, 1).Await(e.ctx())), "result")
	large := task.Define[int, string]("test:Large")
	e.start(task.WorkerOptions{ID: "b"}, large.Handle(func(context.Context, *task.Job[int]) (string, error) { return strings.Repeat("x", 2<<20), nil }))
	says(t, "", errOf(send(e, large, 1).Await(e.ctx())), "too large")
}

// What a task costs, counted: one command to submit it, and of the rest hardly any.
func TestCommandsPerTask(t *testing.T) {
	e := newEnv(t)
	const n = 5000
	var ran atomic.Int64
	all := make(chan struct{})
	typ := task.Define[int, task.None]("test:Cost", task.Small)
	for range n / 500 {
		sendMany(e, typ, make([]int, 500))
	}
	before, err := e.client.Usage(e.ctx())
	e.ok(err)
	_, stop := e.start(task.WorkerOptions{}, typ.Handle(func(context.Context, *task.Job[int]) (task.None, error) {
		if ran.Add(1) == n {
			close(all)
		}
		return task.None{}, nil
	}))
	wait(t, "all run", all)
	stop()
	after, err := e.client.Usage(e.ctx())
	e.ok(err)
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
	returned(e, h, "x")
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"a test:Echo", "b test:Echo", "b out", "a out"}; !slices.Equal(seen, want) {
		t.Errorf("%v, want %v", seen, want)
	}
	if ev := wait(t, "event", events); ev.Outcome != task.Done || ev.Info.ID != h.ID || ev.Err != nil {
		t.Errorf("%+v", ev)
	}
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
	returned(e, h, h.ID)
}
