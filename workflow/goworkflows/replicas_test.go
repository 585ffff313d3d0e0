package goworkflows_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cschleiden/go-workflows/backend"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// What is recorded and has not reached a replica in time is no failure of the task: the workflow goes on as if it had, and only who starts it from outside is told.
func TestReplicasThatAreAway(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t) // it has no replica
	var log bytes.Buffer
	b, err := goworkflows.Open(t.Context(), fmt.Sprintf("%s?prefix=%s&replicas=1&replicas-within=20ms", srv.URL, srv.Prefix(t)), backend.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
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
		return gowf.ExecuteActivity[int](ctx, gowf.DefaultActivityOptions, double, 21).Get(ctx)
	}
	stop := work(t, goworkflows.NewWorker(b, nil), []any{wf}, []any{double})
	var short *workflow.ReplicasError
	if _, err := b.Start(t.Context(), named("a"), wf); !errors.As(err, &short) || short.Want != 1 {
		t.Fatalf("start: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := goworkflows.Result[int](ctx, b, &gowf.Instance{InstanceID: "a"})
	if got != 42 || err != nil || runs.Load() != 1 || turns.Load() != 1 {
		t.Errorf("%d, %v; the activity ran %d times, the workflow %d times", got, err, runs.Load(), turns.Load())
	}
	stop()
	shut(t, b)
	if text := log.String(); strings.Contains(text, "level=ERROR") || !strings.Contains(text, "level=WARN") || !strings.Contains(text, "0 of 1") {
		t.Errorf("the log says:\n%s", text)
	}
}
