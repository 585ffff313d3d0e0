package task_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/task"
)

// fakeTx is a transaction that notes what becomes of it.
type fakeTx struct{ end chan string }

func newFakeTx() *fakeTx { return &fakeTx{make(chan string, 10)} }

func (x *fakeTx) provide(commit error) task.Provider {
	return task.Provide(func(context.Context) (*fakeTx, func(error) error, error) {
		return x, func(err error) error {
			if err != nil {
				x.end <- "rolled back: " + err.Error()
				return nil
			}
			x.end <- "committed"
			return commit
		}, nil
	})
}

// A failing handler rolls its transaction back, also by a panic, and a commit that fails makes the run fail.
func TestCleanupKnowsHowTheRunEnded(t *testing.T) {
	e := newEnv(t)
	for _, c := range []struct {
		name   string
		f      func() error
		commit error
		end    string // of the transaction
		err    string // of the task, "" = done
	}{
		{"done", func() error { return nil }, nil, "committed", ""},
		{"failed", func() error { return errors.New("out of paper") }, nil, "rolled back: out of paper", "out of paper"},
		{"panicked", func() error { panic("out of ink") }, nil, "rolled back: panic: out of ink", "panic: out of ink"},
		{"commit failed", func() error { return nil }, errors.New("serialization failure"), "committed", "serialization failure"},
		{"timed out", func() error { return context.DeadlineExceeded }, nil, "rolled back: context deadline exceeded", "deadline"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newFakeTx()
			kind := task.Define[double, int]("test:"+c.name, task.Positional())
			_, stop := e.start(task.WorkerOptions{Providers: []task.Provider{x.provide(c.commit)}}, kind.Handle(func(ctx context.Context, _ *task.Job[double]) (int, error) {
				if _, err := task.Get[*fakeTx](ctx); err != nil {
					return 0, err
				}
				return 1, c.f()
			}))
			defer stop()
			h, err := kind.Submit(e.ctx(), e.client, double{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = h.Await(e.ctx())
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("Await: %v, want %q", err, c.err)
			}
			if got := <-x.end; got != c.end {
				t.Errorf("the transaction was %s, want %s", got, c.end)
			}
		})
	}
}

// What cannot be kept is not committed.
func TestResultTooLargeRollsBack(t *testing.T) {
	e := newEnv(t)
	x := newFakeTx()
	kind := task.Define[double, string]("test:Large", task.Positional())
	e.start(task.WorkerOptions{}, kind.Handle(func(ctx context.Context, _ *task.Job[double]) (string, error) {
		_, err := task.Get[*fakeTx](ctx)
		return strings.Repeat("x", 2<<20), err
	}).With(x.provide(nil)))
	if _, err := kind.Submit(e.ctx(), e.client, double{}); err != nil {
		t.Fatal(err)
	}
	if got := <-x.end; !strings.HasPrefix(got, "rolled back") {
		t.Errorf("the transaction was %s, want rolled back", got)
	}
}

// Dependencies are made once in a run, at the first Get, and cleaned up in reverse order; those behind one that cannot commit roll back.
func TestDependenciesOfDependencies(t *testing.T) {
	type (
		config  struct{ n int }
		session struct{ c *config }
		unused  struct{}
	)
	var mu sync.Mutex
	var log []string
	note := func(s string) { mu.Lock(); defer mu.Unlock(); log = append(log, s) }
	failed := errors.New("no commit")
	ctx, end := task.Inject(t.Context(),
		task.Provide(func(context.Context) (*config, func(error) error, error) {
			note("make config")
			return &config{1}, func(err error) error { note(fmt.Sprint("config: ", errors.Is(err, failed))); return nil }, nil
		}),
		task.Provide(func(ctx context.Context) (*session, func(error) error, error) {
			c, err := task.Get[*config](ctx)
			note("make session")
			return &session{c}, func(err error) error { note(fmt.Sprint("session: ", err)); return failed }, err
		}),
		task.Provide(func(context.Context) (unused, func(error) error, error) { t.Error("made"); return unused{}, nil, nil }))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if s, err := task.Get[*session](ctx); err != nil || s.c.n != 1 {
				t.Errorf("Get = %v, %v", s, err)
			}
		})
	}
	all.Wait()
	if err := end(nil); !errors.Is(err, failed) {
		t.Errorf("end(nil) = %v, want the failed commit", err)
	}
	if want := []string{"make config", "make session", "session: <nil>", "config: true"}; !slices.Equal(log, want) {
		t.Errorf("%q, want %q", log, want)
	}
	if _, err := task.Get[unused](ctx); err == nil {
		t.Error("Get after the end made something")
	}
}

func TestGetErrors(t *testing.T) {
	type (
		a struct{}
		b struct{}
		c struct{}
	)
	ctx, end := task.Inject(t.Context(),
		task.Provide(func(ctx context.Context) (a, func(error) error, error) {
			_, err := task.Get[b](ctx)
			return a{}, nil, err
		}),
		task.Provide(func(ctx context.Context) (b, func(error) error, error) {
			_, err := task.Get[a](ctx)
			return b{}, nil, err
		}),
		task.Provide(func(context.Context) (c, func(error) error, error) { panic("no") }))
	defer func() {
		if err := end(nil); err != nil {
			t.Error(err)
		}
	}()
	if _, err := task.Get[a](ctx); err == nil || !strings.Contains(err.Error(), "needs itself") {
		t.Errorf("a cycle: %v", err)
	}
	var panicked *task.PanicError
	if _, err := task.Get[c](ctx); !errors.As(err, &panicked) {
		t.Errorf("a provider that panics: %v", err)
	}
	if _, err := task.Get[int](ctx); !errors.Is(err, task.ErrNoProvider) {
		t.Errorf("nobody provides: %v", err)
	}
	if _, err := task.Get[int](t.Context()); !errors.Is(err, task.ErrNoProvider) {
		t.Errorf("outside of runs: %v", err)
	}
}

type wallClock interface{ Now() time.Time }

type stoppedClock struct{ at time.Time }

func (s stoppedClock) Now() time.Time { return s.at }

// A handler's function can be called directly with fakes; it returns its value, and its errors. The last provider of a type wins, so tests
// override what the program provides.
func TestHandlerWithFakes(t *testing.T) {
	execute := func(ctx context.Context, j *task.Job[double]) (time.Time, error) {
		c, err := task.Get[wallClock](ctx)
		if err != nil {
			return time.Time{}, err
		}
		if j.Args.N < 0 {
			return time.Time{}, errors.New("negative")
		}
		return c.Now().Add(time.Duration(j.Args.N)), nil
	}
	at := time.Unix(1000, 0)
	ctx, end := task.Inject(t.Context(), task.Supply[wallClock](stoppedClock{}), task.Supply[wallClock](stoppedClock{at}))
	got, err := execute(ctx, &task.Job[double]{Args: double{5}})
	if err = end(err); err != nil || !got.Equal(at.Add(5)) {
		t.Errorf("%v, %v, want %v", got, err, at.Add(5))
	}
	if _, err := execute(ctx, &task.Job[double]{Args: double{-1}}); err == nil {
		t.Error("the error is lost")
	}
	e := newEnv(t)
	kind := task.Define[double, time.Time]("test:Clock", task.Positional())
	h := kind.Handle(execute).With(task.Supply[wallClock](stoppedClock{}))
	if got, err := kind.Call(e.ctx(), e.client, double{1}, h, task.Supply[wallClock](stoppedClock{at})); err != nil || !got.Equal(at.Add(1)) {
		t.Errorf("Call = %v, %v, want %v", got, err, at.Add(1))
	}
}
