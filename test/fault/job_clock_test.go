package fault_test

import (
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/test/rig"
)

// Fault 12, find-O2, I9: the clock of Redis steps by an hour, there and back, with 160 orders under way whose commands may take 12 s. None is aborted, none is
// stuck, and none is done twice.
func TestFault12RedisClockSteps(t *testing.T) {
	c := wrongClock(t)
	w := rig.New(t, rig.Options{Redis: embedded.RedisOptions{Persist: true, Config: []string{"appendfsync always"}}, WorkerTTL: 10 * time.Second})
	a, b := w.Serve("a"), w.Serve("b")
	m := w.MES()
	const orders = 160
	var ordering sync.WaitGroup
	ordering.Go(func() { m.Order(rig.Orders("JO", orders)) })
	for i, offset := range []time.Duration{time.Hour, 0, -time.Hour, 0} {
		w.UntilExecuted((i + 1) * orders)
		c.set(offset)
	}
	ordering.Wait()
	m.UntilDone(orders)
	w.Verify(m)
	stillUp(t, a, b, w.Station())
}
