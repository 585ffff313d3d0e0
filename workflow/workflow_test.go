package workflow_test

import (
	"testing"
	"time"

	"github.com/taktworks/takt/workflow"
)

// From start to end: a task, an activity, its result, a timer, and word of the end.
func TestInstance(t *testing.T) {
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	i := e.begin("order-1")
	first := e.task(w)
	if first.Instance.String() != i.String() || types(first.Events) != "Started" || first.LastSequence != 0 || first.Attempt != 1 {
		t.Errorf("first task: %+v", first)
	}
	e.step(first, schedules(1))
	a := e.activity(w)
	if a.Instance.String() != i.String() || a.Event.Type != "ActivityScheduled" || a.Event.Ref != 1 || a.Queue != "q" {
		t.Errorf("activity: %+v", a)
	}
	e.ok(a.Complete(e.ctx(), event("ActivityCompleted", 1)))
	second := e.task(w)
	if types(second.Events) != "ActivityCompleted/1" || second.LastSequence != 1 {
		t.Errorf("second task: %+v", second)
	}
	e.step(second, timer(2, 50*time.Millisecond))
	third := e.task(w)
	if types(third.Events) != "TimerFired/2" {
		t.Errorf("third task: %+v", third)
	}
	type end struct {
		info workflow.Info
		last workflow.Event
	}
	told := make(chan end, 1)
	go func() {
		info, last, err := e.other().Await(e.ctx(), i)
		if err != nil {
			t.Error(err)
		}
		told <- end{info, last}
	}()
	e.step(third, finished)
	got := <-told
	if got.info.State != workflow.Finished || got.info.Outcome != workflow.Completed || got.info.Ended == nil || got.last.Type != "TimerFired" {
		t.Errorf("told %+v", got)
	}
	h, err := e.History(e.ctx(), i, 0)
	e.ok(err)
	if types(h) != "Started ActivityCompleted/1 TimerFired/2" {
		t.Errorf("history: %s", types(h))
	}
	h, err = e.History(e.ctx(), i, 2)
	e.ok(err)
	if types(h) != "TimerFired/2" {
		t.Errorf("end of the history: %s", types(h))
	}
	st, err := e.Stats(e.ctx())
	e.ok(err)
	if st.Active != 0 || st.Ended != 1 || st.Timers != 0 || len(st.Workflows)+len(st.Activities) != 0 || st.Counters["started"] != 1 || st.Counters["completed"] != 1 {
		t.Errorf("stats %+v", st)
	}
}
