package mqtt_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/mqtt"
)

// newClient makes a running Client of its own two connections.
func newClient(t testing.TB, recvURL, pubURL string, o mqtt.ClientOptions) (c *mqtt.Client, recv, pub *mqtt.Conn) {
	t.Helper()
	if o.ResponseTopic == "" {
		o.ResponseTopic = "mes/client"
	}
	recv, pub = newConn(t, recvURL, "mes-recv", withSession), newConn(t, pubURL, "mes-pub")
	c, err := mqtt.NewClient(recv, pub, o)
	testenv.Must(t, err)
	run(t, recv.Run)
	run(t, pub.Run)
	ready(t, recv)
	ready(t, pub)
	return c, recv, pub
}

func TestRequest(t *testing.T) {
	brokers(t, func(t *testing.T, b *testenv.Broker) {
		r := newRig(t, b, b.URL, b.URL, mqtt.ServerOptions{Handler: &handler{}, Lane: func(m mqtt.Message) string { return string(m.CorrelationData) }})
		c, _, _ := newClient(t, b.URL, b.URL, mqtt.ClientOptions{Expiry: time.Minute, RepeatAfter: patience})
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				e := command(fmt.Sprint(i)) // all of one conversation: the same correlation id
				reply, err := c.Request(within(t), commands, e)
				if err != nil || reply.CausationID != e.ID || reply.CorrelationID != e.CorrelationID {
					t.Errorf("%v %+v", err, reply)
				}
			})
		}
		all.Wait()
		// What is missing is filled in.
		reply, err := c.Request(within(t), commands, cloudevent.Event{Source: "urn:me", Type: "t", Data: []byte("{}")})
		if err != nil || reply.ErrorKind != "" || reply.CausationID == "" || reply.CorrelationID == "" {
			t.Errorf("%v %+v", err, reply)
		}
		// A request in structured mode is answered in structured mode, a refusal too.
		for source, refused := range map[string]bool{"urn:me": false, "": true} {
			e := cloudevent.Event{Source: source, Type: "t", Data: []byte("{}"), Delivery: cloudevent.Delivery{Form: "application/cloudevents+json"}}
			reply, err = c.Request(within(t), commands, e)
			if err != nil || (reply.Err() != nil) != refused || reply.CausationID == "" || reply.Delivery.Form != e.Delivery.Form {
				t.Errorf("%v %+v", err, reply)
			}
		}
		// A refusal is an answer.
		reply, err = c.Request(within(t), commands, cloudevent.Event{Type: "t"})
		if err != nil || reply.Err() == nil || reply.Err().Kind != cloudevent.KindMissingUserProperty {
			t.Errorf("%v %+v", err, reply)
		}
		if s := r.server.Stats(); s.Received < 54 { // more, if a connection was lost on a busy machine: QoS 1
			t.Errorf("%+v", s)
		}
	})
}

// An unanswered request is sent again under the same id until it is answered. Only requesters wait
// for something, and by the id of their request: D13.
func TestRequestRepeats(t *testing.T) {
	b := testenv.Mosquitto(t)
	c, _, pub := newClient(t, b.URL, b.URL, mqtt.ClientOptions{RepeatAfter: 30 * time.Millisecond})
	box := newInbox()
	server := connected(t, b.URL, "server")
	testenv.Must(t, server.Subscribe(within(t), box.sub(commands)))
	done := make(chan cloudevent.Event, 1)
	go func() {
		reply, err := c.Request(within(t), commands, command("1"))
		if err != nil {
			t.Error(err)
		}
		done <- reply
	}()
	var last mqtt.Message
	for range 3 {
		last = box.next(t).Message
		if e, err := mqtt.Decode(last); err != nil || e.ID != "1" || e.Delivery.ResponseTopic != "mes/client" {
			t.Errorf("%v %+v", err, e)
		}
	}
	// Answers that are none of ours are left aside; so are those of another's request of the same id, sent here.
	for _, other := range []cloudevent.Event{{CausationID: "2"}, {CausationID: "1 "}, {CorrelationID: "x"}, {CausationID: "1"}, {CausationID: "1", CorrelationID: "x"},
		{CausationID: "2", Delivery: cloudevent.Delivery{CorrelationData: last.CorrelationData}}} {
		other.ID, other.Source, other.Type = "x", "s", "t"
		publish(t, pub, mqtt.Encode("mes/client", other))
	}
	// One without causationid is matched by its correlation data.
	answer := mqtt.Encode("mes/client", cloudevent.Event{ID: "a", Source: "s", Type: "t", Subject: "mine"})
	answer.CorrelationData = last.CorrelationData
	publish(t, pub, answer)
	if reply := <-done; reply.Subject != "mine" {
		t.Errorf("%+v", reply)
	}
}

