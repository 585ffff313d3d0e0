package fault_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/test/rig"
)

const tickEvery = 100 * time.Millisecond

// tick is submitted by schedulers; the work is the slot.
var tick = task.Define[taskWork, taskResult]("fault:Tick", task.Small, taskRetry,
	task.Every(tickEvery, task.RunAll(5000), task.Args(func(f task.Firing) taskWork { return taskWork{N: fmt.Sprint("tick ", f.Slot.UnixMilli())} })))

// ticks are the slots that were run, each with its tasks.
func (w *taskWorld) ticks() map[int64]*logical {
	w.t.Helper()
	slots := make(map[int64]*logical)
	for name, l := range w.logicals() {
		var slot int64
		if n, _ := fmt.Sscanf(name, "tick %d", &slot); n == 1 {
			slots[slot] = l
		}
	}
	return slots
}

// Fault 23, the leader of two schedulers is stopped past its lease and goes on later, and is killed. Each slot is submitted once, and none is
// missed.
func TestTaskFault23TwoSchedulers(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{})
	w.worker(taskConfig{Lease: calm, Ticks: true})
	schedulers := make(map[string]*rig.Process)
	begin := func(id string) {
		schedulers[id] = w.start(taskConfig{Role: "scheduler", ID: id})
		schedulers[id].Await("up")
	}
	begin("a")
	begin("b")
	leader := func(not string) (id string) {
		w.t.Helper()
		w.wait("another leads", func() bool {
			var err error
			id, _, err = w.client.SchedulerLeader(w.ctx())
			return err == nil && id != "" && id != not
		})
		return id
	}
	var slowest time.Duration
	for round := range scaled(4, 20) {
		w.until(noteEffect, w.seen(noteEffect)+5)
		old := leader("")
		at, zombie := time.Now(), schedulers[old]
		if round%2 == 0 {
			zombie.Pause()
		} else {
			zombie.Kill()
		}
		leader(old)
		w.until(noteEffect, w.seen(noteEffect)+5)
		slowest = max(slowest, time.Since(at))
		if round%2 == 0 {
			zombie.Continue()
		} else {
			begin(old)
		}
	}
	w.until(noteEffect, w.seen(noteEffect)+5)
	for _, p := range schedulers {
		p.Stop()
	}
	w.quiet()
	slots := w.ticks()
	first, last := int64(1<<62), int64(0)
	for slot, l := range slots {
		first, last = min(first, slot), max(last, slot)
		if ids := l.tasks(); len(ids) != 1 || len(l.runs) != 1 || !strings.HasPrefix(ids[0], "_"+tick.Name()+"@") {
			t.Errorf("I2: slot %d: %v", slot, l.describe())
		}
	}
	missed := 0
	for slot := first; slot <= last; slot += tickEvery.Milliseconds() {
		if slots[slot] == nil {
			missed++
		}
	}
	if missed > 0 || len(slots) != int((last-first)/tickEvery.Milliseconds())+1 {
		t.Errorf("I1: %d slots were run, %d missed", len(slots), missed)
	}
	t.Logf("%d slots, each run once; a new leader had made up for all after at most %v", len(slots), slowest.Round(time.Millisecond))
	w.verifyRest()
}
