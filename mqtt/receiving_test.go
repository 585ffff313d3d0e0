package mqtt_test

import (
	"context"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/mqtt"
)

// A connection receives only while the broker is heard: not before it is there, not once it is cut, and not while it swallows everything, of which
// only silence tells.
func TestReceiving(t *testing.T) {
	long.Test(t, "waits until silence is noticed")
	b := testenv.Mosquitto(t)
	proxy := testenv.CountingProxy(t, b.URL)
	c := newConn(t, proxy.URL, "recv", withSession, func(o *mqtt.Options) { o.KeepAlive = time.Second })
	if err := c.Subscribe(t.Context(), mqtt.Subscription{Filter: "a", QoS: 1, Handle: func(context.Context, *mqtt.Inbound) {}}); err != nil {
		t.Fatal(err)
	}
	if c.Receiving() {
		t.Error("receives before it is connected")
	}
	began := time.Now()
	run(t, c.Run)
	ready(t, c)
	if c.Receiving() && time.Since(began) < time.Second {
		t.Error("receives at once: what the broker kept has not come yet")
	}
	eventually(t, "it receives", c.Receiving)
	proxy.Stall(true)
	eventually(t, "silence is noticed", func() bool { return !c.Receiving() })
	proxy.Stall(false)
	eventually(t, "it receives again", c.Receiving)
	proxy.Refuse(true)
	proxy.Cut()
	eventually(t, "the loss is noticed", func() bool { return !c.Receiving() })
	proxy.Refuse(false)
	eventually(t, "it receives on the next connection", c.Receiving)
}

// A connection is behind while messages wait for one that is not decided, and not while that one is alone.
func TestBehind(t *testing.T) {
	long.Test(t, "waits until a message is late")
	b := testenv.Mosquitto(t)
	c := newConn(t, b.URL, "recv", withSession)
	decide, came := make(chan struct{}), make(chan struct{}, 2)
	if err := c.Subscribe(t.Context(), mqtt.Subscription{Filter: "a", QoS: 1, Handle: func(_ context.Context, in *mqtt.Inbound) {
		came <- struct{}{}
		go func() {
			<-decide
			_ = in.Ack()
		}()
	}}); err != nil {
		t.Fatal(err)
	}
	if c.Behind() {
		t.Error("behind before it is connected")
	}
	run(t, c.Run)
	ready(t, c)
	peer := newConn(t, b.URL, "peer", withSession)
	run(t, peer.Run)
	ready(t, peer)
	publish(t, peer, mqtt.Message{Topic: "a", QoS: 1})
	<-came
	first := time.Now()
	eventually(t, "the first is late", func() bool { return time.Since(first) > 3*time.Second || c.Behind() })
	if c.Behind() {
		t.Error("behind with one message")
	}
	publish(t, peer, mqtt.Message{Topic: "a", QoS: 1})
	<-came
	if !c.Behind() {
		t.Error("not behind with a message that waits for one of three seconds ago")
	}
	decide <- struct{}{}
	decide <- struct{}{}
	eventually(t, "nothing waits", func() bool { return !c.Behind() })
}
