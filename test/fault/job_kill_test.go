package fault_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
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
				w.idleFor(long)
				restart(t, w.Redis.Server)
				away.ends(2 * time.Second)
			}}.run(t)
		})
	}
}

// idleFor is lasts that fails the test if an instance is busy, for there is nothing it can do.
func (w *jobWorld) idleFor(d time.Duration) {
	w.t.Helper()
	begin, before := time.Now(), map[string]time.Duration{}
	for name, p := range w.serves {
		before[name] = cpu(w.t, p)
	}
	w.lasts(d)
	for name, p := range w.serves {
		share := float64(cpu(w.t, p)-before[name]) / float64(time.Since(begin))
		w.t.Logf("%s used %.1f %% of a processor meanwhile", name, 100*share)
		if share > 0.2 {
			w.t.Errorf("%s used %.0f %% of a processor and could do nothing, want less than 20 %%", name, 100*share)
		}
	}
}
