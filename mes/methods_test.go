package mes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/mqtt"
)

// TestMethodsOnTheWire: every method, query and configuration goes out under its type and schema.
func TestMethodsOnTheWire(t *testing.T) {
	broker := mosquitto(t)
	k := newFakeTakt(t, broker.URL)
	c := newMES(t, broker.URL, "mes-1")
	k.answer = func(e cloudevent.Event) *cloudevent.Event {
		return reply(e, `{"ReturnStatus":1,"JobResponse":{"JobOrderID":"JO-7"},"JobResponses":[{"JobOrderID":"JO-7"}]}`)
	}
	order := &isa95.JobOrder{JobOrderID: "JO-7", Description: []isa95.LocalizedText{{Text: "Gehäuse <7>"}}}
	whole := `{"JobOrder":{"JobOrderID":"JO-7","Description":[{"Text":"Gehäuse <7>"}]}}`
	id := `{"JobOrderID":"JO-7"}`
	state := `{"JobOrderState":[{"StateText":{"Locale":"en","Text":"Aborted"},"StateNumber":6}]}`
	byID := func(f func(context.Context, isa95.Scope, isa95.JobOrderID) (isa95.ReturnStatus, error)) func() (isa95.ReturnStatus, error) {
		return func() (isa95.ReturnStatus, error) { return f(within(t), scope, "JO-7") }
	}
	whole3 := func(f func(context.Context, isa95.Scope, *isa95.JobOrder) (isa95.ReturnStatus, error)) func() (isa95.ReturnStatus, error) {
		return func() (isa95.ReturnStatus, error) { return f(within(t), scope, order) }
	}
	type row struct {
		call   func() (isa95.ReturnStatus, error)
		typeID string
		schema string
		body   string
		method string
	}
	rows := map[string]row{}
	add := func(m isa95.Method, body string, call func() (isa95.ReturnStatus, error)) {
		rows[string(m)] = row{call, m.TypeID(), m.CallSchema(), body, ""}
	}
	add(isa95.Store, whole, whole3(c.Store))
	add(isa95.StoreAndStart, whole, whole3(c.StoreAndStart))
	add(isa95.Update, whole, whole3(c.Update))
	add(isa95.Start, id, byID(c.Start))
	add(isa95.RevokeStart, id, byID(c.RevokeStart))
	add(isa95.Pause, id, byID(c.Pause))
	add(isa95.Resume, id, byID(c.Resume))
	add(isa95.Stop, id, byID(c.Stop))
	add(isa95.Abort, id, byID(c.Abort))
	add(isa95.Cancel, id, byID(c.Cancel))
	add(isa95.Clear, id, byID(c.Clear))
	add(isa95.RequestJobResponseByJobOrderID, id, func() (isa95.ReturnStatus, error) {
		r, err := c.JobResponse(within(t), scope, "JO-7")
		if err == nil && r.JobOrderID != "JO-7" {
			err = fmt.Errorf("response %+v", r)
		}
		return isa95.NoError, err
	})
	add(isa95.RequestJobResponseByJobOrderState, state, func() (isa95.ReturnStatus, error) {
		r, err := c.JobResponses(within(t), scope, isa95.State{Top: isa95.Aborted})
		if err == nil && len(r) != 1 {
			err = fmt.Errorf("responses %+v", r)
		}
		return isa95.NoError, err
	})
	for _, kind := range isa95.ConfigKinds() {
		rows["put "+string(kind)] = row{func() (isa95.ReturnStatus, error) {
			return c.Apply(within(t), scope, kind, isa95.Equipment{ID: "press-1"})
		}, kind.TypeID(), kind.Schema(), `{"ID":"press-1"}`, "PUT"}
		rows["delete "+string(kind)] = row{func() (isa95.ReturnStatus, error) {
			return c.Remove(within(t), scope, kind, isa95.Equipment{ID: "press-1"})
		}, kind.TypeID(), kind.Schema(), `{"ID":"press-1"}`, "DELETE"}
	}
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			k.with(func() { k.received = nil })
			status, err := r.call()
			if err != nil || status != isa95.NoError {
				t.Fatalf("status %v, error %v", status, err)
			}
			k.mu.Lock()
			defer k.mu.Unlock()
			e := k.received[0]
			got := []string{e.Delivery.Topic, e.Type, e.DataSchema, string(e.Data), e.Method, e.Subject, e.Source, e.SpecVersion, e.DataContentType, e.Delivery.ResponseTopic}
			want := []string{"takt/cell-07/commands", r.typeID, r.schema, r.body, r.method, "cell-07", "urn:takt:mes:mes-1", "1.0",
				"application/json; charset=utf-8", "mes/responses/mes-1"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if e.ID == "" || e.CorrelationID == "" || e.Delivery.QoS != 1 || e.RecordedTime == "" {
				t.Errorf("envelope %+v", e)
			}
		})
	}
}

