package fault_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/test/rig"
)

func (w *taskWorld) restartRedis() {
	w.t.Helper()
	testenv.Must(w.t, w.srv.Server.Restart(testenv.Within(w.t)))
	w.wait("Redis answers", func() bool { return w.do("PING").Error() == nil })
}

// cpu is the processor time that a process has used.
func cpu(t *testing.T, p *rig.Process) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	testenv.Must(t, err)
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks int
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.Atoi(f)
		testenv.Must(t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// Fault 5, Redis is killed with tasks under way, and started again on its append-only file, twice. Nothing is lost; nobody turns in circles
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
					stayIdle(t, 1500*time.Millisecond, 0.5, workers[0])
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

// Fault 7, Redis loses everything with tasks under way. Those are gone; the workers stay, make their groups again and run what is submitted after.
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

// Fault 17: the memory of Redis is full. A submission is refused with an error that says so, what runs ends, also under a worker that has to take over,
// to begin anew, or that is started only now; afterwards all goes on.
func TestTaskFault17OutOfMemory(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{})
	victim, heir := w.worker(taskConfig{ID: "victim"}), w.worker(taskConfig{ID: "heir"})
	w.submit("before", 1000, taskWork{Takes: 200 * time.Millisecond}) // not done within 10 s by both: some are left for the last worker
	w.until(noteStart, 20)
	w.must("CONFIG", "SET", "maxmemory", "1")
	_, err := theWork.Submit(w.ctx(), w.client, taskWork{N: "refused"})
	var said *rueidis.RedisError
	if !errors.As(err, &said) || !strings.HasPrefix(said.Error(), "OOM") || !redis.Away(err) {
		t.Errorf("a submission says %v", err)
	}
	if _, err := theWork.Submit(w.ctx(), w.client, taskWork{N: "refused"}, task.Key("k")); !errors.As(err, &said) {
		t.Errorf("a submission under a key says %v", err)
	}
	w.kill(victim)
	w.fault(heir)
	heir.Pause() // until its lease is over, so that it needs a new one
	w.wait("the lease is over", func() bool { return w.number("EXISTS", w.keys.Worker("heir"), w.keys.Worker("victim")) == 0 })
	late := w.worker(taskConfig{ID: "late", Lease: 2 * taskLease})
	late.Await("out of memory")
	w.until(noteStart, w.seen(noteStart)+20) // by it alone
	heir.Continue()
	w.quiet() // all of it, while the memory is full
	w.must("CONFIG", "SET", "maxmemory", "0")
	w.submit("after", 50, taskWork{})
	w.verify()
}

// Fault 17: the memory of Redis is full, and it throws keys away that expire: leases, results, what keeps tasks from being two, groups. Every task runs to its
// end nevertheless, and the workers say what has happened.
func TestTaskFault17LeasesEvicted(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"volatile-lru", "volatile-ttl"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			w := newTaskWorld(t, embedded.RedisOptions{Config: []string{"maxmemory 1gb", "maxmemory-policy " + policy}})
			workers := []*rig.Process{w.worker(taskConfig{}), w.worker(taskConfig{})}
			for _, p := range workers {
				p.Await("throws keys away when its memory is full") // at the start
			}
			w.submit("before", 400, taskWork{Takes: 10 * time.Millisecond})
			w.submit("later", 20, taskWork{}, task.In(500*time.Millisecond))
			w.until(noteEffect, 1+w.rand.IntN(100))
			w.evict(workers)
			w.submit("after", 50, taskWork{})
			w.quiet()
			for name, l := range w.logicals() {
				done := false
				for _, r := range l.runs {
					done = done || r.effect != nil
				}
				if !done {
					t.Errorf("I1: %s was accepted and has not run to its end: %v", name, l.describe())
				}
			}
			var v verified
			for _, l := range w.logicals() {
				w.verifyRuns(l, &v)
			}
			w.verifyRest()
			t.Logf("%d tasks ran twice", v.repeats)
			stillUp(t, workers...)
		})
	}
}

// Fault 17: as before, and Redis throws any key away, queues, too. What was in them is lost, as nobody could prevent; the workers say so, make what they need
// again, and run what comes after.
func TestTaskFault17QueuesEvicted(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{Config: []string{"maxmemory 1gb", "maxmemory-policy allkeys-lru"}})
	workers := []*rig.Process{w.worker(taskConfig{}), w.worker(taskConfig{})}
	w.submit("lost", 400, taskWork{Takes: 10 * time.Millisecond})
	w.submit("lostlater", 20, taskWork{}, task.In(time.Hour))
	w.until(noteEffect, 1+w.rand.IntN(100))
	w.evict(workers)
	w.since = time.Now()
	w.submit("after", 300, taskWork{Takes: time.Millisecond})
	w.verify()
	stillUp(t, workers...)
}

// evict takes the memory away until Redis has thrown away what it may, gives it back when the workers have noticed, and sees that they say so.
func (w *taskWorld) evict(workers []*rig.Process) {
	w.t.Helper()
	for _, p := range workers {
		w.fault(p)
	}
	w.must("CONFIG", "SET", "maxmemory", "1")
	w.wait("keys are thrown away", func() bool {
		_ = w.do("SET", w.prefix+":full", "x") // whoever wants memory makes it look for keys
		info, err := w.do("INFO", "stats").ToString()
		return err == nil && redis.ParseMemory(info).Evicted > 0
	})
	for _, p := range workers {
		p.Await("the server has thrown keys away since its memory is full")
	}
	w.must("CONFIG", "SET", "maxmemory", "0")
	w.must("DEL", w.prefix+":full")
}
