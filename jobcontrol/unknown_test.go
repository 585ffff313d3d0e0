package jobcontrol_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// workMaster is a delivery of a recipe of ours.
func workMaster(id, data string) string {
	return fmt.Sprintf(`{"ID":%q,"dataschema":%q,"data":%s}`, id, recipe.SchemaURI, data)
}

// A misspelt member is refused with its place and the name that was meant, and nothing is stored.
func TestUnknownMembersAreRefused(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	refused := func(e cloudevent.Event, says ...string) {
		t.Helper()
		reply := p.answer(t, e)
		wantStatus(t, reply, isa95.InvalidRequest)
		if reply.ErrorKind != cloudevent.KindPropertyInvalid {
			t.Errorf("%s: kind %s", e.Data, reply.ErrorKind)
		}
		for _, text := range says {
			if !strings.Contains(reply.ErrorMessage, text) {
				t.Errorf("%s: %q does not say %s", e.Data, reply.ErrorMessage, text)
			}
		}
	}
	for _, m := range []isa95.Method{isa95.Store, isa95.StoreAndStart, isa95.Update} {
		refused(call(m, `{"JobOrderID":"JO-1","Prioritty":3}`), `"Prioritty"`, "/JobOrder", "did you mean Priority?")
		refused(call(m, `{"JobOrderId":"JO-1"}`), `"JobOrderId"`, "did you mean JobOrderID?")
		refused(call(m, `{"JobOrderID":"JO-1","WorkMasterID":[{"ID":"WM-1","data":{}}]}`), `"data"`, "/JobOrder/WorkMasterID/0")
	}
	refused(config(isa95.ConfigEquipment, "PUT", `{"ID":"E","Desciption":[]}`), "did you mean Description?")
	refused(config(isa95.ConfigWorkMaster, "PUT", `{"ID":"W","dataSchema":"u"}`), "did you mean dataschema?")
	refused(config(isa95.ConfigJobAcceptance, "PUT", `{"max_downloadable_job_orders":1,"x":1}`), `"x"`)
	for member, meant := range map[string]string{`"MaxAttemps":5`: "MaxAttempts", `"Paramters":{}`: "Parameters", `"TimeOutSeconds":1`: "TimeoutSeconds"} {
		refused(config(isa95.ConfigWorkMaster, "PUT", workMaster("W", strings.Replace(linear, `"Step":"cut"`, `"Step":"cut",`+member, 1))),
			"R036", "/Actions/1/", "did you mean "+meant+"?")
	}
	refused(config(isa95.ConfigWorkMaster, "PUT", workMaster("W", strings.Replace(linear, `{"Steps"`, `{"AllowEndles":true,"Steps"`, 1))), "did you mean AllowEndless?")
	if diff := cmp.Diff(map[string]string{}, p.snapshot(t)); diff != "" {
		t.Errorf("a refusal wrote:\n%s", diff)
	}

	p.configure(t, isa95.ConfigWorkMaster, "PUT", `{"ID":"W","dataschema":"urn:other","data":{"Anything":[{"MaxAttemps":1}]},"_dataschema":"u"}`, isa95.NoError)
	p.configure(t, isa95.ConfigWorkMaster, "PUT", workMaster("W", strings.Replace(linear, `{"Steps"`, `{"x-author":"me","_dataschema":"u","Steps"`, 1)), isa95.NoError)
	p.configure(t, isa95.ConfigEquipment, "DELETE", `{"ID":"E","Desciption":[]}`, isa95.NoError)
	p.do(t, isa95.Store, `{"JobOrderID":"JO-1","x-lot":"L1","_dataschema":"u"}`, isa95.NoError)
	p.answer(t, command(isa95.Cancel.TypeID(), `{"JobOrderID":"JO-1","Comment":[],"Reason":"wrong lot"}`))
	if got := p.state(t, "JO-1"); got != "EndState" {
		t.Errorf("a command that ends an order was refused for a word: %s", got)
	}
}