// TestRefusals: an answer that says no becomes a *RefusedError with all that it says.
func TestRefusals(t *testing.T) {
	broker := mosquitto(t)
	k := newFakeTakt(t, broker.URL)
	c := newMES(t, broker.URL, "mes-1")
	for _, row := range []struct {
		name   string
		answer func(e cloudevent.Event) *cloudevent.Event
		want   *mes.RefusedError // nil: another error
		text   string            // in the error
	}{
		{"unknown order", func(e cloudevent.Event) *cloudevent.Event { return reply(e, `{"ReturnStatus":2}`) },
			&mes.RefusedError{What: "Start", Status: isa95.UnknownJobOrder}, "unknown job order (2)"},
		{"wrong state", func(e cloudevent.Event) *cloudevent.Event { return reply(e, `{"ReturnStatus":8}`) },
			&mes.RefusedError{What: "Start", Status: isa95.InvalidStatus}, "invalid job order status (8)"},
		{"not acceptable", func(e cloudevent.Event) *cloudevent.Event { return reply(e, `{"ReturnStatus":16}`) },
			&mes.RefusedError{What: "Start", Status: isa95.UnableToAccept}, "(16)"},
		{"not acceptable, with reason", func(e cloudevent.Event) *cloudevent.Event {
			a := reply(e, `{"ReturnStatus":16}`)
			a.ErrorMessage = "no such press"
			return a
		}, &mes.RefusedError{What: "Start", Status: isa95.UnableToAccept, Message: "no such press"}, "(16): no such press"},
		{"invalid, with reason", func(e cloudevent.Event) *cloudevent.Event {
			a := e.Refusal(&cloudevent.Error{Kind: cloudevent.KindPropertyInvalid, Message: "must not be empty", Context: map[string]string{"pointer": "/JobOrderID"}}, "urn:fake:takt", time.Now())
			a = a.WithData([]byte(`{"ReturnStatus":4294967296}`), isa95.Start.ResponseSchema())
			return &a
		}, &mes.RefusedError{What: "Start", Status: isa95.InvalidRequest, Kind: cloudevent.KindPropertyInvalid, Message: "must not be empty", Context: map[string]string{"pointer": "/JobOrderID"}},
			"PROPERTY_INVALID: must not be empty"},
		{"refused without a body", func(e cloudevent.Event) *cloudevent.Event {
			a := e.Refusal(cloudevent.Errorf(cloudevent.KindNotImplemented, "no"), "urn:fake:takt", time.Now())
			return &a
		}, &mes.RefusedError{What: "Start", Kind: cloudevent.KindNotImplemented, Message: "no"}, "NOT_IMPLEMENTED: no"},
		{"no status", func(e cloudevent.Event) *cloudevent.Event { return reply(e, `{}`) }, nil, "no ReturnStatus"},
		{"no JSON", func(e cloudevent.Event) *cloudevent.Event { return reply(e, `{`) }, nil, "answer"},
	} {
		t.Run(row.name, func(t *testing.T) {
			k.with(func() { k.answer = row.answer })
			status, err := c.Start(within(t), scope, "JO-7")
			if err == nil || !strings.Contains(err.Error(), row.text) {
				t.Fatalf("error %v, want %q in it", err, row.text)
			}
			var refused *mes.RefusedError
			if !errors.As(err, &refused) {
				if row.want != nil {
					t.Fatalf("error %T", err)
				}
				return
			}
			if diff := cmp.Diff(row.want, refused); diff != "" {
				t.Error(diff)
			}
			if status != refused.Status {
				t.Errorf("status %d beside %v", status, refused)
			}
		})
	}
}

