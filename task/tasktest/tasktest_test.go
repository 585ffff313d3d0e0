package tasktest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/task/tasktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var look = task.Define[string, int]("test:Look", task.Realtime, task.Small, task.Timeout(time.Hour), task.Retry(task.Backoff{Base: time.Second, Exact: true, Retries: 4}))

// What the options say is what the handler finds. A handler can be called directly; its value and its errors come back.
func TestJob(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123)
	var got task.Info
	h := look.Handle(func(ctx context.Context, j *task.Job[string]) (int, error) {
		got = j.Info
		if d, ok := ctx.Deadline(); !ok || !d.Equal(j.Deadline) {
			t.Errorf("Deadline %v %v, in the job %v", d, ok, j.Deadline)
		}
		return len(j.Args), nil
	})
	n, err := tasktest.Run(t.Context(), look, h, "four", tasktest.ID("7"), tasktest.Attempt(3), tasktest.Group("g"), tasktest.Parent("p"), tasktest.Enqueued(at),
		tasktest.Labels(map[string]string{"tenant": "north"}), tasktest.Timeout(time.Minute))
	if n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if got.ID != "7" || got.Name != "test:Look" || got.Queue != "realtime:small" || got.Attempt != 3 || got.MaxAttempts != 5 || got.GroupID != "g" || got.ParentID != "p" ||
		!got.Enqueued.Equal(at) || got.Labels["tenant"] != "north" || time.Until(got.Deadline) > time.Minute || got.Fence == 0 {
		t.Errorf("%+v", got)
	}
	first, err := tasktest.Try(t.Context(), look, h, "x")
	if err != nil || first.Outcome != task.Done || first.Value != 1 || first.Took <= 0 {
		t.Errorf("%+v, %v", first, err)
	}
	if got.Attempt != 1 || got.ID == "" || time.Since(got.Enqueued) > time.Minute || time.Until(got.Deadline) < time.Minute || got.Labels != nil {
		t.Errorf("without options: %+v", got)
	}
	deadline := time.Now().Add(time.Minute).Truncate(time.Millisecond)
	if _, err := tasktest.Run(t.Context(), look, h, "x", tasktest.Deadline(deadline)); err != nil || !got.Deadline.Equal(deadline) {
		t.Errorf("%v: deadline %v, want %v", err, got.Deadline, deadline)
	}
}

// How a run ends is judged as by a worker.
func TestTryJudges(t *testing.T) {
	boom := errors.New("boom")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(task.ErrCancelled)
	for name, c := range map[string]struct {
		ctx     context.Context
		handle  func(context.Context) error
		opts    []tasktest.Option
		outcome task.Outcome
		delay   time.Duration
		want    error
	}{
		"fails":        {handle: func(context.Context) error { return boom }, outcome: task.Retried, delay: time.Second, want: boom},
		"last attempt": {handle: func(context.Context) error { return boom }, opts: []tasktest.Option{tasktest.Attempt(5)}, outcome: task.Dead, want: boom},
		"cancel":       {handle: func(context.Context) error { return task.Cancel(boom) }, outcome: task.Dead, want: boom},
		"retry after":  {handle: func(context.Context) error { return task.RetryAfter(time.Hour, boom) }, outcome: task.Retried, delay: time.Hour, want: boom},
		"snooze":       {handle: func(context.Context) error { return task.Snooze(time.Minute) }, outcome: task.Snoozed, delay: time.Minute},
		"timeout": {handle: func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }, opts: []tasktest.Option{tasktest.Timeout(time.Nanosecond)},
			outcome: task.Retried, delay: time.Second, want: task.ErrTimeout},
		"cancelled": {ctx: cancelled, handle: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, outcome: task.Cancelled, want: task.ErrCancelled},
		"done":      {handle: func(context.Context) error { return nil }, outcome: task.Done},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := c.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			h := look.Handle(func(ctx context.Context, _ *task.Job[string]) (int, error) { return 0, c.handle(ctx) })
			run, err := tasktest.Try(ctx, look, h, "", c.opts...)
			testenv.Must(t, err)
			if run.Outcome != c.outcome || run.Delay != c.delay || c.want != nil && !errors.Is(run.Err, c.want) || (run.Err == nil) != (c.outcome == task.Done) {
				t.Errorf("%+v", run)
			}
		})
	}
}

func TestPanicIsAnError(t *testing.T) {
	h := look.Handle(func(context.Context, *task.Job[string]) (int, error) { panic("ouch") })
	var p *task.PanicError
	if _, err := tasktest.Run(t.Context(), look, h, ""); !errors.As(err, &p) || p.Value != "ouch" || !strings.Contains(string(p.Stack), "tasktest_test.go") {
		t.Errorf("%v", err)
	}
}