// --unknown-members keep and ignore take what an MES sends that cannot be changed: kept, it comes back with the order.
func TestUnknownMembersAllowed(t *testing.T) {
	for policy, want := range map[isa95.UnknownMembers]string{
		isa95.KeepUnknown:   `{"JobOrderID":"JO-1","Priority":2,"Colour":"red"}`,
		isa95.IgnoreUnknown: `{"JobOrderID":"JO-1","Priority":2}`,
	} {
		p := newPlant(t, jobcontrol.Options{UnknownMembers: policy})
		p.do(t, isa95.Store, `{"JobOrderID":"JO-1","Colour":"red","Priority":2}`, isa95.NoError)
		p.do(t, isa95.Start, "JO-1", isa95.NoError) // writes the document again
		snap, err := p.store.Load(t.Context(), jobstore.Query{JobOrderID: "JO-1"})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := isa95.Marshal(snap.Job.JobOrder); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", policy, got, err)
		}
		e := config(isa95.ConfigWorkMaster, "PUT", workMaster("W", strings.Replace(linear, `{"Steps"`, `{"AllowEndles":true,"Steps"`, 1)))
		reply := p.answer(t, e)
		if status(t, reply) != isa95.NoError || reply.ErrorKind != "" || !strings.Contains(reply.ErrorMessage, "R036") {
			t.Errorf("%s: %s %q", policy, reply.Data, reply.ErrorMessage)
		}
		if again := p.answer(t, e); again.ErrorMessage != reply.ErrorMessage {
			t.Errorf("a repeat says %q", again.ErrorMessage)
		}
	}
}

// What another program stored keeps its unknown members.
func TestStoredUnknownMembersStay(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	p.do(t, isa95.Store, order("JO-1"), isa95.NoError)
	key := p.keys.JobOrder("JO-1")
	doc, err := p.redis(t, "GET", key).ToString()
	if err != nil {
		t.Fatal(err)
	}
	p.redis(t, "SET", key, strings.Replace(doc, `"Priority":3`, `"Priority":3,"Future":[1.0]`, 1))
	p.do(t, isa95.Start, "JO-1", isa95.NoError)
	if doc, err := p.redis(t, "GET", key).ToString(); err != nil || !strings.Contains(doc, `"Future":[1.0]`) {
		t.Errorf("%s, %v", doc, err)
	}
}

// A command for an order that a newer version wrote is refused with that reason, and nothing is written over it.
func TestCommandForANewerDocument(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	p.do(t, isa95.Store, order("JO-1"), isa95.NoError)
	key := p.keys.JobOrder("JO-1")
	doc, err := p.redis(t, "GET", key).ToString()
	if err != nil {
		t.Fatal(err)
	}
	newer := strings.Replace(doc, isa95.SchemaJobOrderAndState, "urn:newer", 1)
	p.redis(t, "SET", key, newer)
	for method, status := range map[isa95.Method]isa95.ReturnStatus{isa95.Start: isa95.InvalidStatus, isa95.Store: isa95.UnableToAccept, isa95.Cancel: isa95.InvalidStatus} {
		body := `{"JobOrderID":"JO-1"}`
		if method == isa95.Store {
			body = `{"JobOrder":` + body + `}`
		}
		reply := p.answer(t, command(method.TypeID(), body))
		if wantStatus(t, reply, status); !strings.Contains(reply.ErrorMessage, "newer version") {
			t.Errorf("%s: %q", method, reply.ErrorMessage)
		}
	}
	if doc, err := p.redis(t, "GET", key).ToString(); err != nil || doc != newer {
		t.Errorf("%s, %v", doc, err)
	}
}

