package fault_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/test/rig"
)

// load is two workers and a starter at work.
func (w *flowWorld) load(c flowConfig, n int) (workers []*rig.Process, starter *rig.Process) {
	w.t.Helper()
	workers = []*rig.Process{w.worker(c), w.worker(c)}
	starter = w.starter(flowConfig{Name: "load", Count: n, Every: 5 * time.Millisecond, Plan: everything})
	return workers, starter
}

// Fault 1: workers are killed at random points in the middle of many instances, and replaced.
func TestWorkflowFault1WorkersKilled(t *testing.T) {
	t.Parallel()
	w := newFlowWorld(t, embedded.RedisOptions{})
	n, kills := scaled(60, 5000), scaled(4, 20)
	workers, starter := w.load(flowConfig{}, n)
	for round := range kills {
		w.until(noteCheckpoint, (round+1)*n/kills+w.rand.IntN(n/kills))
		i := w.rand.IntN(len(workers))
		workers[i].Kill()
		if w.rand.IntN(2) == 0 { // the same name again: it takes what it had at once
			workers[i] = w.worker(flowConfig{ID: fmt.Sprintf("w%d", i+1)})
		} else {
			workers[i] = w.worker(flowConfig{})
		}
	}
	w.ended(starter)
	w.verify()
}

// Fault 3: a worker is stopped past its lease and goes on with what it believes. Others took over; what it still says is refused.
func TestWorkflowFault3WorkerPausedPastItsLease(t *testing.T) {
	t.Parallel()
	w := newFlowWorld(t, embedded.RedisOptions{})
	zombie := w.worker(flowConfig{ID: "zombie"})
	w.begin("slow", 5, flowPlan{Activities: 2, Held: true})
	w.until(noteRun, 10) // all in the hands of the zombie
	zombie.Pause()
	w.ledger.openGate()
	heir := w.worker(flowConfig{})
	w.until(noteResult, 10)
	zombie.Continue()
	w.until(noteLost, 10)
	w.verify()
	stillUp(t, zombie, heir)
}

// Fault 7: Redis loses everything with instances under way. Those are gone; the workers stay, and run what is started after.
func TestWorkflowFault7EverythingLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(w *flowWorld){
		"FLUSHALL":      func(w *flowWorld) { w.must("FLUSHALL") },
		"empty restart": func(w *flowWorld) { w.srv.Kill(w.t); w.restartRedis() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFlowWorld(t, embedded.RedisOptions{})
			w.rolled = true
			workers, starter := w.load(flowConfig{}, 40)
			w.begin("waits", 10, flowPlan{Timer: time.Hour})
			w.until(noteCheckpoint, 20+w.rand.IntN(60))
			starter.Kill()
			lose(w)
			w.since = time.Now()
			w.begin("new", scaled(20, 2000), everything)
			if v := w.verify(); v.instances != scaled(20, 2000) {
				t.Errorf("%d instances", v.instances)
			}
			stillUp(t, workers...)
		})
	}
}

// flowRollback is the load of faults 6 and 7: mark is asked for what Redis holds, and undo brings it back to that.
func (w *flowWorld) flowRollback(mark, undo func()) {
	w.t.Helper()
	w.rolled = true
	n := scaled(40, 4000)
	workers := []*rig.Process{w.worker(flowConfig{}), w.worker(flowConfig{})}
	w.begin("settled", 5, flowPlan{Activities: 1})
	starter := w.starter(flowConfig{Name: "load", Count: 3 * n, Every: 10 * time.Millisecond, Plan: everything})
	w.until(noteCheckpoint, n+w.rand.IntN(n))
	kept := time.Now()
	mark()
	seen := w.seen(noteCheckpoint)
	w.begin("between", 5, everything)
	w.until(noteCheckpoint, seen+n+w.rand.IntN(n))
	w.srv.Kill(w.t) // what is lost is what undo takes away
	undo()
	w.restartRedis()
	back := time.Now()
	w.mayLose = func(n taskNote) bool { return n.time().After(kept) && n.sent().Before(back) }
	w.ended(starter)
	w.history.refresh(w.t)
	var ids []string
	for _, n := range w.history.notes {
		if n.Event == noteOK && !strings.HasPrefix(n.Work, "settled") {
			ids = append(ids, n.Work)
		}
	}
	for _, id := range ids { // those who signal do not know what was lost, and the same signal counts once
		signalFlow(w.ctx(), w.flows, w.ledger, id)
	}
	v := w.verify()
	if v.lost == v.instances {
		w.t.Error("everything was lost")
	}
	w.rolledBack(kept, back)
	stillUp(w.t, workers...)
}

