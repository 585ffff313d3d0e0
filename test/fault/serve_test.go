package fault_test

import (
	"testing"

	"github.com/taktworks/takt/test/rig"
)

// Fault 1: an instance is killed with 40 orders in hand and started again, at three random points.
func TestFault1ServeKilled(t *testing.T) {
	w := rig.New(t, rig.Options{})
	a, b := w.Serve("a", "--log-level", "debug"), w.Serve("b", "--log-level", "debug")
	_ = b
	m := w.MES()
	go m.Order(rig.Orders("JO", 40))
	w.UntilExecuted(20 + w.Rand.IntN(100))
	a.Kill()
	a = w.Serve("a", "--log-level", "debug")
	m.UntilDone(40)
	w.Verify(m)
}