// TestRepeatedUntilAnswered: silence and SERVICE_UNAVAILABLE are met with the same id again.
func TestRepeatedUntilAnswered(t *testing.T) {
	broker := mosquitto(t)
	k := newFakeTakt(t, broker.URL)
	c := newMES(t, broker.URL, "mes-1", func(o *mes.Options) { o.RepeatAfter = 100 * time.Millisecond })
	n := 0
	k.answer = func(e cloudevent.Event) *cloudevent.Event {
		n++
		switch n {
		case 1, 2:
			return nil
		case 3:
			a := e.Refusal(cloudevent.Errorf(cloudevent.KindServiceUnavailable, "redis is away"), "urn:fake:takt", time.Now())
			a = a.WithData([]byte(`{"ReturnStatus":4294967296}`), "")
			return &a
		}
		return reply(e, `{"ReturnStatus":1}`)
	}
	status, err := c.Call(within(t), mes.Call{ID: "my-id", Scope: scope, Method: isa95.Start, JobOrderID: "JO-7"})
	if status != isa95.NoError || err != nil {
		t.Fatal(status, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.received) < 4 {
		t.Errorf("%d deliveries", len(k.received))
	}
	for _, e := range k.received {
		if e.ID != "my-id" || string(e.Data) != string(k.received[0].Data) {
			t.Errorf("repeated as %s %s", e.ID, e.Data)
		}
	}
}

// TestCallEndsWithContext: nobody there, or nobody who can decide.
func TestCallEndsWithContext(t *testing.T) {
	broker := mosquitto(t)
	c := newMES(t, broker.URL, "mes-1")
	t.Run("nobody there", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		if status, err := c.Start(ctx, scope, "JO-7"); status != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(status, err)
		}
	})
	t.Run("store away", func(t *testing.T) {
		k := newFakeTakt(t, broker.URL)
		ctx, cancel := context.WithCancel(within(t))
		defer cancel()
		again := false
		k.answer = func(e cloudevent.Event) *cloudevent.Event {
			if again { // so the first answer came
				cancel()
			}
			again = true
			a := e.Refusal(cloudevent.Errorf(cloudevent.KindServiceUnavailable, "redis is away"), "urn:fake:takt", time.Now())
			return &a
		}
		_, err := c.Start(ctx, scope, "JO-7")
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "redis is away") {
			t.Fatal(err)
		}
	})
}

// TestWithoutTakt: what is wrong is said before anything is sent.
func TestWithoutTakt(t *testing.T) {
	broker := mosquitto(t)
	c := newMES(t, broker.URL, "mes-1")
	if _, err := c.Call(within(t), mes.Call{Scope: scope, Method: isa95.Run}); err == nil {
		t.Error("Run is no method")
	}
	if _, err := c.Start(within(t), "", "JO-7"); err == nil {
		t.Error("no scope")
	}
	if _, err := c.Apply(within(t), scope, "tool", isa95.Equipment{}); err == nil {
		t.Error("no kind")
	}
	if _, err := c.Apply(within(t), scope, isa95.ConfigWorkMaster, isa95.WorkMaster{Data: json.RawMessage("{")}); err == nil {
		t.Error("no JSON")
	}
	if _, err := c.Follow(within(t), []isa95.Scope{"a/b"}, mes.FollowOptions{OnResult: func(context.Context, isa95.Scope, isa95.JobResponse) error { return nil }}); err == nil {
		t.Error("no topic")
	}
	if _, err := c.Follow(within(t), nil, mes.FollowOptions{}); err == nil {
		t.Error("no function")
	}
	below := mes.FollowOptions{Count: -1, OnResult: func(context.Context, isa95.Scope, isa95.JobResponse) error { return nil }}
	if _, err := c.Follow(within(t), nil, below); err == nil || !strings.Contains(err.Error(), "FollowOptions.Count -1: must be 0 (no limit) or more") {
		t.Error(err)
	}
	if _, err := mes.New(mes.Options{}); err == nil {
		t.Error("no client id")
	}
	for topic, ok := range map[string]bool{
		"mes/responses/x": true, "plant/takt/cell-07/replies/mes-1": true, "plant/taktx/responses/x": true,
		"plant/takt/responses/x": false, "plant/takt/cell-07/events": false, "plant/takt": false,
	} {
		_, err := mes.New(mes.Options{MQTT: mqtt.Options{URL: broker.URL, ClientID: "mes-1"}, TopicPrefix: "plant/takt", ResponseTopic: topic})
		if (err == nil) != ok {
			t.Errorf("response topic %s: %v", topic, err)
		}
	}
}

// TestBadScopeIsAnswered: a scope that no topic can have reaches Takt all the same, which says what is wrong.
func TestBadScopeIsAnswered(t *testing.T) {
	broker := mosquitto(t)
	k := newFakeTakt(t, broker.URL)
	c := newMES(t, broker.URL, "mes-1")
	k.answer = func(e cloudevent.Event) *cloudevent.Event { return reply(e, `{"ReturnStatus":4294967296}`) }
	status, err := c.Start(within(t), "responses", "JO-7")
	if status != isa95.InvalidRequest || err == nil {
		t.Fatal(status, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.received[0]; e.Delivery.Topic != "takt/commands" || e.Subject != "responses" {
		t.Errorf("%s %s", e.Delivery.Topic, e.Subject)
	}
}
