package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, testenv.LibraryGoroutines()...) }

const hang = 30 * time.Second // only seen when something does

// env is a Client on a server of one test, and who works for it.
type env struct {
	*workflow.Client
	t    testing.TB
	srv  *testenv.RedisServer
	opts workflow.Options
}

func newEnv(t testing.TB) *env {
	t.Helper()
	srv := testenv.Redis(t)
	return on(t, srv, srv.Client, workflow.Options{Prefix: srv.Prefix(t)})
}

func on(t testing.TB, srv *testenv.RedisServer, rdb rueidis.Client, o workflow.Options) *env {
	t.Helper()
	c, err := workflow.New(rdb, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &env{c, t, srv, o}
}

// other is the same as from another process.
func (e *env) other() *env {
	e.t.Helper()
	return on(e.t, e.srv, e.srv.Connect(e.t, redis.Options{}), e.opts)
}

// worker starts one; stop ends it and waits.
func (e *env) worker(o workflow.WorkerOptions) (w *workflow.Worker, stop func()) {
	e.t.Helper()
	if o.Drain == 0 {
		o.Drain = -1 // tests end with tasks in hand
	}
	w, err := e.NewWorker(o)
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		select {
		case err := <-done:
			if err != nil {
				e.t.Error(err)
			}
		case <-time.After(hang):
			e.t.Error("the worker does not end")
		}
	}
	e.t.Cleanup(stop)
	return w, stop
}

func (e *env) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	e.t.Cleanup(cancel)
	return ctx
}

// task is the next workflow task.
func (e *env) task(w *workflow.Worker, queues ...string) *workflow.WorkflowTask {
	e.t.Helper()
	t, err := w.WorkflowTask(e.ctx(), queuesOr(queues))
	if err != nil {
		e.t.Fatal(err)
	}
	return t
}

func (e *env) activity(w *workflow.Worker, queues ...string) *workflow.ActivityTask {
	e.t.Helper()
	t, err := w.ActivityTask(e.ctx(), queuesOr(queues))
	if err != nil {
		e.t.Fatal(err)
	}
	return t
}

func queuesOr(queues []string) []string {
	if len(queues) == 0 {
		return []string{"q"}
	}
	return queues
}

// none wants no task within a moment in which others would have come.
func (e *env) none(w *workflow.Worker, queues ...string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if t, err := w.WorkflowTask(ctx, queuesOr(queues)); err == nil {
		e.t.Errorf("a task of %s with %d events", t.Instance, len(t.Events))
	}
}

var ids int

// event is a new one.
func event(typ string, ref int64) workflow.Event {
	ids++
	return workflow.Event{ID: fmt.Sprint("event-", ids), Type: typ, Ref: ref, Time: time.Now()}
}

// begin starts an instance.
func (e *env) begin(id string, change ...func(*workflow.Start)) workflow.Instance {
	e.t.Helper()
	ids++
	s := workflow.Start{Instance: workflow.Instance{ID: id, Execution: fmt.Sprint("x", ids)}, Queue: "q", Name: "flow", Event: event("Started", 0)}
	for _, f := range change {
		f(&s)
	}
	e.ok(e.Start(e.ctx(), s))
	return s.Instance
}

func (e *env) ok(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) is(err, want error) {
	e.t.Helper()
	if !errors.Is(err, want) {
		e.t.Fatalf("error %v, want %v", err, want)
	}
}

// executed is the events of a task as its history.
func executed(t *workflow.WorkflowTask, more ...workflow.Event) []workflow.Event {
	out := append(append([]workflow.Event{}, t.Events...), more...)
	for i := range out {
		out[i].Sequence = t.LastSequence + int64(i) + 1
	}
	return out
}

// step completes a task with its events and what else is given.
func (e *env) step(t *workflow.WorkflowTask, change ...func(*workflow.Checkpoint)) {
	e.t.Helper()
	e.ok(t.Complete(e.ctx(), checkpoint(t, change...)))
}

func checkpoint(t *workflow.WorkflowTask, change ...func(*workflow.Checkpoint)) workflow.Checkpoint {
	cp := workflow.Checkpoint{State: workflow.Active, Executed: executed(t)}
	for _, f := range change {
		f(&cp)
	}
	return cp
}

func finished(cp *workflow.Checkpoint) {
	cp.State, cp.Outcome = workflow.Finished, workflow.Completed
}

func schedules(refs ...int64) func(*workflow.Checkpoint) {
	return func(cp *workflow.Checkpoint) {
		for _, r := range refs {
			cp.Activities = append(cp.Activities, workflow.Activity{Event: event("ActivityScheduled", r)})
		}
	}
}

func timer(ref int64, in time.Duration) func(*workflow.Checkpoint) {
	return func(cp *workflow.Checkpoint) {
		at := time.Now().Add(in)
		e := event(workflow.EventTimerFired, ref)
		e.VisibleAt = &at
		cp.Timers = append(cp.Timers, e)
	}
}

// types are those of events, in a line.
func types(events []workflow.Event) string {
	var out []string
	for _, e := range events {
		s := e.Type
		if e.Ref != 0 {
			s += fmt.Sprint("/", e.Ref)
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// keys are those of the test, without its prefix.
func (e *env) keys() []string {
	e.t.Helper()
	all, err := e.srv.AllKeys(context.Background())
	if err != nil {
		e.t.Fatal(err)
	}
	for i, k := range all {
		all[i] = strings.TrimPrefix(k, e.opts.Prefix+":workflow:")
	}
	return all
}

// until waits until something holds.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(hang); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s", what)
		}
	}
}

func contains(s, part string) bool { return strings.Contains(s, part) }
