package task_test

import (
	"context"
	"errors"
	"testing"

	"github.com/taktworks/takt/task"
)

// What follows a child that failed for good: dead, cancelled, or with a result that cannot be written.
func TestGroupAfterFailures(t *testing.T) {
	fail := func(_ context.Context, j *task.Job[double]) (int, error) {
		if j.Args.N == 1 {
			return 0, errors.New("boom")
		}
		return j.Args.N, nil
	}
	for _, c := range []struct {
		name   string
		opts   []task.GroupOption
		fired  string // results that the callback sees, "" = it does not run
		failed string
		after  string
	}{
		{"OnAllSuccess", nil, "", "", "none"},
		{"OnAllSuccess with OnFailure", []task.GroupOption{task.OnFailure(newFamily(nil).failure.With(double{}))}, "", "0 errors.errorString 2", "failure"},
		{"OnAllDone", []task.GroupOption{task.OnAllDone}, "0 errors.errorString 2", "", "callback"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnv(t)
			f := newFamily(e)
			g := f.spawn(3, c.opts...)
			f.start(fail)
			e.eventually("all have ended", func() bool { return f.info(g).Remaining == 0 })
			fired, failed := f.quiet()
			if (fired == 1) != (c.fired != "") || (failed == 1) != (c.failed != "") || fired+failed > 1 {
				t.Fatalf("the callback ran %d times, the OnFailure task %d times", fired, failed)
			}
			if fired == 1 {
				if got := show(<-f.fired); got != c.fired {
					t.Errorf("the callback saw %s, want %s", got, c.fired)
				}
			}
			if failed == 1 {
				if got := show(<-f.failed); got != c.failed {
					t.Errorf("the OnFailure task saw %s, want %s", got, c.failed)
				}
			}
			if info := f.info(g); info.OK != 2 || info.Failed != 1 || info.Fired != c.after {
				t.Errorf("info %+v, want fired %s", info, c.after)
			}
			e.counts(1, "HEXISTS", e.key("tasks:dead"), g.ChildID(1))
			results, err := task.GroupResultsOf[any](e.ctx(), e.client, g.ID)
			if err != nil || len(results) != 3 || results[1].Err == nil || results[1].Err.Message != "boom" || results[2].Value != int64(2) {
				t.Errorf("results from outside: %v, %v", results, err)
			}
		})
	}
}

// FailFast: the first failure has the others cancelled, those that run and those that wait, and the OnFailure task run without waiting for them.
func TestGroupFailFast(t *testing.T) { testGroupFailFast(t, newEnv(t)) }

func testGroupFailFast(t *testing.T, e *env) {
	f := newFamily(e)
	cancelled := make(chan struct{}, 10)
	hold := make(chan struct{})
	_, stop := e.start(task.WorkerOptions{Concurrency: map[task.Size]int{task.Small: 3, task.Large: 1}}, f.handlers(func(ctx context.Context, j *task.Job[double]) (int, error) {
		switch j.Args.N {
		case 0:
			<-hold
			return 0, errors.New("boom")
		case 1:
			close(hold)
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), task.ErrCancelled) {
				cancelled <- struct{}{}
			}
			return 0, ctx.Err()
		}
		<-ctx.Done()
		return 0, ctx.Err()
	})...)
	g := f.spawn(20, task.FailFast, task.OnFailure(f.failure.With(double{})))
	wait(t, "the context of one that runs ends", cancelled)
	results := wait(t, "the OnFailure task", f.failed)
	if results[0].Err == nil || results[0].Err.Message != "boom" || len(results) != 20 {
		t.Errorf("it saw %v", show(results))
	}
	e.eventually("all have ended", func() bool { return f.info(g).Remaining == 0 })
	if fired, failed := f.quiet(); fired != 0 || failed != 0 {
		t.Errorf("then the callback ran %d times, the OnFailure task %d times", fired, failed)
	}
	if info := f.info(g); info.Failed != 20 || info.Fired != "failure" || !info.Stopped {
		t.Errorf("info %+v", info)
	}
	same(t, e.counter(task.Cancelled, "group:Child"), 19)
	e.counts(0, "ZCARD", e.key("tasks:cancelled"))
	stop()
	if n := f.runs.Load(); n > 6 {
		t.Errorf("%d of 20 were begun", n)
	}
}

// A group that somebody cancels ends as its policy says.
func TestCancelGroup(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	g := f.spawn(5, task.OnAllDone)
	e.ok(g.Cancel(e.ctx()))
	f.start(nil)
	same(t, show(wait(t, "the callback", f.fired)), "cancelled cancelled cancelled cancelled cancelled")
	if n := f.runs.Load(); n != 0 {
		t.Errorf("%d children ran", n)
	}
	fails(t, e.client.CancelGroup(e.ctx(), "none"), task.ErrNotFound)
	f.quiet()
	if err := g.Cancel(e.ctx()); err != nil || e.number("ZCARD", e.key("tasks:cancelled")) != 0 {
		t.Errorf("of one that has ended: %v", err)
	}
}
