package jobcontrol_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
)

// The table of outcomes.
func TestOutcomes(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	p.do(t, isa95.Store, order("JO-stored"), isa95.NoError)
	p.put(t, "JO-running", isa95.State{Top: isa95.Running})
	stored := p.snapshot(t)

	type outcome struct {
		method isa95.Method
		body   string
		want   isa95.ReturnStatus
		kind   cloudevent.ErrorKind // "" = none: the rules of the standard decided
		says   string               // a part of the reason
	}
	var table []outcome
	add := func(want isa95.ReturnStatus, kind cloudevent.ErrorKind, says, body string, methods ...isa95.Method) {
		for _, m := range methods {
			table = append(table, outcome{m, body, want, kind, says})
		}
	}
	takesID := []isa95.Method{isa95.Start, isa95.Stop, isa95.Pause, isa95.Resume, isa95.Abort, isa95.Cancel, isa95.Clear, isa95.RevokeStart}
	byID, byState := isa95.RequestJobResponseByJobOrderID, isa95.RequestJobResponseByJobOrderState
	stores := []isa95.Method{isa95.Store, isa95.StoreAndStart}

	// required argument missing
	for _, body := range []string{"", "{}", `{"Comment":[{"Text":"why"}]}`} {
		add(isa95.InvalidRequest, cloudevent.KindMissingProperty, "JobOrder is missing", body, append(stores, isa95.Update)...)
		add(isa95.InvalidRequest, cloudevent.KindMissingProperty, "JobOrderID is missing", body, append(takesID, byID)...)
		add(isa95.InvalidRequest, cloudevent.KindMissingProperty, "JobOrderState is missing", body, byState)
	}
	add(isa95.InvalidRequest, cloudevent.KindMissingProperty, "JobOrder is missing", `{"JobOrder":null}`, append(stores, isa95.Update)...)
	add(isa95.InvalidRequest, cloudevent.KindMissingProperty, "JobOrderID is missing", `{"JobOrderID":null}`, append(takesID, byID)...)
	add(isa95.InvalidRequest, cloudevent.KindMissingProperty, "JobOrderState is missing", `{"JobOrderState":[]}`, byState)
	// job order without id
	for _, body := range []string{`{"JobOrder":{}}`, `{"JobOrder":{"JobOrderID":""}}`} {
		add(isa95.UnableToAccept, "", "JobOrderID is missing", body, stores...)
		add(isa95.InvalidRequest, cloudevent.KindMissingProperty, "JobOrderID is missing", body, isa95.Update)
	}
	// id unknown; empty is unknown, not missing
	add(isa95.UnknownJobOrder, "", `"nope"`, `{"JobOrder":{"JobOrderID":"nope"}}`, isa95.Update)
	add(isa95.UnknownJobOrder, "", `"nope"`, `{"JobOrderID":"nope"}`, append(takesID, byID)...)
	add(isa95.UnknownJobOrder, "", "empty", `{"JobOrderID":""}`, append(takesID, byID)...)
	// id exists
	add(isa95.UnableToAccept, "", "exists and is NotAllowedToStart_Ready", `{"JobOrder":{"JobOrderID":"JO-stored"}}`, stores...)
	add(isa95.UnableToAccept, "", "exists and is Running", `{"job_order":{"job_order_id":"JO-running"}}`, stores...)
	add(isa95.UnknownJobOrder, "", "no response yet", `{"JobOrderID":"JO-stored"}`, byID)
	// not acceptable
	add(isa95.UnableToAccept, "", `equipment "EQ-404"`, `{"JobOrder":{"JobOrderID":"JO-new","EquipmentRequirements":[{"ID":"EQ-404"}]}}`, stores...)
	add(isa95.UnableToAccept, "", `equipment "EQ-404"`, `{"JobOrder":{"JobOrderID":"JO-stored","EquipmentRequirements":[{"ID":"EQ-404"}]}}`, isa95.Update)
	// Update checks existence, state, acceptance in that order
	add(isa95.UnknownJobOrder, "", "nope", `{"JobOrder":{"JobOrderID":"nope","EquipmentRequirements":[{"ID":"EQ-404"}]}}`, isa95.Update)
	add(isa95.InvalidStatus, "", "Running", `{"JobOrder":{"JobOrderID":"JO-running","EquipmentRequirements":[{"ID":"EQ-404"}]}}`, isa95.Update)
	// wrong state
	add(isa95.InvalidStatus, "", "possible: Abort, Cancel, Start, Update", `{"JobOrderID":"JO-stored"}`, isa95.Stop, isa95.Pause, isa95.Resume, isa95.Clear, isa95.RevokeStart)
	add(isa95.InvalidStatus, "", "possible: Abort, Pause, Stop", `{"JobOrderID":"JO-running"}`, isa95.Start, isa95.Resume, isa95.Cancel, isa95.Clear, isa95.RevokeStart)
	// queries by state
	for _, state := range []string{
		`[{"StateText":{"Text":"Ended"}}]`, `[{"StateText":{"Text":"Ended"}},{"StateText":{"Text":"Completed"}}]`, `[{"StateNumber":5},{"StateNumber":1}]`, `[{}]`,
	} {
		add(isa95.NoError, "", "", `{"JobOrderState":`+state+`}`, byState)
	}
	add(isa95.InvalidRequest, cloudevent.KindPropertyInvalid, `"Ende"`, `{"JobOrderState":[{"StateText":{"Text":"Ende"}}]}`, byState)

	for _, o := range table {
		t.Run(string(o.method)+o.body, func(t *testing.T) {
			e := command(o.method.TypeID(), o.body)
			reply := p.answer(t, e)
			wantStatus(t, reply, o.want)
			wantReply(t, e, reply)
			if reply.ErrorKind != o.kind || !strings.Contains(reply.ErrorMessage, o.says) {
				t.Errorf("%s %q, want %s %q", reply.ErrorKind, reply.ErrorMessage, o.kind, o.says)
			}
			// A requester reads the state of an order that exists from the context, not from the text.
			wantState := ""
			switch o.says {
			case "exists and is NotAllowedToStart_Ready", "no response yet":
				wantState = "NotAllowedToStart_Ready"
			case "exists and is Running":
				wantState = "Running"
			}
			if o.says == `"nope"` && o.method == byID {
				wantState = isa95.InitialState
			}
			if got := reply.ErrorContext[isa95.ContextJobOrderState]; o.kind == "" && got != wantState {
				t.Errorf("state %q, want %q", got, wantState)
			}
			if reply.DataSchema != o.method.ResponseSchema() || reply.DataContentType != cloudevent.ContentTypeJSON {
				t.Errorf("schema %q, content type %q", reply.DataSchema, reply.DataContentType)
			}
			if o.want == isa95.NoError && string(reply.Data) != `{"ReturnStatus":1}` {
				t.Errorf("body %s", reply.Data)
			}
		})
	}
	if diff := cmp.Diff(stored, p.snapshot(t)); diff != "" {
		t.Errorf("a refusal changed the store:\n%s", diff)
	}
}

