package fault_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/station"
	"github.com/taktworks/takt/test/rig"
)

// Fault 1, I6: an instance is killed and never comes back. The other one has its orders going on within its heartbeat and two seconds; what the broker keeps for the dead one
// is carried out, too: no command of the MES waits for more than one and a half heartbeats.
func TestFault1KilledForGood(t *testing.T) {
	t.Parallel()
	jobFault{do: func(w *jobWorld) {
		killed := w.strikes("an instance is killed")
		w.serves["a"].Kill()
		killed.ends(jobTTL + 2*time.Second)
		delete(w.serves, "a")
	}, judge: func(w *jobWorld) {
		w.verify()
		w.answered(jobTTL + jobTTL/2)
	}}.run(t)
}

// Fault 1: again and again one of two instances is killed, and started again.
func TestFault1KilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	kills := scaled(12, 50)
	jobFault{orders: scaled(300, 1000), do: func(w *jobWorld) {
		for range kills {
			name := []string{"a", "b"}[w.Rand.IntN(2)]
			killed := w.strikes("an instance is killed")
			w.serves[name].Kill()
			w.serve(name)
			killed.ends(jobTTL + 2*time.Second)
		}
	}}.run(t)
}

// Fault 5: Redis is killed under load, and is back after longer than each command may take. No order is aborted, and all go on within two seconds after it is
// ready. The instances do not turn in circles meanwhile.
func TestFault5RedisAway(t *testing.T) {
	t.Parallel()
	for name, redis := range map[string]embedded.RedisOptions{"always": always(), "everysec": {Persist: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			jobFault{redis: redis, do: func(w *jobWorld) {
				long := time.Duration(scaled(15, 180)) * time.Second
				away := w.strikes(fmt.Sprintf("Redis is away for %v", long))
				w.Redis.Kill(t)
				stayIdle(t, long, 0.2, w.serves["a"], w.serves["b"])
				restart(t, w.Redis.Server)
				away.ends(2 * time.Second)
			}}.run(t)
		})
	}
}

// stayIdle fails the test if a process is busy for so long, for there is nothing it can do. most is the part of a processor that it may use, the aim is 20 %.
func stayIdle(t *testing.T, d time.Duration, most float64, processes ...*rig.Process) {
	t.Helper()
	begin := time.Now()
	before := make([]time.Duration, len(processes))
	for i, p := range processes {
		before[i] = cpu(t, p)
	}
	select {
	case <-time.After(d): // what is measured needs time
	case <-t.Context().Done():
	}
	for i, p := range processes {
		share := float64(cpu(t, p)-before[i]) / float64(time.Since(begin))
		t.Logf("process %d used %.1f %% of a processor meanwhile", p.PID(), 100*share)
		if share > most {
			t.Errorf("process %d used %.0f %% of a processor and could do nothing, want less than %.0f %%", p.PID(), 100*share, 100*most)
		}
	}
}

// Fault 3: an instance hangs for longer than its heartbeat lasts, and goes on with what it believes. It sends no command of an attempt that is over; what was on its way to the
// broker may come again, under its id.
func TestFault3HangsAndGoesOn(t *testing.T) {
	t.Parallel()
	jobFault{do: func(w *jobWorld) {
		for _, name := range []string{"a", "b"} {
			zombie := w.serves[name]
			hangs := w.strikes("an instance hangs for 15 s")
			zombie.Pause()
			w.lasts(jobTTL + 5*time.Second)
			zombie.Continue()
			w.more()
			hangs.ends(0)
		}
	}, judge: func(w *jobWorld) {
		w.verify()
		newest := map[string]int{}
		for _, e := range w.StationLog() {
			if e.Kind != station.Received {
				continue
			}
			action := e.Correlation + " " + e.Action
			if e.Attempt < newest[action] {
				t.Errorf("%s of %s: attempt %d came after attempt %d", e.Action, e.Order, e.Attempt, newest[action])
			}
			newest[action] = max(newest[action], e.Attempt)
		}
	}}.run(t)
}

