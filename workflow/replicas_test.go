package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/workflow"
)

// waitingFor is e for a process that waits for replicas.
func (e *env) waitingFor(replicas int, within time.Duration) *env {
	e.t.Helper()
	o := e.opts
	o.Replicas, o.ReplicasWithin = replicas, within
	return on(e.t, e.srv, e.srv.Client, o)
}

// What is written waits for the replica, says so when that does not answer, and is there all the same: a repetition changes nothing, and tasks go on.
func TestReplicas(t *testing.T) {
	long.Test(t, "waits for a replica that hangs")
	e := newEnv(t)
	replica := testenv.StartReplica(t, e.srv.Addr)
	const within = 100 * time.Millisecond
	hasty, patient := e.waitingFor(1, within), e.waitingFor(1, hang)
	w, _ := hasty.worker(workflow.WorkerOptions{})
	pw, _ := patient.worker(workflow.WorkerOptions{})
	signal := event(workflow.EventSignal, 0)
	signalled := func(c *env) error { return c.Signal(c.ctx(), "one", signal) }

	one := patient.begin("one")
	e.ok(signalled(patient))
	patient.step(patient.task(pw), schedules(1, 2))
	e.ok(patient.activity(pw).Complete(e.ctx(), event("ActivityCompleted", 1)))
	patient.step(patient.task(pw))

	replica.Pause(t)
	short := func(what string, call func() error) {
		t.Helper()
		begin := time.Now()
		err := call()
		var short *workflow.ReplicasError
		if !errors.As(err, &short) || short.Acknowledged != 0 || short.Want != 1 || short.Within != within || short.Err != nil {
			t.Errorf("%s, with a replica that hangs: %v", what, err)
		}
		if took := time.Since(begin); took < within {
			t.Errorf("%s: an error after %v, before the time was over", what, took)
		}
	}
	start := workflow.Start{Instance: workflow.Instance{ID: "two", Execution: "x"}, Queue: "other", Event: event("Started", 0)}
	for range 2 {
		short("start", func() error { return hasty.Start(e.ctx(), start) })
		short("signal", func() error { return signalled(hasty) })
	}
	other := start
	other.Instance.Execution = "y"
	e.is(hasty.Start(e.ctx(), other), workflow.ErrExists)
	e.is(hasty.Signal(e.ctx(), "nobody", event(workflow.EventSignal, 0)), workflow.ErrNotFound)
	a := hasty.activity(w)
	short("activity", func() error { return a.Complete(e.ctx(), event("ActivityCompleted", 2)) })
	e.is(a.Complete(e.ctx(), event("ActivityCompleted", 2)), workflow.ErrLost)
	last := hasty.task(w)
	if types(last.Events) != "ActivityCompleted/2" {
		t.Errorf("the result is there: %s", types(last.Events))
	}
	short("checkpoint", func() error { return last.Complete(e.ctx(), checkpoint(last, finished)) })
	if info, err := e.Info(e.ctx(), one); err != nil || info.State != workflow.Finished {
		t.Errorf("it is recorded: %+v, %v", info, err)
	}
	short("terminate", func() error { return hasty.Terminate(e.ctx(), start.Instance, "enough") })
	replica.Continue(t)
	e.ok(patient.Start(e.ctx(), start))
	h, err := e.History(e.ctx(), one, 0)
	e.ok(err)
	if types(h) != "Started SignalReceived ActivityCompleted/1 ActivityCompleted/2" {
		t.Errorf("history %s", types(h))
	}
}

// What a script has read for pollers beside a checkpoint that replicas did not acknowledge is theirs all the same.
func TestReplicasLoseNoTask(t *testing.T) {
	e := newEnv(t)
	c := e.waitingFor(1, 50*time.Millisecond) // there is none
	w, _ := c.worker(workflow.WorkerOptions{})
	var short *workflow.ReplicasError
	for _, id := range []string{"a", "b", "c"} {
		e.begin(id)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	for range 3 {
		k, err := w.WorkflowTask(ctx, []string{"q"})
		e.ok(err)
		if err := k.Complete(ctx, checkpoint(k, finished)); !errors.As(err, &short) {
			t.Errorf("%s: %v", k.Instance, err)
		}
	}
}

// Replicas that are away do not stop schedules: what was started counts as started, the log says what a failover may lose, and who runs one by hand is told.
func TestReplicasAndSchedules(t *testing.T) {
	for _, exclusive := range []bool{false, true} {
		t.Run(fmt.Sprintf("exclusive %v", exclusive), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			said := make(chan string, 100)
			o := e.opts
			o.Replicas, o.ReplicasWithin, o.Log = 1, 20*time.Millisecond, slog.New(slog.NewTextHandler(lines(said), nil)) // there is none
			hasty := on(t, e.srv, e.srv.Client, o)
			e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Exclusive = exclusive })))
			_, stop := hasty.worker(workflow.WorkerOptions{})
			var s workflow.Schedule
			for range 3 {
				last := s.Started
				e.until("another slot is started", func() bool {
					s = e.schedule("nightly")
					if s.LastError != "" || !s.Retry.IsZero() && s.Starting.IsZero() {
						t.Fatalf("what was started counts as refused: %+v", s)
					}
					return s.Started.After(last) && s.Starting.IsZero()
				})
				e.ok(e.Terminate(e.ctx(), s.Instance(s.Started), "test"))
			}
			e.until("it is in the log", func() bool {
				select {
				case line := <-said:
					return strings.Contains(line, "0 of 1 replicas") && strings.Contains(line, "schedule=nightly") && strings.Contains(line, "instance=nightly-")
				default:
					return false
				}
			})
			stop()

			e.ok(e.PutSchedule(e.ctx(), nightly(func(s *workflow.Schedule) { s.Name, s.Rule, s.Exclusive = "yearly", "cron 0 0 1 1 *", exclusive })))
			i, err := hasty.RunSchedule(e.ctx(), "yearly")
			var short *workflow.ReplicasError
			if !errors.As(err, &short) || e.info(i).State != workflow.Active {
				t.Errorf("run by hand: %v, %v", i, err)
			}
			if s = e.schedule("yearly"); s.Started.IsZero() == exclusive || !s.Starting.IsZero() || !s.Retry.IsZero() || s.LastError != "" {
				t.Errorf("run by hand: %+v", s)
			}
		})
	}
}
