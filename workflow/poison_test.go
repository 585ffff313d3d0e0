package workflow_test

import (
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/workflow"
)

// A task that kills worker after worker pauses its instance, which runs again once it is resumed.
func TestPoisonTask(t *testing.T) {
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

// An activity that kills worker after worker has failed, in the words of the authoring library or in Takt's own.
func TestPoisonActivity(t *testing.T) {
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
