package fault_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/test/rig"
)

// outage is what keeps two instances from work for longer than each command of the cell may take (12 s). The machine answers at once.
type outage struct {
	*rig.World
	t             *testing.T
	redis, broker *testenv.Proxy // of the instances alone
	serves        []*rig.Process
}

// lasts is how long an outage goes on: its length is the fault.
func (o *outage) lasts(d time.Duration) {
	o.t.Helper()
	select {
	case <-time.After(d):
	case <-o.t.Context().Done():
		o.t.Fatal("stopped in the middle of the outage")
	}
}

func (o *outage) must(words ...string) {
	o.t.Helper()
	c := o.Redis.Client
	if err := c.Do(o.t.Context(), c.B().Arbitrary(words...).Build()).Error(); err != nil {
		o.t.Fatal(err)
	}
}

// errorLines counts lines of level ERROR of a process that say so and so.
func errorLines(p *rig.Process, text string) (n int) {
	for line := range strings.Lines(p.Stderr()) {
		if strings.Contains(line, "level=ERROR") && strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// Fault 28, find-O2, find-O4, I9: no order is aborted whose machine answers in time, whatever keeps Takt from the answer and for however long. Nothing is
// lost, nothing is done twice.
func TestFault28OutageBeyondEveryTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		orders int
		fault  func(o *outage)
	}{
		"Redis is down for 15 s": {300, func(o *outage) {
			o.Redis.Kill(o.t)
			o.lasts(15 * time.Second)
			restart(o.t, o.Redis.Server)
		}},
		"the memory of Redis is full for 15 s": {40, func(o *outage) {
			o.must("CONFIG", "SET", "maxmemory", "1")
			o.lasts(15 * time.Second)
			o.must("CONFIG", "SET", "maxmemory", "0")
		}},
		"rights are withdrawn for 12 s": {40, func(o *outage) {
			o.must("ACL", "SETUSER", "default", "-evalsha", "-xack", "-xreadgroup")
			o.lasts(12 * time.Second)
			o.must("ACL", "SETUSER", "default", "+@all")
			for _, p := range o.serves {
				if n := errorLines(p, "NOPERM"); n != 1 {
					o.t.Errorf("%d lines of level ERROR name the refusal, want 1 a minute", n)
				}
				if strings.Contains(p.Stderr(), "is lost") {
					o.t.Error("something is lost")
				}
			}
		}},
		"Redis is 1 s late each way for 20 s": {40, func(o *outage) {
			o.redis.Delay(time.Second)
			o.lasts(20 * time.Second)
			o.redis.Delay(0)
		}},
		"Redis is 3 s late each way for 30 s": {40, func(o *outage) {
			o.redis.Delay(3 * time.Second)
			o.lasts(30 * time.Second)
			o.redis.Delay(0)
		}},
		"Redis is half-open for 15 s, twice": {40, func(o *outage) {
			for range 2 {
				o.redis.Stall(true)
				o.lasts(15 * time.Second)
				o.redis.Stall(false)
				o.lasts(2 * time.Second)
			}
		}},
		"the broker is half-open for 20 s, twice": {40, func(o *outage) {
			for range 2 {
				o.broker.Stall(true)
				o.lasts(20 * time.Second)
				o.broker.Stall(false)
				o.lasts(2 * time.Second)
			}
		}},
		"the broker is cut every 200 ms for 20 s": {40, func(o *outage) {
			for range 100 {
				o.broker.Cut()
				o.lasts(200 * time.Millisecond)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.New(t, rig.Options{
				Redis: embedded.RedisOptions{Persist: true, Config: []string{"appendfsync always"}}, WorkerTTL: 10 * time.Second, Takes: "5ms..20ms",
			})
			o := &outage{World: w, t: t, redis: testenv.CountingProxy(t, w.Redis.URL), broker: testenv.CountingProxy(t, w.Broker.URL)}
			for _, instance := range []string{"a", "b"} {
				o.serves = append(o.serves, w.Serve(instance, "--redis", o.redis.URL, "--mqtt", o.broker.URL))
			}
			m := w.MES()
			var ordering sync.WaitGroup
			ordering.Go(func() { m.Order(rig.Orders("JO", c.orders)) })
			w.UntilExecuted(1 + w.Rand.IntN(2*c.orders)) // many commands are on their way, or answered and not taken yet
			c.fault(o)
			ordering.Wait()
			m.UntilDone(c.orders)
			w.Verify(m)
			stillUp(t, append(o.serves, w.Station())...)
		})
	}
}
