package fault_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/test/rig"
)

// late is how long after a fault its tasks must run again at the latest: the lease and two seconds, and what a busy machine adds.
const late = taskLease + 2*time.Second + busy

func (v verified) within(t *testing.T, limit time.Duration) {
	t.Helper()
	if v.slowest > limit {
		t.Errorf("I6: a task ran again %v after the fault, want at most %v", v.slowest, limit)
	}
}

// Fault 1: workers are killed at random points in the middle of many tasks, and replaced. plus-8, W4, T12.
func TestTaskFault1WorkersKilled(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{})
	tasks, kills := scaled(1000, 50_000), scaled(5, 20)
	lease := 2 * taskLease // longer than a busy machine holds up those that live
	workers := []*rig.Process{w.worker(taskConfig{Lease: lease}), w.worker(taskConfig{Lease: lease}), w.worker(taskConfig{Lease: lease})}
	w.produce(taskConfig{Count: tasks, Every: time.Millisecond, Later: true, Work: taskWork{Takes: 10 * time.Millisecond}})
	for round := range kills {
		w.until(noteStart, round*tasks/kills+1+w.rand.IntN(tasks/kills))
		i := w.rand.IntN(len(workers))
		w.kill(workers[i])
		if w.rand.IntN(2) == 0 { // the same name again: it takes what it had at once
			workers[i] = w.worker(taskConfig{ID: fmt.Sprintf("w%d", i+1), Lease: lease})
		} else {
			workers[i] = w.worker(taskConfig{Lease: lease})
		}
	}
	w.until(noteOK, tasks)
	v := w.verify()
	v.within(t, late)
	if most := kills * (10 + 256); v.repeats > most { // what ran, and what had run and waited for its acknowledgement
		t.Errorf("I4: %d repetitions after %d kills", v.repeats, kills)
	}
}

// Fault 2: the process dies after the effect of a task and before Redis knows. Exactly one more run, with a greater fence, by which the effect can tell.
func TestTaskFault2KilledBetweenEffectAndAck(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{})
	for i := range 3 {
		w.submit(fmt.Sprint("killer-", i), 1, taskWork{Do: doDieAfterEffect})
		w.submit(fmt.Sprint("good-", i), 20, taskWork{})
		p := w.worker(taskConfig{})
		if code := p.Exit(); code != -1 {
			t.Fatalf("exit status %d, want SIGKILL", code)
		}
		w.fault(p)
		heir := w.worker(taskConfig{Lease: 2 * taskLease})
		w.quiet()
		heir.Stop()
	}
	w.worker(taskConfig{}) // tidies up after the dead
	w.verify()
	for name, l := range w.logicals() {
		effects := 0
		for _, r := range l.runs {
			if r.effect != nil {
				effects++
			}
		}
		if strings.HasPrefix(name, "killer") && (effects != 2 || l.runs[0].Fence >= l.runs[1].Fence) {
			t.Errorf("%s: %v", name, l.describe())
		}
	}
}

// Fault 3, a worker is stopped past its lease and goes on with what it believes. Others took over; what it still says changes nothing, and its
// runs hear of it.
func TestTaskFault3WorkerPausedPastItsLease(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{})
	zombie := w.worker(taskConfig{ID: "zombie"})
	w.submit("slow", 5, taskWork{Do: doAwaitGate})
	w.submit("lingering", 5, taskWork{Do: doLinger})
	w.until(noteStart, 10) // all in the hands of the zombie
	w.submit("more", 200, taskWork{Takes: time.Millisecond})
	w.fault(zombie)
	zombie.Pause()
	w.worker(taskConfig{Lease: calm})
	w.until(noteStart, 20+200)
	w.ledger.openGate()
	zombie.Continue()
	w.verify().within(t, late)
	w.wait("the runs of the paused worker hear that they were lost", func() bool {
		for name, l := range w.logicals() {
			if strings.HasPrefix(name, "lingering") && l.runs[0].cause == nil {
				return false
			}
		}
		return true
	})
	zombie.Stop()
}

// Fault 4, all workers are replaced one by one under load. Nothing runs twice that was allowed to finish, and what was not begun is handed back
// at once.
func TestTaskFault4RollingRestart(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{})
	tasks, rounds := scaled(1000, 30_000), scaled(4, 20)
	workers := []*rig.Process{w.worker(taskConfig{Slots: 4, Lease: calm}), w.worker(taskConfig{Slots: 4, Lease: calm})}
	w.produce(taskConfig{Count: tasks, Work: taskWork{Takes: 5 * time.Millisecond}})
	var ends []time.Time
	for round := range rounds {
		w.until(noteStart, (round+1)*tasks/(rounds+1))
		i := round % len(workers)
		fresh := w.worker(taskConfig{Slots: 4, Lease: calm})
		begin := time.Now()
		workers[i].Stop()
		if took := time.Since(begin); took > busy {
			t.Errorf("stopping took %v", took)
		}
		ends = append(ends, time.Now())
		workers[i] = fresh
	}
	w.until(noteOK, tasks)
	if v := w.verify(); v.repeats != 0 {
		t.Errorf("I4: %d repetitions", v.repeats)
	}
	w.handedBack(ends)
}

// handedBack checks how long after the stop of a worker the last of what it had not begun was begun elsewhere. By the fence: such a run is the first of
// its task, and its delivery is not.
func (w *taskWorld) handedBack(ends []time.Time) {
	w.t.Helper()
	var worst time.Duration
	back := 0
	for _, l := range w.logicals() {
		for _, r := range l.runs {
			if uint32(r.Fence) < 2 {
				continue
			}
			back++
			for i := len(ends) - 1; i >= 0; i-- {
				if took := r.time().Sub(ends[i]); took > 0 {
					worst = max(worst, took)
					break
				}
			}
		}
	}
	w.t.Logf("%d tasks were handed back unbegun, the last was begun %v after the end of its worker", back, worst.Round(time.Millisecond))
	if worst > time.Second+busy {
		w.t.Errorf("I6: handed back after %v, the aim is 1 s", worst)
	}
}
