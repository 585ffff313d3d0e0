package goworkflows_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/client"
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

// A worker of an older version does not know a workflow or an activity: they fail, once, with the library's own words.
func TestUnknownNames(t *testing.T) {
	t.Parallel()
	b := open(t, testenv.Redis(t), quiet)
	older := func(ctx gowf.Context) (int, error) {
		return gowf.ExecuteActivity[int](ctx, gowf.DefaultActivityOptions, "newer").Get(ctx)
	}
	work(t, goworkflows.NewWorker(b, nil), []any{older}, nil)
	c := client.New(b)
	for id, x := range map[string]struct {
		workflow   any
		says, past string
	}{
		"workflow": {"newer", "workflow newer not found", "WorkflowExecutionFinished/0"},
		"activity": {older, "activity not found", "WorkflowExecutionStarted/0 ActivityScheduled/1 ActivityFailed/1 WorkflowExecutionFinished/0"},
	} {
		_, err := goworkflows.Result[int](t.Context(), b, create(t, c, id, x.workflow))
		if err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v", id, err)
		}
		info, err := b.Client().Info(t.Context(), workflow.Instance{ID: id})
		testenv.Must(t, err)
		if past := pastOf(t, b, info); info.Outcome != workflow.Failed || past != x.past {
			t.Errorf("%s: %s, %s", id, info.Outcome, past)
		}
	}
	sound(t, b)
}

// A worker meets events of a version after its own: it leaves them to others, and does not ask for them again and again until the time of the task is over.
func TestNewerEvents(t *testing.T) {
	t.Parallel()
	const lock = 300 * time.Millisecond
	srv := testenv.Redis(t)
	log := overhear()
	b := open(t, srv, backend.WithLogger(slog.New(log)), backend.WithWorkflowLockTimeout(lock), backend.WithActivityLockTimeout(lock))
	waits := func(ctx gowf.Context) error {
		gowf.NewSignalChannel[int](ctx, "never").Receive(ctx)
		return nil
	}
	work(t, goworkflows.NewWorker(b, nil), []any{waits}, nil)
	i := create(t, client.New(b), "waits", waits)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	newer := func(typ string) workflow.Event {
		return workflow.Event{ID: "newer-" + typ, Type: typ, Ref: 7, Time: time.Now()}
	}
	since := time.Now()
	testenv.Must(t, b.Client().Signal(ctx, "waits", newer("WorkflowUpdated")))
	unknown := func(err error) bool { return strings.Contains(err.Error(), "is none of go-workflows") }
	select {
	case err := <-log.errors:
		if !unknown(err) {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Fatal("the event is not refused")
	}

	// The newer worker gets it all the same.
	w, err := b.Client().NewWorker(workflow.WorkerOptions{})
	testenv.Must(t, err)
	run, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- w.Run(run) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	complete := func(change func(*workflow.Checkpoint)) {
		t.Helper()
		task, err := w.WorkflowTask(ctx, []string{"default"})
		testenv.Must(t, err)
		cp := workflow.Checkpoint{State: workflow.Active}
		for n, e := range task.Events {
			e.Sequence = task.LastSequence + int64(n) + 1
			cp.Executed = append(cp.Executed, e)
		}
		change(&cp)
		testenv.Must(t, task.Complete(ctx, cp))
	}
	complete(func(cp *workflow.Checkpoint) {
		cp.Activities = []workflow.Activity{{Event: newer("ActivityScheduledWithPriority")}}
	})
	activity, err := w.ActivityTask(ctx, []string{"default"})
	testenv.Must(t, err)
	testenv.Must(t, activity.Complete(ctx, newer("ActivityCompletedWithDetails")))
	complete(func(cp *workflow.Checkpoint) { cp.State, cp.Outcome = workflow.Finished, workflow.Completed })
	took := time.Since(since)
	testenv.Must(t, b.Wait(ctx, i))
	refusals := 1
	for range len(log.errors) {
		if unknown(<-log.errors) {
			refusals++
		}
	}
	// It has one task at a time, each time for as long as the lock is.
	if most := int(took/lock) + 3; refusals > most {
		t.Errorf("refused %d times in %s, want %d at most", refusals, took, most)
	}
	t.Logf("refused %d times in %s", refusals, took)
	if _, err := b.GetWorkflowInstanceHistory(ctx, i, nil); err == nil || !strings.Contains(err.Error(), `"WorkflowUpdated"`) {
		t.Errorf("its history: %v", err)
	}
	sound(t, b)
}
