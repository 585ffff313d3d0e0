package fault_test

import (
	"testing"
	"time"
)

// Fault 12: the clock of Redis steps by an hour, there and back, with orders under way whose commands may take 12 s. None is aborted, none is
// stuck, and none is done twice.
func TestFault12RedisClockSteps(t *testing.T) {
	c := wrongClock(t)
	jobFault{redis: always(), do: func(w *jobWorld) {
		for _, offset := range []time.Duration{time.Hour, 0, -time.Hour, 0} {
			step := w.strikes("the clock of Redis steps")
			c.set(offset)
			w.more()
			step.ends(0)
		}
	}}.run(t)
}
