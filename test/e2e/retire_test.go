package e2e_test

import (
	"testing"

	"github.com/taktworks/takt/test/rig"
)

// A station that is not used any more is retired at once: orders that are in the way are named, and the next order brings it back.
func TestStationRetire(t *testing.T) {
	t.Parallel()
	s := &shell{rig.New(t, rig.Options{Takes: "1ms..5ms"}), t}
	s.Serve("a")
	m := s.QuietMES()
	m.Order(rig.Orders("JO", 1))
	s.state("JO-001", "Ended_Completed")
	s.run(ok, "job store "+s.order("DRAFT", false)+" --scope test-cell")

	s.run(refused, "station retire test-cell", "test-cell has job orders: ", "DRAFT (NotAllowedToStart_Ready)", "JO-001 (Ended_Completed)")
	s.run(failed, "station retire never", "no scope never")
	s.run(usage, "station retire a/b", "a/b")
	s.state("JO-001", "Ended_Completed")

	retires := func() {
		t.Helper()
		s.Until("the topics of the orders are deleted", func() bool { return s.Takt("station", "retire", "test-cell").Code == ok })
	}
	s.run(ok, "job cancel DRAFT --scope test-cell")
	s.run(ok, "job clear JO-001 --scope test-cell")
	retires()
	s.run(failed, "station retire test-cell", "no scope test-cell: it has retired")
	s.run(ok, "job store "+s.order("JO-2", true)+" --scope test-cell") // what the station has stays
	s.run(ok, "job cancel JO-2 --scope test-cell")
	retires()
	s.AtRest()
	s.Check()
}
