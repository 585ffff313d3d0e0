package goworkflows_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/worker"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// alarms sets timers that are all due at one time, and counts those that fire.
func alarms(ctx gowf.Context, n int, due time.Time) (int, error) {
	set := make([]gowf.Future[any], n)
	for k := range set {
		set[k] = gowf.ScheduleTimer(ctx, due.Sub(gowf.Now(ctx)))
	}
	fired := 0
	for _, timer := range set {
		if _, err := timer.Get(ctx); err != nil {
			return fired, err
		}
		fired++
	}
	return fired, nil
}

// Ten thousand timers are due at once: each fires, once.
func TestTimersDueAtOnce(t *testing.T) {
	t.Parallel()
	const instances, each = 100, 100
	b := open(t, testenv.Redis(t), quiet)
	o := worker.DefaultOptions
	o.WorkflowPollers = 16
	work(t, goworkflows.NewWorker(b, &o), []any{alarms}, nil)
	c := client.New(b)
	due := time.Now().Add(2 * time.Second) // most are set before
	var started []*gowf.Instance
	for n := range instances {
		started = append(started, create(t, c, fmt.Sprint("alarms-", n), alarms, each, due))
	}
	for _, i := range started {
		if got, err := goworkflows.Result[int](t.Context(), b, i); got != each || err != nil {
			t.Errorf("%s: %d, %v", i.InstanceID, got, err)
		}
		past, err := b.GetWorkflowInstanceHistory(t.Context(), i, nil)
		if err != nil {
			t.Fatal(err)
		}
		fired := map[int64]int{}
		for _, e := range past {
			if e.Type == history.EventType_TimerFired {
				fired[e.ScheduleEventID]++
			}
		}
		for ref, n := range fired {
			if n != 1 {
				t.Errorf("%s: timer %d fired %d times", i.InstanceID, ref, n)
			}
		}
		if len(fired) != each {
			t.Errorf("%s: %d timers fired", i.InstanceID, len(fired))
		}
	}
	t.Logf("all had fired, and been seen, %s after they were due", time.Since(due))
	sound(t, b)
}

// How late a timer is when nothing else is to be done is only told: the machine may be busy.
func TestTimerAtIdle(t *testing.T) {
	t.Parallel()
	b := open(t, testenv.Redis(t), quiet)
	late := func(ctx gowf.Context) (time.Duration, error) {
		due := gowf.Now(ctx).Add(300 * time.Millisecond)
		err := gowf.Sleep(ctx, 300*time.Millisecond)
		return gowf.Now(ctx).Sub(due), err
	}
	work(t, goworkflows.NewWorker(b, nil), []any{late}, nil)
	c := client.New(b)
	for n := range 5 {
		got, err := goworkflows.Result[time.Duration](t.Context(), b, create(t, c, fmt.Sprint("late-", n), late))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s late", got)
		if got < 0 {
			t.Errorf("%s early", -got)
		}
	}
}
