package task_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
)

func (e *env) cancel(ref task.Ref) task.CancelOutcome {
	e.t.Helper()
	out, err := e.client.Cancel(e.ctx(), ref)
	e.ok(err)
	return out
}

// What has not begun is cancelled at once; whoever waits for it is told, and a second time comes too late.
func TestCancelBeforeItBegins(t *testing.T) {
	for _, c := range []struct {
		name string
		opts []task.SubmitOption
		put  func(e *env, h *task.Handle[int])
	}{
		{"waiting", nil, nil},
		{"waiting, queue read before", nil, func(e *env, h *task.Handle[int]) {
			e.do("XGROUP", "CREATE", e.keys().TaskStream("normal:medium"), e.keys().TaskGroup(), "0")
		}},
		{"delayed", []task.SubmitOption{task.In(time.Hour)}, nil},
		{"blocked", []task.SubmitOption{task.In(time.Hour)}, func(e *env, h *task.Handle[int]) {
			member, err := e.do("ZRANGE", e.keys().TaskDelayed(), "0", "0").AsStrSlice()
			testenv.Must(e.t, err)
			e.do("HSET", e.keys().TaskBlocked(), h.ID, member[0])
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnv(t)
			h := send(e, Double, double{1}, c.opts...)
			if c.put != nil {
				c.put(e, h)
			}
			told := make(chan error, 1)
			go func() { _, err := h.Await(e.ctx()); told <- err }()
			e.eventually("somebody waits", func() bool { return e.number("HLEN", e.keys().TaskAwaited()) == 1 })
			if out := e.cancel(h.Ref); out != task.CancelledNow {
				t.Errorf("%s", out)
			}
			var failed *task.Error
			if err := <-told; !errors.As(err, &failed) || failed.Type != "cancelled" {
				t.Errorf("Await: %v", err)
			}
			if out := e.cancel(h.Ref); out != task.CancelTooLate {
				t.Errorf("again: %s", out)
			}
			for _, counter := range []string{"cancelled type test:Double", "cancelled queue normal:medium"} {
				e.counts(1, "HGET", e.keys().TaskCounters(), counter)
			}
			if r := e.healthy(0); r.Unfinished() != 0 || r.Blocked != 0 || r.Results != 1 || r.Awaited != 0 {
				t.Errorf("%+v", r)
			}
			if got := e.find(h.Ref); got.State != task.StateCancelled {
				t.Errorf("%+v", got)
			}
		})
	}
}

// One that runs is told: its context ends, and it ends as cancelled.
func TestCancelRunning(t *testing.T) {
	e := newEnv(t)
	begun := make(chan struct{})
	e.start(task.WorkerOptions{}, Double.Handle(func(ctx context.Context, _ *task.Job[double]) (int, error) {
		close(begun)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), task.ErrCancelled) {
			t.Errorf("cause %v", context.Cause(ctx))
		}
		return 0, ctx.Err()
	}))
	h := send(e, Double, double{})
	<-begun
	if out := e.cancel(task.Ref{ID: h.ID}); out != task.CancelTold {
		t.Errorf("%s", out)
	}
	failed(e, h, "cancelled")
	if out := e.cancel(h.Ref); out != task.CancelTooLate {
		t.Errorf("again: %s", out)
	}
	if n := e.counter(task.Cancelled, "test:Double"); n != 1 || e.number("ZCARD", e.key("tasks:cancelled")) != 0 {
		t.Errorf("%d are counted as cancelled, want 1, or its mark is left", n)
	}
}

// One whose end concerns others is marked, made due, and ended by the worker that takes it, without being run.
func TestCancelOfUnique(t *testing.T) {
	e := newEnv(t)
	h := send(e, Double, double{}, task.UniqueKey("u", 0), task.In(time.Hour))
	if out := e.cancel(h.Ref); out != task.CancelTold {
		t.Errorf("%s", out)
	}
	e.start(task.WorkerOptions{}, Double.Handle(func(context.Context, *task.Job[double]) (int, error) {
		t.Error("it runs")
		return 0, nil
	}))
	failed(e, h, "cancelled")
}

