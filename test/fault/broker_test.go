package fault_test

import (
	"testing"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/test/rig"
)

// The broker is killed with orders under way, twice. What it had is gone, or as old as its last save: commands, answers and
// events on their way, sessions, and all retained topics.
func TestBrokerKilled(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]bool{"keeps sessions": true, "keeps nothing": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var o rig.Options
			if dir {
				o.Mosquitto.Dir = t.TempDir()
			}
			serversKilled(t, o, func(w *rig.World) { restart(t, w.Broker.Server) })
		})
	}
}

// Redis and the broker are killed together.
func TestFault5RedisAndBrokerKilled(t *testing.T) {
	t.Parallel()
	serversKilled(t, rig.Options{Redis: embedded.RedisOptions{Persist: true}}, func(w *rig.World) {
		w.Redis.Kill(t)
		restart(t, w.Redis.Server, w.Broker.Server)
	})
}

// serversKilled kills servers twice with orders under way.
func serversKilled(t *testing.T, o rig.Options, kill func(w *rig.World)) {
	t.Helper()
	w := rig.New(t, o)
	a, b := w.Serve("a"), w.Serve("b")
	m := w.MES()
	const orders = 40
	go m.Order(rig.Orders("JO", orders))
	for i := range 2 {
		w.UntilExecuted(i*2*orders + 1 + w.Rand.IntN(2*orders))
		kill(w)
	}
	m.UntilDone(orders)
	w.Verify(m)
	stillUp(t, a, b, w.Station())
}
