package fault_test

import (
	"testing"
	"time"
)

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
