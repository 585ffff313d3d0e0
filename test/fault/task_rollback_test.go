package fault_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/test/rig"
)

const (
	rollbackLease = 30 * time.Second // with a third gone still longer than what is rolled back: nothing but the rollback makes a task run again
	rollbackGroup = 5                // children
)

// rollback is the load of faults 6 and 7: works that are done before, and works, delayed works, works under keys and groups while mark is asked for what Redis
// holds and undo brings it back to that.
func (w *taskWorld) rollback(mark func(), undo func()) {
	w.t.Helper()
	workers := []*rig.Process{w.worker(taskConfig{Lease: rollbackLease}), w.worker(taskConfig{Lease: rollbackLease})}
	w.submit("settled", 50, taskWork{})
	w.spawn("settled", 2)
	w.quiet()
	tasks, some := scaled(600, 20_000), scaled(100, 4000)
	load := taskWork{Takes: 5 * time.Millisecond}
	plain := w.produce(taskConfig{Name: "plain", Count: tasks, Every: 5 * time.Millisecond, Later: true, Work: load})
	keyed := w.produce(taskConfig{Name: "keyed", Keyed: true, Count: tasks, Every: 5 * time.Millisecond, Later: true, Work: load})
	w.spawn("before", 10)
	w.submit("waiting", 3*some, taskWork{Takes: 50 * time.Millisecond}) // more than is done by then
	w.until(noteEffect, w.seen(noteEffect)+1+w.rand.IntN(some))
	kept := time.Now()
	mark()
	seen := w.seen(noteEffect)
	w.spawn("between", 10)
	w.submit("between", some, load)
	w.until(noteEffect, seen+1+w.rand.IntN(some))
	w.srv.Kill(w.t) // what is lost is what undo takes away
	undo()
	back := time.Now()
	w.restartRedis()
	up := time.Now()
	w.spawn("after", 10)
	w.ended(plain, keyed)
	w.verifyRolledBack(kept, back, up)
	stillUp(w.t, workers...)
}

// spawn submits n groups and notes them as a work each, that of the callback.
func (w *taskWorld) spawn(name string, n int) {
	w.t.Helper()
	for i := range n {
		gid := fmt.Sprintf("%s-group-%d", name, i)
		var children []task.Pending
		for c := range rollbackGroup {
			children = append(children, theWork.With(taskWork{N: fmt.Sprintf("%s-child-%d", gid, c), Takes: 5 * time.Millisecond}))
		}
		if _, err := task.Spawn(w.ctx(), w.client, children, tally.With(taskWork{N: gid}), task.GroupID(gid)); err != nil {
			w.t.Fatal(err)
		}
		w.ledger.note(taskNote{Event: noteOK, Work: gid, Task: "_" + gid + ":callback"})
	}
}

// verifyRolledBack checks what Redis may have lost by going back to what it held at kept, and what it may do twice: it was set back at back, and there again at up.
func (w *taskWorld) verifyRolledBack(kept, back, up time.Time) {
	w.t.Helper()
	w.quiet()
	all := w.logicals()
	lost, between, repeats := 0, 0, 0
	for _, n := range w.history.notes {
		if n.Event != noteOK {
			continue
		}
		within := n.time().After(kept) && n.sent().Before(back)
		if within {
			between++
		}
		switch ended := w.verifyRolledBackEnd(all[n.Work], n.Task); {
		case ended:
		case within:
			lost++
		default:
			w.t.Errorf("I1: %s, task %s, was accepted at %s, outside of what may be lost, and has not ended: %v", n.Work, n.Task, n.time().Format("05.000"), all[n.Work].describe())
		}
	}
	for name, l := range all {
		for i, r := range l.runs {
			if i == 0 || l.runs[0].Task != r.Task {
				continue
			}
			repeats++
			first, second := l.runs[i-1].time(), r.time()
			if second.Before(first) { // their fences do not tell any more
				first, second = second, first
			}
			if i > 1 || !first.Before(up) || second.Before(back) || strings.HasPrefix(name, "settled") {
				w.t.Errorf("I4: %s: more than one repetition, or one that is not by the rollback: %v", name, l.describe())
			}
		}
	}
	if repeats == 0 {
		w.t.Error("nothing was rolled back: no task ran again")
	}
	w.verifyRest()
	w.t.Logf("of %d works accepted in the %v that were rolled back %d are lost; %d tasks ran twice", between, back.Sub(kept).Round(time.Millisecond), lost, repeats)
}

