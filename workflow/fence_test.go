package workflow_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/workflow"
)

// A zombie that does not know that its heartbeat has ended speaks between the take-over of its task and the first checkpoint of its heir, so that nothing of the
// instance has changed yet. It is refused.
func TestZombieBeforeTheHeirsCheckpoint(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	t.Parallel()
	e := newEnv(t)
	slow, _ := e.worker(workflow.WorkerOptions{Name: "slow", Lease: time.Hour})
	i := e.begin("a")
	task := e.task(slow)
	e.begin("b")
	e.step(e.task(slow), schedules(1))
	activity := e.activity(slow)
	e.expire("slow")
	heir, _ := e.worker(workflow.WorkerOptions{})
	taken, again := e.task(heir), e.activity(heir)
	before := e.dump()
	e.is(task.Complete(e.ctx(), checkpoint(task, schedules(9), timer(8, time.Hour))), workflow.ErrLost)
	e.is(activity.Complete(e.ctx(), event("Late", 1)), workflow.ErrLost)
	if after := e.dump(); !maps.Equal(before, after) {
		t.Error("a worker that lost its task changed something")
	}
	e.step(taken, finished)
	if h := e.history(i); h != "Started" {
		t.Errorf("history: %s", h)
	}
	e.ok(again.Complete(e.ctx(), event("Done", 1)))
	e.step(e.task(heir), finished)
}

// Each fact by which a script knows that a task is its worker's suffices to refuse the task: the token of the worker, the entry in the queue, the execution.
func TestEachFenceAlone(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	t.Parallel()
	takes := map[string]func(e *env, worker, run, field string){
		"another token":     func(e *env, worker, _, _ string) { e.ok(e.do("SET", worker, "of another").Error()) },
		"no token":          func(e *env, worker, _, _ string) { e.ok(e.do("DEL", worker).Error()) },
		"another entry":     func(e *env, _, run, field string) { e.ok(e.do("HSET", run, field, "1-1 q").Error()) },
		"no entry":          func(e *env, _, run, field string) { e.ok(e.do("HDEL", run, field).Error()) },
		"another execution": func(e *env, _, run, _ string) { e.ok(e.do("HSET", run, "x", "another").Error()) },
		"no execution":      func(e *env, _, run, _ string) { e.ok(e.do("DEL", run).Error()) },
	}
	calls := map[string]func(*env, *workflow.WorkflowTask, *workflow.ActivityTask) error{
		"checkpoint": func(e *env, t *workflow.WorkflowTask, _ *workflow.ActivityTask) error {
			return t.Complete(e.ctx(), checkpoint(t, schedules(9), timer(8, time.Hour)))
		},
		"end": func(e *env, t *workflow.WorkflowTask, _ *workflow.ActivityTask) error {
			return t.Complete(e.ctx(), checkpoint(t, finished))
		},
		"extend":  func(e *env, t *workflow.WorkflowTask, _ *workflow.ActivityTask) error { return t.Extend(e.ctx()) },
		"release": func(e *env, t *workflow.WorkflowTask, _ *workflow.ActivityTask) error { return t.Release(e.ctx()) },
		"activity-result": func(e *env, _ *workflow.WorkflowTask, a *workflow.ActivityTask) error {
			return a.Complete(e.ctx(), event("Late", 1))
		},
		"activity-extend":  func(e *env, _ *workflow.WorkflowTask, a *workflow.ActivityTask) error { return a.Extend(e.ctx()) },
		"activity-release": func(e *env, _ *workflow.WorkflowTask, a *workflow.ActivityTask) error { return a.Release(e.ctx()) },
	}
	for take, change := range takes {
		t.Run(take, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.broken = true
			for name, call := range calls {
				w, stop := e.worker(workflow.WorkerOptions{Name: name, Lease: time.Hour})
				i := e.begin(name, func(s *workflow.Start) { s.Queue = name })
				task, field := e.task(w, name), "e"
				var activity *workflow.ActivityTask
				if strings.HasPrefix(name, "activity") {
					e.step(task, schedules(1))
					activity, field = e.activity(w, name), "a:1"
				}
				change(e, e.opts.Prefix+":worker:"+name, e.key("run:"+i.ID), field)
				before := e.dump()
				e.is(call(e, task, activity), workflow.ErrLost)
				after := e.dump()
				for _, queue := range []string{"tasks:" + name, "activities:" + name} { // an entry that stands for nothing any more may go
					delete(before, queue)
					delete(after, queue)
				}
				if !maps.Equal(before, after) {
					t.Errorf("%s changed something", name)
				}
				stop()
			}
		})
	}
}