// Mistakes of the test are errors of Try, not of the run.
func TestMistakes(t *testing.T) {
	other := task.Define[string, int]("test:Other")
	called := func(context.Context, *task.Job[string]) (int, error) { t.Error("called"); return 0, nil }
	for name, c := range map[string]struct {
		handler task.Handler
		args    string
		opt     tasktest.Option
		want    string
	}{
		"empty":      {want: "empty Handler"},
		"other":      {handler: other.Handle(called), want: "test:Other"},
		"attempt":    {handler: look.Handle(called), opt: tasktest.Attempt(-1), want: "Trial.Attempt"},
		"label":      {handler: look.Handle(called), opt: tasktest.Labels(map[string]string{"_x": "y"}), want: "_x"},
		"no UTF-8":   {handler: look.Handle(called), args: "\xff", want: "UTF-8"},
		"id too big": {handler: look.Handle(called), opt: tasktest.ID(strings.Repeat("x", 200)), want: "id"},
	} {
		var opts []tasktest.Option
		if c.opt != nil {
			opts = append(opts, c.opt)
		}
		if _, err := tasktest.Try(t.Context(), look, c.handler, c.args, opts...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A handler that submits is tested with a Client; what it submits knows its parent. Delayed tasks run at once, in the order of their due times.
func TestSubmittingHandler(t *testing.T) {
	c := tasktest.Client(t)
	parent := look.Handle(func(ctx context.Context, j *task.Job[string]) (int, error) {
		for i, text := range []string{"third", "first", "second"} {
			if _, err := look.Submit(ctx, task.ClientFrom(ctx), text, task.In(time.Duration([]int{30, 10, 20}[i])*time.Hour)); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	if _, err := tasktest.Run(t.Context(), look, parent, "", tasktest.With(c), tasktest.ID("the parent")); err != nil {
		t.Fatal(err)
	}
	var texts []string
	runs, err := c.RunAll(t.Context(), task.WorkerOptions{Concurrency: map[task.Size]int{task.Small: 1}}, look.Handle(func(_ context.Context, j *task.Job[string]) (int, error) {
		if j.ParentID != "the parent" {
			t.Errorf("parent %q", j.ParentID)
		}
		texts = append(texts, j.Args)
		return 0, nil
	}))
	if err != nil || len(runs) != 3 || !slices.Equal(texts, []string{"first", "second", "third"}) {
		t.Errorf("%v, %d runs, %v", err, len(runs), texts)
	}
}

func TestDrain(t *testing.T) {
	c := tasktest.Client(t)
	if runs, err := tasktest.Drain(t.Context(), c); err != nil || len(runs) != 0 || runs.Outcome() != "" || runs.Err() != nil {
		t.Errorf("nothing to do: %v, %v", runs, err)
	}
	stranger := task.Define[string, int]("test:Stranger", task.Large)
	unknown, err := stranger.Submit(t.Context(), c, "")
	testenv.Must(t, err)
	flaky, err := look.Submit(t.Context(), c, "")
	testenv.Must(t, err)
	runs, err := tasktest.Drain(t.Context(), c, look.Handle(func(_ context.Context, j *task.Job[string]) (int, error) {
		if j.Attempt < 3 {
			return 0, errors.New("no")
		}
		return j.Attempt, nil
	}))
	testenv.Must(t, err)
	if own := runs.Of(unknown.ID); own.Outcome() != task.Dead || !errors.Is(own.Err(), task.ErrUnknownTask) || own.Count(task.Unknown) != 1 {
		t.Errorf("no handler: %+v", own)
	}
	own := runs.Of(flaky.ID)
	if own.Outcome() != task.Done || own.Err() != nil || own.Count(task.Retried) != 2 || len(own)+2 != len(runs) {
		t.Errorf("%+v", own)
	}
	for i, run := range own {
		if run.Info.Attempt != i+1 {
			t.Errorf("run %d says that it is attempt %d", i+1, run.Info.Attempt)
		}
	}
}

// A task that puts itself back for ever ends with the context, and the error says so.
func TestDrainEndsWithItsContext(t *testing.T) {
	c := tasktest.Client(t)
	if _, err := look.Submit(t.Context(), c, ""); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	runs, err := tasktest.Drain(ctx, c, look.Handle(func(context.Context, *task.Job[string]) (int, error) {
		if n++; n == 5 {
			cancel()
		}
		return 0, task.Snooze(time.Hour)
	}))
	if !errors.Is(err, context.Canceled) || runs.Count(task.Snoozed) < 5 {
		t.Errorf("%v after %d runs", err, len(runs))
	}
	if _, err := c.RunAll(t.Context(), task.WorkerOptions{Lease: time.Nanosecond}); err == nil {
		t.Error("options are not checked")
	}
}
