package fault_test

import (
	"fmt"
	"testing"

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