// verifyRolledBackEnd says whether a task has ended, and checks that its result is of one of its runs, with its effect. A task that has not must have left nothing.
func (w *taskWorld) verifyRolledBackEnd(l *logical, id string) bool {
	w.t.Helper()
	result, err := theWork.HandleOf(w.client, id).Result(w.ctx())
	if errors.Is(err, task.ErrResultMissing) {
		if n := w.number("HEXISTS", w.keys.TaskDead(), id); n != 0 {
			w.t.Errorf("I1: %s is dead: %v", l.name, l.describe())
		}
		return false
	}
	if err != nil || result.Err != nil {
		w.t.Errorf("I1: %s: %v, %v", l.name, err, result.Err)
		return true
	}
	for _, r := range l.runs {
		if r.PID == result.Value.PID && r.Fence == result.Value.Fence && r.effect != nil {
			return true
		}
	}
	w.t.Errorf("I3: %s: the result is of fence %x by %d, and no such run had its effect: %v", l.name, result.Value.Fence, result.Value.PID, l.describe())
	return true
}

// Fault 6: the machine of Redis loses its power, and with it what the append-only file got in the last second, up to the end of a command or to the middle of one.
// What was accepted before is done, what was done in that second is done once more at most, and nothing is there by half.
func TestTaskFault6PowerLoss(t *testing.T) {
	t.Parallel()
	for name, torn := range map[string]bool{"a second": false, "torn": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			w := newTaskWorld(t, embedded.RedisOptions{Persist: true, Dir: dir, Config: []string{"appendfsync everysec", "auto-aof-rewrite-percentage 0"}})
			mark, lose := powerLoss(t, w.srv, w.rand, dir, torn)
			w.rollback(func() {
				mark()
				<-time.After(time.Second) // the second that is lost
			}, lose)
		})
	}
}

// powerLoss is what a failure of the power takes of the append-only file in dir: lose cuts off what came after mark or, with torn, a part of that, up to the middle of a command.
func powerLoss(t *testing.T, srv *testenv.RedisServer, rand *rand.Rand, dir string, torn bool) (mark, lose func()) {
	var file string
	var safe int64
	mark = func() {
		srv.Settle(t)
		file, safe = appendOnly(t, dir)
		srv.Must(t, "CLIENT", "UNPAUSE")
	}
	lose = func() {
		_, size := appendOnly(t, dir)
		if size == safe {
			t.Fatal("Redis has written nothing since: this test shows nothing")
		}
		cut := safe
		if torn {
			cut += rand.Int64N(1 + (size-safe)/2) // so that some is lost
		}
		t.Logf("%d of %d bytes are lost", size-cut, size)
		testenv.Must(t, os.Truncate(file, cut))
	}
	return mark, lose
}

// appendOnly is the file that Redis appends to, and its size.
func appendOnly(t *testing.T, dir string) (file string, size int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	info, err := os.Stat(files[0])
	testenv.Must(t, err)
	return files[0], info.Size()
}

// Fault 7: Redis comes back with a snapshot of a moment before, and its workers live on. What was done since then is done once more at most; what was submitted
// since then is gone, as a whole.
func TestTaskFault7OldSnapshot(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{})
	w.rollback(func() { w.must("SAVE") }, func() {}) // without an append-only file, a restart begins with the snapshot
}
