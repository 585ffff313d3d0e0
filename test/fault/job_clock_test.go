package fault_test

import (
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis/script"
)

// Fault 12, find-O2, I9: the clock of Redis steps by an hour, there and back, with orders under way whose commands may take 12 s. None is aborted, none is
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

// Faults 1 and 12 together: the clock of Redis steps back by an hour just after the instance that publishes was killed, so that all that it held lasts for an hour more. The other one has
// its orders going on, and publishes states and status events, after two heartbeats; one line of its log says why. So do both when both were killed before the step and are started again.
func TestFault12KilledBeforeTheClockStepsBack(t *testing.T) {
	c := wrongClock(t)
	jobFault{redis: always(), do: func(w *jobWorld) {
		events := observe(w.World)
		publishes, name := "", ""
		w.Until("an instance publishes", func() bool { publishes = w.text(w.Keys.PublisherLease()); return publishes != "" })
		for n, p := range w.serves {
			if strings.HasPrefix(publishes, w.Worker(p)+" ") {
				name = n
			}
		}
		if name == "" {
			t.Fatalf("%q publishes and is none of ours", publishes)
		}
		step := w.strikes("the instance that publishes is killed and the clock of Redis steps back")
		w.serves[name].Kill()
		c.set(-time.Hour)
		step.ends(2 * jobTTL)
		delete(w.serves, name)
		index, event := len(w.mes.Ledger().Indexes), events.number()
		w.Until("a state index after the step", func() bool { return len(w.mes.Ledger().Indexes) > index })
		w.Until("a status event after the step", func() bool { return events.number() > event })
		w.more()
		if n := w.said(script.SteppedBack); n < 1 || n > 3 {
			t.Errorf("%d lines say that the clock stepped back, want one a minute", n)
		}
		w.serve(name)

		step = w.strikes("both instances are killed and the clock of Redis steps back")
		for _, p := range w.serves {
			p.Kill()
		}
		c.set(-2 * time.Hour)
		w.serve("a")
		w.serve("b")
		step.ends(2 * jobTTL)
		w.more()
	}, judge: func(w *jobWorld) {
		w.verify()
		w.indexes()
	}}.run(t)
}
