package workflow_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/workflow"
)

// A timer fires when it is due and not before, once, whatever the number of workers; Timers lists it until then.
func TestTimer(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	for range 3 {
		e.other().worker(workflow.WorkerOptions{})
	}
	e.begin("a")
	task := e.task(w)
	begun := time.Now()
	const n = 20
	e.step(task, func(cp *workflow.Checkpoint) {
		for i := range int64(n) {
			timer(i+1, time.Duration(n-i)*20*time.Millisecond)(cp)
		}
		timer(100, time.Hour)(cp)
		timer(101, 2*time.Hour)(cp)
	})
	all, err := e.Timers(e.ctx())
	e.ok(err)
	if len(all) < 2 || all[len(all)-1].Ref != 101 {
		t.Errorf("timers: %s", types(all))
	}
	for i := range all[1:] {
		if all[i].VisibleAt.After(*all[i+1].VisibleAt) {
			t.Errorf("timers are not in order: %s", types(all))
		}
	}
	var order []int64
	for len(order) < n {
		task := e.task(w)
		for _, ev := range task.Events {
			if late := time.Since(begun) - time.Duration(n-ev.Ref+1)*20*time.Millisecond; late < -2*time.Millisecond { // two clocks are read, in milliseconds
				t.Errorf("timer %d came %s early", ev.Ref, -late)
			}
			order = append(order, ev.Ref)
		}
		e.step(task)
	}
	for i, ref := range order {
		if ref != int64(n-i) {
			t.Fatalf("order: %d", order)
		}
	}
	e.ok(e.Terminate(e.ctx(), workflow.Instance{ID: "a"}, ""))
	if st := e.stats(); st.Timers != 0 {
		t.Errorf("%d timers are left", st.Timers)
	}
}

// A timer is cancelled before it fires, also by the checkpoint that sets it; cancelling it after that does nothing.
func TestTimerCanceled(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	cancels := func(refs ...int64) func(*workflow.Checkpoint) {
		return func(cp *workflow.Checkpoint) { cp.Canceled = append(cp.Canceled, refs...) }
	}
	e.begin("a")
	e.step(e.task(w), timer(1, time.Hour), cancels(1)) // it was the only one
	if st := e.stats(); st.Timers != 0 {
		t.Errorf("%d timers", st.Timers)
	}
	e.ok(e.Signal(e.ctx(), "a", event("S", 0)))
	e.step(e.task(w), timer(2, time.Hour), timer(3, 60*time.Millisecond), timer(4, time.Hour))
	e.ok(e.Signal(e.ctx(), "a", event("S", 0)))
	third := false // has fired, with the signal or after it
	has := func(task *workflow.WorkflowTask) *workflow.WorkflowTask {
		third = third || strings.Contains(types(task.Events), "TimerFired/3")
		return task
	}
	e.step(has(e.task(w)), cancels(2, 2, 77))
	if all, err := e.Timers(e.ctx()); err != nil || strings.Contains(types(all), "TimerFired/2") || !strings.Contains(types(all), "TimerFired/4") {
		t.Errorf("timers: %s, %v", types(all), err)
	}
	for !third {
		e.step(has(e.task(w)))
	}
	e.ok(e.Signal(e.ctx(), "a", event("S", 0)))
	e.step(e.task(w), cancels(3, 2, 4)) // one has fired, one is canceled already
	e.ok(e.Signal(e.ctx(), "a", event("S", 0)))
	e.step(e.task(w), finished, timer(9, 0)) // nothing fires after the end
	if st := e.stats(); st.Timers != 0 {
		t.Errorf("%d timers", st.Timers)
	}
}

// What an instance set, scheduled and had in its inbox goes with it, however it ends.
func TestEndTakesAllAlong(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*env, *workflow.Worker, workflow.Instance){
		"finished":   func(e *env, w *workflow.Worker, i workflow.Instance) { e.step(e.again(w, i), finished) },
		"terminated": func(e *env, _ *workflow.Worker, i workflow.Instance) { e.ok(e.Terminate(e.ctx(), i, "enough")) },
		"removed": func(e *env, w *workflow.Worker, i workflow.Instance) {
			e.step(e.again(w, i), finished)
			e.ok(e.Remove(e.ctx(), i))
		},
		"continued and removed": func(e *env, w *workflow.Worker, i workflow.Instance) {
			task := e.again(w, i)
			_, goesOn := continued(task)
			e.step(task, goesOn, func(cp *workflow.Checkpoint) { cp.RemoveContinued = true })
			e.ok(e.Terminate(e.ctx(), workflow.Instance{ID: i.ID}, "enough"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			w, _ := e.worker(workflow.WorkerOptions{})
			i := e.begin("a")
			e.step(e.task(w), schedules(1, 2, 3), timer(4, time.Hour), timer(5, 100*time.Millisecond))
			running := e.activity(w)
			end(e, w, i)
			e.is(running.Complete(e.ctx(), event("Done", 1)), workflow.ErrLost)
			e.is(running.Extend(e.ctx()), workflow.ErrLost)
			if st := e.stats(); st.Timers != 0 || len(st.Activities) != 0 || len(st.Workflows) != 0 || st.Active != 0 {
				t.Errorf("stats: %+v", st)
			}
			for _, k := range e.keys() {
				if strings.HasPrefix(k, "run:") || strings.HasPrefix(k, "in:") {
					t.Errorf("%s is left", k)
				}
			}
			e.idle("q")
			e.none(w)
		})
	}
}

