package workflow_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/workflow"
)

// A paused instance gets no task, whether one waits, runs or comes; what it has is completed, and Resume brings the rest.
func TestPauseInstance(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	id := workflow.Instance{ID: "a"}
	e.is(e.Pause(e.ctx(), "a"), workflow.ErrNotFound)
	e.is(e.Resume(e.ctx(), "a"), workflow.ErrNotFound)
	e.begin("a") // its task waits
	e.ok(e.Pause(e.ctx(), "a"))
	e.ok(e.Pause(e.ctx(), "a"))
	e.none(w)
	e.ok(e.Signal(e.ctx(), "a", event("S1", 0)))
	e.none(w)
	e.ok(e.Resume(e.ctx(), "a"))
	e.ok(e.Resume(e.ctx(), "a"))
	task := e.last(w, "Started S1")
	e.ok(e.Pause(e.ctx(), "a")) // its task runs
	e.ok(e.Signal(e.ctx(), "a", event("S2", 0)))
	e.step(task, schedules(1), timer(2, 0))
	e.ok(e.activity(w).Complete(e.ctx(), event("Done", 1))) // activities run on
	e.until("the timer has fired", func() bool { return e.int("XLEN", e.key("in:a")) == 3 })
	e.none(w)
	e.ok(e.Resume(e.ctx(), "a"))
	task = e.task(w)
	if len(task.Events) != 3 {
		t.Errorf("events: %s", types(task.Events))
	}
	e.ok(e.Pause(e.ctx(), "a"))
	e.ok(task.Release(e.ctx()))
	e.none(w)
	e.ok(e.Resume(e.ctx(), "a"))
	e.step(e.task(w))
	e.ok(e.Pause(e.ctx(), "a")) // nothing waits
	e.ok(e.Resume(e.ctx(), "a"))
	e.none(w)
	e.ok(e.Signal(e.ctx(), "a", event("S3", 0)))
	task = e.task(w)
	e.ok(e.Pause(e.ctx(), "a"))
	next, goesOn := continued(task) // it is the instance that is paused, and goes on so
	e.step(task, goesOn)
	e.none(w)
	e.ok(e.Resume(e.ctx(), "a"))
	task = e.task(w)
	if task.Instance.String() != next.Instance.String() {
		t.Errorf("task of %s", task.Instance)
	}
	e.ok(e.Pause(e.ctx(), "a"))
	e.ok(e.Terminate(e.ctx(), id, ""))
	e.is(e.Resume(e.ctx(), "a"), workflow.ErrNotFound)
	e.begin("a") // a new start is not paused
	e.step(e.task(w), finished)
}

// A paused queue gives out neither tasks nor activities; who has one completes it; after that all is in the queue again, in its order.
func TestPauseQueue(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, stop := e.worker(workflow.WorkerOptions{})
	e.begin("acts")
	e.step(e.task(w), schedules(1, 2, 3))
	a := e.activity(w)
	e.begin("runs")
	task := e.task(w)
	for k := range 5 {
		e.begin(fmt.Sprint("w", k))
	}
	e.ok(e.PauseQueue(e.ctx(), "q"))
	e.ok(e.PauseQueue(e.ctx(), "q"))
	e.begin("w5")
	e.none(w)
	e.step(task, schedules(1)) // the new activity is held, too
	e.ok(a.Complete(e.ctx(), event("Done", 1)))
	e.ok(e.Terminate(e.ctx(), workflow.Instance{ID: "w1"}, "")) // while it is held
	ctx, cancel := context.WithTimeout(e.ctx(), 200*time.Millisecond)
	if a, err := w.ActivityTask(ctx, []string{"q"}); err == nil {
		t.Errorf("activity %+v", a)
	}
	cancel()
	st := e.stats()
	if st.Held["q"] != 5+1+2+1 || len(st.Workflows) != 0 || len(st.Activities) != 0 { // w0, w2 to w5, acts; two activities of acts, one of runs
		t.Errorf("stats: %+v", st)
	}
	e.begin("other", func(s *workflow.Start) { s.Queue = "other" })
	e.step(e.task(w, "other", "q"), finished)
	stop() // a task that a worker has read and that waits too long for the test to ask goes back to its queue, behind the others
	e.ok(e.ResumeQueue(e.ctx(), "q"))
	e.ok(e.ResumeQueue(e.ctx(), "q"))
	want := []string{"w0", "w2", "w3", "w4", "w5", "acts"}
	if got := e.queued("tasks:q"); !slices.Equal(got, want) {
		t.Errorf("tasks of %q, want %q", got, want)
	}
	if got := e.queued("activities:q"); !slices.Equal(got, []string{"acts", "acts", "runs"}) {
		t.Errorf("activities of %q", got)
	}
	w, _ = e.worker(workflow.WorkerOptions{})
	var came []string
	for range want {
		task := e.task(w)
		came = append(came, task.ID)
		if task.ID != "acts" {
			e.step(task, finished)
		} else {
			e.step(task)
		}
	}
	if slices.Sort(came); !slices.Equal(came, slices.Sorted(slices.Values(want))) {
		t.Errorf("tasks of %q, want %q", came, want)
	}
	for range 3 {
		a := e.activity(w)
		e.ok(a.Complete(e.ctx(), event("Done", a.Event.Ref)))
	}
	e.until("results are there", func() bool { return e.int("XLEN", e.key("in:acts")) == 2 && e.int("XLEN", e.key("in:runs")) == 1 })
	for range 2 {
		e.step(e.task(w), finished)
	}
	e.idle("q")
	if st := e.stats(); len(st.Held) != 0 {
		t.Errorf("stats: %+v", st)
	}
}

