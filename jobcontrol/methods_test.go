package jobcontrol_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
)

var control = []isa95.Method{
	isa95.Store, isa95.StoreAndStart, isa95.Start, isa95.Stop, isa95.Pause, isa95.Resume,
	isa95.Abort, isa95.Cancel, isa95.Clear, isa95.RevokeStart, isa95.Update,
}

// allowed is the machine of OPC 10031-4 in its own words: state before -> method -> state after. Store and
// StoreAndStart are accepted where there is no order, or an order in EndState.
var allowed = map[string]map[isa95.Method]string{
	"": {isa95.Store: "NotAllowedToStart_Ready", isa95.StoreAndStart: "AllowedToStart_Ready"},
	"NotAllowedToStart": {
		isa95.Abort: "Aborted", isa95.Cancel: "EndState", isa95.Start: "AllowedToStart_Ready", isa95.Update: "NotAllowedToStart_Ready",
	},
	"AllowedToStart": {
		isa95.Abort: "Aborted", isa95.Cancel: "EndState", isa95.RevokeStart: "NotAllowedToStart_Ready", isa95.Update: "AllowedToStart_Ready",
	},
	"Running":     {isa95.Abort: "Aborted", isa95.Pause: "Interrupted_Suspended", isa95.Stop: "Ended_Completed"},
	"Interrupted": {isa95.Abort: "Aborted", isa95.Resume: "Running", isa95.Stop: "Ended_Completed"},
	"Ended":       {isa95.Clear: "EndState"},
	"Aborted":     {isa95.Clear: "EndState"},
	"EndState":    {isa95.Store: "NotAllowedToStart_Ready", isa95.StoreAndStart: "AllowedToStart_Ready"},
}

// Every method in every state, substates too: what the standard allows is done and told, anything else is refused with the
// right bit and changes nothing (rows 12-22, 24, 26; D3).
func TestEveryMethodInEveryState(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	for _, before := range isa95.States() {
		for _, m := range control {
			t.Run(fmt.Sprintf("%s/%s", before, m), func(t *testing.T) {
				id := fmt.Sprintf("JO-%s-%s", before, m)
				if before != isa95.Initial {
					p.put(t, id, before)
				}
				stored := p.snapshot(t)
				body := id
				if m.TakesJobOrder() {
					body = order(id)
				}
				after, ok := allowed[before.Top][m]
				want := isa95.NoError
				switch {
				case ok:
				case before == isa95.Initial:
					want, after = isa95.UnknownJobOrder, ""
				case m == isa95.Store || m == isa95.StoreAndStart:
					want, after = isa95.UnableToAccept, before.String()
				default:
					want, after = isa95.InvalidStatus, before.String()
				}
				p.do(t, m, body, want)
				if got := p.state(t, id); got != after {
					t.Errorf("state %q, want %q", got, after)
				}
				if want != isa95.NoError {
					if diff := cmp.Diff(stored, p.snapshot(t)); diff != "" {
						t.Errorf("a refusal changed the store:\n%s", diff)
					}
					return
				}
				changes := p.entries(t, p.keys.ChangesAll())
				if len(changes) == 0 || changes[0]["change_type"] != string(m) || changes[0]["job_order_id"] != id || changes[0]["scope"] != scope {
					t.Errorf("changes: %v", changes)
				}
				events := p.events(t)
				if len(events) != 1 || events[0].Subject != scope || events[0].CorrelationID == "" || events[0].Type != isa95.StatusEventType {
					t.Fatalf("status events: %v", events)
				}
				var told isa95.StatusEvent
				if err := isa95.Unmarshal(events[0].Data, &told); err != nil {
					t.Fatal(err)
				}
				if state, err := isa95.ParseState(told.JobState); err != nil || state.String() != after || told.JobOrder.JobOrderID != id {
					t.Errorf("told: %s", events[0].Data)
				}
				p.redis(t, "DEL", p.keys.SfcWork(), p.keys.EventReceiver(), p.keys.Changes(scope), p.keys.ChangesAll())
			})
			p.redis(t, "XADD", p.keys.SfcWork()+"-kept", "*", "action", "start_recipe", "job_id", fmt.Sprintf("JO-%s-%s", before, m), "scope", scope)
		}
	}
	p.redis(t, "RENAME", p.keys.SfcWork()+"-kept", p.keys.SfcWork()) // as if an engine was still to start each
	p.wantSound(t)
}

