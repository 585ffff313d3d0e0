package goworkflows_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/client"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/schedule"
	"github.com/taktworks/takt/workflow"
	"github.com/taktworks/takt/workflow/goworkflows"
)

var heardWithin = testenv.Patience // only used up when something hangs

func greet(_ gowf.Context, name string) (string, error) { return "hello " + name, nil }

func refuse(gowf.Context) (string, error) { return "", errors.New("no") }

// onceMore goes on in another execution once, and then waits for a signal.
func onceMore(ctx gowf.Context, round int) (string, error) {
	if round == 0 {
		return "", gowf.ContinueAsNew(ctx, 1)
	}
	return heard(ctx)
}

// heard returns the first signal.
func heard(ctx gowf.Context) (string, error) {
	text, _ := gowf.NewSignalChannel[string](ctx, "text").Receive(ctx)
	return text, nil
}

// helped is a backend with a worker for the workflows above.
func helped(t *testing.T) (*goworkflows.Backend, context.Context) {
	t.Helper()
	b := open(t, testenv.Redis(t))
	w := goworkflows.NewWorker(b, nil)
	for _, f := range []any{greet, refuse, heard, onceMore, both} {
		if err := w.RegisterWorkflow(f); err != nil {
			t.Fatal(err)
		}
	}
	run, stop := context.WithCancel(context.Background())
	if err := w.Start(run); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := w.WaitForCompletion(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), heardWithin)
	t.Cleanup(cancel)
	return b, ctx
}

func named(id string) goworkflows.StartOptions {
	return goworkflows.StartOptions{WorkflowInstanceOptions: client.WorkflowInstanceOptions{InstanceID: id}}
}

func TestStartAndResult(t *testing.T) {
	b, ctx := helped(t)
	o := named("a")
	o.Attributes = map[string]string{"customer": "7"}
	i, err := b.Start(ctx, o, greet, "world")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := goworkflows.Result[string](ctx, b, i); got != "hello world" || err != nil {
		t.Errorf("result %q, %v", got, err)
	}
	found, err := b.Client().List(ctx, workflow.Filter{Attributes: map[string]string{"customer": "7"}})
	if err != nil || len(found) != 1 || found[0].ID != "a" {
		t.Errorf("found %+v, %v", found, err)
	}
	if i, err = b.Start(ctx, named("b"), refuse); err != nil {
		t.Fatal(err)
	}
	if _, err := goworkflows.Result[string](ctx, b, i); err == nil || err.Error() != "no" {
		t.Errorf("error %v", err)
	}
	if _, err := b.Start(ctx, named("c"), greet); err == nil {
		t.Error("a missing argument is taken")
	}
	if _, err := b.Start(ctx, named("d"), heard); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Start(ctx, named("d"), heard); !errors.Is(err, backend.ErrInstanceAlreadyExists) {
		t.Errorf("a second one: %v", err)
	}
}

func TestSignalWithStart(t *testing.T) {
	b, ctx := helped(t)
	started, err := b.SignalWithStart(ctx, "text", "first", named("a"), heard)
	if err != nil || !started {
		t.Fatalf("started %v, %v", started, err)
	}
	if got, err := goworkflows.Result[string](ctx, b, &gowf.Instance{InstanceID: "a"}); got != "first" || err != nil {
		t.Errorf("result %q, %v", got, err)
	}
	if _, err := b.Start(ctx, named("b"), heard); err != nil {
		t.Fatal(err)
	}
	if started, err = b.SignalWithStart(ctx, "text", "second", named("b"), heard); err != nil || started {
		t.Fatalf("started %v, %v", started, err)
	}
	if got, err := goworkflows.Result[string](ctx, b, &gowf.Instance{InstanceID: "b"}); got != "second" || err != nil {
		t.Errorf("result %q, %v", got, err)
	}
}

// both returns the first two signals.
func both(ctx gowf.Context) (string, error) {
	texts := gowf.NewSignalChannel[string](ctx, "text")
	first, _ := texts.Receive(ctx)
	second, _ := texts.Receive(ctx)
	return first + ", " + second, nil
}

func TestSignalOnce(t *testing.T) {
	b, ctx := helped(t)
	i, err := b.Start(ctx, named("a"), both)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "one", "two"} {
		if err := b.SignalOnce(ctx, "event-"+text, "a", "text", text); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := goworkflows.Result[string](ctx, b, i); got != "one, two" || err != nil {
		t.Errorf("result %q, %v", got, err)
	}
	if err := b.SignalOnce(ctx, "event-three", "a", "text", "three"); !errors.Is(err, backend.ErrInstanceNotFound) {
		t.Errorf("to one that has ended: %v", err)
	}
	if err := b.SignalOnce(ctx, "", "a", "text", "four"); err == nil || errors.Is(err, backend.ErrInstanceNotFound) {
		t.Errorf("without an id: %v", err)
	}
}