// The broker goes away and comes back: what is under way is sent again at once, not after
// RepeatAfter.
func TestRequestReconnect(t *testing.T) {
	long.Test(t, "breaks a link")
	brokers(t, func(t *testing.T, b *testenv.Broker) {
		for _, which := range []string{"receiving", "publishing"} {
			t.Run(which, func(t *testing.T) {
				proxy := testenv.CountingProxy(t, b.URL)
				recvURL, pubURL := proxy.URL, b.URL
				if which == "publishing" {
					recvURL, pubURL = b.URL, proxy.URL
				}
				c, _, _ := newClient(t, recvURL, pubURL, mqtt.ClientOptions{RepeatAfter: time.Hour})
				box := newInbox()
				server := connected(t, b.URL, "server")
				testenv.Must(t, server.Subscribe(within(t), box.sub(commands)))
				done := make(chan error, 1)
				go func() {
					_, err := c.Request(within(t), commands, command(which)) // an id of its own: the broker may hand out the other test's answer again
					done <- err
				}()
				box.next(t)
				proxy.Cut()
				request, err := mqtt.Decode(box.next(t).Message)
				if err != nil || request.ID != which {
					t.Fatal(err)
				}
				publish(t, server, mqtt.Encode("mes/client", request.Reply(nil, "", "urn:s", time.Now())))
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// A request made while the broker is away waits for it.
func TestRequestWhileDown(t *testing.T) {
	b := testenv.Mosquitto(t)
	newRig(t, b, b.URL, b.URL, mqtt.ServerOptions{Handler: &handler{}})
	proxy := testenv.CountingProxy(t, b.URL)
	c, recv, pub := newClient(t, b.URL, proxy.URL, mqtt.ClientOptions{})
	proxy.Refuse(true)
	proxy.Cut()
	eventually(t, "loss noticed", func() bool { return !pub.Facts().Connected })
	done := make(chan error, 1)
	go func() {
		_, err := c.Request(within(t), commands, command("1"))
		done <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Request(ctx, commands, command("2")); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, mqtt.ErrDown) {
		t.Errorf("the reason is missing: %v", err)
	}
	proxy.Refuse(false)
	if err := <-done; err != nil {
		t.Error(err)
	}
	_ = recv
}

func TestRequestErrors(t *testing.T) {
	b := testenv.Mosquitto(t)
	c, _, pub := newClient(t, b.URL, b.URL, mqtt.ClientOptions{})
	var refused *mqtt.MessageError
	if _, err := c.Request(within(t), "a/+", command("1")); !errors.As(err, &refused) {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Request(ctx, "nobody", command("1")); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "nobody") {
		t.Error(err)
	}
	// An answer that cannot be read is an error, not silence.
	box := newInbox()
	testenv.Must(t, pub.Subscribe(within(t), box.sub("bad")))
	go func() {
		m := mqtt.Encode("mes/client", cloudevent.Event{ID: "a", Source: "s", Type: "t", CausationID: "2", DataContentType: "image/png"})
		m.CorrelationData = box.next(t).CorrelationData
		_ = pub.Publish(within(t), m)
	}()
	reply, err := c.Request(within(t), "bad", command("2"))
	var why *cloudevent.Error
	if !errors.As(err, &why) || why.Kind != cloudevent.KindUnsupportedContentType || reply.ID != "a" {
		t.Errorf("%v %+v", err, reply)
	}
	for name, o := range map[string]mqtt.ClientOptions{"ResponseTopic": {}, "RepeatAfter": {ResponseTopic: "a", RepeatAfter: -1}} {
		if _, err := mqtt.NewClient(pub, pub, o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
