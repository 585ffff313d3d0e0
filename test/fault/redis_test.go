package fault_test

import (
	"testing"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/test/rig"
)

// Fault 5: Redis is killed with orders under way, and started again on its append-only file, twice.
func TestFault5RedisKilled(t *testing.T) {
	t.Parallel()
	for _, fsync := range []string{"everysec", "always"} {
		t.Run(fsync, func(t *testing.T) {
			t.Parallel()
			w := rig.New(t, rig.Options{Redis: embedded.RedisOptions{Persist: true, Config: []string{"appendfsync " + fsync}}})
			a, b := w.Serve("a"), w.Serve("b")
			m := w.MES()
			const orders = 40
			go m.Order(rig.Orders("JO", orders))
			for i := range 2 {
				w.UntilExecuted(i*2*orders + 1 + w.Rand.IntN(2*orders))
				w.Redis.Kill(t)
				restart(t, w.Redis.Server)
			}
			m.UntilDone(orders)
			w.Verify(m)
			stillUp(t, a, b, w.Station())
		})
	}
}

// Fault 7: everything in Redis is deleted with orders under way. Those are lost, as everything is. The processes stay up, make
// their groups and indexes anew, and new orders run.
func TestFault7FlushAll(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	a, b := w.Serve("a"), w.Serve("b")
	m := w.MES()
	go m.Order(rig.Orders("LOST", 40))
	w.UntilExecuted(1 + w.Rand.IntN(100))
	m.Until("the orders are sent", func(l rig.Ledger) bool { return len(l.Accepted) == 40 })
	m.Away()
	c := w.Redis.Client
	if err := c.Do(t.Context(), c.B().Flushall().Build()).Error(); err != nil {
		t.Fatal(err)
	}

	n := w.MES() // tells Takt again what the station has
	go n.Order(rig.Orders("NEW", 40))
	n.UntilDone(40)
	before := m.Ledger().Results // results of lost orders may be retained at the broker
	for id, results := range n.Ledger().Results {
		if len(results)+len(before[id]) > 1 {
			t.Errorf("%s has %d results", id, len(results)+len(before[id]))
		}
	}
	// Events of the lost orders, whose correlation ids nobody knows any more, may be taken for those of new ones: results are not
	// compared.
	w.VerifyLedger(n)
	w.VerifyStation()
	w.AtRest()
	w.Check()
	stillUp(t, a, b, w.Station())
}

// restart kills servers, unless they were already, and starts them again.
func restart(t *testing.T, servers ...*embedded.Server) {
	t.Helper()
	for _, s := range servers {
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range servers {
		if err := s.Restart(rig.Context(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// stillUp fails the test if one of the processes has ended.
func stillUp(t *testing.T, processes ...*rig.Process) {
	t.Helper()
	for _, p := range processes {
		if p.Gone() {
			t.Errorf("process %d has ended", p.PID())
		}
	}
}
