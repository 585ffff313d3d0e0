package workflow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/workflow"
)

// onShard makes an id that belongs to a shard: where its document is.
func (e *env) onShard(n int, name string) string {
	e.t.Helper()
	for k := 0; ; k++ {
		id := fmt.Sprint(name, k)
		i := e.begin(id, func(s *workflow.Start) { s.Queue = "probe" })
		there := e.int("EXISTS", shardPrefix(e.opts.Prefix, n)+":workflow:doc:"+i.String()) == 1
		e.ok(e.Terminate(e.ctx(), i, ""))
		e.ok(e.Remove(e.ctx(), i))
		if there {
			return id
		}
	}
}

// All keys of an instance have the tag of its shard, and those of its queues, too.
func TestShards(t *testing.T) {
	t.Parallel()
	e := newEnv(t, shards(4))
	w, _ := e.worker(workflow.WorkerOptions{})
	const n = 40
	used := map[string]int{}
	for k := range n {
		e.begin(fmt.Sprintf("order-%02d", k))
		e.step(e.task(w), schedules(1), timer(2, time.Hour))
	}
	for k := range n {
		e.ok(e.Signal(e.ctx(), fmt.Sprintf("order-%02d", k), event("S", 0)))
	}
	all, err := e.srv.AllKeys(e.ctx())
	e.ok(err)
	for k := range n {
		id := fmt.Sprintf("order-%02d", k)
		shard := ""
		for _, key := range all {
			prefix, rest, _ := strings.Cut(key, ":")
			if !strings.Contains(rest, id) {
				continue
			}
			if shard == "" {
				shard = prefix
			}
			if prefix != shard || !strings.HasPrefix(prefix, "{"+e.opts.Prefix+"-") {
				t.Errorf("%s, and others of it are under %s", key, shard)
			}
		}
		used[shard]++
	}
	if len(used) != 4 {
		t.Errorf("shards: %v", used)
	}
	for range n {
		a := e.activity(w)
		e.ok(a.Complete(e.ctx(), event("Done", 1)))
	}
	e.poll(w, 2, func(task *workflow.WorkflowTask) workflow.Checkpoint {
		if task.LastSequence+int64(len(task.Events)) < 3 {
			return checkpoint(task)
		}
		return checkpoint(task, finished)
	})
	e.until("all have ended", func() bool { return e.stats().Ended == n })
	if st := e.stats(); st.Active+st.Timers+st.Outbox != 0 || len(st.Workflows)+len(st.Activities) != 0 || st.Counters["completed"] != n {
		t.Errorf("stats: %+v", st)
	}
}

// A parent and its children on other shards: each starts once, each result comes once.
func TestFamilyOverShards(t *testing.T) {
	t.Parallel()
	e := newEnv(t, shards(3))
	const parents, children = 10, 6
	for range 2 {
		w, _ := e.other().worker(workflow.WorkerOptions{})
		e.poll(w, 3, func(task *workflow.WorkflowTask) workflow.Checkpoint {
			if task.Parent != nil {
				return checkpoint(task, finished, tells(*task.Parent, workflow.Event{ID: task.Execution + "r", Type: "SubCompleted", Ref: task.ParentEvent, Time: time.Now()}))
			}
			var change []func(*workflow.Checkpoint)
			if task.LastSequence == 0 {
				for k := range children {
					change = append(change, child(task, starting(fmt.Sprint(task.ID, "-", k)), int64(k+1)))
				}
			}
			if task.LastSequence+int64(len(task.Events)) == children+1 {
				change = append(change, finished)
			}
			return checkpoint(task, change...)
		})
	}
	var all []workflow.Instance
	for k := range parents {
		all = append(all, e.begin(fmt.Sprint("p", k)))
	}
	for _, i := range all {
		e.ended(i)
		h, err := e.History(e.ctx(), i, 0)
		e.ok(err)
		refs := map[int64]int{}
		for _, ev := range h {
			refs[ev.Ref]++
		}
		if len(h) != children+1 || len(refs) != children+1 {
			t.Errorf("history of %s: %s", i, types(h))
		}
	}
	e.until("the outboxes are empty", func() bool { return e.stats().Outbox == 0 })
	if st := e.stats(); st.Counters["started"] != parents*(children+1) || st.Counters["completed"] != parents*(children+1) {
		t.Errorf("counters: %v", st.Counters)
	}
}