// queued are the instances of a queue's entries, in their order.
func (e *env) queued(queue string) (ids []string) {
	e.t.Helper()
	entries, err := e.do("XRANGE", e.key(queue), "-", "+").AsXRange()
	e.ok(err)
	for _, entry := range entries {
		ids = append(ids, entry.FieldValues["i"])
	}
	return ids
}

// Held activities go with their instance.
func TestPauseQueueAndEnd(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	i := e.begin("a")
	e.step(e.task(w), schedules(1, 2))
	e.ok(e.PauseQueue(e.ctx(), "q"))
	e.ok(e.Terminate(e.ctx(), i, ""))
	if st := e.stats(); len(st.Held)+len(st.Activities) != 0 {
		t.Errorf("stats: %+v", st)
	}
	e.ok(e.ResumeQueue(e.ctx(), "q"))
	e.none(w)
	e.idle("q")
}

// Whoever pauses or resumes a queue may die between two pages of its entries. A worker does the rest.
func TestPauseQueueHalfDone(t *testing.T) {
	long.Test(t, "waits until a worker looks at all queues")
	t.Parallel()
	for _, what := range []string{"pause", "resume"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			const n = 2500
			var starts sync.WaitGroup
			for first := range 10 {
				starts.Go(func() {
					for k := first; k < n; k += 10 {
						if err := e.Start(context.Background(), starting(fmt.Sprint("a", k))); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			starts.Wait()
			g := testenv.NewGuillotine(t, e.srv.Addr)
			dying := on(t, e.srv, e.srv.Connect(t, redis.Options{URL: g.URL}), e.opts)
			g.Only(func(words []string) bool {
				return strings.HasPrefix(words[0], "EVAL") && slices.Contains(words, what)
			})
			do, queue, held := dying.PauseQueue, "tasks:q", "held:tasks:q"
			if what == "resume" {
				e.ok(e.PauseQueue(e.ctx(), "q"))
				do, queue, held = dying.ResumeQueue, held, queue
			}
			e.ok(e.ResumeQueue(e.ctx(), "other")) // the server has the script from now on, so that a page is one command
			g.Arm(2, true, func() {})             // of two pages and a half
			if err := do(e.ctx(), "q"); err == nil {
				t.Fatal("it was not cut off")
			}
			if from, to := e.int("XLEN", e.key(queue)), e.int("XLEN", e.key(held)); from == 0 || to == 0 {
				t.Fatalf("%d are to be moved, %d were", from, to)
			}
			e.worker(workflow.WorkerOptions{Lease: 10 * time.Second}) // the first look comes after it
			e.until("all are moved", func() bool { return e.int("XLEN", e.key(queue)) == 0 })
			if moved := e.int("XLEN", e.key(held)); moved != n {
				t.Errorf("%d are moved, want %d", moved, n)
			}
		})
	}
}
