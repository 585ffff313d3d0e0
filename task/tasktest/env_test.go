package tasktest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/task/tasktest"
)

// at collects when something happened.
type at struct {
	mu  sync.Mutex
	all []time.Duration // since the beginning
	t0  time.Time
}

func newAt() *at { return &at{t0: time.Now()} }

func (a *at) now() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, time.Since(a.t0))
}

func (a *at) want(t *testing.T, want ...time.Duration) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Equal(a.all, want) {
		t.Errorf("at %v, want %v", a.all, want)
	}
}

// notes is the handler of a type that notes when it runs.
func notes[T any](typ *task.Type[T, task.None], a *at) task.Handler {
	return typ.Handle(func(context.Context, *task.Job[T]) (none task.None, _ error) { a.now(); return })
}

// sendTo submits a task.
func sendTo[T, R any](t *testing.T, env *tasktest.Env, typ *task.Type[T, R], args T, opts ...task.SubmitOption) *task.Handle[R] {
	t.Helper()
	h, err := typ.Submit(t.Context(), env.Client, args, opts...)
	testenv.Must(t, err)
	return h
}

const day = 24 * time.Hour

// What is due runs at its time, neither before nor after, and Advance ends when it says.
func TestAdvanceRunsWhatIsDue(t *testing.T) {
	typ := task.Define[int, task.None]("test:Delayed")
	synctest.Test(t, func(t *testing.T) {
		env, a := tasktest.New(t, task.Options{}), newAt()
		env.Work(task.WorkerOptions{}, notes(typ, a))
		for _, d := range []time.Duration{time.Hour, time.Millisecond, 3 * time.Second, time.Hour + time.Second, 40 * day} {
			sendTo(t, env, typ, 0, task.In(d))
		}
		env.Advance(0)
		a.want(t)
		env.Advance(time.Hour - time.Millisecond)
		a.want(t, time.Millisecond, 3*time.Second)
		env.Advance(time.Millisecond)
		a.want(t, time.Millisecond, 3*time.Second, time.Hour)
		env.AdvanceTo(a.t0.Add(40 * day))
		a.want(t, time.Millisecond, 3*time.Second, time.Hour, time.Hour+time.Second, 40*day)
		if d := time.Since(a.t0); d != 40*day {
			t.Errorf("%v have passed, want 40 days", d)
		}
		if runs := env.Runs(); len(runs) != 5 || runs.Count(task.Done) != 5 {
			t.Errorf("%+v", runs)
		}
	})
}

func TestRetriesAreAtTheirTime(t *testing.T) {
	typ := task.Define[string, int]("test:Flaky", task.Retry(task.Backoff{Base: 20 * time.Minute, Exact: true}))
	synctest.Test(t, func(t *testing.T) {
		env, a := tasktest.New(t, task.Options{}), newAt()
		env.Work(task.WorkerOptions{}, typ.Handle(func(_ context.Context, j *task.Job[string]) (int, error) {
			a.now()
			if j.Attempt < 3 {
				return 0, errors.New("not yet")
			}
			return j.Attempt, nil
		}))
		h := sendTo(t, env, typ, "x")
		env.Advance(time.Hour)
		a.want(t, 0, 20*time.Minute, time.Hour)
		if r, err := h.Result(t.Context()); err != nil || r.Value != 3 {
			t.Errorf("%+v, %v", r, err)
		}
		if runs := env.Runs().Of(h.ID); runs.Count(task.Retried) != 2 || runs.Outcome() != task.Done {
			t.Errorf("%+v", runs)
		}
	})
}

// By the clock on a wall in Berlin, which is put forward in the second night.
func TestCronFiresAtTheWallClock(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	testenv.Must(t, err)
	typ := task.Define[struct{}, task.None]("test:Daily", task.Cron("0 9 * * *", task.TimeZone(berlin)))
	synctest.Test(t, func(t *testing.T) {
		env := tasktest.New(t, task.Options{})
		env.AdvanceTo(time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC))
		a := newAt()
		env.Schedule(task.SchedulerOptions{}, typ)
		env.Work(task.WorkerOptions{}, notes(typ, a))
		env.Advance(3 * day)
		a.want(t, 8*time.Hour, day+7*time.Hour, 2*day+7*time.Hour)
	})
}

