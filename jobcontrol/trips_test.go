package jobcontrol_test

import (
	"fmt"
	"testing"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
)

// A command costs two round trips, one to load and one to commit, whatever it is and whatever it has to check; one when it is refused
// or repeated. It was 12 round trips and up (spec/sfc-and-publisher F.1).
func TestRoundTrips(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
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
	for _, kind := range isa95.ConfigKinds() {
		body := `{"ID":"X-1"}`
		switch kind {
		case isa95.ConfigMaterialClass, isa95.ConfigMaterialDefinition:
			body = `{"MaterialClassID":"X-1","MaterialDefinitionID":"X-1"}`
		case isa95.ConfigJobAcceptance:
			body = `{"max_downloadable_job_orders":50}`
		}
		for _, method := range []string{"PUT", "DELETE", "PUT"} {
			cost(string(kind)+" "+method, config(kind, method, body), isa95.NoError, 2)
		}
		cost(string(kind)+" refused", config(kind, "POST", body), isa95.InvalidRequest, 0)
	}
	full := `{"JobOrderID":%q,"EquipmentRequirements":[{"ID":"X-1"}],"MaterialRequirements":[{"MaterialClassID":"X-1","MaterialDefinitionID":"X-1"}],
		"PersonnelRequirements":[{"ID":"X-1"}],"PhysicalAssetRequirements":[{"ID":"X-1"}],"WorkMasterID":[{"ID":"X-1"}]}`
	for _, m := range control {
		for _, s := range isa95.States() {
			if _, ok := isa95.Next(s, m); !ok {
				continue
			}
			id, body := fmt.Sprintf("JO-%s-%s", m, s), ""
			if s != isa95.Initial {
				p.put(t, id, s)
			}
			if body = id; m.TakesJobOrder() {
				body = fmt.Sprintf(full, id)
			}
			name := fmt.Sprintf("%s in %s", m, s)
			e := cost(name, call(m, body), isa95.NoError, 2)
			cost(name+", repeated", e, isa95.NoError, 1)
			refused := isa95.InvalidStatus
			if m == isa95.Store || m == isa95.StoreAndStart {
				refused = isa95.UnableToAccept
			}
			if m != isa95.Update {
				cost(name+", refused", call(m, body), refused, 1)
			}
			break
		}
	}
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
