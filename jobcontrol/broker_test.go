package jobcontrol_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/mqtt"
)

var _ mqtt.Handler = (*jobcontrol.Receiver)(nil)

// connect opens a connection to a broker for the test.
func connect(t testing.TB, broker *testenv.Broker, name string) *mqtt.Conn {
	t.Helper()
	c, err := mqtt.New(mqtt.Options{URL: broker.URL, ClientID: fmt.Sprintf("%s-%d", name, serial.Add(1)), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// live runs what lives until the test ends.
func live(t testing.TB, runs ...func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, run := range runs {
		all.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
}

// Over a real broker: a Store on its topic is answered on the response topic with the correlation data as they were, the event
// follows on the topic of the scope, the metadata is retained, and poison before and between stops nothing.
func TestOverTheBrokerD1(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{MessageExpiry: time.Minute})
	broker := testenv.Mosquitto(t)
	recv, pub, mes := connect(t, broker, "recv"), connect(t, broker, "pub"), connect(t, broker, "mes")
	server, err := mqtt.NewServer(recv, pub, mqtt.ServerOptions{
		Filters: jobcontrol.Filters("app/jobs", "takt"), Handler: p, Lane: jobcontrol.Lane, ResponseTopic: "app/jobs/responses/pod-1", Log: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan mqtt.Message, 100)
	take := func(_ context.Context, in *mqtt.Inbound) {
		got <- in.Message
		_ = in.Ack()
	}
	for _, filter := range []string{"mes/resp/+", "app/jobs/+/events", "app/jobs/metadata"} {
		if err := mes.Subscribe(t.Context(), mqtt.Subscription{Filter: filter, QoS: 1, Handle: take}); err != nil {
			t.Fatal(err)
		}
	}
	live(t, recv.Run, pub.Run, mes.Run, server.Run)
	p.sender(t, pub.PublishEvent)
	for _, c := range []*mqtt.Conn{recv, pub, mes} {
		if err := c.Ready(soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	next := func() mqtt.Message {
		t.Helper()
		select {
		case m := <-got:
			return m
		case <-soon(t).Done():
			t.Fatal("nothing came")
			return mqtt.Message{}
		}
	}

	metadata, err := jobcontrol.Options{TopicPrefix: "app/jobs"}.Metadata(time.Now(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := pub.Publish(soon(t), metadata); err != nil {
		t.Fatal(err)
	}
	if m := next(); m.Topic != "app/jobs/metadata" {
		t.Errorf("got %s", m.Topic)
	}
	retained, err := pub.Retained(soon(t), "app/jobs/metadata")
	if err != nil || len(retained) != 1 {
		t.Errorf("retained %v, %v", retained, err)
	}
	weird := []byte{0, 255, '\n'}
	for i, body := range []string{`[]`, `{`, order("list:x"), `{"JobOrder":` + order("JO-7") + `}`} {
		m := message(isa95.Store, "{}")
		m.Payload, m.CorrelationData = []byte(body), append([]byte{byte(i)}, weird...)
		if err := mes.Publish(soon(t), m); err != nil {
			t.Fatal(err)
		}
		reply := next()
		if reply.Topic == "app/jobs/m42/events" {
			reply = next()
		}
		if reply.Topic != "mes/resp/mes-1" || hex.EncodeToString(reply.CorrelationData) != hex.EncodeToString(m.CorrelationData) || reply.ResponseTopic != "app/jobs/responses/pod-1" {
			t.Errorf("%s: reply on %s to %q with %x", body, reply.Topic, reply.ResponseTopic, reply.CorrelationData)
		}
		e, err := mqtt.Decode(reply)
		if err != nil {
			t.Fatal(err)
		}
		if ok := strings.Contains(body, "JO-7"); ok != (status(t, e) == isa95.NoError) {
			t.Errorf("%s: %s %s", body, e.Data, e.ErrorMessage)
		}
	}
	testenv.Eventually(t, "an empty outbox", func() bool { return len(p.entries(t, p.keys.EventReceiver())) == 0 })
}

// What the broker counts down is not counted from the event's time: a command that waited at the broker for half of its
// life has not expired.
func TestNativeExpiry(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	m := message(isa95.Store, order("JO-7"))
	m.Expiry = 10 * time.Second // what is left of 60
	m.User = append(m.User, mqtt.UserProperty{Name: "time", Value: time.Now().Add(-50 * time.Second).UTC().Format(time.RFC3339)})
	if _, reply := p.receive(t, m); status(t, reply) != isa95.NoError {
		t.Errorf("%s %s", reply.Data, reply.ErrorMessage)
	}
	m = message(isa95.Store, order("JO-8"))
	m.User = append(m.User, mqtt.UserProperty{Name: "time", Value: time.Now().Add(-50 * time.Second).UTC().Format(time.RFC3339)}, mqtt.UserProperty{Name: "expiryinterval", Value: "40"})
	if _, reply := p.receive(t, m); reply.ErrorKind != cloudevent.KindTimeout {
		t.Errorf("%s %s", reply.Data, reply.ErrorKind)
	}
}
