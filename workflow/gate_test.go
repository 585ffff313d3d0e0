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

func gate(key string, most int) func(*workflow.Start) {
	return func(s *workflow.Start) { s.Gate = &workflow.Gate{Key: key, Max: most} }
}

// No more than two of ten are through a gate at a time, in the order they came; an end of any kind lets the next in.
func TestGate(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	for k := range 10 {
		e.begin(fmt.Sprint("a", k), gate("g", 2))
	}
	e.begin("free")
	var through []*workflow.WorkflowTask
	for _, want := range []string{"a0", "a1", "free"} {
		task := e.task(w)
		if task.ID != want {
			t.Errorf("%s is through, want %s", task.ID, want)
		}
		through = append(through, task)
	}
	e.none(w)
	e.ok(e.Signal(e.ctx(), "a2", event("S", 0))) // that lets nobody in
	e.ok(e.Pause(e.ctx(), "a2"))
	e.ok(e.Resume(e.ctx(), "a2"))
	e.none(w)
	e.step(through[0], finished)
	task := e.last(w, "Started S")
	if task.ID != "a2" {
		t.Errorf("%s is through", task.ID)
	}
	e.ok(e.Terminate(e.ctx(), workflow.Instance{ID: "a1"}, ""))
	e.is(through[1].Complete(e.ctx(), checkpoint(through[1])), workflow.ErrLost)
	task3 := e.task(w)
	if task3.ID != "a3" {
		t.Errorf("%s is through", task3.ID)
	}
	e.ok(e.Terminate(e.ctx(), workflow.Instance{ID: "a5"}, "")) // one that waits
	e.step(task)                                                // active, though it has no task: it keeps its place
	e.none(w)
	e.step(task3, finished)
	task4 := e.task(w)
	if task4.ID != "a4" {
		t.Errorf("%s is through", task4.ID)
	}
	e.ok(e.Signal(e.ctx(), "a2", event("S", 0)))
	task = e.task(w)
	_, goesOn := continued(task, gate("g", 2)) // it keeps its place: it is the same instance
	e.step(task, goesOn)
	task = e.task(w)
	if task.ID != "a2" {
		t.Errorf("%s is through, want the continuation", task.ID)
	}
	_, goesOn = continued(task) // without the gate it leaves its place
	e.step(task, goesOn)
	got := map[string]bool{}
	for range 2 {
		task := e.task(w)
		got[task.ID] = true
		e.step(task, finished)
	}
	if !got["a2"] || !got["a6"] {
		t.Errorf("through: %v", got)
	}
	task = e.task(w)
	if task.ID != "a7" {
		t.Errorf("%s is through", task.ID)
	}
	_, goesOn = continued(task, gate("other", 1)) // through another gate
	e.step(task, goesOn)
	e.step(task4, finished)
	for range 3 {
		e.step(e.task(w), finished)
	}
	e.step(through[2], finished)
	if st := e.stats(); st.Active != 0 {
		t.Errorf("stats: %+v", st)
	}
	for _, k := range e.keys() {
		if strings.HasPrefix(k, "gate") {
			t.Errorf("%s is left", k)
		}
	}
}

// Never more than allowed are active at once, with many workers, ends of all kinds, and gates on other shards.
func TestGateUnderLoad(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint("shards ", n), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, shards(n))
			const most, total = 3, 60
			var mu sync.Mutex
			through := map[string]bool{}
			doomed := map[string]bool{} // they may end at any moment, and are not counted
			worst, turns := 0, map[string]int{}
			enter := func(id string) (turn int) {
				mu.Lock()
				defer mu.Unlock()
				if !doomed[id] {
					through[id] = true
				}
				worst = max(worst, len(through))
				turns[id]++
				return turns[id]
			}
			leave := func(id string) {
				mu.Lock()
				defer mu.Unlock()
				delete(through, id)
			}
			for range 2 {
				w, _ := e.other().worker(workflow.WorkerOptions{})
				e.poll(w, 4, func(task *workflow.WorkflowTask) workflow.Checkpoint {
					if turn := enter(task.ID); task.LastSequence == 0 && turn == 1 {
						_, goesOn := continued(task, gate("g", most))
						return checkpoint(task, goesOn)
					}
					leave(task.ID) // before it is recorded, which lets the next in
					return checkpoint(task, finished)
				})
			}
			var instances []workflow.Instance
			for k := range total {
				instances = append(instances, e.begin(fmt.Sprint("a", k), gate("g", most)))
				if k%10 == 9 {
					mu.Lock()
					doomed[instances[k].ID] = true
					mu.Unlock()
					leave(instances[k].ID)
					if err := e.Terminate(e.ctx(), instances[k], ""); err != nil && !errors.Is(err, workflow.ErrNotFound) {
						t.Error(err)
					}
				}
			}
			e.until("all have ended", func() bool { return e.stats().Active == 0 })
			mu.Lock()
			defer mu.Unlock()
			if worst > most || worst < 2 {
				t.Errorf("%d were through at once", worst)
			}
			e.until("the outboxes are empty", func() bool { return e.stats().Outbox == 0 })
			all, err := e.srv.AllKeys(e.ctx())
			e.ok(err)
			for _, k := range all {
				if strings.Contains(k, ":workflow:gate") {
					t.Errorf("%s is left", k)
				}
			}
		})
	}
}

