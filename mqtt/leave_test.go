package mqtt_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/mqtt"
)

// A living client takes over the session of a dead one: it gets what the broker queued for it, also what a shared subscription gave
// to it, and when all is handled the session is over, so that nothing more is queued for nobody.
func TestLeaveEmptiesAndEndsASession(t *testing.T) {
	const window = 20 // what mosquitto's own default would let through at once
	broker := testenv.StartMosquitto(t, embedded.MosquittoOptions{Config: []string{fmt.Sprint("max_inflight_messages ", window)}})
	dead, box := newConn(t, broker.URL, "dead", withSession), newInbox()
	stop := subscribed(t, dead, box.sub("$share/g/takt/+/commands"))
	stop()

	const queued = 3*window + 7
	pub := connected(t, broker.URL, "pub")
	for i := range queued {
		publish(t, pub, mqtt.Message{Topic: "takt/m42/commands", Payload: fmt.Append(nil, i), QoS: 1})
	}
	heir, box := newConn(t, broker.URL, "dead", withSession, func(o *mqtt.Options) { o.OneConnection = true }), newInbox()
	slow := make(chan *mqtt.Inbound, queued)
	if err := heir.Subscribe(t.Context(), mqtt.Subscription{
		Filter: "$share/g/takt/+/commands", QoS: 1, Handle: func(_ context.Context, in *mqtt.Inbound) { slow <- in },
	}); err != nil {
		t.Fatal(err)
	}
	stop = run(t, heir.Run)
	ready(t, heir)
	if !heir.Facts().SessionPresent {
		t.Fatal("the broker forgot the session: this test shows nothing")
	}
	left := make(chan error, 1)
	go func() { left <- heir.Leave(within(t)) }()
	for i := range queued {
		in := <-slow
		if string(in.Payload) != fmt.Sprint(i) {
			t.Fatalf("message %d is %s", i, in.Payload)
		}
		select {
		case err := <-left:
			t.Fatalf("left with %d messages not handled, %v", queued-i, err)
		default:
		}
		testenv.Must(t, in.Ack())
	}
	testenv.Must(t, <-left)
	stop()
	again := connected(t, broker.URL, "dead", withSession)
	if again.Facts().SessionPresent {
		t.Error("the session is still there")
	}
	box.empty(t)
}

// What is not handled keeps the session.
func TestLeaveKeepsWhatIsNotHandled(t *testing.T) {
	brokers(t, func(t *testing.T, b *testenv.Broker) {
		c, box := newConn(t, b.URL, "c", withSession), newInbox()
		stop := subscribed(t, c, box.hold("a"))
		publish(t, connected(t, b.URL, "pub"), mqtt.Message{Topic: "a", QoS: 1})
		box.next(t)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := c.Leave(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("left with a message not handled: %v", err)
		}
		stop()
		if c := connected(t, b.URL, "c", withSession); !c.Facts().SessionPresent {
			t.Error("the session is gone, and the message with it")
		}
	})
}

// Run of a Conn that has one connection returns when it is taken over, and does not take it back.
func TestOneConnection(t *testing.T) {
	b := testenv.Mosquitto(t)
	c := newConn(t, b.URL, "c", withSession, func(o *mqtt.Options) { o.OneConnection = true })
	ended := make(chan error, 1)
	go func() { ended <- c.Run(t.Context()) }()
	ready(t, c)
	connected(t, b.URL, "c", withSession)
	if err := <-ended; err == nil {
		t.Error("no error tells that the connection was lost")
	}
	if err := c.Leave(t.Context()); err == nil {
		t.Error("left without a connection")
	}
}
