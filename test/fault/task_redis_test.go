package fault_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/test/rig"
)

func (w *taskWorld) restartRedis() {
	w.t.Helper()
	if err := w.srv.Server.Restart(rig.Context(w.t)); err != nil {
		w.t.Fatal(err)
	}
	w.wait("Redis answers", func() bool { return w.do("PING").Error() == nil })
}

// cpu is the processor time that a process has used.
func cpu(t *testing.T, p *rig.Process) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks int
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// Fault 5, W8, plus-12: Redis is killed with tasks under way, and started again on its append-only file, twice. Nothing is lost; nobody turns in circles
// while it is away.
func TestTaskFault5RedisKilled(t *testing.T) {
	t.Parallel()
	for _, fsync := range []string{"everysec", "always"} {
		t.Run(fsync, func(t *testing.T) {
			t.Parallel()
			w := newTaskWorld(t, embedded.RedisOptions{Persist: true, Config: []string{"appendfsync " + fsync}})
			tasks, kills := scaled(600, 20_000), scaled(2, 10)
			workers := []*rig.Process{w.worker(taskConfig{}), w.worker(taskConfig{})}
			w.produce(taskConfig{Name: "plain", Count: tasks / 2, Every: 3 * time.Millisecond, Later: true, Work: taskWork{Takes: 5 * time.Millisecond}})
			w.produce(taskConfig{Name: "keyed", Keyed: true, Count: tasks / 2, Every: 3 * time.Millisecond, Later: true, Work: taskWork{Takes: 5 * time.Millisecond}})
			for round := range kills {
				w.until(noteStart, round*tasks/kills/2+1+w.rand.IntN(tasks/kills/2))
				for _, p := range workers {
					w.fault(p) // their leases may run out before Redis is back
				}
				w.srv.Kill(t)
				if round == 0 {
					w.idleWhileAway(workers[0])
				}
				w.restartRedis()
				took := w.probe(fmt.Sprint("probe", round), time.Now())
				t.Logf("work goes on %v after Redis was ready", took.Round(time.Millisecond))
				if took > time.Minute {
					t.Errorf("I6: work goes on after %v, the aim is 2 s", took)
				}
			}
			w.wait("everything submitted", func() bool {
				return w.seen(noteOK)+w.history.count[noteUnknown]+w.history.count[noteRefused] >= tasks+kills // and the probes
			})
			w.verify()
			stillUp(t, workers...)
		})
	}
}

// idleWhileAway measures what a process does while there is no Redis.
func (w *taskWorld) idleWhileAway(p *rig.Process) {
	w.t.Helper()
	before, begin := cpu(w.t, p), time.Now()
	<-time.After(1500 * time.Millisecond) // what is measured needs time
	share := float64(cpu(w.t, p)-before) / float64(time.Since(begin))
	w.t.Logf("a worker used %.0f %% of a processor while Redis was away", 100*share)
	if share > 0.5 {
		w.t.Errorf("a worker used %.0f %% of a processor while Redis was away, the aim is 20 %%", 100*share)
	}
}

// Fault 7, T11, W8: Redis loses everything with tasks under way. Those are gone; the workers stay, make their groups again and run what is submitted after.
func TestTaskFault7EverythingLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(w *taskWorld){
		"FLUSHALL":      func(w *taskWorld) { w.must("FLUSHALL") },
		"empty restart": func(w *taskWorld) { w.srv.Kill(w.t); w.restartRedis() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTaskWorld(t, embedded.RedisOptions{})
			workers := []*rig.Process{w.worker(taskConfig{}), w.worker(taskConfig{})}
			w.submit("lost", 500, taskWork{Takes: 5 * time.Millisecond})
			w.submit("lostlater", 50, taskWork{}, task.In(time.Hour))
			w.until(noteStart, 1+w.rand.IntN(300))
			for _, p := range workers {
				w.fault(p)
			}
			lose(w)
			w.since = time.Now()
			tasks := scaled(300, 20_000)
			w.produce(taskConfig{Name: "new", Keyed: true, Count: tasks, Later: true})
			w.wait("submitted", func() bool { return len(w.accepted("new")) == tasks })
			w.verify()
			stillUp(t, workers...)
			if n := w.number("EXISTS", w.keys.TaskDelayed()); n != 0 {
				t.Error("delayed tasks are left")
			}
		})
	}
}

// accepted are the works of one producer that were accepted.
func (w *taskWorld) accepted(name string) map[string]string {
	w.t.Helper()
	w.history.refresh(w.t)
	ids := make(map[string]string)
	for _, n := range w.history.notes {
		if n.Event == noteOK && strings.HasPrefix(n.Work, name+"-") {
			ids[n.Work] = n.Task
		}
	}
	return ids
}

