package workflow_test

import (
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/workflow"
)

// A task that kills worker after worker pauses its instance, which runs again once it is resumed.
func TestPoisonTask(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	t.Parallel()
	e := newEnv(t)
	e.begin("a")
	for n := range 2 {
		dying := e.mortal(workflow.WorkerOptions{MaxDeliveries: 2})
		if task := e.task(dying.Worker); task.Attempt != n+1 {
			t.Errorf("attempt %d, want %d", task.Attempt, n+1)
		}
		dying.die()
	}
	e.begin("innocent")
	w, _ := e.worker(workflow.WorkerOptions{MaxDeliveries: 2})
	task := e.task(w)
	if task.ID != "innocent" {
		t.Fatalf("task of %s", task.ID)
	}
	e.step(task, finished)
	ctx := e.ctx()
	got := make(chan *workflow.WorkflowTask, 1)
	go func() { // it is only put aside by who looks for work
		task, _ := w.WorkflowTask(ctx, []string{"q"})
		got <- task
	}()
	e.until("the instance is paused", func() bool { return e.int("HEXISTS", e.key("run:a"), "p") == 1 })
	e.idle("q")
	e.ok(e.Resume(e.ctx(), "a"))
	task = <-got
	if task == nil || task.ID != "a" || task.Attempt != 1 || types(task.Events) != "Started" {
		t.Fatalf("task: %+v", task)
	}
	e.step(task, finished)
	e.idle("q")
}

// A poison task that somebody hands back between two that it kills is given up all the same: the hand-over is not counted, and forgets nothing.
func TestPoisonHandedBack(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{MaxDeliveries: 2})
	e.begin("acts")
	e.step(e.task(w), schedules(1))
	e.begin("a")
	for n := range 2 {
		dying := e.mortal(workflow.WorkerOptions{MaxDeliveries: 2})
		if task, a := e.task(dying.Worker), e.activity(dying.Worker); task.Attempt != n+1 || a.Attempt != n+1 {
			t.Errorf("attempts %d and %d, want %d", task.Attempt, a.Attempt, n+1)
		}
		dying.die()
		if n > 0 {
			break
		}
		for range 3 {
			task, a := e.task(w), e.activity(w)
			if task.Attempt != 2 || a.Attempt != 2 {
				t.Errorf("attempts %d and %d of one that was handed back, want 2", task.Attempt, a.Attempt)
			}
			e.ok(task.Release(e.ctx()))
			e.ok(a.Release(e.ctx()))
		}
	}
	e.givenUp(w)
}

// What each worker keeps beyond its lease is given up like what kills it.
func TestPoisonHangs(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{WorkflowLease: 2 * time.Second, ActivityLease: 2 * time.Second, MaxDeliveries: 2})
	e.begin("acts")
	e.step(e.task(w), schedules(1))
	e.begin("a")
	for n := range 2 {
		if task, a := e.task(w), e.activity(w); task.Attempt != n+1 || a.Attempt != n+1 {
			t.Errorf("attempts %d and %d, want %d", task.Attempt, a.Attempt, n+1)
		}
	}
	if d := e.detail(workflow.Instance{ID: "acts"}); len(d.Activities) != 1 || d.Activities[0].Deliveries != 2 {
		t.Errorf("what is shown: %+v", d.Activities)
	}
	e.givenUp(w)
}

// givenUp waits until instance a is paused, and the activity of acts has failed.
func (e *env) givenUp(w *workflow.Worker) {
	e.t.Helper()
	e.act(w, 1)
	done := make(chan struct{}, 100)
	defer e.poll(w, 1, func(task *workflow.WorkflowTask) workflow.Checkpoint {
		if task.ID != "acts" || types(task.Events) != "ActivityFailed/1" {
			e.t.Errorf("%s gets %s", task.ID, types(task.Events))
		}
		done <- struct{}{}
		return checkpoint(task, finished)
	})()
	e.until("a is paused", func() bool { return e.int("HEXISTS", e.key("run:a"), "p") == 1 })
	select {
	case <-done:
	case <-time.After(hang):
		e.t.Error("the activity does not fail")
	}
	e.ok(e.Terminate(e.ctx(), workflow.Instance{ID: "a"}, "poison"))
}

// An activity that kills worker after worker has failed, in the words of the authoring library or in Takt's own.
func TestPoisonActivity(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	t.Parallel()
	for name, failure := range map[string]func(*workflow.ActivityTask, error) workflow.Event{
		"own":    nil,
		"broken": func(*workflow.ActivityTask, error) workflow.Event { return workflow.Event{} },
		"library": func(a *workflow.ActivityTask, err error) workflow.Event {
			return workflow.Event{Type: "Theirs", Data: []byte(`{"of":"` + a.Event.Type + `"}`), Ref: 99}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			w, _ := e.worker(workflow.WorkerOptions{MaxDeliveries: 2, Failure: failure})
			e.begin("a")
			e.step(e.task(w), schedules(1))
			for n := range 2 {
				dying := e.mortal(workflow.WorkerOptions{MaxDeliveries: 2})
				if a := e.activity(dying.Worker); a.Attempt != n+1 {
					t.Errorf("attempt %d, want %d", a.Attempt, n+1)
				}
				dying.die()
			}
			e.act(w, 1)
			task := e.task(w)
			ev := task.Events[0]
			want := "ActivityFailed/1"
			if name == "library" {
				want = "Theirs/1"
			}
			if types(task.Events) != want || ev.ID == "" || time.Since(ev.Time) > time.Minute {
				t.Errorf("events: %+v", task.Events)
			}
			if name != "library" && !strings.Contains(string(ev.Data), "worker after worker") {
				t.Errorf("data: %s", ev.Data)
			}
			e.step(task, finished)
			e.idle("q")
		})
	}
}

// A worker that lost its heartbeat, and has not noticed, gives no task up: it is somebody else's by now.
func TestLostHeartbeatIsNoPoison(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{Name: "w", Lease: 15 * time.Second})
	e.begin("warm")
	e.step(e.task(w), finished)
	e.ok(e.do("SET", e.opts.Prefix+":worker:w", "somebody else").Error()) // it looks after five seconds, or when it is told
	e.begin("a")
	e.ok(e.Signal(e.ctx(), "a", event("S", 0)))
	ctx := e.ctx()
	got := make(chan *workflow.WorkflowTask, 1)
	go func() {
		task, _ := w.WorkflowTask(ctx, []string{"q"})
		got <- task
	}()
	e.until("the loss is noticed", func() bool {
		return e.int("EXISTS", e.key("in:a")) == 1 && e.int("HLEN", e.key("run:a")) > 0 && e.pendingOf("q") > 0
	})
	e.ok(e.do("DEL", e.opts.Prefix+":worker:w").Error())
	task := <-got
	if task == nil || task.ID != "a" {
		t.Fatalf("task: %+v", task)
	}
	if e.int("HEXISTS", e.key("run:a"), "p") == 1 {
		t.Error("the instance was paused")
	}
	e.step(task, finished)
}

func (e *env) pendingOf(queue string) int64 {
	e.t.Helper()
	pending, err := e.do("XPENDING", e.key("tasks:"+queue), "workers").ToArray()
	e.ok(err)
	n, err := pending[0].AsInt64()
	e.ok(err)
	return n
}
