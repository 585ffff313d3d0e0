package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/test/rig"
)

// stranger is a client of the broker that knows MQTT and no more: what it sends need not make sense.
type stranger struct {
	w       *rig.World
	conn    *mqtt.Conn
	replies chan mqtt.Message
	n       int
}

const strangersTopic = "mes/stranger"

func newStranger(t *testing.T, w *rig.World) *stranger {
	t.Helper()
	s := &stranger{w: w, replies: make(chan mqtt.Message, 100)}
	s.conn = rig.Connect(t, mqtt.Options{URL: w.Broker.URL, ClientID: "stranger"}, mqtt.Subscription{Filter: strangersTopic, QoS: 1, Handle: func(_ context.Context, in *mqtt.Inbound) {
		s.replies <- in.Message
		_ = in.Ack()
	}})
	return s
}

// message is a command as it should be, to be spoiled.
func (s *stranger) message(m isa95.Method, body string) mqtt.Message {
	s.n++
	return mqtt.Message{
		Topic: s.w.TopicPrefix + "/" + string(rig.Scope) + "/commands", Payload: []byte(body), QoS: 1, ContentType: "application/json",
		ResponseTopic: strangersTopic, CorrelationData: []byte(fmt.Sprintf("any bytes %d", s.n)),
		User: []mqtt.UserProperty{
			{Name: "specversion", Value: "1.0"}, {Name: "id", Value: fmt.Sprintf("cmd-%d", s.n)}, {Name: "source", Value: "urn:test:stranger"},
			{Name: "type", Value: m.TypeID()}, {Name: "subject", Value: string(rig.Scope)},
		},
	}
}

// without and with change one user property.
func without(m mqtt.Message, name string) mqtt.Message {
	var user []mqtt.UserProperty
	for _, p := range m.User {
		if p.Name != name {
			user = append(user, p)
		}
	}
	m.User = user
	return m
}

func with(m mqtt.Message, name, value string) mqtt.Message {
	m = without(m, name)
	m.User = append(m.User, mqtt.UserProperty{Name: name, Value: value})
	return m
}

// ask sends m and returns the reply, which must be the one to m.
func (s *stranger) ask(t *testing.T, m mqtt.Message) cloudevent.Event {
	t.Helper()
	testenv.Must(t, s.conn.Publish(testenv.Within(t), m))
	select {
	case reply := <-s.replies:
		if string(reply.CorrelationData) != string(m.CorrelationData) {
			t.Fatalf("the reply is to %q, not to %q", reply.CorrelationData, m.CorrelationData)
		}
		e, err := mqtt.Decode(reply)
		if err != nil && e.Type != "" { // the reply to a command without a type has none either
			t.Fatal(err)
		}
		return e
	case <-time.After(rig.Patience):
		t.Fatal("no reply")
		panic("unreachable")
	}
}

// status is the ReturnStatus of a reply, 0 if it has none.
func status(t *testing.T, e cloudevent.Event) isa95.ReturnStatus {
	t.Helper()
	if len(e.Data) == 0 {
		return 0
	}
	var r isa95.MethodResult
	if err := json.Unmarshal(e.Data, &r); err != nil {
		t.Fatalf("%q: %v", e.Data, err)
	}
	return r.ReturnStatus
}

// writeStation writes a station.yaml whose recipe waits for one answer for hours.
func writeStation(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	rig.Write(t, filepath.Join(dir, "recipe.json"), `{"Steps":[{"Name":"A","Initial":true}],"Transitions":[],
		"Actions":[{"Name":"a","Step":"A","Qualifier":"N","Interaction":"push_command","TypeId":"com.acme.wait.v1","TimeoutSeconds":86400}]}`)
	file := filepath.Join(dir, "station.yaml")
	rig.Write(t, file, "scope: test-cell\nequipment: [press-1]\nwork_masters: [{id: WM-TEST, recipe: recipe.json}]\n")
	return file
}

