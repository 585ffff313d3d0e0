package workflow_test

import (
	"testing"

	"github.com/taktworks/takt/workflow"
)

// What a caller waits for is one round trip.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	warm(e)
	far, p := e.far()
	_, err := far.Stats(e.ctx()) // the connection is there
	e.ok(err)
	s := starting("a")
	i := s.Instance
	for _, c := range []struct {
		name string
		want int
		do   func() error
	}{
		{"Start", 1, func() error { return far.Start(e.ctx(), s) }},
		{"Signal", 1, func() error { return far.Signal(e.ctx(), "a", event("S", 0)) }},
		{"SignalWithStart", 1, func() error { _, err := far.SignalWithStart(e.ctx(), event("S", 0), starting("b")); return err }},
		{"Cancel", 1, func() error { return far.Cancel(e.ctx(), i, event("C", 0)) }},
		{"Pause", 1, func() error { return far.Pause(e.ctx(), "a") }},
		{"Resume", 1, func() error { return far.Resume(e.ctx(), "a") }},
		{"Info", 1, func() error { _, err := far.Info(e.ctx(), i); return err }},
		{"History", 2, func() error { _, err := far.History(e.ctx(), i, 0); return err }}, // none yet: does it exist?
		{"Stats", 1, func() error { _, err := far.Stats(e.ctx()); return err }},
		{"Infos", 1, func() error {
			_, err := far.Infos(e.ctx(), []workflow.Instance{i, {ID: "b", Execution: "x"}})
			return err
		}},
		{"Terminate", 2, func() error { return far.Terminate(e.ctx(), i, "") }},
		{"Remove", 1, func() error { return far.Remove(e.ctx(), i) }},
	} {
		p.Reset()
		e.ok(c.do())
		if got := p.Trips(); got != c.want {
			t.Errorf("%s: %d round trips, want %d", c.name, got, c.want)
		}
	}
}
