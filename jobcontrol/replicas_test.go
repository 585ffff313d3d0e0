package jobcontrol_test

import (
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
)

// A command is answered 1 only when replicas have its change. Until then it is stored, the answer says so and that it is to be repeated, and a repeat
// waits again before it gets the stored reply. So it is with configuration.
func TestReplicas(t *testing.T) {
	srv := testenv.StartRedis(t, embedded.RedisOptions{})
	replica := testenv.StartReplica(t, srv.Addr)
	p := plantOn(t, srv, jobstore.Options{Replicas: 1, ReplicasWithin: 100 * time.Millisecond}, jobcontrol.Options{})
	patient := plantOn(t, srv, jobstore.Options{Replicas: 1, ReplicasWithin: time.Minute}, jobcontrol.Options{})
	store := call(isa95.Store, order("JO-1"))
	wantStatus(t, patient.answer(t, store), isa95.NoError)

	replica.Pause(t)
	store2 := call(isa95.StoreAndStart, order("JO-2"))
	configure := command(isa95.ConfigEquipment.TypeID(), `{"ID":"press-1"}`)
	for _, e := range []cloudevent.Event{store, store2, configure} {
		for range 2 {
			reply := p.answer(t, e)
			if reply.ErrorKind != cloudevent.KindServiceUnavailable || !strings.Contains(reply.ErrorMessage, "stored here, not yet on 1 replicas (0 within 100ms); repeat it under the same id") {
				t.Errorf("%s: %s %q %s", e.Type, reply.ErrorKind, reply.ErrorMessage, reply.Data)
			}
		}
	}
	if p.state(t, "JO-2") == "" {
		t.Error("the order is not stored")
	}
	wantStatus(t, p.answer(t, call(isa95.Start, "JO-9")), isa95.UnknownJobOrder) // refusals wait for nothing

	replica.Continue(t)
	for _, e := range []cloudevent.Event{store, store2, configure} {
		wantStatus(t, patient.answer(t, e), isa95.NoError)
	}
	if n := p.env.Number(t, "XLEN", p.keys.SfcWork()); n != 1 {
		t.Errorf("%d entries of work for one StoreAndStart", n)
	}
}
