package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/task/tasktest"
)

// These tests set the clock. In the bubble of synctest.Test time stands still while anything is at work, and Advance makes it pass: nobody sleeps, and three days take
// a moment.

var (
	bill   = task.Define[string, string]("office:Bill", task.Retry(task.Backoff{Base: 20 * time.Minute, Exact: true}))
	remind = task.Define[string, task.None]("office:Remind")
	lockUp = task.Define[struct{}, task.None]("office:LockUp", task.Cron("0 18 * * *"))
)

// The bank is away twice: the second attempt comes 20 minutes after the first, the third 40 minutes after that.
func TestBillIsPaidWithinTheHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := tasktest.New(t, task.Options{})
		env.Work(task.WorkerOptions{}, bill.Handle(func(_ context.Context, j *task.Job[string]) (string, error) {
			if j.Attempt < 3 {
				return "", errors.New("the bank is away")
			}
			return time.Now().Format("paid at 15:04"), nil
		}))
		h, err := bill.Submit(t.Context(), env.Client, "B-1")
		if err != nil {
			t.Fatal(err)
		}
		env.Advance(time.Hour)
		if text, err := h.Await(t.Context()); err != nil || text != "paid at 01:00" {
			t.Errorf("%q, %v", text, err)
		}
		if n := env.Runs().Of(h.ID).Count(task.Retried); n != 2 {
			t.Errorf("%d attempts failed, want 2", n)
		}
	})
}

// A task for later: what was submitted, when it is due, and that it runs then and not before.
func TestReminder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := tasktest.New(t, task.Options{})
		if _, err := remind.Submit(t.Context(), env.Client, "tea", task.In(time.Hour)); err != nil {
			t.Fatal(err)
		}
		s := tasktest.RequireSubmitted(t, env.Client, remind, "tea")
		if !s.Due.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("due at %v", s.Due)
		}
		env.Work(task.WorkerOptions{}, remind.Handle(func(context.Context, *task.Job[string]) (none task.None, _ error) { return }))
		env.Advance(time.Hour - time.Second)
		if runs := env.Runs(); len(runs) != 0 {
			t.Errorf("too early: %+v", runs)
		}
		env.Advance(time.Second)
		if env.Runs().Of(s.ID).Outcome() != task.Done {
			t.Errorf("%+v", env.Runs())
		}
	})
}

// Three days, three evenings.
func TestLockUpEachEvening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := tasktest.New(t, task.Options{})
		env.Schedule(task.SchedulerOptions{}, lockUp)
		env.Work(task.WorkerOptions{}, lockUp.Handle(func(context.Context, *task.Job[struct{}]) (none task.None, _ error) {
			if hour := time.Now().Hour(); hour != 18 {
				t.Errorf("locked up at %d o'clock", hour)
			}
			return
		}))
		env.Advance(3 * 24 * time.Hour)
		if n := env.Runs().Count(task.Done); n != 3 {
			t.Errorf("%d times, want 3", n)
		}
	})
}

// The shelves are looked at twice a second, whatever the machine does meanwhile.
func TestStock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, o := tasktest.New(t, task.Options{}), new(office)
		env.Schedule(task.SchedulerOptions{}, Stock)
		env.Work(task.WorkerOptions{}, o.handlers()...)
		env.Advance(10 * time.Second)
		if n := len(o.looked); n != 20 {
			t.Errorf("%d looks in ten seconds, want 20", n)
		}
	})
}
