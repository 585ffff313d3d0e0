package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/taktworks/takt/workflow"
)

// A signal goes to whichever execution is active, and finds none before the start and after the end.
func TestSignal(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	e.is(e.Signal(e.ctx(), "a", event("S", 0)), workflow.ErrNotFound)
	first := e.begin("a")
	e.ok(e.Signal(e.ctx(), "a", event("S", 0)))
	e.ok(e.Cancel(e.ctx(), workflow.Instance{ID: "a"}, event("C", 0)))
	e.ok(e.Cancel(e.ctx(), first, event("C", 0)))
	e.step(e.last(w, "Started S C C"), finished)
	e.is(e.Signal(e.ctx(), "a", event("S", 0)), workflow.ErrNotFound)
	second := e.begin("a")
	e.is(e.Cancel(e.ctx(), first, event("C", 0)), workflow.ErrNotFound) // it is another's turn
	e.ok(e.Cancel(e.ctx(), second, event("C", 0)))
	e.is(e.Cancel(e.ctx(), workflow.Instance{ID: "a", Execution: "never"}, event("C", 0)), workflow.ErrNotFound)
	task := e.task(w)
	if types(task.Events) != "Started C" || task.Execution != second.Execution {
		t.Errorf("events of %s: %s", task.Instance, types(task.Events))
	}
	e.step(task, finished)
}

