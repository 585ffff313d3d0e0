package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/task/tasktest"
)

// These tests need no Redis: Try and Run call one handler in memory, Client and Drain have a Redis inside the test.

// fakePost answers as the test says.
type fakePost struct{ err error }

func (p fakePost) Deliver(context.Context, int, Letter) error { return p.err }

// What the handler returns, and what a worker would make of it.
func TestMail(t *testing.T) {
	closed := errors.New("closed")
	for name, c := range map[string]struct {
		post    fakePost
		to      string
		attempt int
		want    task.Outcome
	}{
		"delivered":    {fakePost{}, "ada@example.org", 1, task.Done},
		"closed":       {fakePost{closed}, "ada@example.org", 1, task.Retried},
		"closed again": {fakePost{closed}, "ada@example.org", 3, task.Dead},
		"no address":   {fakePost{}, "nobody", 1, task.Dead},
	} {
		t.Run(name, func(t *testing.T) {
			o := &office{post: c.post}
			run, err := tasktest.Try(t.Context(), Mail, Mail.Handle(o.mail), Letter{To: c.to}, tasktest.Attempt(c.attempt))
			if err != nil {
				t.Fatal(err)
			}
			if run.Outcome != c.want {
				t.Errorf("%s, %v; want %s", run.Outcome, run.Err, c.want)
			}
			if run.Outcome == task.Retried && (run.Delay < 50*time.Millisecond || run.Delay > 100*time.Millisecond) {
				t.Errorf("runs again after %v", run.Delay)
			}
		})
	}
}

// A handler gives up when its context ends.
func TestPackIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(task.ErrCancelled)
	o := new(office)
	if _, err := tasktest.Run(ctx, Pack, Pack.Handle(o.pack), Parcel{"ada", 1}); !errors.Is(err, task.ErrCancelled) {
		t.Errorf("%v, want ErrCancelled", err)
	}
}

// Tasks that belong together: Drain runs whatever was submitted, and what that submits, until nothing is left.
func TestReport(t *testing.T) {
	client := tasktest.Client(t)
	o := new(office)
	group, err := task.Spawn(t.Context(), client, []task.Pending{Count.With("north"), Count.With("west")}, Report.With("2026-11-22"))
	if err != nil {
		t.Fatal(err)
	}
	runs, err := tasktest.Drain(t.Context(), client, o.handlers()...)
	if err != nil || runs.Count(task.Done) != 3 {
		t.Fatalf("%v: %+v", err, runs)
	}
	text, err := Report.HandleOf(client, group.CallbackID()).Await(t.Context())
	if want := "900 items in 2 warehouses on 2026-11-22"; err != nil || text != want {
		t.Errorf("%q, %v; want %q", text, err, want)
	}
}

// Retries do not wait in Drain.
func TestMailEndsAtTheThirdAttempt(t *testing.T) {
	client := tasktest.Client(t)
	o := &office{post: &flakyPost{}}
	h, err := Mail.Submit(t.Context(), client, Letter{To: "ada@example.org"})
	if err != nil {
		t.Fatal(err)
	}
	runs, err := tasktest.Drain(t.Context(), client, o.handlers()...)
	if err != nil || runs.Of(h.ID).Outcome() != task.Done || runs.Count(task.Retried) != 2 {
		t.Errorf("%v: %+v", err, runs)
	}
}