// Names that would collide with keys or break topics are refused with the reason wherever they enter, and leave
// nothing behind.
func TestNamesD20(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	bad := []string{"list:m42", "changes:m42", "bystate:x", "_global", "byorder", "a/b", "a+b", "a#b", "a\u0000b", "a\nb", strings.Repeat("x", 129), "\ufffe"}
	refused := func(what string, e cloudevent.Event) {
		t.Helper()
		reply := p.answer(t, e)
		wantStatus(t, reply, isa95.InvalidRequest)
		if reply.ErrorKind != cloudevent.KindPropertyInvalid || !strings.Contains(reply.ErrorMessage, "must ") {
			t.Errorf("%s: %s %q", what, reply.ErrorKind, reply.ErrorMessage)
		}
		if err := reply.Check(); err != nil && e.Subject == scope {
			t.Errorf("%s: the reply cannot be sent: %v", what, err)
		}
	}
	for _, name := range bad {
		quoted := quote(name)
		for _, m := range control {
			if m.TakesJobOrder() {
				refused("job order id", command(m.TypeID(), `{"JobOrder":{"JobOrderID":`+quoted+`}}`))
				refused("work master id", command(m.TypeID(), `{"JobOrder":{"JobOrderID":"JO-1","WorkMasterID":[{"ID":`+quoted+`}]}}`))
			} else {
				refused("job order id", command(m.TypeID(), `{"JobOrderID":`+quoted+`}`))
			}
		}
		refused("query", command(isa95.RequestJobResponseByJobOrderID.TypeID(), `{"JobOrderID":`+quoted+`}`))
		refused("work master", command(isa95.ConfigWorkMaster.TypeID(), `{"ID":`+quoted+`}`))
		if strings.Contains(name, "/") {
			continue // the scope ends there
		}
		e := call(isa95.Store, order("JO-1"))
		e.Subject, e.Delivery.Topic = name, "app/jobs/commands"
		refused("scope", e)
	}
	for _, subject := range []string{"equipment", "responses/x", "replies", "private/x", "/m42"} {
		e := call(isa95.Store, order("JO-1"))
		e.Subject, e.Delivery.Topic = subject, "app/jobs/commands"
		refused("scope", e)
	}
	if diff := cmp.Diff(map[string]string{}, p.snapshot(t)); diff != "" {
		t.Errorf("a refusal wrote:\n%s", diff)
	}
}

