package goworkflows_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/worker"
	gowf "github.com/cschleiden/go-workflows/workflow"
	"go.uber.org/goleak"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow/goworkflows"
)

var quiet = backend.WithLogger(slog.New(slog.DiscardHandler))

// work runs a worker that is stopped, and waited for, when the test ends, or by stop.
func work(t testing.TB, w *worker.Worker, workflows, activities []any) (stop func()) {
	t.Helper()
	for _, f := range workflows {
		testenv.Must(t, w.RegisterWorkflow(f))
	}
	for _, f := range activities {
		testenv.Must(t, w.RegisterActivity(f))
	}
	ctx, cancel := context.WithCancel(context.Background())
	testenv.Must(t, w.Start(ctx))
	over := false
	stop = func() {
		if over {
			return
		}
		over = true
		cancel()
		if err := w.WaitForCompletion(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func create(t testing.TB, c *client.Client, id string, workflow any, args ...any) *gowf.Instance {
	t.Helper()
	i, err := c.CreateWorkflowInstance(t.Context(), client.WorkflowInstanceOptions{InstanceID: id}, workflow, args...)
	testenv.Must(t, err)
	return i
}

var patience = testenv.Patience

// The library's cache closes executors at work when it is full: with 16 places and 100 instances of 10 activities most of them fail or end without a result.
func TestFullCacheHarmsNobody(t *testing.T) {
	srv := testenv.Redis(t)
	before := goleak.IgnoreCurrent()
	b := open(t, srv, quiet)
	square := func(_ context.Context, n int) (int, error) { return n * n, nil }
	sum := sumOf(square)
	o := worker.DefaultOptions
	o.WorkflowExecutorCacheSize = 16
	o.WorkflowPollers, o.ActivityPollers = 16, 16
	stop := work(t, goworkflows.NewWorker(b, &o), []any{sum}, []any{square})

	startSums(t, b, sum, 120)()
	stop()
	shut(t, b)
	goleak.VerifyNone(t, before)
}

// sumOf is a workflow that adds up ten squares from a number on, each by an activity.
func sumOf(square any) func(gowf.Context, int) (int, error) {
	return func(ctx gowf.Context, from int) (int, error) {
		s := 0
		for n := from; n < from+10; n++ {
			sq, err := gowf.ExecuteActivity[int](ctx, gowf.DefaultActivityOptions, square, n).Get(ctx)
			if err != nil {
				return 0, err
			}
			s += sq
		}
		return s, nil
	}
}

// startSums starts instances of sumOf from 0, 1, 2 on. want waits for their ends, and compares their results.
func startSums(t testing.TB, b *goworkflows.Backend, sum any, instances int) (want func()) {
	t.Helper()
	c := client.New(b)
	started := make([]*gowf.Instance, instances)
	for n := range started {
		started[n] = create(t, c, fmt.Sprint("sum-", n), sum, n)
	}
	return func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for n, i := range started {
			want := 0
			for k := n; k < n+10; k++ {
				want += k * k
			}
			if got, err := client.GetWorkflowResult[int](ctx, c, i, patience); got != want || err != nil {
				t.Errorf("%s: %d, %v, want %d", i.InstanceID, got, err, want)
			}
		}
	}
}

// Executors of workflows that wait are goroutines: none is left when the worker and the backend are gone.
func TestNoExecutorOutlivesItsWorker(t *testing.T) {
	srv := testenv.Redis(t)
	before := goleak.IgnoreCurrent()
	b := open(t, srv, quiet)
	reached := make(chan struct{}, 20)
	waits := func(ctx gowf.Context) error {
		reached <- struct{}{}
		gowf.NewSignalChannel[int](ctx, "never").Receive(ctx)
		return nil
	}
	stop := work(t, goworkflows.NewWorker(b, nil), []any{waits}, nil)
	c := client.New(b)
	for n := range cap(reached) {
		create(t, c, fmt.Sprint("waits-", n), waits)
	}
	for range cap(reached) {
		<-reached
	}
	stop()
	shut(t, b)
	goleak.VerifyNone(t, before)
}
