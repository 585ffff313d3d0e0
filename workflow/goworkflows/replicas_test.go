package goworkflows_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/client"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// said is a log that tests read.
type said struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

// What is recorded and has not reached the replicas in time is no failure of the task: the workflow goes on as if it had, and only who starts or signals it from outside is told.
func TestReplicasThatAreAway(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	replica := testenv.StartReplica(t, srv.Addr)
	log := &said{}
	b, err := goworkflows.Open(t.Context(), fmt.Sprintf("%s?prefix=%s&replicas=1&replicas-within=20ms", srv.URL, srv.Prefix(t)), backend.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, b) })
	var runs, turns atomic.Int32
	double := func(_ context.Context, n int) (int, error) {
		runs.Add(1)
		return 2 * n, nil
	}
	wf := func(ctx gowf.Context) (int, error) {
		turns.Add(1)
		n, err := gowf.ExecuteActivity[int](ctx, gowf.DefaultActivityOptions, double, 21).Get(ctx)
		if err != nil {
			return 0, err
		}
		if _, err := gowf.SignalWorkflow(ctx, gowf.WorkflowInstance(ctx).InstanceID, "self", n).Get(ctx); err != nil {
			return 0, err
		}
		n, _ = gowf.NewSignalChannel[int](ctx, "self").Receive(ctx)
		more, _ := gowf.NewSignalChannel[int](ctx, "more").Receive(ctx)
		return n + more, nil
	}
	work(t, goworkflows.NewWorker(b, nil), []any{wf}, []any{double})
	replica.Pause(t)
	var short *workflow.ReplicasError
	o := goworkflows.StartOptions{WorkflowInstanceOptions: client.WorkflowInstanceOptions{InstanceID: "a"}}
	if _, err := b.Start(t.Context(), o, wf); !errors.As(err, &short) || short.Want != 1 {
		t.Fatalf("start: %v", err)
	}
	if err := client.New(b).SignalWorkflow(t.Context(), "a", "more", 100); !errors.As(err, &short) {
		t.Fatalf("signal: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := goworkflows.Result[int](ctx, b, &gowf.Instance{InstanceID: "a"})
	if got != 142 || err != nil || runs.Load() != 1 || turns.Load() != 1 {
		t.Errorf("%d, %v; the activity ran %d times, the workflow %d times", got, err, runs.Load(), turns.Load())
	}
	for _, text := range []string{"could not complete workflow task", "completing activity task", "level=ERROR"} {
		if strings.Contains(log.String(), text) {
			t.Errorf("the log says %q:\n%s", text, log)
		}
	}
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "0 of 1") {
		t.Errorf("the log does not say that replicas are away:\n%s", log)
	}
}
