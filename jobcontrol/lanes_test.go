package jobcontrol_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// The status events of an order come to an MES in the order of the changes, without gaps, and their recordedtime does not fall, over two
// instances that take turns with the commands.
func TestEventsArriveInOrder(t *testing.T) {
	const orders = 300
	env, broker := testenv.Redis(t), testenv.Mosquitto(t)
	one := plantOn(t, env, jobstore.Options{}, jobcontrol.Options{})
	other := plantOn(t, env, storeOptionsOf(one), jobcontrol.Options{})
	mes := connect(t, broker, "mes")
	methods := []isa95.Method{isa95.Store, isa95.Start, isa95.Abort, isa95.Clear}
	type arrival struct{ sequence, recorded string }
	var (
		mu   sync.Mutex
		came = make(map[string][]arrival)
		left = orders * len(methods)
		all  = make(chan struct{})
	)
	err := mes.Subscribe(t.Context(), mqtt.Subscription{Filter: "app/jobs/+/events", QoS: 1, Handle: func(_ context.Context, in *mqtt.Inbound) {
		defer func() { _ = in.Ack() }()
		e, err := mqtt.Decode(in.Message)
		var told isa95.StatusEvent
		if err == nil {
			err = isa95.Unmarshal(e.Data, &told)
		}
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		id := told.JobOrder.JobOrderID
		came[id] = append(came[id], arrival{e.Extensions["sequence"], e.RecordedTime})
		if left--; left == 0 {
			close(all)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	live(t, mes.Run)
	if err := mes.Ready(soon(t)); err != nil {
		t.Fatal(err)
	}
	plants := []*plant{one, other}
	for _, p := range plants {
		pub := connect(t, broker, "pub")
		live(t, pub.Run)
		p.sender(t, pub.PublishEvent)
	}
	var workers sync.WaitGroup
	for worker := range 16 {
		workers.Go(func() {
			for i := worker; i < orders; i += 16 {
				id := fmt.Sprintf("JO-%d", i)
				for at, m := range methods {
					body := id
					if m == isa95.Store {
						body = order(id)
					}
					reply, err := plants[(i+at)%len(plants)].Handle(t.Context(), call(m, body))
					if err != nil || status(t, *reply) != isa95.NoError {
						t.Errorf("%s %s: %v %v", m, id, reply, err)
						return
					}
				}
			}
		})
	}
	workers.Wait()
	select {
	case <-all:
	case <-soon(t).Done():
		t.Errorf("%d of %d events never came", left, orders*len(methods))
	}
	mu.Lock()
	defer mu.Unlock()
	for id, events := range came {
		for i, e := range events {
			if want := fmt.Sprintf("%010d", i+1); e.sequence != want {
				t.Errorf("%s: event %d that came has sequence %s", id, i+1, e.sequence)
			}
			if i > 0 && e.recorded < events[i-1].recorded {
				t.Errorf("%s: recordedtime falls from %s to %s", id, events[i-1].recorded, e.recorded)
			}
		}
	}
}
