package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/taktworks/takt/test/rig"
)

// A station that is not used any more is retired at once: what goes is listed first, orders that are not over stay, and the next order brings it back.
func TestStationRetire(t *testing.T) {
	t.Parallel()
	s := &shell{rig.New(t, rig.Options{Takes: "1ms..5ms"}), t}
	s.Serve("a")
	m := s.QuietMES()
	m.Order(rig.Orders("JO", 1))
	s.state("JO-001", "Ended_Completed")
	s.run(ok, "job store "+s.order("DRAFT", false)+" --scope test-cell")

	s.run(refused, "station retire test-cell --yes", "test-cell has job orders that are not over: DRAFT is NotAllowedToStart_Ready; end it first")
	s.run(ok, "job cancel DRAFT --scope test-cell")
	s.run(usage, "station retire test-cell", "plant/takt/test-cell/result/JO-001", "this clears 1 job orders of test-cell, with results that an MES may not have taken", "--yes")
	s.run(failed, "station retire never --yes", "no scope never")
	s.run(usage, "station retire a/b --yes", "a/b")
	s.state("JO-001", "Ended_Completed")

	var gone struct {
		Scope   string
		Cleared []string
		Topics  []string
	}
	out := s.run(ok, "station retire test-cell --yes --json")
	if err := json.Unmarshal([]byte(out), &gone); err != nil || gone.Scope != "test-cell" || strings.Join(gone.Cleared, " ") != "JO-001" || len(gone.Topics) != 3 {
		t.Errorf("%s: %v", out, err)
	}
	s.Until("no retained topic is left", func() bool { return s.Takt("check").Code == ok })
	s.run(failed, "station retire test-cell --yes", "no scope test-cell: it has retired")
	s.run(ok, "job store "+s.order("JO-2", true)+" --scope test-cell") // what the station has stays
	s.run(ok, "job cancel JO-2 --scope test-cell")
	s.run(ok, "station retire test-cell --yes", "test-cell retired: 0 job orders cleared, 1 retained topics deleted")
	s.AtRest()
	s.Check()
}