// What a scheduler does at its start it does once, however often time is skipped; without a worker its tasks wait.
func TestScheduleAlone(t *testing.T) {
	typ := task.Define[struct{}, task.None]("test:Start", task.Every(day, task.RunOnStart(), task.QueueUp))
	synctest.Test(t, func(t *testing.T) {
		env := tasktest.New(t, task.Options{})
		env.Schedule(task.SchedulerOptions{}, typ)
		env.Advance(3 * day)
		all := tasktest.Submitted(t, env.Client, typ)
		if len(all) != 4 {
			t.Errorf("%d tasks, want one at the start and three: %+v", len(all), all)
		}
	})
}

// The limit of a run is one of the bubble's time, and handlers see it pass.
func TestTimeLimit(t *testing.T) {
	typ := task.Define[string, int]("test:Slow", task.Timeout(time.Minute), task.Retry(task.Backoff{Base: time.Hour, Retries: 1, Exact: true}))
	synctest.Test(t, func(t *testing.T) {
		env, a := tasktest.New(t, task.Options{}), newAt()
		env.Work(task.WorkerOptions{}, typ.Handle(func(ctx context.Context, j *task.Job[string]) (int, error) {
			if j.Attempt == 1 {
				<-ctx.Done()
				a.now()
				return 0, context.Cause(ctx)
			}
			time.Sleep(30 * time.Second)
			a.now()
			return 1, nil
		}))
		h := sendTo(t, env, typ, "x")
		env.Advance(time.Minute - 1)
		a.want(t)
		env.Advance(day)
		a.want(t, time.Minute, 61*time.Minute+30*time.Second)
		if runs := env.Runs().Of(h.ID); len(runs) != 2 || !errors.Is(runs[0].Err, task.ErrTimeout) || runs[1].Took != 30*time.Second {
			t.Errorf("%+v", runs)
		}
	})
}

// What Redis forgets by itself is forgotten in the bubble's time: unique keys, and results.
func TestWindows(t *testing.T) {
	typ := task.Define[string, int]("test:Unique", task.Unique(time.Hour), task.Retention(2*time.Hour))
	synctest.Test(t, func(t *testing.T) {
		env := tasktest.New(t, task.Options{})
		h := sendTo(t, env, typ, "x")
		again := func() error { _, err := typ.Submit(t.Context(), env.Client, "x"); return err }
		env.Advance(time.Hour - time.Millisecond)
		var twice *task.DuplicateError
		if err := again(); !errors.As(err, &twice) {
			t.Errorf("within the window: %v, want a DuplicateError", err)
		}
		env.Advance(time.Millisecond)
		if err := again(); err != nil {
			t.Errorf("after the window: %v", err)
		}
		env.Work(task.WorkerOptions{}, typ.Handle(func(context.Context, *task.Job[string]) (int, error) { return 1, nil }))
		env.Settle()
		env.Advance(2*time.Hour - time.Millisecond)
		if _, err := h.Result(t.Context()); err != nil {
			t.Errorf("result: %v", err)
		}
		env.Advance(time.Millisecond)
		if _, err := h.Result(t.Context()); !errors.Is(err, task.ErrResultMissing) {
			t.Errorf("result: %v, want ErrResultMissing", err)
		}
	})
}

func TestAggregateIsHandedOverInTime(t *testing.T) {
	typ := task.Define[int, task.None]("test:Collected", task.Aggregate[int]{MaxDelay: time.Hour})
	synctest.Test(t, func(t *testing.T) {
		env, a := tasktest.New(t, task.Options{}), newAt()
		var got []int
		env.Work(task.WorkerOptions{}, typ.HandleBatch(func(_ context.Context, jobs []*task.Job[int]) error {
			a.now()
			for _, j := range jobs {
				got = append(got, j.Args)
			}
			return nil
		}))
		sendTo(t, env, typ, 1)
		env.Advance(59 * time.Minute)
		sendTo(t, env, typ, 2)
		a.want(t)
		env.Advance(day)
		a.want(t, time.Hour)
		if !slices.Equal(got, []int{1, 2}) {
			t.Errorf("%v", got)
		}
	})
}

