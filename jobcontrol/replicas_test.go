package jobcontrol_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
)

// A command is answered 1 only when replicas have its change. Until then it is stored, the answer says so and that it is to be repeated, and a repeat
// waits again before it gets the stored reply. So it is with configuration.
func TestReplicas(t *testing.T) {
	long.Test(t, "runs several servers")
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
	if n := number(t, p, "XLEN", p.keys.SfcWork()); n != 1 {
		t.Errorf("%d entries of work for one StoreAndStart", n)
	}
}

// Commands that come together share waits: a hundred need fewer than fifty.
func TestReplicasShareAWait(t *testing.T) {
	long.Test(t, "runs several servers")
	srv := testenv.StartRedis(t, embedded.RedisOptions{})
	replica := testenv.StartReplica(t, srv.Addr)
	p := plantOn(t, srv, jobstore.Options{Replicas: 1, ReplicasWithin: time.Minute}, jobcontrol.Options{})
	wantStatus(t, p.answer(t, call(isa95.Store, order("JO-0"))), isa95.NoError) // the server knows the script from now on
	calls := func(command string) int64 {
		t.Helper()
		stats, err := p.redis(t, "INFO", "commandstats").ToString()
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(stats, "cmdstat_"+command+":calls=")
		text, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v in %s", command, err, stats)
		}
		return n
	}
	replica.Pause(t)
	var all sync.WaitGroup
	const orders = 100
	loads, waits := calls("mget"), calls("wait")
	for range orders {
		e := call(isa95.Store, order(cloudevent.NewID()))
		all.Go(func() { wantStatus(t, p.answer(t, e), isa95.NoError) })
	}
	until(t, "each has read its order, and is to be written", func() bool { return calls("mget") >= loads+orders })
	replica.Continue(t)
	all.Wait()
	if n := calls("wait") - waits; n == 0 || n >= 50 {
		t.Errorf("WAIT was called %d times for %d commands", n, orders)
	}
}
