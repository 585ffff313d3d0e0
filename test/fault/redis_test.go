package fault_test

import (
	"testing"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/test/rig"
)

// Fault 7: everything in Redis is deleted with orders under way. Those are lost, as everything is, and the MES is told so. The processes stay up, and make
// their groups and indexes anew. Once they know again what the station has, all orders run that are ordered again, and new ones.
func TestFault7FlushAll(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{Commands: true})
	w.Forgets = true
	a, b := w.Serve("a"), w.Serve("b")
	m := w.MES()
	m.Order(rig.Orders("OLD", 40))
	w.UntilExecuted(1 + w.Rand.IntN(80))
	m.Away()
	w.Redis.Must(t, "FLUSHALL")
	w.Configure(m)
	m.Follow()
	go m.Order(rig.Orders("NEW", 40))
	m.UntilDone(80)
	if l := m.Ledger(); len(l.Lost) == 0 {
		t.Error("no order is reported as lost")
	}
	w.Verify(m)
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