// Members of aggregates are found, and cancelled by the worker that begins with them, each on its own.
func TestCancelOfMembers(t *testing.T) {
	e := newEnv(t)
	many := task.Define[double, task.None]("test:Many", task.Positional(), task.Aggregate[double]{MaxSize: 3, MaxDelay: time.Hour})
	var handles []*task.Handle[task.None]
	for i := range 3 {
		h := send(e, many, double{i}, task.Keep(time.Hour))
		handles = append(handles, h)
		if got := e.find(task.Ref{ID: h.ID}); i < 2 && (got.State != task.StateCollected || got.Within != "") || i == 2 && (got.State != task.StateWaiting || got.Within == "") {
			t.Errorf("%d: %+v", i, got)
		}
		if i == 0 {
			if out := e.cancel(h.Ref); out != task.CancelTold {
				t.Errorf("collected: %s", out)
			}
		}
	}
	if out := e.cancel(task.Ref{ID: handles[1].ID}); out != task.CancelTold {
		t.Errorf("in an aggregate: %s", out)
	}
	got := make(chan int, 1)
	e.start(task.WorkerOptions{}, many.HandleBatch(func(_ context.Context, jobs []*task.Job[double]) error {
		got <- len(jobs)
		return nil
	}))
	for i, h := range handles {
		_, err := h.Await(e.ctx())
		var failed *task.Error
		if cancelled := errors.As(err, &failed) && failed.Type == "cancelled"; cancelled != (i < 2) || i == 2 && err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if n := <-got; n != 1 {
		t.Errorf("%d were handled", n)
	}
	e.healthy(time.Hour)
}

// An aggregate that is purged ends each of its members.
func TestPurgeOfAggregates(t *testing.T) {
	e := newEnv(t)
	many := task.Define[double, task.None]("test:Many", task.Positional(), task.Aggregate[double]{MaxSize: 2, MaxDelay: time.Hour})
	var handles []*task.Handle[task.None]
	for i := range 2 {
		handles = append(handles, send(e, many, double{i}, task.Keep(time.Hour)))
	}
	if n, err := e.client.Purge(e.ctx(), "normal:medium", "normal:medium"); n != 1 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	e.start(task.WorkerOptions{}, many.HandleBatch(func(context.Context, []*task.Job[double]) error { t.Error("it runs"); return nil }))
	for _, h := range handles {
		failed(e, h, "cancelled")
	}
}

// Marks are trimmed after a day.
func TestCancelMarksExpire(t *testing.T) {
	e := newEnv(t)
	k := e.keys()
	now := e.clock()
	e.do("ZADD", k.TaskCancelled(), "1", "ages-ago", ms(now.Add(-23*time.Hour)), "today")
	h := send(e, Double, double{}, task.UniqueKey("u", 0))
	e.cancel(h.Ref)
	if ids, _ := e.do("ZRANGE", k.TaskCancelled(), "0", "-1").AsStrSlice(); len(ids) != 2 || ids[0] != "today" || ids[1] != h.ID {
		t.Errorf("%q", ids)
	}
}

func TestCancelRefuses(t *testing.T) {
	e := newEnv(t)
	fails(t, errOf(e.client.Cancel(e.ctx(), task.Ref{ID: "nobody"})), task.ErrNotFound)
	h := send(e, Double, double{})
	e.do("SET", e.keys().TaskCounters(), "1")
	if out, err := e.client.Cancel(e.ctx(), h.Ref); err == nil {
		t.Errorf("with a broken key: %s", out)
	}
	e.counts(1, "XLEN", e.keys().TaskStream("normal:medium"))
}

func TestRunNow(t *testing.T) {
	e := newEnv(t)
	ran := make(chan struct{})
	e.start(task.WorkerOptions{}, Double.Handle(func(context.Context, *task.Job[double]) (int, error) { close(ran); return 0, nil }))
	h := send(e, Double, double{}, task.In(time.Hour))
	e.ok(e.client.RunNow(e.ctx(), h.Ref))
	<-ran
	done(e, h)
	var wrong *task.StateError
	if err := e.client.RunNow(e.ctx(), h.Ref); !errors.As(err, &wrong) || wrong.State != task.StateDone {
		t.Errorf("%v", err)
	}
	fails(t, e.client.RunNow(e.ctx(), task.Ref{ID: "nobody"}), task.ErrNotFound)
}
