package station_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/station"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

var (
	within = testenv.Within
	run    = testenv.Run
)

func take[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	return testenv.Take(t, what, from)
}

// bench is a broker with a fake Takt: it sends commands and hears answers and events.
type bench struct {
	t       testing.TB
	url     string
	conn    *mqtt.Conn
	answers chan cloudevent.Event
	events  chan cloudevent.Event
	log     chan station.Entry
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{
		t: t, url: testenv.Mosquitto(t).URL,
		answers: make(chan cloudevent.Event, 1000), events: make(chan cloudevent.Event, 1000), log: make(chan station.Entry, 10_000),
	}
	var err error
	if b.conn, err = mqtt.New(mqtt.Options{URL: b.url, ClientID: "fake-takt", Log: quiet()}); err != nil {
		t.Fatal(err)
	}
	into := func(box chan cloudevent.Event) func(context.Context, *mqtt.Inbound) {
		return func(_ context.Context, in *mqtt.Inbound) {
			_ = in.Ack()
			e, err := mqtt.Decode(in.Message)
			if err != nil {
				t.Errorf("%s: %v", in.Topic, err)
			}
			box <- e
		}
	}
	err = b.conn.Subscribe(context.Background(),
		mqtt.Subscription{Filter: "takt/responses/+", QoS: 1, Handle: into(b.answers)},
		mqtt.Subscription{Filter: "takt/equipment/+/events", QoS: 1, Handle: into(b.events)})
	if err != nil {
		t.Fatal(err)
	}
	run(t, b.conn.Run)
	if err := b.conn.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	return b
}

// equip makes a station of a text. Run it with run(t, s.Run).
func (b *bench) equip(yaml string, change ...func(*station.Options)) *station.Station {
	b.t.Helper()
	e, err := station.ParseEquipment("equipment.yaml", []byte(yaml))
	if err != nil {
		b.t.Fatal(err)
	}
	o := station.Options{
		Equipment: e, MQTT: mqtt.Options{URL: b.url, ClientID: "station"}, Log: quiet(),
		OnLog: func(e station.Entry) { b.log <- e },
	}
	for _, f := range change {
		f(&o)
	}
	s, err := station.New(o)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// start is equip, running and ready.
func (b *bench) start(yaml string, change ...func(*station.Options)) (stop func()) {
	b.t.Helper()
	s := b.equip(yaml, change...)
	stop = run(b.t, s.Run)
	if err := s.Ready(within(b.t)); err != nil {
		b.t.Fatal(err)
	}
	return stop
}

// command is a command as Takt sends it.
func command(id, typeID, order, action string, attempt int, parameters string) cloudevent.Event {
	body := map[string]any{"JobOrderID": order, "Action": action, "Attempt": attempt}
	if parameters != "" {
		body["Parameters"] = json.RawMessage(parameters)
	}
	data, _ := json.Marshal(body)
	e := cloudevent.Event{
		ID: id, Source: "urn:fake:takt", SpecVersion: "1.0", Type: typeID, Subject: "cell-07",
		CorrelationID: "run-of-" + order, Data: data, DataContentType: cloudevent.ContentTypeJSON,
	}
	e.Delivery.ResponseTopic, e.Delivery.CorrelationData = "takt/responses/takt-1", []byte{0, 1, 2}
	return e
}

func (b *bench) send(e cloudevent.Event) {
	b.t.Helper()
	if err := b.conn.PublishEvent(within(b.t), "takt/equipment/cell-07/commands", e); err != nil {
		b.t.Fatal(err)
	}
}

// expect reads the log until an entry of the kind.
func (b *bench) expect(kind station.Kind) station.Entry {
	b.t.Helper()
	for {
		if e := take(b.t, "log entry "+string(kind), b.log); e.Kind == kind {
			return e
		}
	}
}

// expectAll reads the log until an entry of each kind about a command was there, in any order.
func (b *bench) expectAll(command string, kinds ...station.Kind) {
	b.t.Helper()
	missing := map[station.Kind]bool{}
	for _, k := range kinds {
		missing[k] = true
	}
	for len(missing) > 0 {
		if e := take(b.t, "log entries", b.log); e.Command == command {
			delete(missing, e.Kind)
		}
	}
}
