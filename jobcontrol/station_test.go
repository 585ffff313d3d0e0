package jobcontrol_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// says hands what a station says to the receiver, and wants a status.
func (p *plant) says(t testing.TB, m isa95.Method, body string, want isa95.ReturnStatus) cloudevent.Event {
	t.Helper()
	reply, err := p.Station().Handle(t.Context(), said(m, body))
	if err != nil || reply == nil {
		t.Fatalf("%s: %v, %v", m, reply, err)
	}
	wantStatus(t, *reply, want)
	return *reply
}

// said is the event of a station: for ReceiveJobResponse body is the response, else the id of the order.
func said(m isa95.Method, body string) cloudevent.Event {
	if m == isa95.ReceiveJobResponse {
		body = `{"JobResponse":` + body + `}`
	} else {
		body = fmt.Sprintf(`{"JobOrderID":%q}`, body)
	}
	e := command(m.TypeID(), body)
	e.Source, e.Delivery.Topic, e.Delivery.ResponseTopic = "urn:example:press", "app/jobs/equipment/"+scope+"/events", "app/jobs/"+scope+"/replies/press"
	return e
}

// handedOver is an order that its station was asked to start.
func (p *plant) handedOver(t testing.TB, id string) {
	t.Helper()
	p.do(t, isa95.StoreAndStart, order(id), isa95.NoError)
	snap := p.stored(t, id)
	err := p.store.Commit(t.Context(), snap, jobstore.Change{Station: &jobstore.Station{Start: "start-" + id}, Now: p.store.Now()})
	if err != nil {
		t.Fatal(err)
	}
}