// again is the next task of an instance, which is told something for that.
func (e *env) again(w *workflow.Worker, i workflow.Instance) *workflow.WorkflowTask {
	e.t.Helper()
	e.ok(e.Signal(e.ctx(), i.ID, event("S", 0)))
	return e.task(w)
}

// 2000 timers of one instance that are due make few tasks.
func TestManyTimersOfOne(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, stop := e.worker(workflow.WorkerOptions{})
	e.begin("a")
	const n = 2000
	e.step(e.task(w), timers(n))
	stop() // so that they are all due before anybody looks
	e.allDue()
	for _, want := range []int64{500, 500} { // that is what one script does
		if fired, err := workflow.Fire(e.ctx(), e.Client); err != nil || fired != want {
			t.Errorf("fired %d, %v, want %d", fired, err, want)
		}
	}
	w, _ = e.worker(workflow.WorkerOptions{})
	seen := map[int64]int{}
	count := 0
	for ; len(seen) < n; count++ {
		task := e.task(w)
		for _, ev := range task.Events {
			seen[ev.Ref]++
		}
		e.step(task)
	}
	for ref, times := range seen {
		if times != 1 {
			t.Errorf("timer %d came %d times", ref, times)
		}
	}
	if count > 50 {
		t.Errorf("%d tasks", count)
	}
	t.Logf("%d tasks", count)
}

// 10,000 timers of many instances that are due at once all arrive, each once, with several workers.
func TestManyTimers(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	const instances, each = 100, 100
	for k := range instances {
		e.begin(fmt.Sprint("a", k))
	}
	for range instances {
		e.step(e.task(w), timers(each))
	}
	e.allDue()
	var mu sync.Mutex
	seen := map[string]int{}
	total := 0
	for range 3 {
		ow, _ := e.other().worker(workflow.WorkerOptions{})
		e.poll(ow, 4, func(task *workflow.WorkflowTask) workflow.Checkpoint {
			mu.Lock()
			defer mu.Unlock()
			for _, ev := range task.Events {
				seen[task.ID+" "+strconv.FormatInt(ev.Ref, 10)]++
				total++
			}
			if task.LastSequence+int64(len(task.Events)) > each {
				return checkpoint(task, finished)
			}
			return checkpoint(task)
		})
	}
	for k := range instances {
		e.ended(workflow.Instance{ID: fmt.Sprint("a", k)})
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != instances*each || total != instances*each {
		t.Errorf("%d timers came, %d of them for the first time", total, len(seen))
	}
}

// timers sets n of them, with the numbers from 1 on, in an hour.
func timers(n int64) func(*workflow.Checkpoint) {
	return func(cp *workflow.Checkpoint) {
		for i := range n {
			timer(i+1, time.Hour)(cp)
		}
	}
}

// allDue lets the time of all timers that are set be over.
func (e *env) allDue() {
	e.t.Helper()
	e.ok(e.do("EVAL", "for _, m in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZADD', KEYS[1], 1, m) end return 1", "1", e.key("timers")).Error())
}

// A timer that another process sets is not late at a worker that knew of none, or only of later ones.
func TestTimerIsTold(t *testing.T) {
	long.Test(t, "compares times of the machine")
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	testenv.OnceWithin(t, 2*time.Second, func(try int) time.Duration { // well below the time between two looks
		setter := e.mortal(workflow.WorkerOptions{})
		e.begin(fmt.Sprint("far", try))
		e.step(e.task(setter.Worker), timer(1, time.Hour))
		e.begin(fmt.Sprint("a", try))
		begun := time.Now()
		e.step(e.task(setter.Worker), timer(1, 100*time.Millisecond))
		setter.die()
		task := e.task(w)
		took := time.Since(begun)
		e.step(task, finished)
		return took
	})
}

// An hour that the clock of a process is off moves no timer: due times are counted from the checkpoint.
func TestTimerOfAnotherClock(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	e.begin("a")
	e.step(e.task(w), timer(1, -time.Hour), timer(2, 24*365*200*time.Hour)) // long ago; in 200 years
	task := e.task(w)
	if types(task.Events) != "TimerFired/1" {
		t.Errorf("events: %s", types(task.Events))
	}
	all, err := e.Timers(e.ctx())
	e.ok(err)
	if types(all) != "TimerFired/2" {
		t.Errorf("timers: %s", types(all))
	}
	e.step(task, finished)
}