// Time is not skipped over what another goroutine of the test does.
func TestOthersSubmitMeanwhile(t *testing.T) {
	typ := task.Define[int, task.None]("test:Meanwhile")
	synctest.Test(t, func(t *testing.T) {
		env, a := tasktest.New(t, task.Options{}), newAt()
		env.Work(task.WorkerOptions{}, notes(typ, a))
		time.AfterFunc(7*time.Hour, func() { sendTo(t, env, typ, 0, task.In(time.Hour)) })
		env.Advance(day)
		a.want(t, 8*time.Hour)
	})
}

// Await, too, lets time pass.
func TestAwait(t *testing.T) {
	typ := task.Define[string, int]("test:Await")
	synctest.Test(t, func(t *testing.T) {
		env, begin := tasktest.New(t, task.Options{}), time.Now()
		env.Work(task.WorkerOptions{}, typ.Handle(func(context.Context, *task.Job[string]) (int, error) { time.Sleep(time.Second); return 7, nil }))
		if n, err := sendTo(t, env, typ, "x", task.In(time.Minute)).Await(t.Context()); err != nil || n != 7 || time.Since(begin) != 61*time.Second {
			t.Errorf("%d, %v after %v", n, err, time.Since(begin))
		}
	})
}

// Settle is for what waits and runs, however much that is, and leaves alone what is delayed, or in a paused queue.
func TestSettle(t *testing.T) {
	typ := task.Define[int, task.None]("test:Many")
	rest := task.Define[int, task.None]("test:Rest", task.Background)
	synctest.Test(t, func(t *testing.T) {
		env, begin := tasktest.New(t, task.Options{}), time.Now()
		env.Work(task.WorkerOptions{Concurrency: map[task.Size]int{task.Medium: 10}}, notes(rest, newAt()), typ.Handle(func(_ context.Context, j *task.Job[int]) (none task.None, _ error) {
			time.Sleep(time.Duration(j.Args) * time.Second)
			return
		}))
		testenv.Must(t, env.Client.PauseQueue(t.Context(), rest.Queue()))
		synctest.Wait() // until the worker has heard of it
		sendTo(t, env, rest, 0)
		sendTo(t, env, typ, 0, task.In(time.Hour))
		for i := range 100 {
			sendTo(t, env, typ, i%3)
		}
		env.Settle()
		if n := env.Runs().Count(task.Done); n != 100 {
			t.Errorf("%d runs are done, want 100", n)
		}
		if d := time.Since(begin); d < 10*time.Second || d > 20*time.Second {
			t.Errorf("99 s of work for 10 slots took %v", d)
		}
		env.Advance(time.Hour)
		if n := env.Runs().Count(task.Done); n != 101 {
			t.Errorf("%d runs are done, want 101", n)
		}
		if all := tasktest.Submitted(t, env.Client, rest); len(all) != 1 {
			t.Errorf("in the paused queue: %+v", all)
		}
	})
}

type parcel struct {
	To   string
	When time.Time
}

