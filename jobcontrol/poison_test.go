package jobcontrol_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/mqtt"
)

// message is a command as an MES sends it, ready to be spoilt.
func message(m isa95.Method, body string) mqtt.Message {
	return mqtt.Encode("app/jobs/"+scope+"/commands", call(m, body))
}

// receive does with a message what mqtt.Server does: decode, handle or refuse, encode the reply.
func (p *plant) receive(t testing.TB, m mqtt.Message) (mqtt.Message, cloudevent.Event) {
	t.Helper()
	e, err := mqtt.Decode(m)
	var reply *cloudevent.Event
	var refusal *cloudevent.Error
	if errors.As(err, &refusal) {
		reply = p.Refuse(t.Context(), e, refusal)
	} else if err != nil {
		t.Fatalf("decode: %v", err)
	} else if reply, err = p.Handle(t.Context(), e); err != nil {
		t.Fatalf("handle: %v", err)
	}
	if reply == nil {
		t.Fatal("no reply")
	}
	if reply.Delivery.Topic != m.ResponseTopic || string(reply.Delivery.CorrelationData) != string(m.CorrelationData) {
		t.Errorf("the reply goes to %q with %q", reply.Delivery.Topic, reply.Delivery.CorrelationData)
	}
	return mqtt.Encode(reply.Delivery.Topic, *reply), *reply
}

