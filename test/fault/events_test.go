package fault_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/test/rig"
)

// observer takes the status events of all scopes as they arrive; repeats, by id, are counted and left out.
type observer struct {
	mu      sync.Mutex
	orders  map[string][]observed
	seen    map[string]bool
	repeats int
}

type observed struct{ sequence, recorded, state string }

func observe(w *rig.World) *observer {
	w.T.Helper()
	o := &observer{orders: make(map[string][]observed), seen: make(map[string]bool)}
	take := func(_ context.Context, in *mqtt.Inbound) {
		defer func() { _ = in.Ack() }()
		e, err := mqtt.Decode(in.Message)
		var told isa95.StatusEvent
		if err == nil {
			err = isa95.Unmarshal(e.Data, &told)
		}
		state, stateErr := isa95.ParseState(told.JobState)
		if err != nil || stateErr != nil {
			w.T.Errorf("event %s: %v %v", e.ID, err, stateErr)
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.seen[e.ID] {
			o.repeats++
			return
		}
		o.seen[e.ID] = true
		id := told.JobOrder.JobOrderID
		o.orders[id] = append(o.orders[id], observed{e.Extensions["sequence"], e.RecordedTime, state.String()})
	}
	rig.Connect(w.T, mqtt.Options{URL: w.Broker.URL, ClientID: fmt.Sprintf("observer-%d", time.Now().UnixNano())}, mqtt.Subscription{Filter: w.TopicPrefix + "/+/events", QoS: 1, Handle: take})
	return o
}

func (o *observer) number() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.seen)
}

// ended is how many orders have their last event.
func (o *observer) ended() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, events := range o.orders {
		if events[len(events)-1].state == (isa95.State{Top: isa95.EndState}).String() {
			n++
		}
	}
	return n
}

// verify wants the events of each order in the order of its changes, without gaps, and times that do not fall.
func (o *observer) verify(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, events := range o.orders {
		for i, e := range events {
			if want := fmt.Sprintf("%010d", i+1); e.sequence != want || i > 0 && e.recorded < events[i-1].recorded {
				t.Errorf("%s: event %d is %+v, all: %+v", id, i+1, e, events)
				break
			}
		}
	}
}

// Fault 1: the instance that sends the status events is killed with orders under way, three times. Another one goes on
// when its lease has expired. No event is lost, events come twice at most under the same id, and those of an order in the order of its changes.
func TestFault1EventSenderKilled(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{WorkerTTL: 10 * time.Second})
	lease := func() string {
		c := w.Redis.Client
		token, _ := c.Do(t.Context(), c.B().Get().Key(w.Keys.Lease(jobstore.RoleEvents)).Build()).ToString() // nil: no process has it now
		return token
	}
	serves := []*rig.Process{w.Serve("a"), w.Serve("b")}
	o, m := observe(w), w.MES()
	const orders = 100
	for round := range 3 {
		done := w.Executed()
		var ordering sync.WaitGroup
		ordering.Go(func() { m.Order(rig.Orders(fmt.Sprintf("R%d", round), orders)) })
		w.UntilExecuted(done + 1 + w.Rand.IntN(3*orders))
		var dead string
		w.Until("an instance has the role", func() bool { dead = lease(); return dead != "" })
		for i, p := range serves {
			if strings.HasPrefix(dead, w.Worker(p)+" ") {
				p.Kill()
				killed, before := time.Now(), o.number()
				w.Until("another instance has the role", func() bool { now := lease(); return now != "" && now != dead })
				took := time.Since(killed)
				w.Until("events by another instance", func() bool { return o.number() > before })
				t.Logf("the role passed on %v after the kill, the next event came %v after it", took.Round(10*time.Millisecond), time.Since(killed).Round(10*time.Millisecond))
				serves[i] = w.Serve([]string{"a", "b"}[i])
				break
			}
		}
		ordering.Wait()
		m.UntilDone((round + 1) * orders)
	}
	w.Until("the last events", func() bool { return o.ended() == 3*orders })
	o.verify(t)
	t.Logf("%d events, %d came twice", o.number(), o.repeats)
	w.Verify(m)
}