// The lifecycles of row 24, with Run where an engine comes in.
func TestLifecycles(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	for i, methods := range [][]isa95.Method{
		{isa95.Store, isa95.Start, isa95.Run, isa95.Pause, isa95.Resume, isa95.Stop, isa95.Clear},
		{isa95.StoreAndStart, isa95.Abort, isa95.Clear},
		{isa95.Store, isa95.Cancel},
		{isa95.Store, isa95.Start, isa95.RevokeStart, isa95.Cancel},
		{isa95.Store, isa95.Update, isa95.Start, isa95.Update, isa95.Abort, isa95.Clear, isa95.Store, isa95.Cancel},
	} {
		id := fmt.Sprintf("JO-%d", i)
		for _, m := range methods {
			switch {
			case m == isa95.Run:
				p.put(t, id, isa95.State{Top: isa95.Running})
			case m.TakesJobOrder():
				p.do(t, m, order(id), isa95.NoError)
			default:
				p.do(t, m, id, isa95.NoError)
			}
		}
		if got := p.state(t, id); got != "EndState" {
			t.Errorf("%v: %s", methods, got)
		}
	}
	p.redis(t, "DEL", p.keys.SfcWork())
	p.wantSound(t)
	if n, _ := p.redis(t, "ZCARD", p.keys.JobOrderList(scope)).AsInt64(); n != 0 {
		t.Errorf("D5: %d finished orders are still listed", n)
	}
}

// Update replaces the order, keeps the parent state and moves the order in the list (row 22).
func TestUpdateReplaces(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	p.do(t, isa95.Store, `{"JobOrderID":"JO-7","Priority":3,"Description":[{"Text":"old"}]}`, isa95.NoError)
	p.do(t, isa95.Update, `{"JobOrderID":"JO-7","Priority":9}`, isa95.NoError)
	doc, err := p.redis(t, "GET", p.keys.JobOrder("JO-7")).ToString()
	want := `{"JobOrder":{"JobOrderID":"JO-7","Priority":9},"State":[{"StateText":{"Locale":"en","Text":"NotAllowedToStart"},"StateNumber":1},{"StateText":{"Locale":"en","Text":"Ready"},"StateNumber":2}],"_dataschema":"` + isa95.SchemaJobOrderAndState + `","_scope":"m42","_event":{"sequence":2,`
	if err != nil || !strings.HasPrefix(doc, want) {
		t.Errorf("stored %s, %v", doc, err)
	}
	if score, err := p.redis(t, "ZSCORE", p.keys.JobOrderList(scope), "JO-7").AsFloat64(); err != nil || score != 9 {
		t.Errorf("score %v, %v", score, err)
	}
}