// Each of these stopped the original. Here each is answered with what is wrong, and the receiver goes on.
func TestPoisonD1(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	p.do(t, isa95.Store, order("JO-stored"), isa95.NoError)
	store := func() mqtt.Message { return message(isa95.Store, order("JO-7")) }
	with := func(m mqtt.Message, f func(m *mqtt.Message)) mqtt.Message { f(&m); return m }
	user := func(name, value string) mqtt.Message {
		return with(store(), func(m *mqtt.Message) { m.User = append(m.User, mqtt.UserProperty{Name: name, Value: value}) })
	}
	body := func(typeID, payload string) mqtt.Message {
		return mqtt.Encode("app/jobs/"+scope+"/commands", command(typeID, payload))
	}
	spoilt := func(id, doc string) mqtt.Message {
		p.redis(t, "SET", p.keys.JobOrder(id), doc)
		return message(isa95.Start, id)
	}
	state := func(id, text string) string {
		return `{"JobOrder":{"JobOrderID":"` + id + `"},"State":[{"StateText":{"Text":"` + text + `"}}],"_scope":"m42"}`
	}

	for name, test := range map[string]struct {
		m    mqtt.Message
		want isa95.ReturnStatus // 0 = no body
		kind cloudevent.ErrorKind
	}{
		"array body":                   {body(isa95.Store.TypeID(), `[{"JobOrder":{}}]`), isa95.InvalidRequest, cloudevent.KindPayloadInvalid},
		"string body":                  {body(isa95.Store.TypeID(), `"x"`), isa95.InvalidRequest, cloudevent.KindPayloadInvalid},
		"null body":                    {body(isa95.Store.TypeID(), `null`), isa95.InvalidRequest, cloudevent.KindPayloadInvalid},
		"half a body":                  {body(isa95.Store.TypeID(), `{"JobOrder":`), isa95.InvalidRequest, cloudevent.KindPayloadInvalid},
		"bytes that are no text":       {body(isa95.Store.TypeID(), "\xff\xfe{"), isa95.InvalidRequest, cloudevent.KindPayloadInvalid},
		"deep body":                    {body(isa95.Store.TypeID(), strings.Repeat("[", 100_000)), isa95.InvalidRequest, cloudevent.KindPayloadInvalid},
		"huge body":                    {body(isa95.Store.TypeID(), `{"JobOrder":{"JobOrderID":"`+strings.Repeat("x", 2<<20)+`"}}`), isa95.InvalidRequest, cloudevent.KindPayloadInvalid},
		"correlation data of 3 bytes":  {with(message(isa95.Store, order("JO-c3")), func(m *mqtt.Message) { m.CorrelationData = []byte{1, 0, 255} }), isa95.NoError, ""},
		"correlation data of 16 bytes": {with(message(isa95.Store, order("JO-c16")), func(m *mqtt.Message) { m.CorrelationData = []byte("0123456789abcdef") }), isa95.NoError, ""},
		"no correlation data":          {with(message(isa95.Store, order("JO-c0")), func(m *mqtt.Message) { m.CorrelationData = nil }), isa95.NoError, ""},
		"correlation id that is no UUID": {with(message(isa95.Store, order("JO-cid")), func(m *mqtt.Message) {
			m.User = append(m.User, mqtt.UserProperty{Name: "correlationid", Value: "not a uuid"})
		}), isa95.NoError, ""},
		"octet stream": {with(store(), func(m *mqtt.Message) {
			m.ContentType = "application/octet-stream"
			m.User = without(m.User, "datacontenttype")
		}), isa95.InvalidRequest, cloudevent.KindUnsupportedContentType},
		"user property data":                    {user("data", `{"JobOrder":{"JobOrderID":"JO-evil"}}`), isa95.InvalidRequest, cloudevent.KindUserPropertyInvalid},
		"user property custommetadata":          {user("custommetadata", "x"), isa95.InvalidRequest, cloudevent.KindUserPropertyInvalid},
		"user property transportmetadata":       {user("transportmetadata", "x"), isa95.InvalidRequest, cloudevent.KindUserPropertyInvalid},
		"user property of a megabyte":           {user("note", strings.Repeat("x", 1<<20)), isa95.InvalidRequest, cloudevent.KindResourceExhausted},
		"expiry that is no number":              {user("expiryinterval", "soon"), isa95.InvalidRequest, cloudevent.KindUserPropertyInvalid},
		"retained":                              {with(store(), func(m *mqtt.Message) { m.Retain = true }), isa95.InvalidRequest, cloudevent.KindPropertyInvalid},
		"no id":                                 {with(store(), func(m *mqtt.Message) { m.User = without(m.User, "id") }), isa95.InvalidRequest, cloudevent.KindMissingUserProperty},
		"no type":                               {with(store(), func(m *mqtt.Message) { m.User = without(m.User, "type") }), 0, cloudevent.KindMissingUserProperty},
		"specversion 0.3":                       {user("specversion", "0.3"), isa95.InvalidRequest, cloudevent.KindUnsupportedVersion},
		"jobacceptance DELETE with {}":          {with(body(isa95.ConfigJobAcceptance.TypeID(), `{}`), func(m *mqtt.Message) { m.User = append(m.User, mqtt.UserProperty{Name: "method", Value: "DELETE"}) }), isa95.NoError, ""},
		"jobacceptance DELETE with nothing":     {with(body(isa95.ConfigJobAcceptance.TypeID(), ``), func(m *mqtt.Message) { m.User = append(m.User, mqtt.UserProperty{Name: "method", Value: "DELETE"}) }), isa95.NoError, ""},
		"query by state without subject":        {with(message(isa95.RequestJobResponseByJobOrderState, states("Aborted")), func(m *mqtt.Message) { m.User = without(m.User, "subject") }), isa95.InvalidRequest, cloudevent.KindMissingUserProperty},
		"unknown state in a document":           {spoilt("JO-bad-1", state("JO-bad-1", "Paused")), isa95.InvalidStatus, cloudevent.KindInternalLogicError},
		"document that is no JSON":              {spoilt("JO-bad-2", `{"JobOrder":`), isa95.InvalidStatus, cloudevent.KindInternalLogicError},
		"empty document":                        {spoilt("JO-bad-3", ``), isa95.InvalidStatus, cloudevent.KindInternalLogicError},
		"document without a job order":          {spoilt("JO-bad-4", `{"State":[]}`), isa95.InvalidStatus, cloudevent.KindInternalLogicError},
		"store over a document that is no JSON": {with(message(isa95.Store, order("JO-bad-2")), func(*mqtt.Message) {}), isa95.UnableToAccept, cloudevent.KindInternalLogicError},
		"query of a document that is no JSON":   {message(isa95.RequestJobResponseByJobOrderID, "JO-bad-2"), isa95.InvalidStatus, cloudevent.KindInternalLogicError},
	} {
		t.Run(name, func(t *testing.T) {
			out, reply := p.receive(t, test.m)
			if got := status(t, reply); got != test.want || reply.ErrorKind != test.kind {
				t.Errorf("%v %s %q, want %v %s", got, reply.ErrorKind, reply.ErrorMessage, test.want, test.kind)
			}
			if test.kind != "" && reply.ErrorMessage == "" {
				t.Error("no reason")
			}
			if _, err := mqtt.Decode(out); err != nil && test.kind != cloudevent.KindMissingUserProperty {
				t.Errorf("the reply cannot be read: %v", err)
			}
			p.do(t, isa95.Pause, "JO-stored", isa95.InvalidStatus) // it goes on
		})
	}
	if got := p.state(t, "JO-7") + p.state(t, "JO-evil"); got != "" {
		t.Errorf("a spoilt command was carried out: %s", got)
	}
}

