package workflow_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/workflow"
)

// finds says whether Check finds something about a key.
func (e *env) finds(key, problem string) bool {
	e.t.Helper()
	found, err := e.Check(e.ctx(), grace)
	e.ok(err)
	for _, v := range found {
		if v.Key == key && strings.Contains(v.Problem, problem) {
			return true
		}
	}
	return false
}

// A key of one instance that somebody wrote in his own way stops that instance, and no other: timers of others fire, and what they miss in the queues is put right.
func TestForeignKeys(t *testing.T) {
	long.Test(t, "waits until a worker looks at all instances")
	t.Parallel()
	for _, foreign := range []string{"run:a", "in:a", "tasks:odd", "held:tasks:odd", "activities:odd"} {
		t.Run(foreign, func(t *testing.T) {
			t.Parallel()
			log := &testenv.Log{}
			e := newEnv(t, func(o *workflow.Options) { o.Log = slog.New(slog.NewTextHandler(log, nil)) })
			e.broken = true
			w, stop := e.worker(workflow.WorkerOptions{})
			e.begin("a", func(s *workflow.Start) { s.Queue = "odd" })
			e.step(e.task(w, "odd"), timer(1, 300*time.Millisecond), schedules(2))
			e.begin("b")
			e.step(e.task(w), timer(1, 600*time.Millisecond))
			e.begin("c")
			stop()
			e.ok(e.do("DEL", e.key(foreign)).Error())
			e.ok(e.do("SET", e.key(foreign), "mine").Error())
			e.ok(e.do("DEL", e.key("tasks:q")).Error())
			w, _ = e.worker(workflow.WorkerOptions{Lease: 10 * time.Second}) // the first look comes after it
			for want := map[string]bool{"b": true, "c": true}; len(want) > 0; {
				task := e.task(w)
				if !want[task.ID] {
					t.Fatalf("a task of %s", task.Instance)
				}
				delete(want, task.ID)
				e.step(task)
			}
			e.until("the log names it", func() bool { return log.Count(e.key(foreign)) > 0 })
			if !e.finds(e.key(foreign), "WRONGTYPE") {
				t.Error("Check does not find it")
			}
			if got, err := e.do("GET", e.key(foreign)).ToString(); err != nil || got != "mine" {
				t.Errorf("it was changed: %q, %v", got, err)
			}
		})
	}
}

// An instance whose inbox is of another type is paused at the first try, so those behind it do not wait for its next ones; the log says which key. It goes on once that is mended.
func TestForeignInboxPauses(t *testing.T) {
	t.Parallel()
	log := &testenv.Log{}
	e := newEnv(t, func(o *workflow.Options) { o.Log = slog.New(slog.NewTextHandler(log, nil)) })
	odd, good := []string{"odd-1", "odd-2", "odd-3"}, []string{"good-1", "good-2", "good-3"}
	for k := range odd {
		e.begin(odd[k])
		e.begin(good[k])
		e.ok(e.do("DEL", e.key("in:"+odd[k])).Error())
		e.ok(e.do("SET", e.key("in:"+odd[k]), "mine").Error())
	}
	w, _ := e.worker(workflow.WorkerOptions{MaxDeliveries: -1}) // never given up for how often it was begun
	for _, id := range good {
		task := e.task(w)
		if task.ID != id {
			t.Fatalf("a task of %s, want %s", task.ID, id)
		}
		e.step(task, finished)
	}
	e.begin("last") // whoever asks for it comes to what is before it
	e.step(e.task(w), finished)
	for _, id := range odd {
		if e.int("HEXISTS", e.key("run:"+id), "p") != 1 {
			t.Errorf("%s is not paused", id)
		}
		if log.Count("instance="+id+" keys=["+e.key("in:"+id)+"]") == 0 {
			t.Errorf("the log does not say which key of %s it is", id)
		}
	}
	if n := log.Count("stream: handler failed"); n != len(odd) {
		t.Errorf("%d tries failed, want one of each of %d", n, len(odd))
	}
	e.idle("q")
	for _, id := range odd {
		e.ok(e.do("DEL", e.key("in:"+id)).Error())
		e.ok(e.Signal(e.ctx(), id, event("S", 0)))
		e.ok(e.Resume(e.ctx(), id))
		task := e.task(w)
		if task.ID != id || types(task.Events) != "S" {
			t.Fatalf("%s with %s, want S for %s", task.ID, types(task.Events), id)
		}
		e.step(task, finished)
	}
}

// What was set aside for a key of another type goes on when that is gone.
func TestForeignKeyGone(t *testing.T) {
	long.Test(t, "waits until a timer is tried again")
	t.Parallel()
	e := newEnv(t)
	w, stop := e.worker(workflow.WorkerOptions{})
	e.begin("a")
	e.step(e.task(w), timer(1, time.Hour))
	stop()
	e.ok(e.do("SET", e.key("in:a"), "mine").Error())
	e.ok(e.do("ZADD", e.key("timers"), "1", e.first("timers")).Error()) // it is due
	for want := int64(1); want >= 0; want-- {                           // the second time it is set aside
		if tried, err := workflow.Fire(e.ctx(), e.Client); err != nil || tried != want {
			t.Fatalf("tried %d, %v, want %d", tried, err, want)
		}
	}
	e.ok(e.do("DEL", e.key("in:a")).Error())
	w, _ = e.worker(workflow.WorkerOptions{})
	if task := e.task(w); types(task.Events) != "TimerFired/1" {
		t.Errorf("events: %s", types(task.Events))
	}
}

// first is the first member of an index.
func (e *env) first(index string) string {
	e.t.Helper()
	members, err := e.do("ZRANGE", e.key(index), "0", "0").AsStrSlice()
	if err != nil || len(members) != 1 {
		e.t.Fatal(index, members, err)
	}
	return members[0]
}

// A key of another type is found whatever it is for.
func TestCheckTypes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"early:a:x", "queues", "seen", "counters", "clock", "mended", "schedule:s", "schedules", "watched", "replicated", "timers", "gates", "paused", "out", "ended"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.broken = true
			words := []string{"XADD", e.key(name), "*", "a", "b"}
			if name == "out" {
				words = []string{"SET", e.key(name), "x"}
			}
			e.ok(e.do(words...).Error())
			if !e.finds(e.key(name), "") {
				t.Error("Check does not find it")
			}
		})
	}
}