// rolledBack checks that something was: that a checkpoint or a result was accepted once more.
func (w *flowWorld) rolledBack(kept, back time.Time) {
	w.t.Helper()
	count, again := make(map[string]int), 0
	for _, n := range w.history.notes {
		if n.Event == noteCheckpoint || n.Event == noteResult {
			what := fmt.Sprint(n.Event, " ", n.Work, " ", n.Try)
			if count[what]++; count[what] == 2 {
				again++
			}
			if count[what] > 2 && !strings.HasSuffix(n.Work, "-child") { // another sub-workflow of the same name
				w.t.Errorf("I8: %s was accepted %d times", what, count[what])
			}
		}
	}
	w.t.Logf("%d checkpoints and results of the %v that were rolled back were accepted once more", again, back.Sub(kept).Round(time.Millisecond))
	if again == 0 {
		w.t.Error("nothing was rolled back: this test shows nothing")
	}
}

// Fault 6: the machine of Redis loses its power, and with it what the append-only file got in the last second, up to the end of a command or to the middle of one. Histories
// have no gaps, and everything goes on from what is left.
func TestWorkflowFault6PowerLoss(t *testing.T) {
	t.Parallel()
	for name, torn := range map[string]bool{"a second": false, "torn": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			w := newFlowWorld(t, embedded.RedisOptions{Persist: true, Dir: dir, Config: []string{"appendfsync everysec", "auto-aof-rewrite-percentage 0"}})
			w.flowRollback(powerLoss(t, w.srv, w.rand, dir, torn))
		})
	}
}

// Fault 7: Redis comes back with a snapshot of a moment before, and its workers live on. What was done since then is done again, and its outcome recorded once.
func TestWorkflowFault7OldSnapshot(t *testing.T) {
	t.Parallel()
	w := newFlowWorld(t, embedded.RedisOptions{})
	w.flowRollback(func() { w.must("SAVE") }, func() {}) // without an append-only file, a restart begins with the snapshot
}

func (w *flowWorld) flowsActive() int64 {
	st, err := w.flows.Stats(w.ctx())
	testenv.Must(w.t, err)
	return st.Active
}

// Fault 18: an operator deletes and trims entries of the queues, some with a worker that lives, some with one that died, some with nobody. It is reported, instances whose task is gone are queued
// again, and what an activity was to do is gone, so it has failed.
func TestWorkflowFault18DeletedFromTheQueues(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(w *flowWorld, stream string){
		"XDEL": func(w *flowWorld, stream string) {
			entries, err := w.must("XRANGE", stream, "-", "+").AsXRange()
			testenv.Must(w.t, err)
			for _, e := range entries {
				w.must("XDEL", stream, e.ID)
			}
		},
		"XTRIM": func(w *flowWorld, stream string) { w.must("XTRIM", stream, "MAXLEN", "0") },
		"DEL":   func(w *flowWorld, stream string) { w.must("DEL", stream) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFlowWorld(t, embedded.RedisOptions{})
			w.fails = true
			tasks, activities := w.shards[0].Queue("tasks", flowQueue), w.shards[0].Queue("activities", flowQueue)
			victim := w.worker(flowConfig{ID: "victim", Lease: 2 * taskLease}) // none may begin an activity again
			w.begin("held", 5, flowPlan{Activities: 1, Takes: time.Minute})
			w.until(noteRun, 5)
			w.wait("nothing else is on its way", func() bool { return w.number("XLEN", activities) == 5 && w.number("XLEN", tasks) == 0 })
			victim.Kill()
			w.begin("waiting", 5, flowPlan{Activities: 1})
			remove(w, tasks)
			remove(w, activities)
			heir := w.worker(flowConfig{ID: "heir", Lease: 2 * taskLease})
			w.verify()
			for _, says := range []string{"the task of an instance was deleted", "an activity was deleted"} {
				heir.Await(says)
			}
			if w.seen(noteRun) != 10 { // those of the victim ran once, and failed
				t.Errorf("%d activities were begun", w.seen(noteRun))
			}
			// What a worker has in hand ends nonetheless, unless somebody takes that from it, too.
			w.begin("living", 5, flowPlan{Activities: 1, Takes: 300 * time.Millisecond})
			w.until(noteRun, 15)
			remove(w, activities)
			w.verify()
			stillUp(t, heir)
		})
	}
}
