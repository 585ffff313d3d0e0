package workflow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/workflow"
)

// On a cluster the shards are on several nodes. Families, gates, timers, activities, pushes, pauses and pages reach over all of them. One shard under a prefix without a hash tag is refused before
// anything is written, and what to do is said.
func TestCluster(t *testing.T) {
	long.Test(t, "runs a cluster")
	t.Parallel()
	srv := testenv.RedisCluster(t)
	for _, prefix := range []string{"", "flows", "flows{}"} {
		_, made := workflow.New(srv.Client, workflow.Options{Prefix: prefix})
		_, opened := workflow.Open(t.Context(), srv.URL, workflow.Options{Prefix: prefix})
		for _, err := range []error{made, opened} {
			if err == nil || !strings.Contains(err.Error(), "Options.Shards") || !strings.Contains(err.Error(), "Options.Prefix {") {
				t.Errorf("%q: %v", prefix, err)
			}
		}
	}
	o := workflow.Options{Prefix: "wf", Shards: 6}
	for n := range o.Shards {
		srv.Own(shardPrefix(o.Prefix, n))
	}
	e := on(t, srv, srv.Client, o)
	t.Cleanup(e.check)
	const parents, children = 6, 4
	do := func(task *workflow.WorkflowTask) workflow.Checkpoint {
		n := task.LastSequence + int64(len(task.Events))
		switch {
		case task.LastSequence == 0 && task.Parent == nil:
			var change []func(*workflow.Checkpoint)
			for k := range int64(children) {
				change = append(change, child(task, starting(fmt.Sprint(task.ID, "-", k), gate("g", 2)), k+1))
			}
			return checkpoint(task, change...)
		case task.LastSequence == 0:
			return checkpoint(task, schedules(1), timer(2, 10*time.Millisecond))
		case task.Parent != nil && n == 3:
			return checkpoint(task, finished, tells(*task.Parent, event("SubCompleted", task.ParentEvent)))
		case task.Parent == nil && n == children+1:
			return checkpoint(task, finished)
		}
		return checkpoint(task)
	}
	for range 2 {
		w, _ := e.other().worker(workflow.WorkerOptions{})
		e.poll(w, 3, do)
		e.act(w, 2)
	}
	var all []workflow.Instance
	for k := range parents {
		all = append(all, e.begin(fmt.Sprint("p", k)))
	}
	for _, i := range all {
		e.ended(i)
		h, err := e.History(e.ctx(), i, 0)
		e.ok(err)
		refs := map[int64]bool{}
		for _, ev := range h {
			refs[ev.Ref] = true
		}
		if len(h) != children+1 || len(refs) != children+1 {
			t.Errorf("history of %s: %s", i, types(h))
		}
	}
	e.until("the outboxes are empty", func() bool { return e.stats().Outbox == 0 })
	e.ok(e.PauseQueue(e.ctx(), "q"))
	e.begin("held", func(s *workflow.Start) { s.Attributes = map[string]string{"k": "v"} })
	if st := e.stats(); st.Held["q"] != 1 || st.Counters["completed"] != parents*(children+1) {
		t.Errorf("stats: %+v", st)
	}
	list, err := e.List(e.ctx(), workflow.Filter{Attributes: map[string]string{"k": "v"}})
	e.ok(err)
	if len(list) != 1 || list[0].ID != "held" {
		t.Errorf("list: %+v", list)
	}
	e.ok(e.Terminate(e.ctx(), workflow.Instance{ID: "held"}, ""))
	e.ok(e.ResumeQueue(e.ctx(), "q"))
	if removed, err := e.RemoveEnded(e.ctx(), time.Now().Add(time.Minute), 0); err != nil || removed != parents*(children+1)+1 {
		t.Errorf("removed %d, %v", removed, err)
	}
}