// Of two parameters of one ID a recipe would take one and ignore the other: the order is refused with the place and the rule. An order
// that is stored with them runs on.
func TestParametersOfOneID(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	const doubled = `[{"ID":"force","Value":1},{"ID":"speed","Value":2},{"ID":"force","Value":9}]`
	for body, pointer := range map[string]string{
		`{"JobOrderID":"JO-1","JobOrderParameters":` + doubled + `}`:                                      "/JobOrder/JobOrderParameters/2/ID",
		`{"JobOrderID":"JO-1","WorkMasterID":[{"ID":"W"},{"ID":"V","Parameters":` + doubled + `}]}`:       "/JobOrder/WorkMasterID/1/Parameters/2/ID",
		`{"JobOrderID":"JO-1","job_order_id":"JO-2"}`:                                                     "/JobOrder/job_order_id",
		`{"JobOrderID":"JO-1","JobOrderParameters":[],"job_order_parameters":[{"ID":"force","Value":9}]}`: "/JobOrder/job_order_parameters",
		`{"JobOrderID":"JO-1","JobOrderParameters":[{"ID":"force","Value":{"kN":1,"kN":2}}]}`:             "/JobOrder/JobOrderParameters/0/Value/kN",
	} {
		for _, m := range []isa95.Method{isa95.Store, isa95.StoreAndStart, isa95.Update} {
			reply := p.do(t, m, body, isa95.InvalidRequest)
			if reply.ErrorKind != cloudevent.KindPayloadInvalid || reply.ErrorContext["pointer"] != pointer || reply.ErrorContext["rule"] == "" {
				t.Errorf("%s %s: %s %q %v", m, body, reply.ErrorKind, reply.ErrorMessage, reply.ErrorContext)
			}
		}
	}
	reply := p.answer(t, command(isa95.Abort.TypeID(), `{"JobOrderID":"JO-1","job_order_id":"JO-2"}`))
	if wantStatus(t, reply, isa95.InvalidRequest); !strings.Contains(reply.ErrorMessage, "as JobOrderID and as job_order_id") {
		t.Errorf("Abort: %q", reply.ErrorMessage)
	}
	if diff := cmp.Diff(map[string]string{}, p.snapshot(t)); diff != "" {
		t.Errorf("a refusal wrote:\n%s", diff)
	}
	p.do(t, isa95.Store, `{"JobOrderID":"JO-1","JobOrderParameters":[{"Value":1},{"Value":2}]}`, isa95.NoError)
	key := p.keys.JobOrder("JO-1")
	doc, err := p.redis(t, "GET", key).ToString()
	if err != nil {
		t.Fatal(err)
	}
	p.redis(t, "SET", key, strings.Replace(doc, `[{"Value":1},{"Value":2}]`, doubled, 1))
	p.do(t, isa95.Start, "JO-1", isa95.NoError)
	if doc, err := p.redis(t, "GET", key).ToString(); err != nil || !strings.Contains(doc, doubled) {
		t.Errorf("%s, %v", doc, err)
	}
}

// Names that cannot be told apart are refused where they enter; doubled members are. What is stored under such a name
// is reached by every method.
func TestNamesThatCannotBeToldApart(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	for _, id := range []string{"JO-1\u200b", "\u202eJO-1", " JO-1", "JO-1 ", "\ufeffJO-1", "a\u2028b"} {
		for _, m := range []isa95.Method{isa95.Store, isa95.StoreAndStart} {
			if reply := p.do(t, m, `{"JobOrderID":`+quote(id)+`}`, isa95.InvalidRequest); reply.ErrorKind != cloudevent.KindPropertyInvalid {
				t.Errorf("%q: %s", id, reply.ErrorKind)
			}
		}
		for _, kind := range []isa95.ConfigKind{isa95.ConfigEquipment, isa95.ConfigWorkMaster} {
			p.configure(t, kind, "PUT", `{"ID":`+quote(id)+`}`, isa95.InvalidRequest)
		}
	}
	reply := p.answer(t, command(isa95.Store.TypeID(), `{"JobOrder":{"JobOrderID":"JO-1","JobOrderID":"JO-2"}}`))
	if wantStatus(t, reply, isa95.InvalidRequest); reply.ErrorKind != cloudevent.KindPayloadInvalid {
		t.Errorf("doubled member: %s %s", reply.ErrorKind, reply.ErrorMessage)
	}
	if diff := cmp.Diff(map[string]string{}, p.snapshot(t)); diff != "" {
		t.Errorf("a refusal wrote:\n%s", diff)
	}
	const odd = "JO-7\u200b "
	p.put(t, odd, isa95.State{Top: isa95.NotAllowedToStart, Sub: "Ready"})
	p.do(t, isa95.Update, `{"JobOrderID":`+quote(odd)+`,"Priority":4}`, isa95.NoError)
	p.answer(t, command(isa95.Start.TypeID(), `{"JobOrderID":`+quote(odd)+`}`))
	if got := p.state(t, odd); got != "AllowedToStart_Ready" {
		t.Errorf("stored order is %s", got)
	}
	p.configure(t, isa95.ConfigEquipment, "DELETE", `{"ID":"E "}`, isa95.NoError)
}