// Fault 4: instances are stopped and started in turn. No command of the MES waits, each stop is within its time, and no command is sent twice.
func TestFault4StoppedInTurn(t *testing.T) {
	t.Parallel()
	jobFault{do: func(w *jobWorld) {
		for range 2 {
			for _, name := range []string{"a", "b"} {
				stopped := w.strikes("an instance is stopped")
				w.serves[name].Signal(syscall.SIGTERM)
				if code := w.serves[name].Exit(); code != 0 {
					t.Errorf("exit status %d", code)
				}
				w.serve(name)
				stopped.ends(2 * time.Second)
				w.more()
			}
		}
	}, judge: func(w *jobWorld) {
		w.verify()
		w.answered(2 * time.Second)
	}}.run(t)
}

// Fault 12: the clock of Redis steps by an hour, there and back, with orders under way whose commands may take 12 s. None is aborted, none is
// stuck, and none is done twice.
func TestFault12RedisClockSteps(t *testing.T) {
	c := wrongClock(t)
	jobFault{redis: always(), do: func(w *jobWorld) {
		for _, offset := range []time.Duration{time.Hour, 0, -time.Hour, 0} {
			step := w.strikes("the clock of Redis steps")
			c.set(offset)
			w.more()
			step.ends(0)
		}
	}}.run(t)
}

// Fault 23: each of two instances, of which one publishes, hangs for longer than its lease and comes back, and is killed then. State indexes are never numbered back, and another
// instance publishes after a heartbeat and two seconds.
func TestFault23Leaders(t *testing.T) {
	t.Parallel()
	jobFault{orders: 400, underWay: 8, takes: "150ms..250ms", do: func(w *jobWorld) { // a load that lasts
		for _, name := range []string{"a", "b"} {
			hangs := w.strikes("an instance hangs for 15 s")
			w.serves[name].Pause()
			w.lasts(jobTTL + 5*time.Second)
			w.serves[name].Continue()
			hangs.ends(0)
			w.more()
		}
		killed := w.strikes("an instance is killed")
		w.serves["a"].Kill()
		killed.ends(0)
		w.lasts(jobTTL + 2*time.Second)
		w.serve("a")
		killed = w.strikes("an instance is killed")
		w.serves["b"].Kill()
		killed.ends(0)
		delete(w.serves, "b")
	}, judge: func(w *jobWorld) {
		w.verify()
		w.indexes()
	}}.run(t)
}

// Fault 5: Redis is killed at any moment, also while it has answered what is not in its file yet. It loses at most what a flush had in hand. The MES is told of each order that was
// lost, orders it again, and starts again what Redis believes was never started.
func TestFault5RedisKilledDuringAFlush(t *testing.T) {
	t.Parallel()
	jobFault{commands: true, forgets: true, redis: embedded.RedisOptions{Persist: true}, do: func(w *jobWorld) {
		for range 3 {
			killed := w.strikes("Redis is killed")
			restart(t, w.Redis.Server)
			killed.ends(0)
			w.more()
		}
	}}.run(t)
}

// Fault 6: the power of Redis' machine fails: its append-only file is cut in the middle of its last second. Orders of that second are reported as lost and ordered again; no
// result is handed over twice, and the machine does no command twice.
func TestFault6PowerLoss(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	jobFault{commands: true, forgets: true, redis: embedded.RedisOptions{Dir: dir, Persist: true, Config: []string{"auto-aof-rewrite-percentage 0"}}, do: func(w *jobWorld) {
		mark, lose := powerLoss(t, w.Redis, w.Rand, dir, true)
		mark()
		w.lasts(time.Second) // what is lost
		failed := w.strikes("the last second of Redis is lost")
		w.Redis.Kill(t)
		lose()
		restart(t, w.Redis.Server)
		failed.ends(0)
	}}.run(t)
}

// Fault 7: Redis comes back with an older copy of itself, in which orders run that have ended since, and were cleared. Nothing is handed over twice, no command is carried out
// twice, and all orders that Redis does not know any more are ordered again.
func TestFault7OlderCopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	jobFault{commands: true, forgets: true, redis: embedded.RedisOptions{Dir: dir}, do: func(w *jobWorld) {
		w.must("SAVE")
		w.some(0.5) // done and cleared since
		before := w.mes.Ledger().Seq
		back := w.strikes("Redis is an older copy of itself")
		w.Redis.Kill(t)
		restart(t, w.Redis.Server) // without an append-only file it begins with what it saved
		back.ends(0)
		w.Until("there is another state index", func() bool { return w.mes.Ledger().Seq != before })
		if l := w.mes.Ledger(); l.Seq < before {
			t.Errorf("seq is %d after %d", l.Seq, before)
		}
	}}.run(t)
}