func TestGate(t *testing.T) {
	b, ctx := helped(t)
	o := named("")
	o.Gate = &workflow.Gate{Key: "press", Max: 1}
	for _, id := range []string{"a", "b"} {
		o.InstanceID = id
		if _, err := b.Start(ctx, o, heard); err != nil {
			t.Fatal(err)
		}
	}
	c := client.New(b)
	for _, id := range []string{"b", "a"} { // b has its signal, and does not run before a has ended
		if err := c.SignalWorkflow(ctx, id, "text", id); err != nil {
			t.Fatal(err)
		}
	}
	var ended [2]workflow.Info
	for n, id := range []string{"a", "b"} {
		if err := b.Wait(ctx, &gowf.Instance{InstanceID: id}); err != nil {
			t.Fatal(err)
		}
		var err error
		if ended[n], err = b.Client().Info(ctx, workflow.Instance{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	if ended[1].Ended.Before(*ended[0].Ended) {
		t.Errorf("b ended at %v, before a at %v", ended[1].Ended, ended[0].Ended)
	}
}

// What continues as new keeps its attributes and its place at the gate.
func TestGateOverContinuation(t *testing.T) {
	b, ctx := helped(t)
	o := named("a")
	o.Gate, o.Attributes = &workflow.Gate{Key: "press", Max: 1}, map[string]string{"customer": "7"}
	first, err := b.Start(ctx, o, onceMore, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Wait(ctx, first); err != nil { // it has continued
		t.Fatal(err)
	}
	now, err := b.Client().Info(ctx, workflow.Instance{ID: "a"})
	if err != nil || now.Execution == first.ExecutionID || now.Gate == nil || now.Gate.Key != "press" || now.Attributes["customer"] != "7" {
		t.Fatalf("continued as %+v, %v", now, err)
	}
	o.InstanceID = "b"
	if _, err := b.Start(ctx, o, greet, "world"); err != nil {
		t.Fatal(err)
	}
	if d, err := b.Client().Detail(ctx, workflow.Instance{ID: "b"}); err != nil || !d.AtGate {
		t.Errorf("b does not wait at the gate: %+v, %v", d, err)
	}
	if err := client.New(b).SignalWorkflow(ctx, "a", "text", "go"); err != nil {
		t.Fatal(err)
	}
	if got, err := goworkflows.Result[string](ctx, b, &gowf.Instance{InstanceID: "b"}); got != "hello world" || err != nil {
		t.Errorf("result %q, %v", got, err)
	}
}

func TestSchedule(t *testing.T) {
	b, ctx := helped(t)
	if err := b.Schedule(ctx, schedule.Every(time.Second).String(), goworkflows.ScheduleOptions{StartOptions: named("hourly")}, greet, "again"); err != nil {
		t.Fatal(err)
	}
	ended := map[string]bool{}
	for len(ended) < 2 {
		if ctx.Err() != nil {
			t.Fatal("the schedule starts nothing")
		}
		list, err := b.Client().List(ctx, workflow.Filter{Outcome: workflow.Completed})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range list {
			if got, err := goworkflows.Result[string](ctx, b, &gowf.Instance{InstanceID: i.ID, ExecutionID: i.Execution}); got != "hello again" || err != nil {
				t.Errorf("result of %s: %q, %v", i.ID, got, err)
			}
			ended[i.ID] = true
		}
	}
	if err := b.Client().RemoveSchedule(ctx, "hourly"); err != nil {
		t.Fatal(err)
	}
}

// An exclusive schedule starts nothing beside a program that has continued as new.
func TestScheduleExclusive(t *testing.T) {
	b, ctx := helped(t)
	o := goworkflows.ScheduleOptions{StartOptions: named("alone"), Missed: schedule.Skip, Exclusive: true}
	if err := b.Schedule(ctx, schedule.Every(200*time.Millisecond).String(), o, onceMore, 0); err != nil {
		t.Fatal(err)
	}
	var s workflow.Schedule
	for s.Skipped < 5 {
		all, err := b.Client().Schedules(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s = all[0]
	}
	if s.Missed != schedule.Skip || !s.Exclusive {
		t.Errorf("%+v", s)
	}
	if st, err := b.Client().Stats(ctx); err != nil || st.Active != 1 || st.Counters["started"] != 2 {
		t.Errorf("%+v, %v: want one that has continued as new", st, err)
	}
	if err := b.Client().RemoveSchedule(ctx, "alone"); err != nil {
		t.Fatal(err)
	}
}
