package goworkflows_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/core"
	"github.com/cschleiden/go-workflows/worker"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// same starts each instance as the same execution.
type same struct {
	*goworkflows.Backend
	execution *core.WorkflowInstance
}

func (s same) CreateWorkflowInstance(ctx context.Context, _ *core.WorkflowInstance, e *history.Event) error {
	return s.Backend.CreateWorkflowInstance(ctx, s.execution, e)
}

// An execution goes on with another worker and comes back to the first one, which has kept what it knows of it. Where Redis has lost its data in between, and the execution has taken another
// course since, that must not be used; where it has not, it must.
func TestWhatIsKeptOfThePast(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		lost      bool
		elsewhere int // signals that the other worker sees
		runs      int // how often the code begins, with all workers together
	}{{true, 0, 3}, {true, 1, 3}, {true, 2, 3}, {false, 1, 2}, {false, 2, 2}} {
		t.Run(fmt.Sprintf("lost=%v,elsewhere=%d", x.lost, x.elsewhere), func(t *testing.T) {
			t.Parallel()
			srv := testenv.Redis(t)
			proxy := testenv.CountingProxy(t, srv.URL)
			prefix := srv.Prefix(t)
			at := func(url string) *goworkflows.Backend {
				return openAt(t, fmt.Sprintf("%s?prefix=%s&lease=%s", url, prefix, dyingLease), quiet)
			}
			const signals = 3
			var runs atomic.Int64
			sum := func(ctx gowf.Context, n int) (int, error) {
				runs.Add(1)
				more := gowf.NewSignalChannel[int](ctx, "more")
				for range signals {
					v, _ := more.Receive(ctx)
					n += v
				}
				return n, nil
			}
			first, b := at(proxy.URL), at(srv.URL)
			o := worker.DefaultOptions
			o.WorkflowExecutorCacheTTL = patience
			work(t, goworkflows.NewWorker(first, &o), []any{sum}, nil)
			i := core.NewWorkflowInstance("sum", "the-same")
			c := client.New(same{b, i})
			begin := func(n int) {
				t.Helper()
				create(t, c, "sum", sum, n)
			}
			// recorded waits until nothing is left to be done.
			recorded := func(last int64) {
				t.Helper()
				testenv.Eventually(t, "it is recorded", func() bool {
					info, err := b.Client().Info(t.Context(), workflow.Instance{ID: "sum"})
					return err == nil && info.LastSequence == last
				})
			}
			begin(1000)
			recorded(2)
			proxy.Refuse(true)
			proxy.Cut()
			want := 1006
			if x.lost {
				want = 2006
				testenv.Must(t, srv.Client.Do(t.Context(), srv.Client.B().Flushall().Build()).Error())
				begin(2000)
			}
			other := at(srv.URL)
			stop := work(t, goworkflows.NewWorker(other, nil), []any{sum}, nil)
			recorded(2)
			for n := range signals {
				if n == x.elsewhere {
					stop()
					shut(t, other)
					proxy.Refuse(false)
				}
				testenv.Must(t, c.SignalWorkflow(t.Context(), "sum", "more", 1+n))
				if n < signals-1 {
					recorded(int64(4 + 2*n))
				}
			}
			if got, err := client.GetWorkflowResult[int](t.Context(), c, i, patience); got != want || err != nil {
				t.Errorf("%d, %v, want %d", got, err, want)
			}
			if n := int(runs.Load()); n != x.runs {
				t.Errorf("the code began %d times, want %d", n, x.runs)
			}
			sound(t, b)
		})
	}
}
