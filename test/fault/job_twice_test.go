package fault_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/test/rig"
)

// Fault 13: every answer and event of the machine comes three times, and what an instance has in hand is given to the other one all the time. Each counts once.
func TestFault13DeliveredTwice(t *testing.T) {
	t.Parallel()
	jobFault{do: func(w *jobWorld) {
		again, end := w.thrice()
		defer end()
		given := 0
		for len(w.mes.Ledger().Results) < w.f.orders*3/4 {
			given += w.handOver("sfc:work", "sfc-engine") + w.handOver("sfc:outbox", "sfc-outbox")
		}
		t.Logf("%d messages came again, %d entries were given to the other instance", again(), given)
		if again() == 0 || given == 0 {
			t.Error("nothing was delivered twice")
		}
	}}.run(t)
}

// thrice publishes every answer and event of the machine twice more.
func (w *jobWorld) thrice() (again func() int64, end func()) {
	w.t.Helper()
	ctx, end := context.WithCancel(w.t.Context())
	echo := mqtt.UserProperty{Name: "echo", Value: "1"}
	var n atomic.Int64
	heard := make(chan mqtt.Message, 100_000)
	take := func(_ context.Context, in *mqtt.Inbound) {
		_ = in.Ack()
		if !slices.Contains(in.User, echo) {
			heard <- in.Message
		}
	}
	var filters []mqtt.Subscription
	for _, filter := range []string{w.TopicPrefix + "/responses/+/+", w.TopicPrefix + "/equipment/+/events"} {
		filters = append(filters, mqtt.Subscription{Filter: filter, QoS: 1, Handle: take})
	}
	conn := rig.Connect(w.t, mqtt.Options{URL: w.Broker.URL, ClientID: "echo"}, filters...)
	go func() {
		for {
			select {
			case m := <-heard:
				m.Retain, m.User = false, append(slices.Clone(m.User), echo)
				for range 2 {
					if conn.Publish(ctx, m) == nil {
						n.Add(1)
					}
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return n.Load, end
}

// handOver gives entries of a stream that an instance has in hand to the other one, and returns how many.
func (w *jobWorld) handOver(stream, group string) (given int) {
	w.t.Helper()
	key := w.Prefix + ":" + stream
	pending, err := w.must("XPENDING", key, group, "-", "+", "10").ToArray()
	if err != nil {
		w.t.Fatal(err)
	}
	a, b := w.Worker(w.serves["a"]), w.Worker(w.serves["b"])
	for _, p := range pending {
		part, err := p.ToArray()
		if err != nil {
			w.t.Fatal(err)
		}
		id, _ := part[0].ToString()
		other := a
		if owner, _ := part[1].ToString(); owner == a {
			other = b
		}
		got, err := w.must("XCLAIM", key, group, other, "0", id, "JUSTID").AsStrSlice()
		if err != nil {
			w.t.Fatal(err)
		}
		given += len(got)
	}
	return given
}
