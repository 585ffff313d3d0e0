package fault_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/task"
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

// ends is how each of some tasks ended: "" = done, otherwise the type of its error.
func (w *taskWorld) ends(hs []*task.Handle[taskResult]) (ends []string) {
	w.t.Helper()
	for _, h := range hs {
		_, err := h.Await(w.ctx())
		var said *task.Error
		switch {
		case err == nil:
			ends = append(ends, "")
		case errors.As(err, &said):
			ends = append(ends, said.Type)
		default:
			w.t.Fatal(err)
		}
	}
	return ends
}

// Fault 15, tasks that end the process that runs them, or take all its memory, are dead after five, all others run: none of them is dead with them.
func TestTaskFault15TasksThatKillTheirWorker(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]string{"exit": doExit, "memory": doHog} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killers(t, do)
		})
	}
}

func killers(t *testing.T, do string) {
	t.Helper()
	w := newTaskWorld(t, embedded.RedisOptions{})
	const killers = 2
	good := w.submit("good", 40, taskWork{Takes: 20 * time.Millisecond})
	bad := w.submit("bad", killers, taskWork{Do: do})
	more := w.submit("more", 40, taskWork{Takes: 20 * time.Millisecond})
	ended := make(chan struct{})
	var watch sync.WaitGroup
	var mu sync.Mutex
	deaths := 0
	for i := range 2 { // each worker is started again when it ends, as an operator's supervisor does it
		id := fmt.Sprintf("w%d", i)
		c := taskConfig{ID: id, Slots: 4, Hogs: do == doHog, Lease: calm} // it takes its own over again at once
		p := w.worker(c)
		watch.Go(func() {
			for {
				w.wait("end", func() bool {
					select {
					case <-ended:
						return true
					default:
						return p.Gone()
					}
				})
				if !p.Gone() {
					return
				}
				mu.Lock()
				deaths++
				w.fault(p)
				p = w.worker(c)
				mu.Unlock()
			}
		})
	}
	for i, end := range w.ends(bad) {
		if end != "deliveries" {
			t.Errorf("bad-%d ended with %q", i, end)
		}
	}
	for i, end := range w.ends(append(good, more...)) {
		if end != "" {
			t.Errorf("a good task, number %d, ended with %q", i, end)
		}
	}
	close(ended)
	watch.Wait()
	if deaths < 5 || deaths > 5*killers {
		t.Errorf("%d workers died of %d killers", deaths, killers)
	}
	w.verify()
}

// Fault 15, tasks that never return harm no other task, and run elsewhere once their process has ended.
func TestTaskFault15Hang(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{})
	worker := w.worker(taskConfig{Slots: 4, Lease: 2 * taskLease, Drain: 300 * time.Millisecond, Margin: 300 * time.Millisecond})
	hang := w.submit("hang", 2, taskWork{Do: doHang})
	w.until(noteStart, 2)
	for i, end := range w.ends(w.submit("good", 200, taskWork{Takes: time.Millisecond})) {
		if end != "" {
			t.Errorf("a good task, number %d, ended with %q", i, end)
		}
	}
	if w.unfinished() != 2 {
		t.Errorf("%d tasks have not ended, want those that hang", w.unfinished())
	}
	// The process does not wait for them, says which they are, and they go to another.
	w.fault(worker)
	begin := time.Now()
	worker.Signal(syscall.SIGTERM)
	if code := worker.Exit(); code != 1 || !strings.Contains(worker.Stderr(), "2 handlers ignore the end of their context") {
		t.Errorf("exit status %d: %s", code, worker.Stderr())
	}
	t.Logf("the process with handlers that hang ended after %v", time.Since(begin).Round(time.Millisecond))
	w.worker(taskConfig{Lease: calm})
	for _, end := range w.ends(hang) {
		if end != "" {
			t.Errorf("ended with %q", end)
		}
	}
	w.verify()
}
