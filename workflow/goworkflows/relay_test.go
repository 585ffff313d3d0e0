package goworkflows_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/worker"
	gowf "github.com/cschleiden/go-workflows/workflow"
	"pgregory.net/rapid"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// leg is what one execution of a relay does before it continues as new.
type leg struct {
	Kind string // what else it does but receiving
	Take int    // signals, at the least
}

// relayPlan is what a relay does, one leg after the other and from the first again, until it has all signals.
type relayPlan struct {
	Legs    []leg
	Signals int
}

var lines = []string{"a", "b"} // names of its signals

func tick(context.Context) error { return nil }

// relayed is what a relay has received, by name and in its order, and in how many executions.
type relayed struct {
	Got        [][]int
	Executions int
}

func relay(ctx gowf.Context, plan relayPlan, at int, got [][]int) (relayed, error) {
	var channels []gowf.Channel[int]
	for _, name := range lines {
		channels = append(channels, gowf.NewSignalChannel[int](ctx, name))
	}
	have := func() int { return len(got[0]) + len(got[1]) }
	arms := make([]gowf.SelectCase, 0, len(lines)+1)
	for k, c := range channels {
		arms = append(arms, gowf.Receive(c, func(_ gowf.Context, n int, _ bool) { got[k] = append(got[k], n) }))
	}
	// beside receives what comes until something else is done.
	beside := func(other gowf.Future[any]) {
		done := false
		for all := append(arms, gowf.Await(other, func(gowf.Context, gowf.Future[any]) { done = true })); !done; {
			gowf.Select(ctx, all...)
		}
	}
	now := plan.Legs[at%len(plan.Legs)]
	for want := min(have()+now.Take, plan.Signals); have() < want; {
		gowf.Select(ctx, arms...)
	}
	switch now.Kind {
	case "activity":
		beside(gowf.ExecuteActivity[any](ctx, gowf.DefaultActivityOptions, tick))
	case "timer":
		beside(gowf.ScheduleTimer(ctx, time.Millisecond))
	case "busy": // it hears nothing meanwhile, and so it looks for what came before it continues
		if _, err := gowf.ExecuteActivity[any](ctx, gowf.DefaultActivityOptions, tick).Get(ctx); err != nil {
			return relayed{}, err
		}
		for k, c := range channels {
			for n, ok := c.ReceiveNonBlocking(); ok; n, ok = c.ReceiveNonBlocking() {
				got[k] = append(got[k], n)
			}
		}
	}
	if have() >= plan.Signals {
		return relayed{got, at + 1}, nil
	}
	return relayed{}, gowf.ContinueAsNew(ctx, plan, at+1, got)
}

// Signals that are sent at any moment to an instance that continues as new many times all arrive, once and in their order. Two processes work on it.
func TestSignalsOverContinuations(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	url := fmt.Sprintf("%s?prefix=%s", srv.URL, srv.Prefix(t))
	var b *goworkflows.Backend
	for _, size := range []int{1, 100} { // executors: one replays nearly always
		var err error
		if b, err = goworkflows.Open(t.Context(), url, quiet); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { shut(t, b) })
		o := worker.DefaultOptions
		o.WorkflowExecutorCacheSize = size
		work(t, goworkflows.NewWorker(b, &o), []any{relay}, []any{tick})
	}
	runs, executions := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		plan := relayPlan{Legs: rapid.SliceOfN(rapid.Custom(func(r *rapid.T) leg {
			return leg{rapid.SampledFrom([]string{"", "activity", "timer", "busy"}).Draw(r, "kind"), rapid.IntRange(0, 2).Draw(r, "take")}
		}), 1, 4).Draw(r, "legs")}
		if !slices.ContainsFunc(plan.Legs, func(l leg) bool { return l.Kind != "" || l.Take > 0 }) {
			plan.Legs[0].Take = 1 // else it continues without ever waiting
		}
		gaps := make([][]int, len(lines)) // before each signal of a name, in questions to Redis
		for k, name := range lines {
			gaps[k] = rapid.SliceOfN(rapid.SampledFrom([]int{0, 0, 0, 1, 5, 20}), 1, 12).Draw(r, "before each "+name)
			plan.Signals += len(gaps[k])
		}
		ctx, cancel := context.WithTimeout(context.Background(), heardWithin)
		defer cancel()
		c := client.New(b)
		runs++
		id := fmt.Sprint("relay-", runs)
		if _, err := c.CreateWorkflowInstance(ctx, client.WorkflowInstanceOptions{InstanceID: id}, relay, plan, 0, [][]int{{}, {}}); err != nil {
			r.Fatal(err)
		}
		var all sync.WaitGroup
		failed := make([]error, len(lines))
		for k, name := range lines {
			all.Go(func() {
				for n, gap := range gaps[k] {
					for range gap {
						_, _ = b.Client().Info(ctx, workflow.Instance{ID: id}) // only takes time
					}
					if failed[k] = c.SignalWorkflow(ctx, id, name, n); failed[k] != nil {
						return
					}
				}
			})
		}
		all.Wait()
		for _, err := range failed {
			if err != nil {
				r.Fatal(err)
			}
		}
		end, err := outcomeOf[relayed](ctx, b, id)
		if err != nil {
			r.Fatal(err)
		}
		executions += end.Executions
		for k, name := range lines {
			want := make([]int, len(gaps[k]))
			for n := range want {
				want[n] = n
			}
			if !slices.Equal(end.Got[k], want) {
				r.Fatalf("signals %s: received %v of %d", name, end.Got[k], len(want))
			}
		}
	})
	if executions < 3*runs {
		t.Errorf("%d executions of %d instances: they hardly ever continue", executions, runs)
	}
}

// outcomeOf waits for the end of an instance that continues, and returns its result.
func outcomeOf[T any](ctx context.Context, b *goworkflows.Backend, id string) (got T, err error) {
	var i workflow.Info
	for i.State != workflow.Finished {
		if i, err = b.Client().Info(ctx, workflow.Instance{ID: id}); err != nil {
			return got, err
		}
		if i, _, err = b.Client().Await(ctx, i.Instance); err != nil {
			return got, err
		}
	}
	return goworkflows.Result[T](ctx, b, &gowf.Instance{InstanceID: i.ID, ExecutionID: i.Execution})
}
