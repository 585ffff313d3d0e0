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
	work(t, goworkflows.NewWorker(b, nil), []any{greet, refuse, heard, onceMore, both}, nil)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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
	testenv.Must(t, err)
	if got, err := goworkflows.Result[string](ctx, b, i); got != "hello world" || err != nil {
		t.Errorf("result %q, %v", got, err)
	}
	found, err := b.Client().List(ctx, workflow.Filter{Attributes: map[string]string{"customer": "7"}})
	if err != nil || len(found) != 1 || found[0].ID != "a" {
		t.Errorf("found %+v, %v", found, err)
	}
	i, err = b.Start(ctx, named("b"), refuse)
	testenv.Must(t, err)
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

// both returns the first two signals.
func both(ctx gowf.Context) (string, error) {
	texts := gowf.NewSignalChannel[string](ctx, "text")
	first, _ := texts.Receive(ctx)
	second, _ := texts.Receive(ctx)
	return first + ", " + second, nil
}

// A signal with an id counts once, and one that starts an instance if none is active says whether it did.
func TestSignals(t *testing.T) {
	b, ctx := helped(t)
	if _, err := b.Start(ctx, named("a"), both); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		testenv.Must(t, b.SignalOnce(ctx, "event-one", "a", "text", "one"))
	}
	if started, err := b.SignalWithStart(ctx, "text", "two", named("a"), both); err != nil || started {
		t.Fatalf("started %v, %v", started, err)
	}
	if started, err := b.SignalWithStart(ctx, "text", "first", named("b"), heard); err != nil || !started {
		t.Fatalf("started %v, %v", started, err)
	}
	for id, want := range map[string]string{"a": "one, two", "b": "first"} {
		if got, err := goworkflows.Result[string](ctx, b, &gowf.Instance{InstanceID: id}); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", id, got, err, want)
		}
	}
	if err := b.SignalOnce(ctx, "event-three", "a", "text", "three"); !errors.Is(err, backend.ErrInstanceNotFound) {
		t.Errorf("to one that has ended: %v", err)
	}
	if err := b.SignalOnce(ctx, "", "a", "text", "four"); err == nil || errors.Is(err, backend.ErrInstanceNotFound) {
		t.Errorf("without an id: %v", err)
	}
}

// What continues as new keeps its attributes and its gate; the library's client knows one that was terminated.
func TestContinuedAndTerminated(t *testing.T) {
	b, ctx := helped(t)
	o := named("a")
	o.Gate, o.Attributes = &workflow.Gate{Key: "press", Max: 1}, map[string]string{"customer": "7"}
	first, err := b.Start(ctx, o, onceMore, 0)
	testenv.Must(t, err)
	testenv.Must(t, b.Wait(ctx, first)) // it has continued
	now, err := b.Client().Info(ctx, workflow.Instance{ID: "a"})
	if err != nil || now.Execution == first.ExecutionID || now.Gate == nil || now.Gate.Key != "press" || now.Attributes["customer"] != "7" {
		t.Fatalf("continued as %+v, %v", now, err)
	}
	testenv.Must(t, b.Client().Terminate(ctx, now.Instance, "not needed"))
	if _, err := goworkflows.Result[string](ctx, b, &gowf.Instance{InstanceID: "a"}); !errors.Is(err, client.ErrWorkflowTerminated) {
		t.Errorf("terminated: %v", err)
	}
}

func TestSchedule(t *testing.T) {
	b, ctx := helped(t)
	o := goworkflows.ScheduleOptions{StartOptions: named("hourly"), Missed: schedule.Skip, Exclusive: true}
	testenv.Must(t, b.Schedule(ctx, schedule.Every(time.Second).String(), o, greet, "again"))
	if s, err := b.Client().Schedule(ctx, "hourly"); err != nil || s.Missed != schedule.Skip || !s.Exclusive {
		t.Errorf("%+v, %v", s, err)
	}
	testenv.Eventually(t, "two of them have ended", func() bool {
		list, err := b.Client().List(ctx, workflow.Filter{Outcome: workflow.Completed})
		testenv.Must(t, err)
		for _, i := range list {
			if got, err := goworkflows.Result[string](ctx, b, &gowf.Instance{InstanceID: i.ID, ExecutionID: i.Execution}); got != "hello again" || err != nil {
				t.Errorf("result of %s: %q, %v", i.ID, got, err)
			}
		}
		return len(list) > 1
	})
	testenv.Must(t, b.Client().RemoveSchedule(ctx, "hourly"))
}