// The scope is the subject up to the first slash; the topic may say the same or nothing, with dots verbatim.
func TestScopeOfACommandD20(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	for i, test := range []struct {
		subject, topic string
		want           isa95.ReturnStatus
		kind           cloudevent.ErrorKind
	}{
		{"m42", "app/jobs/m42/commands", isa95.NoError, ""},
		{"m42", "app/jobs/commands", isa95.NoError, ""},
		{"m42/cell-1", "app/jobs/m42/commands", isa95.NoError, ""},
		{"other.line", "app/jobs/other.line/commands", isa95.NoError, ""},
		{"m42", "", isa95.NoError, ""},
		{"m42", "elsewhere/m43/commands", isa95.NoError, ""},
		{"m42", "app/jobs/m43/commands", isa95.InvalidRequest, cloudevent.KindPropertyInvalid},
		{"other.line", "app/jobs/other/line/commands", isa95.InvalidRequest, cloudevent.KindPropertyInvalid},
		{"", "app/jobs/m42/commands", isa95.InvalidRequest, cloudevent.KindMissingUserProperty},
		{"", "app/jobs/commands", isa95.InvalidRequest, cloudevent.KindMissingUserProperty},
	} {
		e := call(isa95.Store, order("JO-"+string(rune('a'+i))))
		e.Subject, e.Delivery.Topic = test.subject, test.topic
		reply := p.answer(t, e)
		wantStatus(t, reply, test.want)
		wantReply(t, e, reply)
		if reply.ErrorKind != test.kind {
			t.Errorf("%q on %q: %s %q", test.subject, test.topic, reply.ErrorKind, reply.ErrorMessage)
		}
	}
}

// What cannot be carried out as it was sent is answered with the kind, the reason and, for what returns a status, 2^32:
// never with silence.
func TestNeverSilentD14(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	past := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	change := func(e cloudevent.Event, f func(e *cloudevent.Event)) cloudevent.Event { f(&e); return e }
	store := call(isa95.Store, order("JO-7"))
	for name, test := range map[string]struct {
		event cloudevent.Event
		kind  cloudevent.ErrorKind
		want  isa95.ReturnStatus
	}{
		"unknown type":               {command("org.example.Unknown.v1", "{}"), cloudevent.KindUnknownPayloadType, 0},
		"other version":              {command("org.opcfoundation.ISA95-JOBCONTROL_V2.Store.v1", "{}"), cloudevent.KindUnknownPayloadType, 0},
		"not JSON":                   {command(isa95.Store.TypeID(), "{"), cloudevent.KindPayloadInvalid, isa95.InvalidRequest},
		"wrong type":                 {command(isa95.Store.TypeID(), `{"JobOrder":{"JobOrderID":"JO-7","Priority":"high"}}`), cloudevent.KindPayloadInvalid, isa95.InvalidRequest},
		"config not JSON":            {command(isa95.ConfigEquipment.TypeID(), "{"), cloudevent.KindPayloadInvalid, isa95.InvalidRequest},
		"retained":                   {change(store, func(e *cloudevent.Event) { e.Delivery.Retained = true }), cloudevent.KindPropertyInvalid, isa95.InvalidRequest},
		"expired":                    {change(store, func(e *cloudevent.Event) { e.Time, e.ExpiryInterval = past, 60 }), cloudevent.KindTimeout, isa95.InvalidRequest},
		"expired by its expirytime":  {change(store, func(e *cloudevent.Event) { e.ExpiryTime = past }), cloudevent.KindTimeout, isa95.InvalidRequest},
		"query expired":              {change(call(isa95.RequestJobResponseByJobOrderID, "JO-7"), func(e *cloudevent.Event) { e.ExpiryTime = past }), cloudevent.KindTimeout, isa95.InvalidRequest},
		"expirytime is no time":      {change(store, func(e *cloudevent.Event) { e.ExpiryTime = "tomorrow" }), cloudevent.KindUserPropertyInvalid, isa95.InvalidRequest},
		"expirytime has no zone":     {change(store, func(e *cloudevent.Event) { e.ExpiryTime = "2999-01-01T00:00:00" }), cloudevent.KindUserPropertyInvalid, isa95.InvalidRequest},
		"expires after no time":      {change(store, func(e *cloudevent.Event) { e.Time, e.ExpiryInterval = "2999-01-01 00:00:00", 60 }), cloudevent.KindUserPropertyInvalid, isa95.InvalidRequest},
		"expirytime, offset of 24 h": {change(store, func(e *cloudevent.Event) { e.ExpiryTime = "2999-01-01T00:00:00+24:00" }), cloudevent.KindUserPropertyInvalid, isa95.InvalidRequest},
		"query, expirytime is none":  {change(call(isa95.RequestJobResponseByJobOrderID, "JO-7"), func(e *cloudevent.Event) { e.ExpiryTime = "0" }), cloudevent.KindUserPropertyInvalid, isa95.InvalidRequest},
		"without id":                 {change(store, func(e *cloudevent.Event) { e.ID = "" }), cloudevent.KindMissingUserProperty, isa95.InvalidRequest},
		"without source":             {change(store, func(e *cloudevent.Event) { e.Source = "" }), cloudevent.KindMissingUserProperty, isa95.InvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			reply := p.answer(t, test.event)
			wantReply(t, test.event, reply)
			if reply.ErrorKind != test.kind || reply.ErrorMessage == "" || status(t, reply) != test.want {
				t.Errorf("%s %q %s", reply.ErrorKind, reply.ErrorMessage, reply.Data)
			}
		})
	}
	if diff := cmp.Diff(map[string]string{}, p.snapshot(t)); diff != "" {
		t.Errorf("a refusal wrote:\n%s", diff)
	}
	t.Run("not expired", func(t *testing.T) {
		for name, f := range map[string]func(e *cloudevent.Event){
			"interval without time":   func(e *cloudevent.Event) { e.ExpiryInterval = 1 },
			"time without interval":   func(e *cloudevent.Event) { e.Time = past },
			"time and interval ahead": func(e *cloudevent.Event) { e.Time, e.ExpiryInterval = past, 7200 },
		} {
			wantStatus(t, p.answer(t, change(call(isa95.Store, order("JO-"+strings.ReplaceAll(name, " ", "-"))), f)), isa95.NoError)
		}
	})
}

