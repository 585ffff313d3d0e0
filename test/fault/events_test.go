package fault_test

import (
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
	ear
	t *testing.T
}

type observed struct{ sequence, recorded, state string }

func observe(t *testing.T, w *rig.World) *observer {
	t.Helper()
	o := &observer{t: t}
	o.Conn = rig.Connect(t, mqtt.Options{URL: w.Broker.URL, ClientID: "observer"}, mqtt.Subscription{Filter: w.TopicPrefix + "/+/events", QoS: 1, Handle: o.take})
	return o
}

// events are those of each order, and how many came again.
func (o *observer) events() (orders map[string][]observed, number, repeats int) {
	o.t.Helper()
	orders = map[string][]observed{}
	seen := map[string]bool{}
	for _, m := range o.on("#") {
		e, err := mqtt.Decode(m)
		var told isa95.StatusEvent
		if err == nil {
			err = isa95.Unmarshal(e.Data, &told)
		}
		state, stateErr := isa95.ParseState(told.JobState)
		if err != nil || stateErr != nil {
			o.t.Fatalf("event %s: %v %v", e.ID, err, stateErr)
		}
		if seen[e.ID] {
			repeats++
			continue
		}
		seen[e.ID] = true
		id := told.JobOrder.JobOrderID
		orders[id] = append(orders[id], observed{e.Extensions["sequence"], e.RecordedTime, state.String()})
	}
	return orders, len(seen), repeats
}

func (o *observer) number() int {
	_, n, _ := o.events()
	return n
}

// ended is how many orders have their last event.
func (o *observer) ended() (n int) {
	orders, _, _ := o.events()
	for _, events := range orders {
		if events[len(events)-1].state == (isa95.State{Top: isa95.EndState}).String() {
			n++
		}
	}
	return n
}

// verify wants the events of each order in the order of its changes, without gaps, and times that do not fall.
func (o *observer) verify() {
	o.t.Helper()
	orders, number, repeats := o.events()
	o.t.Logf("%d events, %d came twice", number, repeats)
	for id, events := range orders {
		for i, e := range events {
			if want := fmt.Sprintf("%010d", i+1); e.sequence != want || i > 0 && e.recorded < events[i-1].recorded {
				o.t.Errorf("%s: event %d is %+v, all: %+v", id, i+1, e, events)
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
		token, _ := w.Redis.Must(t, "GET", w.Keys.Lease(jobstore.RoleEvents)).ToString() // nil: no process has it now
		return token
	}
	serves := []*rig.Process{w.Serve("a"), w.Serve("b")}
	o, m := observe(t, w), w.MES()
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
	o.verify()
	w.Verify(m)
}
