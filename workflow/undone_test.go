package workflow_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/workflow"
)

// Redis has lost an event that a worker was handed, as after a failover: what followed from it is refused, for the event comes again. The task is handed out again with what is left.
func TestEventsGoneMeanwhile(t *testing.T) {
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	i := e.begin("one")
	e.ok(e.Cancel(e.ctx(), i, event(workflow.EventCanceled, 0)))
	k := e.task(w)
	if types(k.Events) != "Started WorkflowExecutionCanceled" {
		t.Fatalf("events %s", types(k.Events))
	}
	list, err := e.do("XRANGE", e.key("in:one"), "-", "+").AsXRange()
	e.ok(err)
	e.do("XDEL", e.key("in:one"), list[1].ID)
	e.is(k.Complete(e.ctx(), checkpoint(k, schedules(1))), workflow.ErrLost)
	if h := e.history(i); h != "" {
		t.Errorf("history %s", h)
	}
	k = e.task(w)
	if types(k.Events) != "Started" {
		t.Errorf("handed out again: %s", types(k.Events))
	}
	e.step(k, finished)
}

// An executor that knows more than Redis is refused before anything is sent, and the task stays with its worker for one that does not.
func TestExecutorKnowsMore(t *testing.T) {
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	i := e.begin("one")
	e.step(e.task(w))
	e.ok(e.Signal(e.ctx(), "one", event(workflow.EventSignal, 0)))
	k := e.task(w)
	for _, from := range []int64{1, 3, 9} {
		cp := checkpoint(k, finished)
		cp.Executed[0].Sequence = from
		var refused *workflow.EventError
		if err := k.Complete(e.ctx(), cp); !errors.As(err, &refused) || !strings.Contains(err.Error(), "must be 2") {
			t.Errorf("from %d: %v", from, err)
		}
	}
	e.step(k, finished)
	if h := e.history(i); h != "Started SignalReceived" {
		t.Errorf("history %s", h)
	}
}

// Two have the same task, and the answer to the first is lost until the second has completed it: the first is not told that its own outcome was recorded, though the events that it handled are
// in the history.
func TestWhoseCheckpoint(t *testing.T) {
	e := newEnv(t)
	i := e.begin("one")
	first := e.mortal(workflow.WorkerOptions{Lease: time.Minute, Name: "first"})
	mine := e.task(first.Worker)
	entry, err := e.do("HGET", e.key("run:one"), "e").ToString()
	e.ok(err)
	e.do("XCLAIM", e.key("tasks:q"), "workers", "second", "0", entry, "JUSTID")
	w, _ := e.worker(workflow.WorkerOptions{Name: "second", Lease: time.Minute})
	theirs := e.task(w)
	first.die()
	complete := func(k *workflow.WorkflowTask, who string) error {
		return k.Complete(e.ctx(), checkpoint(k, func(cp *workflow.Checkpoint) { cp.Executed = executed(k, event(who, 0)) }))
	}
	told := make(chan error, 1)
	begun := first.proxy.Dials()
	go func() { told <- complete(mine, "First") }()
	e.until("the first has tried", func() bool { return first.proxy.Dials() > begun })
	e.ok(complete(theirs, "Second"))
	first.revive()
	e.is(<-told, workflow.ErrLost)
	if h := e.history(i); h != "Started Second" {
		t.Errorf("history %s", h)
	}
	e.ok(e.Terminate(e.ctx(), i, "enough"))
}

// A document that a later version has added to loses nothing by a checkpoint, and all that a checkpoint changes is changed in it.
func TestDocumentWithMore(t *testing.T) {
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	i := e.begin("one")
	key := e.key("doc:" + i.String())
	doc, err := e.do("GET", key).ToString()
	e.ok(err)
	e.do("SET", key, strings.Replace(doc, "{", `{"priority":12345678901234567890,`, 1))
	k := e.task(w)
	e.step(k)
	if info := e.info(i); info.LastSequence != 1 || info.LastEvent != k.Events[0].ID || info.State != workflow.Active {
		t.Errorf("after a checkpoint: %+v", info)
	}
	e.ok(e.Signal(e.ctx(), "one", event(workflow.EventSignal, 0)))
	e.step(e.task(w), finished)
	if info := e.info(i); info.LastSequence != 2 || info.LastEvent != "" || info.Outcome != workflow.Completed || info.Ended == nil {
		t.Errorf("at the end: %+v", info)
	}
	if doc, err = e.do("GET", key).ToString(); err != nil || !strings.Contains(doc, `"priority":12345678901234567890`) {
		t.Errorf("document %s, %v", doc, err)
	}
}

// A task of a later version that comes when the worker has stopped to read is left alone as well.
func TestSetAsideAtTheStop(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, stop := e.worker(workflow.WorkerOptions{})
	stop()
	e.ok(workflow.SetAside(w, "q"))
}
