package fault_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/taktworks/takt/test/rig"
)

// Fault 1: of two instances, each of which may be the one that publishes, one is killed with 40 orders under way, and started
// again; several times, at random points.
func TestFault1ServeKilled(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	serves := [2]*rig.Process{w.Serve("a"), w.Serve("b")}
	m := w.MES()
	const orders = 40
	for round := range 3 {
		done := w.Executed()
		go m.Order(rig.Orders(fmt.Sprintf("R%d", round), orders))
		w.UntilExecuted(done + 1 + w.Rand.IntN(5*orders))
		i := w.Rand.IntN(2)
		serves[i].Kill()
		if w.Rand.IntN(2) == 0 { // sometimes the other one finds out first
			w.UntilDead(w.Worker(serves[i]))
		}
		serves[i] = w.Serve([]string{"a", "b"}[i])
		m.UntilDone((round + 1) * orders)
	}
	w.Verify(m)
}

// Fault 1: nobody is left for a while, and nobody knows what the dead had in hand but Redis and the broker.
func TestFault1AllServesKilled(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	a, b := w.Serve("a"), w.Serve("b")
	m := w.MES()
	const orders = 40
	go m.Order(rig.Orders("JO", orders))
	w.UntilExecuted(1 + w.Rand.IntN(5*orders))
	a.Kill()
	b.Kill()
	w.Serve("a")
	w.Serve("b")
	m.UntilDone(orders)
	w.Verify(m)
}

// Fault 1: an instance is killed and never comes back. What the broker keeps for it is lost, what it had in hand is not.
func TestFault1ServeKilledForGood(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	a := w.Serve("a")
	w.Serve("b")
	m := w.MES()
	const orders = 40
	go m.Order(rig.Orders("JO", orders))
	w.UntilExecuted(1 + w.Rand.IntN(5*orders))
	a.Kill()
	m.UntilDone(orders)
	w.Verify(m)
}

// Fault 3: an instance is paused until the other has taken over, and goes on then with what it believes.
func TestFault3ServePausedPastItsHeartbeat(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	serves := [2]*rig.Process{w.Serve("a"), w.Serve("b")}
	m := w.MES()
	const orders = 40
	for round := range 2 {
		done := w.Executed()
		go m.Order(rig.Orders(fmt.Sprintf("R%d", round), orders))
		w.UntilExecuted(done + 1 + w.Rand.IntN(4*orders))
		zombie := serves[round]
		results := len(m.Ledger().Results)
		zombie.Pause()
		w.UntilDead(w.Worker(zombie))
		m.UntilResults(results + 1) // the other one works, and publishes
		zombie.Continue()
		m.UntilDone((round + 1) * orders)
	}
	w.Verify(m)
}

// Fault 4: a rolling restart under load. Each instance stops within its time, with exit status 0.
func TestFault4RollingRestart(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	const drain, orders = 5 * time.Second, 120
	names := []string{"a", "b"}
	serves := map[string]*rig.Process{}
	for _, name := range names {
		serves[name] = w.Serve(name, "--drain", drain.String())
	}
	m := w.MES()
	go m.Order(rig.Orders("JO", orders))
	for i := range 4 {
		w.UntilExecuted((i + 1) * orders)
		name := names[i%2]
		serves[name].Signal(syscall.SIGTERM)
		if code := serves[name].Exit(); code != 0 { // which it also is if its time was not enough
			t.Errorf("exit status %d after SIGTERM", code)
		}
		serves[name] = w.Serve(name, "--drain", drain.String())
	}
	m.UntilDone(orders)
	w.Verify(m)
}