// A command that cannot be done as it was sent is answered with the status and the reason, whatever is wrong with it; nothing
// stops, and nothing changes.
func TestBadCommands(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{NoStation: true, WorkerTTL: time.Minute}) // no heartbeat runs out, which would change the store
	serve := w.Serve("a")
	m := w.QuietMES()
	m.Configure(writeStation(t))
	ctx := testenv.Within(t)
	for _, o := range rig.Orders("RUNS", 1) {
		if _, err := m.Client.StoreAndStart(ctx, rig.Scope, o); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Client.Store(ctx, rig.Scope, &isa95.JobOrder{JobOrderID: "STORED"}); err != nil {
		t.Fatal(err)
	}
	w.Until("the order runs", func() bool { return strings.Contains(w.Dump()["sfc:execution:RUNS-001"], "dispatched") })
	w.Quiet()
	s := newStranger(t, w)

	const stored, id = `{"JobOrder":{"JobOrderID":"STORED"}}`, `{"JobOrderID":"STORED"}`
	start := func(body string) mqtt.Message { return s.message(isa95.Start, body) }
	store := func(body string) mqtt.Message { return s.message(isa95.Store, body) }
	prefix := w.TopicPrefix
	type outcome struct {
		name   string
		m      mqtt.Message
		status isa95.ReturnStatus
		kind   cloudevent.ErrorKind
		says   string
	}
	const invalid = isa95.InvalidRequest
	table := []outcome{
		// malformed
		{"no JSON", start(`{"JobOrderID":`), invalid, cloudevent.KindPayloadInvalid, ""},
		{"other JSON", start(`"STORED"`), invalid, cloudevent.KindPayloadInvalid, ""},
		{"other type of member", store(`{"JobOrder":"STORED"}`), invalid, cloudevent.KindPayloadInvalid, "JobOrder"},
		{"not UTF-8", start("{\"JobOrderID\":\"\xff\"}"), invalid, "", ""},
		{"too deep", store(`{"JobOrder":{"JobOrderID":"X","JobOrderParameters":[{"ID":"p","Value":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}]}}`), invalid, cloudevent.KindPayloadInvalid, ""},
		{"nothing", start(""), invalid, cloudevent.KindMissingProperty, "JobOrderID is missing"},
		{"member missing", store(`{}`), invalid, cloudevent.KindMissingProperty, "JobOrder is missing"},
		{"order without id", store(`{"JobOrder":{"Priority":1}}`), isa95.UnableToAccept, "", "JobOrderID is missing"},
		{"content type", func() mqtt.Message { m := start(id); m.ContentType = "text/xml"; return m }(), invalid, cloudevent.KindUnsupportedContentType, "text/xml"},
		{"no id", without(start(id), "id"), invalid, cloudevent.KindMissingUserProperty, "id"},
		{"no source", without(start(id), "source"), invalid, cloudevent.KindMissingUserProperty, "source"},
		{"no subject", without(start(id), "subject"), invalid, cloudevent.KindMissingUserProperty, "subject is missing"},
		{"other version", with(start(id), "specversion", "0.3"), invalid, cloudevent.KindUnsupportedVersion, "specversion must be 1.0"},
		{"expired", with(with(start(id), "time", "2020-01-01T00:00:00Z"), "expiryinterval", "60"), invalid, cloudevent.KindTimeout, "expired"},
		// unknown type: no method, so no ReturnStatus
		{"unknown type", with(start(id), "type", "org.opcfoundation.ISA95-JOBCONTROL_V2.Explode.v2"), 0, cloudevent.KindUnknownPayloadType, "Explode"},
		{"no type", without(start(id), "type"), 0, "", ""},
		// unknown order
		{"unknown order", start(`{"JobOrderID":"NOBODY"}`), isa95.UnknownJobOrder, "", "NOBODY"},
		{"unknown order updated", s.message(isa95.Update, `{"JobOrder":{"JobOrderID":"NOBODY"}}`), isa95.UnknownJobOrder, "", "NOBODY"},
		{"unknown result", s.message(isa95.RequestJobResponseByJobOrderID, id), isa95.UnknownJobOrder, "", "no response yet"},
		{"order of another station", with(func() mqtt.Message { m := start(id); m.Topic = prefix + "/other/commands"; return m }(), "subject", "other"), isa95.UnknownJobOrder, "", "STORED"},
		// wrong state
		{"wrong state", s.message(isa95.Pause, id), isa95.InvalidStatus, "", "possible: Abort, Cancel, Start, Update"},
		{"wrong state of a running one", start(`{"JobOrderID":"RUNS-001"}`), isa95.InvalidStatus, "", "possible: Abort, Pause, Stop"},
		{"update of a running one", s.message(isa95.Update, `{"JobOrder":{"JobOrderID":"RUNS-001"}}`), isa95.InvalidStatus, "", "Running"},
		// not acceptable
		{"exists", store(stored), isa95.UnableToAccept, "", "exists and is NotAllowedToStart_Ready"},
		{"unknown equipment", store(`{"JobOrder":{"JobOrderID":"X","EquipmentRequirements":[{"ID":"press-99"}]}}`), isa95.UnableToAccept, "", "press-99"},
		{"unknown work master", store(`{"JobOrder":{"JobOrderID":"X","WorkMasterID":[{"ID":"WM-99"}]}}`), isa95.UnableToAccept, "", "WM-99"},
		// scopes
		{"topic of another scope", with(start(id), "subject", "other"), invalid, cloudevent.KindPropertyInvalid, `"other"`},
		// configuration
		{"configuration without id", func() mqtt.Message {
			return with(start(`{}`), "type", isa95.ConfigEquipment.TypeID())
		}(), invalid, "", "ID"},
	}
	for _, bad := range []string{"list:x", "changes:x", "_global", "byorder", "bystate:x", "a/b", "a+b", "a#b", strings.Repeat("x", 129), "a\\u0007b", "a\\u0000b"} {
		body, name := `"JobOrderID":"`+bad+`"`, fmt.Sprintf("id %.20s", bad)
		table = append(table,
			outcome{name + " stored", store(`{"JobOrder":{` + body + `}}`), invalid, cloudevent.KindPropertyInvalid, "JobOrderID"},
			outcome{name + " started", start(`{` + body + `}`), invalid, cloudevent.KindPropertyInvalid, "JobOrderID"})
	}
	for _, bad := range []string{"list:x", "changes:x", "_global", "byorder", "bystate:x", "a+b", "a#b", "equipment", "responses", "replies", "private", strings.Repeat("x", 129), "/cell"} {
		m := with(store(stored), "subject", bad)
		m.Topic = prefix + "/commands"
		table = append(table, outcome{fmt.Sprintf("scope %.20s", bad), m, invalid, cloudevent.KindPropertyInvalid, "cope"})
	}

	before := w.Dump()
	for _, o := range table {
		t.Run(o.name, func(t *testing.T) {
			reply := s.ask(t, o.m)
			if got := status(t, reply); got != o.status {
				t.Errorf("ReturnStatus %d, want %d: %s", got, o.status, reply.ErrorMessage)
			}
			if o.kind != "" && reply.ErrorKind != o.kind {
				t.Errorf("kind %s, want %s", reply.ErrorKind, o.kind)
			}
			if (o.status == invalid || o.status == 0) && reply.ErrorKind == "" {
				t.Error("no kind")
			}
			if reply.ErrorMessage == "" || !strings.Contains(reply.ErrorMessage, o.says) {
				t.Errorf("says %q, want %q in it", reply.ErrorMessage, o.says)
			}
			if after := w.Dump(); !cmp.Equal(before, after) {
				t.Errorf("something changed: -before +after:\n%s", cmp.Diff(before, after))
				before = after
			}
		})
	}

	// Without a response topic nobody hears of it, and nothing changes either. What is sent after it is answered after it.
	for _, o := range table[:5] {
		o.m.ResponseTopic, o.m.CorrelationData = "", nil
		testenv.Must(t, s.conn.Publish(ctx, o.m))
	}
	s.ask(t, start(`{"JobOrderID":"NOBODY"}`))
	if diff := cmp.Diff(before, w.Dump()); diff != "" {
		t.Errorf("something changed: -before +after:\n%s", diff)
	}
	if serve.Gone() {
		t.Fatal("takt serve has ended")
	}
	w.Check()
}

