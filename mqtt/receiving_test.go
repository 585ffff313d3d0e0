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
	testenv.Must(t, c.Subscribe(t.Context(), mqtt.Subscription{Filter: "a", QoS: 1, Handle: func(context.Context, *mqtt.Inbound) {}}))
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
	eventually(t, "the keep-alive ends the connection", func() bool { return c.Facts().Losses > 0 })
	proxy.Stall(false)
	eventually(t, "it receives again", c.Receiving)
	proxy.Refuse(true)
	proxy.Cut()
	eventually(t, "the loss is noticed", func() bool { return !c.Receiving() })
	proxy.Refuse(false)
	eventually(t, "it receives on the next connection", c.Receiving)
}
