package workflow_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/workflow"
)

// An instance with very many activities does not keep Redis busy for long: it is looked at in parts, and each activity that is gone fails once.
func TestMendInParts(t *testing.T) {
	long.Test(t, "waits until a worker looks at all instances")
	t.Parallel()
	e := newEnv(t)
	w, stop := e.worker(workflow.WorkerOptions{})
	const n = 5000
	e.begin("many")
	var refs []int64
	for ref := range int64(n) {
		refs = append(refs, ref+1)
	}
	e.step(e.task(w), schedules(refs...))
	e.begin("other")
	e.step(e.task(w), schedules(1))
	stop()
	e.ok(e.do("DEL", e.key("activities:q")).Error())
	g := testenv.NewGuillotine(t, e.srv.Addr)
	hash := workflow.Hashes()["mend"]
	g.Only(func(words []string) bool { return slices.Contains(words, hash) })
	g.Arm(0, false, func() {})
	w, _ = on(t, e.srv, e.srv.Connect(t, redis.Options{URL: g.URL}), e.opts).worker(workflow.WorkerOptions{Lease: 10 * time.Second}) // the first look comes after it
	failed := map[string]map[int64]int{"many": {}, "other": {}}
	for len(failed["many"]) < n || len(failed["other"]) < 1 {
		task := e.task(w)
		if err := task.Complete(e.ctx(), checkpoint(task)); errors.Is(err, workflow.ErrLost) {
			continue // its lease ended on a busy machine: it comes again
		} else {
			e.ok(err)
		}
		for _, event := range task.Events {
			if event.Type == workflow.EventActivityErr {
				failed[task.ID][event.Ref]++
			}
		}
	}
	for id, refs := range failed {
		for ref, times := range refs {
			if times != 1 {
				t.Errorf("activity %d of %s failed %d times", ref, id, times)
			}
		}
	}
	if calls := g.Count(); calls < 5 {
		t.Errorf("%d activities were looked at in %d calls", n, calls)
	}
}
