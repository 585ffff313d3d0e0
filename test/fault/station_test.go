package fault_test

import (
	"testing"

	"github.com/taktworks/takt/test/rig"
)

// The station is killed with commands in hand, three times, and goes on from its log. It does nothing twice, and Takt sees
// only that answers take a little longer.
func TestStationKilled(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Serve("a")
	m := w.MES()
	const orders = 40
	go m.Order(rig.Orders("JO", orders))
	for i := range 3 {
		w.UntilExecuted(i*orders + 1 + w.Rand.IntN(orders))
		w.Station().Kill()
		w.StartStation()
	}
	m.UntilDone(orders)
	w.Verify(m)
}