func (p *plant) stored(t testing.TB, id string) *jobstore.Snapshot {
	t.Helper()
	snap, err := p.store.Load(t.Context(), jobstore.Query{JobOrderID: isa95.JobOrderID(id), Scope: scope, Response: true})
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func text(t testing.TB, s []isa95.StateElement) string {
	t.Helper()
	state, err := isa95.ParseState(s)
	if err != nil {
		t.Fatal(err)
	}
	return state.String()
}

// A station runs an order without a recipe: its response has its own id and data, whenever it hands it in; times and state that it leaves out are filled in.
func TestStationRunsAnOrder(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	p.handedOver(t, "JO-20")
	p.says(t, isa95.Run, "JO-20", isa95.NoError)
	if got := p.state(t, "JO-20"); got != isa95.Running {
		t.Fatal(got)
	}
	given := func(data string) string {
		return `{"JobResponseID":"JR-20","JobOrderID":"JO-20","JobResponseData":[{"ID":"torque","Value":` + data + `}]}`
	}
	p.says(t, isa95.ReceiveJobResponse, given("12"), isa95.NoError)
	if r := p.stored(t, "JO-20").Response; r.JobResponseID != "JR-20" || text(t, r.JobState) != isa95.Running || r.StartTime == "" || r.EndTime != "" {
		t.Errorf("while it runs: %+v", r)
	}
	p.wantSound(t)
	p.says(t, isa95.End, "JO-20", isa95.NoError)
	r := p.stored(t, "JO-20").Response
	if r.JobResponseID != "JR-20" || text(t, r.JobState) != "Ended_Completed" || r.StartTime == "" || r.EndTime == "" || string(r.JobResponseData[0].Value) != "12" {
		t.Errorf("at its end: %+v", r)
	}
	p.says(t, isa95.ReceiveJobResponse, given("12.50"), isa95.NoError) // late, and it replaces
	reply := p.do(t, isa95.RequestJobResponseByJobOrderState, `[{"StateText":{"Text":"Ended"}},{"StateText":{"Text":"Completed"}}]`, isa95.NoError)
	var list isa95.JobResponsesResult
	if err := json.Unmarshal(reply.Data, &list); err != nil || len(list.JobResponses) != 1 || string(list.JobResponses[0].JobResponseData[0].Value) != "12.50" {
		t.Errorf("%s: %v", reply.Data, err)
	}
	p.wantSound(t)
	p.do(t, isa95.Clear, "JO-20", isa95.NoError)
	p.says(t, isa95.ReceiveJobResponse, given("13"), isa95.UnknownJobOrder)
	p.wantSound(t)
}

// A repeated message gets the stored reply and changes nothing.
func TestStationRepeats(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	p.handedOver(t, "JO-1")
	for _, m := range []isa95.Method{isa95.Run, isa95.End} {
		e := said(m, "JO-1")
		first, err := p.Station().Handle(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, *first, isa95.NoError)
		events := len(p.events(t))
		again, err := p.Station().Handle(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, again); diff != "" || len(p.events(t)) != events {
			t.Errorf("%s: %s", m, diff)
		}
	}
}

// What a station may say in each state of an order that it runs.
func TestStationStates(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	const no, ok, unknown = isa95.InvalidStatus, isa95.NoError, isa95.UnknownJobOrder
	methods := []isa95.Method{isa95.Run, isa95.End, isa95.Abort, isa95.ReceiveJobResponse}
	for i, row := range []struct {
		before []isa95.Method // of the station, and of the MES
		want   [4]isa95.ReturnStatus
	}{
		{nil, [4]isa95.ReturnStatus{ok, no, ok, no}},
		{[]isa95.Method{isa95.Run}, [4]isa95.ReturnStatus{no, ok, ok, ok}},
		{[]isa95.Method{isa95.Run, isa95.Pause}, [4]isa95.ReturnStatus{no, no, ok, ok}},
		{[]isa95.Method{isa95.Run, isa95.Stop}, [4]isa95.ReturnStatus{no, no, no, ok}},
		{[]isa95.Method{isa95.Run, isa95.End}, [4]isa95.ReturnStatus{no, no, no, ok}},
		{[]isa95.Method{isa95.Run, isa95.End, isa95.Clear}, [4]isa95.ReturnStatus{unknown, unknown, unknown, unknown}},
		{[]isa95.Method{isa95.Cancel}, [4]isa95.ReturnStatus{unknown, unknown, unknown, unknown}},
		{[]isa95.Method{isa95.RevokeStart}, [4]isa95.ReturnStatus{no, no, ok, no}},
	} {
		for j, m := range methods {
			id := fmt.Sprintf("JO-%d-%d", i, j)
			p.handedOver(t, id)
			for _, b := range row.before {
				if b == isa95.Run || b == isa95.End {
					p.says(t, b, id, ok)
				} else {
					p.do(t, b, id, ok)
				}
			}
			body := id
			if m == isa95.ReceiveJobResponse {
				body = fmt.Sprintf(`{"JobOrderID":%q}`, id)
			}
			p.says(t, m, body, row.want[j])
		}
	}
	p.wantSound(t)
}

// An order that a recipe runs, or that the station was not asked to start, is aborted by the station and moved by nothing else that it says.
func TestStationAndRecipe(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	p.do(t, isa95.StoreAndStart, order("JO-1"), isa95.NoError)
	snap := p.stored(t, "JO-1")
	x := &recipe.Execution{JobID: "JO-1", Scope: scope, WorkMasterID: "WM", CorrelationID: cloudevent.NewID(), Recipe: "sha"}
	change := jobstore.Change{Transition: &jobstore.Transition{Method: isa95.Run, State: isa95.State{Top: isa95.Running}}, Execution: x, Recipe: []byte("{}"), Now: p.store.Now()}
	if err := p.store.Commit(t.Context(), snap, change); err != nil {
		t.Fatal(err)
	}
	p.do(t, isa95.StoreAndStart, order("JO-2"), isa95.NoError)
	before := p.snapshot(t)
	for _, id := range []string{"JO-1", "JO-2"} {
		for _, m := range []isa95.Method{isa95.Run, isa95.End, isa95.ReceiveJobResponse} {
			body := id
			if m == isa95.ReceiveJobResponse {
				body = fmt.Sprintf(`{"JobOrderID":%q}`, id)
			}
			if reply := p.says(t, m, body, isa95.InvalidStatus); reply.ErrorKind != cloudevent.KindStateInvalid {
				t.Errorf("%s %s: %s %s", m, id, reply.ErrorKind, reply.ErrorMessage)
			}
		}
	}
	if diff := cmp.Diff(before, p.snapshot(t)); diff != "" {
		t.Error(diff)
	}
	p.says(t, isa95.Abort, "JO-1", isa95.NoError)
	if got := p.state(t, "JO-1"); got != isa95.Aborted {
		t.Error(got)
	}
}

// The methods of an MES reach the station of an order that it runs, each as one command; RevokeStart takes the order back.
func TestMethodsReachTheStation(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	p.handedOver(t, "JO-1")
	p.do(t, isa95.Update, `{"JobOrderID":"JO-1","Priority":9}`, isa95.NoError)
	p.do(t, isa95.RevokeStart, "JO-1", isa95.NoError)
	p.do(t, isa95.Update, order("JO-1"), isa95.NoError) // the station does not have it
	p.handedOver(t, "JO-2")
	p.says(t, isa95.Run, "JO-2", isa95.NoError)
	for _, m := range []isa95.Method{isa95.Pause, isa95.Resume, isa95.Stop, isa95.Clear} {
		p.do(t, m, "JO-2", isa95.NoError)
	}
	p.handedOver(t, "JO-3")
	p.do(t, isa95.Cancel, "JO-3", isa95.NoError)
	p.handedOver(t, "JO-4")
	p.do(t, isa95.Abort, "JO-4", isa95.NoError)
	var got []string
	last := make(map[string]int64)
	for _, fields := range p.entries(t, p.keys.SfcOutbox()) {
		var c recipe.Command
		if err := json.Unmarshal([]byte(fields["command"]), &c); err != nil {
			t.Fatal(err)
		}
		m, _ := isa95.MethodByTypeID(c.TypeID)
		route, err := p.store.Route(t.Context(), c.ID)
		if err != nil || route.Sequence <= last[c.JobID] {
			t.Errorf("%s of %s: sequence %d after %d, %v", m, c.JobID, route.Sequence, last[c.JobID], err)
		}
		last[c.JobID] = route.Sequence
		got = append(got, c.JobID+" "+string(m))
	}
	want := []string{"JO-1 Update", "JO-1 RevokeStart", "JO-2 Pause", "JO-2 Resume", "JO-2 Stop", "JO-3 Cancel", "JO-4 Abort"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What a station sends wrong is answered with the field, and changes nothing.
func TestStationRefuses(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	p.handedOver(t, "JO-1")
	p.says(t, isa95.Run, "JO-1", isa95.NoError)
	before := p.snapshot(t)
	for name, test := range map[string]struct {
		edit func(*cloudevent.Event)
		want isa95.ReturnStatus
	}{
		"no id":            {func(e *cloudevent.Event) { e.ID = "" }, isa95.InvalidRequest},
		"retained":         {func(e *cloudevent.Event) { e.Delivery.Retained = true }, isa95.InvalidRequest},
		"topic of another": {func(e *cloudevent.Event) { e.Delivery.Topic = "app/jobs/equipment/m43/events" }, isa95.InvalidRequest},
		"another scope":    {func(e *cloudevent.Event) { e.Subject, e.Delivery.Topic, e.Delivery.ResponseTopic = "m43", "", "mes/x" }, isa95.UnknownJobOrder},
		"no such method":   {func(e *cloudevent.Event) { e.Type = "org.opcfoundation.ISA95-JOBCONTROL_V2.Finish.v2" }, 0},
		"no order id":      {func(e *cloudevent.Event) { e.Data = []byte(`{}`) }, isa95.InvalidRequest},
		"no response":      {func(e *cloudevent.Event) { e.Type, e.Data = isa95.ReceiveJobResponse.TypeID(), []byte(`{}`) }, isa95.InvalidRequest},
		"unknown state": {func(e *cloudevent.Event) {
			e.Type, e.Data = isa95.ReceiveJobResponse.TypeID(), []byte(`{"JobResponse":{"JobOrderID":"JO-1","JobState":[{"StateText":{"Text":"Done"}}]}}`)
		}, isa95.InvalidRequest},
		"an unknown member": {func(e *cloudevent.Event) {
			e.Type, e.Data = isa95.ReceiveJobResponse.TypeID(), []byte(`{"JobResponse":{"JobOrderID":"JO-1","JobRespnseData":[]}}`)
		}, isa95.InvalidRequest},
		"two of one data id": {func(e *cloudevent.Event) {
			e.Type, e.Data = isa95.ReceiveJobResponse.TypeID(), []byte(`{"JobResponse":{"JobOrderID":"JO-1","JobResponseData":[{"ID":"a"},{"ID":"a"}]}}`)
		}, isa95.InvalidRequest},
		"unknown order": {func(e *cloudevent.Event) { e.Data = []byte(`{"JobOrderID":"JO-9"}`) }, isa95.UnknownJobOrder},
	} {
		t.Run(name, func(t *testing.T) {
			e := said(isa95.End, "JO-1")
			test.edit(&e)
			reply, err := p.Station().Handle(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			wantStatus(t, *reply, test.want)
			if diff := cmp.Diff(before, p.snapshot(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
	e := said(isa95.End, "JO-1")
	e.Delivery.ResponseTopic = "app/jobs/m43/replies/press"
	if reply, err := p.Station().Handle(t.Context(), e); reply != nil || err != nil {
		t.Errorf("a reply to another station: %v %v", reply, err)
	}
}