// The list is in ISA-95's order, higher priority first, while the stored score is the priority.
func TestListOrderD22(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	for id, priority := range map[string]int{"JO-a": 1, "JO-b": 9, "JO-c": 5, "JO-d": 5, "JO-e": -2} {
		p.do(t, isa95.Store, fmt.Sprintf(`{"JobOrderID":%q,"Priority":%d}`, id, priority), isa95.NoError)
	}
	p.do(t, isa95.Store, `{"JobOrderID":"JO-f"}`, isa95.NoError)
	list, err := p.store.List(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, o := range list {
		ids = append(ids, o.JobOrder.JobOrderID)
	}
	if want := []string{"JO-b", "JO-c", "JO-d", "JO-a", "JO-f", "JO-e"}; !slices.Equal(ids, want) {
		t.Errorf("list %v, want %v", ids, want)
	}
}

// A job order belongs to the scope that stored it: for another it does not exist, and its id is taken.
func TestForeignScopeD6(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	p.do(t, isa95.Store, order("JO-7"), isa95.NoError)
	p.do(t, isa95.Abort, "JO-7", isa95.NoError)
	p.do(t, isa95.Store, order("JO-8"), isa95.NoError)
	stored := p.snapshot(t)
	for _, m := range append(slices.Clone(control), isa95.RequestJobResponseByJobOrderID) {
		for _, id := range []string{"JO-7", "JO-8"} {
			body := id
			if m.TakesJobOrder() {
				body = order(id)
			}
			e := call(m, body)
			e.Subject, e.Delivery.Topic = "other.line/cell", "app/jobs/other.line/commands"
			want := isa95.UnknownJobOrder
			if m == isa95.Store || m == isa95.StoreAndStart {
				want = isa95.UnableToAccept
			}
			reply := p.answer(t, e)
			wantStatus(t, reply, want)
			wantReply(t, e, reply)
		}
	}
	if diff := cmp.Diff(stored, p.snapshot(t)); diff != "" {
		t.Errorf("a foreign command changed the store:\n%s", diff)
	}
	p.do(t, isa95.Clear, "JO-7", isa95.NoError)
	e := call(isa95.Store, order("JO-7"))
	e.Subject, e.Delivery.Topic = "other.line", "app/jobs/other.line/commands"
	wantStatus(t, p.answer(t, e), isa95.NoError)
	p.wantSound(t)
}

// Store with Start enqueues the recipe as StoreAndStart does, in the same commit, and again after RevokeStart.
func TestStartEnqueuesES4(t *testing.T) {
	work := func(methods ...isa95.Method) []string {
		p := newPlant(t, jobcontrol.Options{})
		for _, m := range methods {
			body := "JO-7"
			if m.TakesJobOrder() {
				body = order("JO-7")
			}
			p.do(t, m, body, isa95.NoError)
		}
		var actions []string
		for _, fields := range p.entries(t, p.keys.SfcWork()) {
			if fields["job_id"] != "JO-7" || fields["scope"] != scope {
				t.Errorf("work %v", fields)
			}
			actions = append(actions, fields["action"])
		}
		return actions
	}
	start := jobstore.WorkStart
	for _, test := range []struct {
		methods []isa95.Method
		want    []string
	}{
		{[]isa95.Method{isa95.Store}, nil},
		{[]isa95.Method{isa95.StoreAndStart}, []string{start}},
		{[]isa95.Method{isa95.Store, isa95.Start}, []string{start}},
		{[]isa95.Method{isa95.Store, isa95.Start, isa95.Update}, []string{start}},
		{[]isa95.Method{isa95.Store, isa95.Start, isa95.RevokeStart, isa95.Start}, []string{start, start}},
	} {
		if got := work(test.methods...); !slices.Equal(got, test.want) {
			t.Errorf("%v: work %v, want %v", test.methods, got, test.want)
		}
	}
}

// Every transition puts its status event into the outbox in the commit that makes it, and no two events have one id.
func TestStatusEventPerTransitionES19(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	var causes []string
	for _, m := range []isa95.Method{isa95.Store, isa95.Start, isa95.RevokeStart, isa95.Start, isa95.Abort, isa95.Clear} {
		body := "JO-7"
		if m.TakesJobOrder() {
			body = order("JO-7")
		}
		e := call(m, body)
		e.Subject = scope + "/cell-1"
		wantStatus(t, p.answer(t, e), isa95.NoError)
		causes = append(causes, e.ID)
	}
	var told []string
	ids := make(map[string]bool)
	for _, e := range p.events(t) {
		told = append(told, e.CausationID)
		ids[e.ID] = true
		if e.Subject != scope || e.CorrelationID != "corr-"+e.CausationID {
			t.Errorf("event %v", e)
		}
	}
	slices.Sort(causes)
	slices.Sort(told)
	if !slices.Equal(causes, told) || len(ids) != len(causes) {
		t.Errorf("told of %v with %v, want %v", told, slices.Collect(maps.Keys(ids)), causes)
	}
}

// An order of the largest size a body may have is stored, told of, ended and cleared like any other.
func TestLargestOrder(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{HoldWhenAway: time.Minute}) // a busy machine takes seconds for it
	body := `{"JobOrder":{"JobOrderID":"JO-7","JobOrderParameters":[{"ID":"p","Value":""}]}}`
	body = strings.Replace(body, `""`, `"`+strings.Repeat("x", 1<<20-len(body))+`"`, 1)
	wantStatus(t, p.answer(t, command(isa95.Store.TypeID(), body)), isa95.NoError)
	p.do(t, isa95.Abort, "JO-7", isa95.NoError)
	p.do(t, isa95.Clear, "JO-7", isa95.NoError)
	p.wantSound(t)
	tooLarge := p.answer(t, command(isa95.Store.TypeID(), body+" "))
	wantStatus(t, tooLarge, isa95.InvalidRequest)
}
