package jobcontrol_test

import (
	"fmt"
	"testing"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
)

// A command costs two round trips, one to load and one to commit, whatever it is and whatever it has to check; one when it is refused
// or repeated. It was 12 round trips and up.
func TestRoundTrips(t *testing.T) {
	p, proxy := behindProxy(t, jobcontrol.Options{})
	cost := func(what string, e cloudevent.Event, want isa95.ReturnStatus, trips int) cloudevent.Event {
		t.Helper()
		proxy.Reset()
		wantStatus(t, p.answer(t, e), want)
		if got := proxy.Trips(); got != trips {
			t.Errorf("%s: %d round trips, want %d", what, got, trips)
		}
		return e
	}
	p.do(t, isa95.Store, order("JO-warm"), isa95.NoError) // loads the script
	for _, method := range []string{"PUT", "DELETE", "PUT"} {
		cost("equipment "+method, config(isa95.ConfigEquipment, method, `{"ID":"X-1"}`), isa95.NoError, 2)
	}
	cost("equipment refused", config(isa95.ConfigEquipment, "POST", `{"ID":"X-1"}`), isa95.InvalidRequest, 0)
	full := `{"JobOrderID":"JO-1","EquipmentRequirements":[{"ID":"X-1"}]}`
	e := cost("Store", call(isa95.Store, full), isa95.NoError, 2)
	cost("Store, repeated", e, isa95.NoError, 1)
	cost("Store, refused", call(isa95.Store, full), isa95.UnableToAccept, 1)
	cost("Start", call(isa95.Start, "JO-1"), isa95.NoError, 2)
	cost("Resume, refused", call(isa95.Resume, "JO-1"), isa95.InvalidStatus, 1)
	p.running(t, "JO-7")
	cost("Pause of a recipe", call(isa95.Pause, "JO-7"), isa95.NoError, 2)
	cost("Resume of a recipe", call(isa95.Resume, "JO-7"), isa95.NoError, 2)
	cost("Abort of a recipe that waits for an event", call(isa95.Abort, "JO-7"), isa95.NoError, 2)
	cost("query by id", call(isa95.RequestJobResponseByJobOrderID, "JO-7"), isa95.NoError, 1)
	cost("query by state", call(isa95.RequestJobResponseByJobOrderState, states("Aborted")), isa95.NoError, 2)
	cost("query by state, none", call(isa95.RequestJobResponseByJobOrderState, states("Running")), isa95.NoError, 1)
	cost("malformed", command(isa95.Store.TypeID(), "{"), isa95.InvalidRequest, 0)
}

func BenchmarkStoreAndCancel(b *testing.B) {
	p := newPlant(b, jobcontrol.Options{})
	body := `{"JobOrderID":%q,"Priority":3,"StartTime":"2026-05-04T06:00:00Z","Description":[{"Text":"Batch 7","Locale":"en"}],"JobOrderParameters":[{"ID":"P1","Value":42.5},{"ID":"P2","Value":"text"}]}`
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprintf("JO-%d", i)
		p.answer(b, call(isa95.Store, fmt.Sprintf(body, id)))
		p.answer(b, call(isa95.Cancel, id))
	}
	b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "commands/s")
	p.redis(b, "DEL", p.keys.SfcWork())
}

func BenchmarkStoreParallel(b *testing.B) {
	p := newPlant(b, jobcontrol.Options{})
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p.answer(b, call(isa95.Store, order(fmt.Sprintf("JO-%d", serial.Add(1)))))
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
}

func BenchmarkRefused(b *testing.B) {
	p := newPlant(b, jobcontrol.Options{})
	b.ReportAllocs()
	for b.Loop() {
		p.answer(b, call(isa95.Start, "JO-nope"))
	}
}