// What the wire layer could not read is answered through Refuse, with the status for what has one.
func TestRefuseD14(t *testing.T) {
	var seen []jobcontrol.Observation
	p := newPlant(t, jobcontrol.Options{Observe: func(o jobcontrol.Observation) { seen = append(seen, o) }})
	for _, test := range []struct {
		typeID string
		kind   cloudevent.ErrorKind
		body   string
	}{
		{isa95.Store.TypeID(), cloudevent.KindUnsupportedContentType, `{"ReturnStatus":4294967296}`},
		{isa95.RequestJobResponseByJobOrderID.TypeID(), cloudevent.KindPayloadInvalid, `{"ReturnStatus":4294967296}`},
		{isa95.ConfigWorkMaster.TypeID(), cloudevent.KindUserPropertyInvalid, `{"ReturnStatus":4294967296}`},
		{"", cloudevent.KindMissingUserProperty, ""},
		{"org.example.Unknown.v1", cloudevent.KindPayloadInvalid, ""},
		{isa95.Store.TypeID(), cloudevent.KindServiceUnavailable, ""},
		{isa95.Store.TypeID(), cloudevent.KindInternalLogicError, ""},
		{isa95.Store.TypeID(), cloudevent.KindResourceExhausted, `{"ReturnStatus":4294967296}`},
	} {
		e := command(test.typeID, "?")
		reply := p.Refuse(t.Context(), e, cloudevent.Errorf(test.kind, "because"))
		if reply.ErrorKind != test.kind || reply.ErrorMessage != "because" || string(reply.Data) != test.body || reply.CausationID != e.ID {
			t.Errorf("%s: %s %q %s", test.typeID, reply.ErrorKind, reply.ErrorMessage, reply.Data)
		}
		o := seen[len(seen)-1]
		if o.Kind != test.kind || !o.Asked || o.Status != status(t, *reply) {
			t.Errorf("observed %+v", o)
		}
	}
	e := command(isa95.Store.TypeID(), "?")
	e.Delivery.ResponseTopic = ""
	if reply := p.Refuse(t.Context(), e, cloudevent.Errorf(cloudevent.KindPayloadInvalid, "because")); reply.Delivery.Topic != "" {
		t.Errorf("the reply goes to %q", reply.Delivery.Topic)
	}
	if o := seen[len(seen)-1]; o.Asked || o.Type != isa95.Store.TypeID() {
		t.Errorf("observed %+v: what nobody asked about is to be counted too", o)
	}
}

// A very long reason is cut, and says so.
func TestReasonIsCut(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	reply := p.Refuse(t.Context(), call(isa95.Store, "{}"), cloudevent.Errorf(cloudevent.KindPayloadInvalid, "%s", strings.Repeat("ä", 4000)))
	if n := len(reply.ErrorMessage); n > cloudevent.MaxValue || !strings.HasSuffix(reply.ErrorMessage, "ä ...") {
		t.Errorf("%d bytes, ends %q", n, reply.ErrorMessage[n-10:])
	}
	if err := reply.Check(); err != nil {
		t.Error(err)
	}
}