// Sub-workflows of one checkpoint come to a gate in the order in which it names them.
func TestGateOrder(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	e.begin("parent")
	task := e.task(w)
	e.step(task, func(cp *workflow.Checkpoint) {
		for k := range 8 {
			s := starting(fmt.Sprint("c", k), gate("g", 1))
			s.Instance.Execution = fmt.Sprint(9 - k)
			child(task, s, int64(k+1))(cp)
		}
	})
	for k := range 8 {
		task := e.task(w)
		if task.ID != fmt.Sprint("c", k) {
			t.Errorf("%s is through, want c%d", task.ID, k)
		}
		e.step(task, finished)
	}
	e.ok(e.Terminate(e.ctx(), workflow.Instance{ID: "parent"}, ""))
}

// The limit of the newest counts: more are let in at once, and fewer later.
func TestGateMax(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	for k := range 3 {
		e.begin(fmt.Sprint("a", k), gate("g", 1))
	}
	a0 := e.task(w)
	e.none(w)
	e.begin("a3", gate("g", 3))
	a1, a2 := e.task(w), e.task(w)
	e.begin("a4", gate("g", 1))
	e.step(a0, finished)
	e.step(a1, finished)
	e.none(w)
	e.step(a2, finished)
	a3 := e.task(w)
	if a3.ID != "a3" {
		t.Errorf("%s is through", a3.ID)
	}
	e.none(w)
	e.step(a3, finished)
	e.step(e.task(w), finished)
}

// Starts and ends race each other over shards: no place at a gate is lost.
func TestGateRaces(t *testing.T) {
	t.Parallel()
	e := newEnv(t, shards(3))
	for range 2 {
		e.other().worker(workflow.WorkerOptions{})
	}
	var all sync.WaitGroup
	for k := range 100 {
		all.Go(func() {
			s := starting(fmt.Sprint("a", k), gate("g", 2))
			if err := e.Start(context.Background(), s); err != nil {
				t.Error(err)
			}
			if err := e.Terminate(context.Background(), s.Instance, ""); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	e.until("the outboxes are empty", func() bool { return e.stats().Outbox == 0 })
	w, _ := e.worker(workflow.WorkerOptions{})
	for k := range 2 {
		e.begin(fmt.Sprint("b", k), gate("g", 2))
	}
	for range 2 {
		e.step(e.task(w), finished)
	}
	e.until("nobody is at the gate", func() bool {
		keys, err := e.srv.AllKeys(e.ctx())
		e.ok(err)
		return e.stats().Outbox == 0 && !strings.Contains(strings.Join(keys, "\n"), ":workflow:gate")
	})
}

// An instance that ends before its place is asked for, as messages overtake each other, gives it back; and so it does if the same is carried again much later.
func TestGateOvertaken(t *testing.T) {
	t.Parallel()
	e := newEnv(t, shards(2))
	id, g := e.onShard(0, "a"), e.onShard(1, "gate")
	i := e.begin(id, gate(g, 1))
	e.ok(e.Terminate(e.ctx(), i, ""))
	out := shardPrefix(e.opts.Prefix, 0) + ":workflow:out"
	messages, err := e.do("XRANGE", out, "-", "+").AsXRange()
	e.ok(err)
	if len(messages) != 2 || messages[0].FieldValues["1"] != "acquire" || messages[1].FieldValues["1"] != "release" {
		t.Fatalf("messages: %+v", messages)
	}
	e.ok(e.do("DEL", out).Error())
	w, _ := e.worker(workflow.WorkerOptions{})
	for _, n := range []int{1, 0, 0} {
		words := []string{"XADD", out, "*"}
		for field, value := range messages[n].FieldValues {
			words = append(words, field, value)
		}
		e.ok(e.do(words...).Error())
		e.until("it is carried", func() bool { return e.stats().Outbox == 0 })
	}
	e.begin(id, gate(g, 1)) // the only place is free
	e.step(e.task(w), finished)
	e.until("the outboxes are empty", func() bool { return e.stats().Outbox == 0 })
}

// A child behind its parent's gate waits for its parent, which waits for it, until the gate is made wider.
func TestChildBehindParentsGate(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	e.begin("parent", gate("g", 1))
	task := e.task(w)
	e.step(task, child(task, starting("child", gate("g", 1)), 1))
	e.none(w)
	e.begin("wider", gate("g", 3))
	for range 2 { // the child, and who came behind it
		task := e.task(w)
		if task.ID != "child" && task.ID != "wider" {
			t.Fatalf("a task of %s", task.Instance)
		}
		e.step(task, finished)
	}
	e.ok(e.Terminate(e.ctx(), workflow.Instance{ID: "parent"}, ""))
}