// Fault 14: producers repeat the same submissions under the same keys at once, over a restart of Redis. One task for each key, and all are told its id.
func TestTaskFault14RetryStorm(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{Persist: true, Config: []string{"appendfsync always"}})
	keys, callers := 4, scaled(250, 1000)
	worker := w.worker(taskConfig{})
	var mu sync.Mutex
	ids := make(map[string]map[string]int)
	halfway := make(chan struct{})
	answers := 0
	var all sync.WaitGroup
	for k := range keys {
		ids[fmt.Sprintf("storm-%d", k)] = make(map[string]int)
	}
	for name, of := range ids {
		for range callers {
			all.Go(func() {
				for range 2 { // a producer that does not trust the first answer
					for t.Context().Err() == nil {
						h, err := theWork.Submit(t.Context(), w.client, taskWork{N: name}, task.Key(name))
						if err == nil {
							mu.Lock()
							of[h.ID]++
							if answers++; answers == keys*callers/2 {
								close(halfway)
							}
							mu.Unlock()
							break
						}
						if !redis.Away(err) {
							t.Errorf("%s: %v", name, err)
							return
						}
					}
				}
			})
		}
	}
	<-halfway
	w.fault(worker)
	w.srv.Kill(t)
	w.restartRedis()
	all.Wait()
	for name, of := range ids {
		if len(of) != 1 {
			t.Errorf("%s: %d ids: %v", name, len(of), of)
		}
		for id, n := range of {
			w.ledger.note(taskNote{Event: noteOK, Work: name, Task: id})
			if n != 2*callers {
				t.Errorf("%s: %d answers of %d", name, n, 2*callers)
			}
		}
	}
	if v := w.verify(); v.works != keys {
		t.Errorf("%d works, want %d", v.works, keys)
	}
}

// Fault 18, E-S21: an operator deletes and trims entries that workers hold. A worker that lives ends its task nonetheless; what a dead one held is
// reported as lost, and nobody looks for it for ever.
func TestTaskFault18DeletedWhilePending(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(w *taskWorld, entry string){
		"XDEL":  func(w *taskWorld, entry string) { w.must("XDEL", w.workStream(), entry) },
		"XTRIM": func(w *taskWorld, _ string) { w.must("XTRIM", w.workStream(), "MAXLEN", "0") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTaskWorld(t, embedded.RedisOptions{})
			victim := w.worker(taskConfig{ID: "victim", Lease: 2 * taskLease})
			hs := w.submitQuietly("gone", 10, taskWork{Takes: time.Hour})
			w.until(noteStart, 10)
			for _, h := range hs {
				remove(w, h.Entry)
			}
			w.kill(victim)
			heir := w.worker(taskConfig{ID: "heir", Lease: 2 * taskLease}) // under a new lease it would not know any more what it runs
			heir.Await("pending entries were deleted or trimmed by somebody")
			living := w.submit("living", 10, taskWork{Takes: 300 * time.Millisecond})
			w.until(noteStart, 20)
			for _, h := range living {
				remove(w, h.Entry)
			}
			w.submit("after", 50, taskWork{})
			w.until(noteEnd, 60)
			w.since = time.Unix(0, w.history.notes[len(w.history.notes)-1].At) // the works of the victim are lost, and said to be
			w.verifyRest()
			for id := range w.accepted("gone") {
				t.Errorf("%s is noted", id)
			}
			for _, set := range []string{"living", "after"} {
				for work, id := range w.accepted(set) {
					_, err := theWork.HandleOf(w.client, id).Result(w.ctx())
					reported := set == "living" && strings.Contains(heir.Stderr(), living[0].Entry)
					if err != nil && !reported {
						t.Errorf("%s: %v", work, err)
					}
				}
			}
		})
	}
}

// submitQuietly submits works that no ledger knows: they are to be lost.
func (w *taskWorld) submitQuietly(name string, n int, work taskWork) []*task.Handle[taskResult] {
	w.t.Helper()
	args := make([]taskWork, n)
	for i := range args {
		args[i] = work
		args[i].N = fmt.Sprintf("%s-%d", name, i)
	}
	hs, err := theWork.SubmitMany(w.ctx(), w.client, args)
	if err != nil {
		w.t.Fatal(err)
	}
	return hs
}

// Fault 20, E-S20: scripts are forgotten by the server again and again.
func TestTaskFault20ScriptFlush(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{})
	tasks := scaled(500, 20_000)
	worker := w.worker(taskConfig{Lease: calm})
	w.produce(taskConfig{Count: tasks, Keyed: true, Later: true})
	for w.seen(noteEffect) < tasks {
		w.must("SCRIPT", "FLUSH")
	}
	if v := w.verify(); v.repeats != 0 {
		t.Errorf("%d repetitions", v.repeats)
	}
	stillUp(t, worker)
}

// Fault 20: a right is withdrawn while tasks run. The log says which, and work goes on when it is back.
func TestTaskFault20RightWithdrawn(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"evalsha", "xreadgroup", "xack"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			w := newTaskWorld(t, embedded.RedisOptions{})
			w.must("ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all")
			worker := w.worker(taskConfig{URL: strings.Replace(w.srv.URL, "redis://", "redis://worker:secret@", 1)})
			w.submit("before", 300, taskWork{Takes: 5 * time.Millisecond})
			w.until(noteStart, 1+w.rand.IntN(100))
			w.fault(worker)
			w.must("ACL", "SETUSER", "worker", "-"+right)
			worker.AwaitThat("says which command it may not give", func(_, stderr string) bool {
				return strings.Contains(stderr, "NOPERM") && strings.Contains(strings.ToLower(stderr), right) ||
					strings.Contains(stderr, "can't run this command") || strings.Contains(stderr, "ACL failure in script")
			})
			w.must("ACL", "SETUSER", "worker", "+@all")
			w.submit("after", 100, taskWork{})
			w.verify()
			stillUp(t, worker)
		})
	}
}
