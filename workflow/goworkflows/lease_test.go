package goworkflows_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/worker"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// overheard is a logger whose errors can be waited for.
type overheard struct {
	slog.Handler
	errors chan error
}

func overhear() overheard { return overheard{slog.DiscardHandler, make(chan error, 1000)} }

func (o overheard) Enabled(context.Context, slog.Level) bool { return true }
func (o overheard) WithAttrs([]slog.Attr) slog.Handler       { return o }
func (o overheard) WithGroup(string) slog.Handler            { return o }
func (o overheard) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			o.errors <- fmt.Errorf("%s: %w", r.Message, err)
		}
		return true
	})
	return nil
}

// A worker whose lease ends while an activity runs, for Redis does not answer it: the context of the activity ends, its result is refused, and that of another attempt counts.
func TestLeaseEndsWhileActivityRuns(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(p *testenv.Proxy, on bool){
		"hangs": func(p *testenv.Proxy, on bool) { p.Stall(on) },
		"is gone": func(p *testenv.Proxy, on bool) {
			p.Refuse(on)
			p.Cut()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testenv.Redis(t)
			proxy := testenv.CountingProxy(t, srv.URL)
			prefix := srv.Prefix(t)
			at := func(url string, opts ...backend.BackendOption) *goworkflows.Backend {
				b, err := goworkflows.Open(t.Context(), fmt.Sprintf("%s?prefix=%s&lease=%s", url, prefix, dyingLease), opts...)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { shut(t, b) })
				return b
			}
			log := overhear()
			slow, quick := at(proxy.URL, backend.WithLogger(slog.New(log))), at(srv.URL, quiet)
			begun, ended := make(chan struct{}), make(chan time.Time, 1)
			who := func(ctx context.Context) (string, error) {
				select {
				case <-begun:
					return "the other", nil
				default:
					close(begun)
				}
				<-ctx.Done()
				ended <- time.Now()
				return "the one that was lost", nil
			}
			ask := func(ctx gowf.Context) (string, error) {
				return gowf.ExecuteActivity[string](ctx, gowf.ActivityOptions{}, who).Get(ctx)
			}
			o := worker.DefaultOptions
			o.ActivityHeartbeatInterval = dyingLease / 5
			work(t, goworkflows.NewWorker(slow, &o), []any{ask}, []any{who})
			c := client.New(quick)
			i := create(t, c, "ask", ask)
			<-begun
			since := time.Now()
			fault(proxy, true)
			t.Logf("the context ended %s after Redis did not answer any more", (<-ended).Sub(since))
			work(t, goworkflows.NewWorker(quick, &o), []any{ask}, []any{who})
			if got, err := client.GetWorkflowResult[string](t.Context(), c, i, patience); got != "the other" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			fault(proxy, false)
			for err := error(nil); !errors.Is(err, workflow.ErrLost) || !strings.HasPrefix(err.Error(), "completing activity task"); {
				select {
				case err = <-log.errors:
				case <-time.After(patience):
					t.Fatal("the result that came too late is not refused")
				}
			}
			past, err := quick.Client().Info(t.Context(), workflow.Instance{ID: "ask"})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := pastOf(t, quick, past), "WorkflowExecutionStarted/0 ActivityScheduled/1 ActivityCompleted/1 WorkflowExecutionFinished/0"; got != want {
				t.Error(got)
			}
			sound(t, quick)
		})
	}
}
