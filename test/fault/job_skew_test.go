package fault_test

import (
	"testing"

	"github.com/taktworks/takt/test/rig"
)

// Fault 26: instances of the version before and of this one work together on one Redis, are rolled back and forward again under load, and all orders end.
func TestFault26BackAndForward(t *testing.T) {
	t.Parallel()
	before, today := rig.Previous(t), rig.PlainBinary(t)
	jobFault{do: func(w *jobWorld) {
		for _, version := range []string{before, today} {
			for _, name := range []string{"a", "b"} {
				w.serves[name].Stop()
				w.serveAs(version, name, w.redis.URL)
				w.more() // the two versions side by side, or one alone
			}
		}
	}}.run(t)
}
