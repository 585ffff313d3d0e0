package mqtt_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/mqtt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come.
var patience = testenv.Patience

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

var (
	within     = testenv.Within
	run        = testenv.Run
	eventually = testenv.Eventually
)

// brokers runs a test against mosquitto and against the embedded broker.
func brokers(t *testing.T, test func(t *testing.T, b *testenv.Broker)) {
	t.Run("mosquitto", func(t *testing.T) { test(t, testenv.Mosquitto(t)) })
	t.Run("mochi", func(t *testing.T) { test(t, testenv.Mochi(t, embedded.MochiOptions{})) })
}

// make makes a Conn without running it.
func newConn(t testing.TB, url, id string, change ...func(*mqtt.Options)) *mqtt.Conn {
	t.Helper()
	o := mqtt.Options{URL: url, ClientID: id, Log: quiet(), ConnectTimeout: 5 * time.Second}
	for _, f := range change {
		f(&o)
	}
	c, err := mqtt.New(o)
	testenv.Must(t, err)
	return c
}

func withSession(o *mqtt.Options) { o.SessionExpiry = time.Hour }

// connected makes and runs a Conn and waits until it is ready.
func connected(t testing.TB, url, id string, change ...func(*mqtt.Options)) *mqtt.Conn {
	t.Helper()
	c := newConn(t, url, id, change...)
	run(t, c.Run)
	ready(t, c)
	return c
}

// subscribed subscribes, runs c and waits until it is ready. What a kept session has waiting meets its handler.
func subscribed(t testing.TB, c *mqtt.Conn, subs ...mqtt.Subscription) (stop func()) {
	t.Helper()
	testenv.Must(t, c.Subscribe(t.Context(), subs...))
	stop = run(t, c.Run)
	ready(t, c)
	return stop
}

func ready(t testing.TB, c *mqtt.Conn) {
	t.Helper()
	testenv.Must(t, c.Ready(within(t)))
}

// whyNotReady is what Ready of a Conn says that is not ready.
func whyNotReady(t testing.TB, c *mqtt.Conn) error {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	return c.Ready(ctx)
}

// inbox collects messages.
type inbox chan *mqtt.Inbound

func newInbox() inbox { return make(inbox, 100_000) }

// sub is a subscription that puts messages in the box and acknowledges them.
func (b inbox) sub(filter string) mqtt.Subscription {
	return mqtt.Subscription{Filter: filter, QoS: 1, Handle: func(_ context.Context, in *mqtt.Inbound) {
		_ = in.Ack()
		b <- in
	}}
}

// hold is sub without acknowledgement.
func (b inbox) hold(filter string) mqtt.Subscription {
	return mqtt.Subscription{Filter: filter, QoS: 1, Handle: func(_ context.Context, in *mqtt.Inbound) { b <- in }}
}

func (b inbox) next(t testing.TB) *mqtt.Inbound {
	t.Helper()
	return testenv.Take(t, "a message", b)
}

func (b inbox) empty(t testing.TB) {
	t.Helper()
	select {
	case in := <-b:
		t.Fatalf("unexpected message on %s: %s", in.Topic, in.Payload)
	default:
	}
}

func publish(t testing.TB, c *mqtt.Conn, m mqtt.Message) {
	t.Helper()
	testenv.Must(t, c.Publish(within(t), m))
}

// handedOut waits until the broker has handed out all that c published before, to sessions without a connection too. The embedded broker
// takes one message of a client after the other, but acknowledges each before it hands it out, and loses what it hands out while a
// new connection takes the receiver's session over.
func handedOut(t testing.TB, c *mqtt.Conn) {
	t.Helper()
	publish(t, c, mqtt.Message{Topic: "nobody", QoS: 1})
}

// command is a complete request.
func command(id string) cloudevent.Event {
	return cloudevent.Event{
		ID: id, Source: "urn:test:mes", SpecVersion: "1.0", Type: "test.Store.v2", Subject: "m42",
		DataContentType: cloudevent.ContentTypeJSON, CorrelationID: "aaaaaaaa-0000-4000-8000-000000000001",
		Data: []byte(`{"JobOrderID":"JO-7"}`),
	}
}

func writeFile(t testing.TB, name, text string) {
	t.Helper()
	testenv.Must(t, os.WriteFile(name, []byte(text), 0o600))
}