// The same event is delivered once, also of 100 at once, and to each instance that it is sent to.
func TestSignalOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	s := event("S", 0)
	e.is(e.Signal(e.ctx(), "a", s), workflow.ErrNotFound) // that was no delivery
	in := func(queue string) func(*workflow.Start) { return func(s *workflow.Start) { s.Queue = queue } }
	e.begin("a", in("a"))
	e.begin("b", in("b"))
	var all sync.WaitGroup
	for range 50 {
		for _, id := range []string{"a", "b"} {
			all.Go(func() {
				if err := e.Signal(context.Background(), id, s); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	for _, id := range []string{"a", "b"} {
		task := e.last(w, "Started S", id)
		next, goesOn := continued(task, in(id))
		e.step(task, goesOn)
		e.ok(e.Signal(e.ctx(), task.ID, s)) // the next execution is of the same instance
		if again := e.task(w, id); types(again.Events) != "Started" || again.Execution != next.Instance.Execution {
			t.Errorf("events of %s: %s", again.Instance, types(again.Events))
		} else {
			e.step(again, finished)
			e.ok(e.Signal(e.ctx(), task.ID, s)) // delivered, though nobody is there any more
		}
	}
}

// What an id is remembered for is bounded by time, not by the number of events.
func TestSignalForgotten(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *workflow.Options) { o.KnownFor = 1 })
	w, _ := e.worker(workflow.WorkerOptions{})
	e.begin("a")
	s := event("S", 0)
	e.ok(e.Signal(e.ctx(), "a", s))
	e.until("forgotten", func() bool { e.ok(e.Signal(e.ctx(), "a", s)); return e.int("XLEN", e.key("in:a")) > 2 })
	for range 100 {
		e.ok(e.Signal(e.ctx(), "a", event("S", 0)))
	}
	if n := e.int("ZCARD", e.key("seen")); n > 50 {
		t.Errorf("%d ids are remembered", n)
	}
	e.step(e.task(w), finished)
}

// A signal that comes with the checkpoint that continues as new goes to one of the two executions, never to none.
func TestSignalRacesContinuation(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	e.begin("a")
	var got []string
	const rounds, signals = 100, 4
	for round := range rounds {
		task := e.task(w)
		got = append(got, types(task.Events))
		var all sync.WaitGroup
		for n := range signals {
			all.Go(func() {
				if err := e.Signal(context.Background(), "a", event(fmt.Sprintf("S%d-%d", round, n), 0)); err != nil {
					t.Error(err)
				}
			})
		}
		_, goesOn := continued(task)
		e.step(task, goesOn, func(cp *workflow.Checkpoint) { cp.RemoveContinued = round%2 == 0 })
		all.Wait()
	}
	last := e.task(w)
	got = append(got, types(last.Events))
	e.step(last)
	for e.int("EXISTS", e.key("in:a")) > 0 {
		more := e.task(w)
		got = append(got, types(more.Events))
		e.step(more)
	}
	e.ok(e.Terminate(e.ctx(), workflow.Instance{ID: "a"}, "done"))
	all := " " + strings.Join(got, " ") + " "
	for round := range rounds {
		for n := range signals {
			if c := strings.Count(all, fmt.Sprintf(" S%d-%d ", round, n)); c != 1 {
				t.Errorf("signal %d of round %d came %d times", n, round, c)
			}
		}
	}
}

// What outlives a continuation is the first event of a task or waits for the next, so that it is with nobody when the task before it ends the execution. All come in their order.
func TestSignalsOneByOne(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	first := e.begin("a")
	e.ok(e.Cancel(e.ctx(), first, event("C1", 0)))
	e.ok(e.Signal(e.ctx(), "a", event("S1", 0)))
	e.ok(e.Signal(e.ctx(), "a", event("S2", 0)))
	e.ok(e.Cancel(e.ctx(), first, event("C2", 0)))
	e.ok(e.Cancel(e.ctx(), first, event("C3", 0)))
	e.ok(e.Cancel(e.ctx(), workflow.Instance{ID: "a"}, event("C4", 0)))
	for _, want := range []string{"Started C1", "S1", "S2 C2 C3", "C4"} {
		task := e.task(w)
		if types(task.Events) != want {
			t.Errorf("events: %s, want %s", types(task.Events), want)
		}
		e.step(task)
	}
	if n := e.int("EXISTS", e.key("in:a")); n != 0 {
		t.Error("the inbox is left")
	}
	e.idle("q")
	e.ok(e.Terminate(e.ctx(), first, "done"))
}

// What outlives a continuation: signals, and a cancellation of whichever is active, also those that were there before the task that continues. What does not: what the old execution alone can understand.
func TestCarriedOver(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	first := e.begin("a")
	task := e.task(w)
	e.step(task, schedules(1), timer(2, 0))
	e.ok(e.activity(w).Complete(e.ctx(), event("ActivityCompleted", 1)))
	e.until("all events are there", func() bool { return e.int("XLEN", e.key("in:a")) == 2 })
	e.ok(e.Signal(e.ctx(), "a", event("S1", 0)))
	e.ok(e.Cancel(e.ctx(), first, event("C1", 0)))
	task = e.task(w)
	e.ok(e.Cancel(e.ctx(), workflow.Instance{ID: "a"}, event("C2", 0)))
	e.ok(e.Signal(e.ctx(), "a", event("S2", 0)))
	_, goesOn := continued(task)
	e.step(task, goesOn)
	for _, want := range []string{"Started", "S1", "C2"} {
		if task = e.task(w); types(task.Events) != want {
			t.Errorf("events: %s, want %s", types(task.Events), want)
		}
		_, goesOn = continued(task)
		e.step(task, goesOn)
		if task = e.task(w); types(task.Events) != "Started" {
			t.Errorf("events: %s", types(task.Events))
		}
		e.step(task)
	}
	if task = e.task(w); types(task.Events) != "S2" {
		t.Errorf("events: %s", types(task.Events))
	}
	e.step(task, finished)
	if n := e.int("EXISTS", e.key("in:a")); n != 0 {
		t.Error("the inbox is left")
	}
}

// A signal starts an instance if none is active: one of two says started, and a repetition says the same.
func TestSignalWithStart(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	give := func(s workflow.Event, start workflow.Start, want bool) {
		t.Helper()
		if started, err := e.SignalWithStart(e.ctx(), s, start); err != nil || started != want {
			t.Errorf("started %v, %v", started, err)
		}
	}
	s1, s2 := event("S1", 0), event("S2", 0)
	first, second := starting("a"), starting("a")
	give(s1, first, true)
	give(s1, first, true)
	give(s2, second, false)
	give(s2, second, false)
	e.step(e.last(w, "Started S1 S2"), finished)
	if _, err := e.SignalWithStart(e.ctx(), event("S3", 0), first); !errors.Is(err, workflow.ErrNotFound) {
		t.Errorf("an execution that has ended: %v", err)
	}
	give(event("S3", 0), second, true)
	e.step(e.task(w), finished)
	if _, err := e.SignalWithStart(e.ctx(), workflow.Event{}, starting("a")); err == nil {
		t.Error("an event that is none")
	}
	if _, err := e.SignalWithStart(e.ctx(), event("S", 0), starting("")); err == nil {
		t.Error("a start that is none")
	}
}

// With the end racing it, each signal is with exactly one execution, and each execution was started by exactly one of them.
func TestSignalWithStartRacesEnd(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	var mu sync.Mutex
	got, starts := map[string]int{}, 0
	stop := e.poll(w, 2, func(task *workflow.WorkflowTask) workflow.Checkpoint {
		cp := checkpoint(task, finished)
		mu.Lock()
		defer mu.Unlock()
		for _, ev := range task.Events {
			if ev.Type == "Started" {
				starts++
			}
			got[ev.Type]++
		}
		return cp
	})
	const n = 300
	var all sync.WaitGroup
	var started int
	slots := make(chan struct{}, 5)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			was, err := e.SignalWithStart(context.Background(), event(fmt.Sprint("S", i), 0), starting("a"))
			if err != nil {
				t.Error(err)
			}
			if was {
				mu.Lock()
				started++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	e.until("all is handed out or ended", func() bool {
		return e.int("EXISTS", e.key("in:a")) == 0
	})
	stop()
	mu.Lock()
	defer mu.Unlock()
	lost := 0
	for i := range n {
		switch got[fmt.Sprint("S", i)] {
		case 0:
			lost++ // came during the last task of an execution
		case 1:
		default:
			t.Errorf("signal %d came %d times", i, got[fmt.Sprint("S", i)])
		}
	}
	if st := e.stats(); int(st.Counters["started"]) != started || starts != started {
		t.Errorf("%d say that they started it, %d executions, %d first events", started, st.Counters["started"], starts)
	}
	if starts < 2 {
		t.Errorf("%d executions: no race", starts)
	}
	t.Logf("%d executions, %d signals came to one that was just ending", starts, lost)
}
