package fault_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
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