// A command that is repeated gets the reply that it got, and is not done again, also when it would be possible again; its id
// is no other command's.
func TestRepeatedCommands(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{NoStation: true, WorkerTTL: time.Minute}) // no heartbeat runs out, which would change the store
	w.Serve("a")
	w.Serve("b") // whoever gets it
	s := newStranger(t, w)
	(&shell{w, t}).run(ok, "station apply "+filepath.Join(rig.Cell(t, 1, "1h"), "station.yaml"))
	store := s.message(isa95.Store, `{"JobOrder":{"JobOrderID":"JO-1"}}`)
	first := s.ask(t, store)
	if got := status(t, first); got != isa95.NoError {
		t.Fatalf("ReturnStatus %d: %s", got, first.ErrorMessage)
	}
	if got := status(t, s.ask(t, s.message(isa95.Cancel, `{"JobOrderID":"JO-1"}`))); got != isa95.NoError {
		t.Fatalf("Cancel: %d", got)
	}
	w.Quiet()
	w.AtRest()
	before := w.Dump()
	for range 4 {
		again := s.ask(t, store)
		again.Delivery.ResponseTopic = first.Delivery.ResponseTopic // that of the instance that answered
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("-first +again:\n%s", diff)
		}
	}
	other := with(s.message(isa95.Start, `{"JobOrderID":"JO-1"}`), "id", "cmd-1")
	if reply := s.ask(t, other); status(t, reply) != isa95.InvalidRequest || reply.ErrorKind != cloudevent.KindUserPropertyInvalid {
		t.Errorf("%d %s", status(t, reply), reply.ErrorKind)
	}
	if diff := cmp.Diff(before, w.Dump()); diff != "" {
		t.Errorf("something changed: -before +after:\n%s", diff)
	}
	w.Check()
}