func TestSubmitted(t *testing.T) {
	typ := task.Define[parcel, string]("test:Parcel", task.Retry(task.Backoff{}))
	other := task.Define[parcel, string]("test:OtherParcel")
	synctest.Test(t, func(t *testing.T) {
		env, now := tasktest.New(t, task.Options{}), time.Now()
		if all := tasktest.Submitted(t, env.Client, typ); len(all) != 0 {
			t.Errorf("%+v", all)
		}
		sendTo(t, env, typ, parcel{"bob", now}, task.In(2*time.Hour))
		sendTo(t, env, typ, parcel{"ada", now}, task.In(time.Hour), task.WithLabels(map[string]string{"tenant": "north"}))
		first := sendTo(t, env, typ, parcel{To: "cyd"})
		sendTo(t, env, other, parcel{"ada", now})
		var got []string
		for _, s := range tasktest.Submitted(t, env.Client, typ) {
			got = append(got, fmt.Sprint(s.Args.To, " ", s.State, " ", s.Due.Sub(now)))
		}
		if want := []string{"cyd waiting", "ada delayed 1h0m0s", "bob delayed 2h0m0s"}; len(got) != 3 || !strings.HasPrefix(got[0], want[0]) || !slices.Equal(got[1:], want[1:]) {
			t.Errorf("%q, want %q", got, want)
		}
		if s := tasktest.RequireSubmitted(t, env.Client, typ, parcel{"ada", now}); s.Labels["tenant"] != "north" || !s.Due.Equal(now.Add(time.Hour)) {
			t.Errorf("%+v", s)
		}
		said := fails(t, func(t testing.TB) { tasktest.RequireSubmitted(t, env.Client, typ, parcel{To: "dan"}) })
		for _, want := range []string{`"test:Parcel"`, "{To:dan", "3 others", "{To:cyd", first.ID, "delayed"} {
			if !strings.Contains(said, want) {
				t.Errorf("%q does not say %q", said, want)
			}
		}
		// The dead have ended.
		env.Work(task.WorkerOptions{}, typ.Handle(func(context.Context, *task.Job[parcel]) (string, error) { return "", task.Cancel(errors.New("lost")) }),
			other.Handle(func(context.Context, *task.Job[parcel]) (string, error) { return "", nil }))
		env.Advance(2 * time.Hour)
		if all := tasktest.Submitted(t, env.Client, typ); len(all) != 0 || env.Runs().Count(task.Dead) != 3 {
			t.Errorf("%+v, %+v", all, env.Runs())
		}
	})
}

// fails calls f with a testing.TB that must fail, and returns what it said.
func fails(t *testing.T, f func(testing.TB)) string {
	t.Helper()
	r, done := &refusing{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		f(r)
		t.Error("the test does not fail")
	}()
	<-done
	return r.said
}

// refusing notes how a test fails, in its stead.
type refusing struct {
	testing.TB
	said string
}

func (r *refusing) Fatal(args ...any)            { r.said = fmt.Sprint(args...); runtime.Goexit() }
func (r *refusing) Fatalf(text string, a ...any) { r.Fatal(fmt.Sprintf(text, a...)) }

// Each misuse fails the test and says what is wrong.
func TestMisuse(t *testing.T) {
	typ := task.Define[int, task.None]("test:Misuse", task.Every(time.Hour), task.Timeout(day))
	for name, c := range map[string]struct {
		use  func(*tasktest.Env)
		want string
	}{
		"negative":      {func(e *tasktest.Env) { e.Advance(-1) }, "-1ns is negative"},
		"past":          {func(e *tasktest.Env) { e.AdvanceTo(time.Now().Add(-time.Hour)) }, "has passed"},
		"no worker":     {func(e *tasktest.Env) { _, _ = typ.Submit(context.Background(), e.Client, 1); e.Settle() }, "1 tasks wait, and there is no worker"},
		"two handlers":  {func(e *tasktest.Env) { e.Work(task.WorkerOptions{}, notes(typ, newAt()), notes(typ, newAt())) }, "two handlers"},
		"two schedules": {func(e *tasktest.Env) { e.Schedule(task.SchedulerOptions{}, typ, typ) }, "two schedules"},
		"never at rest": {func(e *tasktest.Env) {
			e.Work(task.WorkerOptions{}, typ.Handle(func(ctx context.Context, _ *task.Job[int]) (none task.None, _ error) { <-ctx.Done(); return }))
			_, _ = typ.Submit(context.Background(), e.Client, 1)
			e.Settle()
		}, "5m0s 0 tasks wait and 1 run still"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				said := fails(t, func(tb testing.TB) { c.use(tasktest.New(tb, task.Options{})) })
				if !strings.Contains(said, c.want) {
					t.Errorf("%q, want %q", said, c.want)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		if said := fails(t, func(tb testing.TB) { tasktest.New(tb, task.Options{Prefix: "a b"}) }); !strings.Contains(said, "Options.Prefix") {
			t.Errorf("options that New of package task refuses: %q", said)
		}
	})
	if said := fails(t, func(tb testing.TB) { tasktest.New(tb, task.Options{}) }); !strings.Contains(said, "inside synctest.Test") {
		t.Errorf("outside a bubble: %q", said)
	}
}