// A sub-workflow whose id is active already is refused, on this shard and on another; the parent gets what it wanted to get then, once.
func TestStartRejected(t *testing.T) {
	t.Parallel()
	e := newEnv(t, shards(2))
	parent, near, far := e.onShard(0, "parent"), e.onShard(0, "near"), e.onShard(1, "far")
	w, _ := e.worker(workflow.WorkerOptions{})
	e.begin(near, func(s *workflow.Start) { s.Queue = "busy" })
	e.begin(far, func(s *workflow.Start) { s.Queue = "busy" })
	e.begin(parent)
	task := e.task(w)
	e.step(task, child(task, starting(near), 1), child(task, starting(far), 2), func(cp *workflow.Checkpoint) {
		quiet := starting(near)
		cp.Messages = append(cp.Messages, workflow.Message{To: quiet.Instance, Start: &quiet}) // nobody wants to know
	})
	var got []workflow.Event
	for len(got) < 2 {
		task = e.task(w)
		got = append(got, task.Events...)
		e.step(task)
	}
	if all := " " + types(got) + " "; len(got) != 2 || !strings.Contains(all, " SubWorkflowFailed/1 ") || !strings.Contains(all, " SubWorkflowFailed/2 ") {
		t.Errorf("the parent gets %s", all)
	}
	e.none(w)
	if st := e.stats(); st.Active != 3 {
		t.Errorf("stats: %+v", st)
	}
}

// Events for an execution that has not started yet wait for it; those for one that has ended, or never comes, are dropped and hold up nothing.
func TestEventsBeforeStart(t *testing.T) {
	t.Parallel()
	e := newEnv(t, shards(2))
	parent, far := e.onShard(0, "parent"), e.onShard(1, "far")
	old := e.begin(far)
	w, _ := e.worker(workflow.WorkerOptions{})
	e.step(e.task(w), finished)
	busy := e.begin(far, func(s *workflow.Start) { s.Queue = "busy" })
	e.begin(parent)
	task := e.task(w)
	next := starting(far, func(s *workflow.Start) { s.Queue = "next" })
	e.step(task, tells(next.Instance, event("Early", 1)), tells(old, event("Late", 0)), tells(next.Instance, event("Early", 2)), func(cp *workflow.Checkpoint) {
		for k := range 200 { // more than are on their way at once
			tells(workflow.Instance{ID: far, Execution: fmt.Sprint("never", k)}, event("Lost", 0))(cp)
		}
		tells(busy, event("OnTime", 0))(cp)
	})
	e.until("all is carried", func() bool { return e.stats().Outbox == 0 })
	ontime := e.task(w, "busy")
	if types(ontime.Events) != "Started OnTime" {
		t.Errorf("events: %s", types(ontime.Events))
	}
	e.step(ontime, finished)
	e.ok(e.Start(e.ctx(), next))
	got := e.task(w, "next")
	if all := types(got.Events); all != "Started Early/1 Early/2" && all != "Started Early/2 Early/1" {
		t.Errorf("events: %s", all)
	}
	e.step(got, finished)
	for k := range 200 {
		if ms := e.int("PTTL", shardPrefix(e.opts.Prefix, 1)+":workflow:early:"+far+":"+fmt.Sprint("never", k)); ms < 0 {
			t.Fatalf("what is for execution never%d stays: %d", k, ms)
		}
	}
}

// Terminating a child tells its parent on another shard; a parent that is gone is no harm.
func TestTerminateOverShards(t *testing.T) {
	t.Parallel()
	e := newEnv(t, shards(2))
	parent, far := e.onShard(0, "parent"), e.onShard(1, "far")
	w, _ := e.worker(workflow.WorkerOptions{})
	for _, gone := range []bool{false, true} {
		i := e.begin(parent)
		task := e.task(w)
		e.step(task, child(task, starting(far), 5))
		sub := e.task(w)
		if gone {
			e.ok(e.Terminate(e.ctx(), i, ""))
			e.ok(e.Remove(e.ctx(), i))
		}
		e.ok(e.Terminate(e.ctx(), sub.Instance, "enough"))
		if !gone {
			task = e.task(w)
			if types(task.Events) != "SubWorkflowFailed/5" {
				t.Errorf("events: %s", types(task.Events))
			}
			e.step(task, finished)
		}
		e.until("the outbox is empty", func() bool { return e.stats().Outbox == 0 })
	}
}