func without(user []mqtt.UserProperty, name string) []mqtt.UserProperty {
	var kept []mqtt.UserProperty
	for _, u := range user {
		if u.Name != name {
			kept = append(kept, u)
		}
	}
	return kept
}

// In structured mode the same rules hold as in binary mode, and what is answered is in structured mode.
func TestStructuredMode(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	structured := func(e cloudevent.Event) mqtt.Message {
		e.Delivery.Form = "application/cloudevents+json"
		return mqtt.Encode("app/jobs/"+scope+"/commands", e)
	}
	with := func(e cloudevent.Event, f func(e *cloudevent.Event)) mqtt.Message { f(&e); return structured(e) }
	store := func(id string) cloudevent.Event { return call(isa95.Store, order(id)) }
	retained := structured(store("JO-7"))
	retained.Retain = true
	asked := store("JO-1")
	for _, test := range []struct {
		name string
		m    mqtt.Message
		want isa95.ReturnStatus
		kind cloudevent.ErrorKind
	}{
		{"store", structured(asked), isa95.NoError, ""},
		{"the same again", structured(asked), isa95.NoError, ""},
		{"start", structured(call(isa95.Start, "JO-1")), isa95.NoError, ""},
		{"configuration", structured(config(isa95.ConfigEquipment, "PUT", `{"ID":"X-1"}`)), isa95.NoError, ""},
		{"retained", retained, isa95.InvalidRequest, cloudevent.KindPropertyInvalid},
		{"bad id", structured(store("JO/7")), isa95.InvalidRequest, cloudevent.KindPropertyInvalid},
		{"bad scope", with(store("JO-7"), func(e *cloudevent.Event) { e.Subject = "a+b" }), isa95.InvalidRequest, cloudevent.KindPropertyInvalid},
		{"scope of another topic", with(store("JO-7"), func(e *cloudevent.Event) { e.Subject = "m43" }), isa95.InvalidRequest, cloudevent.KindPropertyInvalid},
		{"member twice", structured(command(isa95.Store.TypeID(), `{"JobOrder":{"JobOrderID":"JO-7","JobOrderID":"JO-8"}}`)), isa95.InvalidRequest, cloudevent.KindPayloadInvalid},
		{"no id", with(store("JO-7"), func(e *cloudevent.Event) { e.ID = "" }), isa95.InvalidRequest, cloudevent.KindMissingUserProperty},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, reply := p.receive(t, test.m)
			if got := status(t, reply); got != test.want || reply.ErrorKind != test.kind {
				t.Errorf("%v %s %q, want %v %s", got, reply.ErrorKind, reply.ErrorMessage, test.want, test.kind)
			}
			if out.ContentType != cloudevent.ContentTypeStructured || len(out.User) > 0 {
				t.Errorf("answered as %q with %v", out.ContentType, out.User)
			}
		})
	}
	if out, reply := p.receive(t, mqtt.Encode("app/jobs/"+scope+"/commands", asked)); status(t, reply) != isa95.NoError || out.ContentType != cloudevent.ContentTypeJSON {
		t.Errorf("a repeat in binary mode: %q %+v", out.ContentType, reply)
	}
	if got := p.state(t, "JO-7") + p.state(t, "JO-8"); got != "" {
		t.Errorf("a refused command was carried out: %s", got)
	}
}
