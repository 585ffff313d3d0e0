package mqtt_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/mqtt"
)

func topics(list []mqtt.Message) []string {
	var names []string
	for _, m := range list {
		names = append(names, m.Topic)
	}
	return names
}

func TestRetained(t *testing.T) {
	brokers(t, func(t *testing.T, b *testenv.Broker) {
		pub, c := connected(t, b.URL, "pub"), connected(t, b.URL, "c", withSession)
		retain := func(topic, payload string, expiry time.Duration) {
			t.Helper()
			testenv.Must(t, pub.Retain(within(t), topic, []byte(payload), expiry))
		}
		retained := func(filters ...string) []mqtt.Message {
			t.Helper()
			list, err := c.Retained(within(t), filters...)
			testenv.Must(t, err)
			return list
		}
		if list := retained("takt/#"); len(list) != 0 {
			t.Errorf("%v", topics(list))
		}
		for i := range 300 {
			retain(fmt.Sprintf("takt/m42/order/%03d", i), "{}", 0)
		}
		retain("takt/m42/state-index", `{"seq":1}`, 48*time.Hour)
		retain("takt/m42/state-index", `{"seq":2}`, 48*time.Hour)
		retain("takt/m42/result/1", "{}", time.Hour)
		retain("takt/m42/result/1", "", time.Hour) // deletes
		publish(t, pub, mqtt.Message{Topic: "takt/m42/events", Payload: []byte("live"), QoS: 1})

		list := retained("takt/+/state-index", "takt/+/order/+", "takt/+/result/+", "takt/#")
		if len(list) != 301 || list[0].Topic != "takt/m42/order/000" || list[300].Topic != "takt/m42/state-index" {
			t.Fatalf("%d: %v", len(list), topics(list))
		}
		index := list[300]
		if index.Expiry > 48*time.Hour || index.Expiry < 47*time.Hour {
			t.Errorf("Expiry %v", index.Expiry)
		}
		index.Expiry = 0
		if diff := cmp.Diff(mqtt.Message{Topic: "takt/m42/state-index", Payload: []byte(`{"seq":2}`), QoS: index.QoS, Retain: true}, index); diff != "" {
			t.Error(diff) // G7: no other properties
		}
		if list := retained("takt/m42/order/007"); len(list) != 1 {
			t.Errorf("%v", topics(list))
		}
	})
}

// Nothing is missed with the windows mosquitto has by default.
func TestRetainedDefaultWindows(t *testing.T) {
	b := testenv.StartMosquitto(t, embedded.MosquittoOptions{Config: []string{"max_inflight_messages 20", "max_queued_messages 1000"}})
	pub := connected(t, b.URL, "pub", withSession)
	var all sync.WaitGroup
	for i := range 5000 {
		all.Go(func() {
			if err := pub.Retain(within(t), fmt.Sprint("a/", i), []byte("x"), 0); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list, err := pub.Retained(within(t), "a/+"); err != nil || len(list) != 5000 {
		t.Errorf("%d %v", len(list), err)
	}
}

// The subscriptions a collection makes are gone after it; those that were there stay.
func TestRetainedBesideSubscriptions(t *testing.T) {
	brokers(t, func(t *testing.T, b *testenv.Broker) {
		pub, c, box := connected(t, b.URL, "pub"), connected(t, b.URL, "c", withSession), newInbox()
		// A broker may look for retained messages after it has acknowledged; when it acknowledges the next request, it has.
		for _, filter := range []string{"mine/+", "unused"} {
			testenv.Must(t, c.Subscribe(within(t), box.sub(filter)))
		}
		for _, topic := range []string{"mine/1", "other/1"} {
			testenv.Must(t, pub.Retain(within(t), topic, []byte("x"), 0))
		}
		box.next(t) // mine/1, live
		testenv.Must(t, pub.Retain(within(t), "mine/1/below", []byte("x"), 0))
		list, err := c.Retained(within(t), "mine/1", "other/+")
		if diff := cmp.Diff([]string{"mine/1", "other/1"}, topics(list)); diff != "" || err != nil {
			t.Error(err, diff)
		}
		if in := box.next(t); in.Topic != "mine/1" || !in.Retain { // it came to both
			t.Errorf("%+v", in)
		}
		publish(t, pub, mqtt.Message{Topic: "other/1", QoS: 1})
		publish(t, pub, mqtt.Message{Topic: "mine/2", QoS: 1})
		if in := box.next(t); in.Topic != "mine/2" || in.QoS != 1 {
			t.Errorf("%+v", in)
		}
		box.empty(t)
		for f, n := range map[string]int{"unused": -1, "mine/+": -1, "mine/#": 2, "mine/1": 1} {
			list, err := c.Retained(within(t), f)
			var refused *mqtt.MessageError
			if n < 0 && !errors.As(err, &refused) || n >= 0 && (err != nil || len(list) != n) {
				t.Errorf("%s: %v %v", f, topics(list), err)
			}
		}
	})
}

func TestRetainedErrors(t *testing.T) {
	long.Test(t, "breaks a link")
	b := testenv.Mosquitto(t)
	proxy := testenv.CountingProxy(t, b.URL)
	c := newConn(t, proxy.URL, "c", withSession)
	if _, err := c.Retained(within(t), "a"); !errors.Is(err, mqtt.ErrDown) {
		t.Error(err)
	}
	run(t, c.Run)
	ready(t, c)
	var refused *mqtt.MessageError
	for _, f := range []string{"a/#/b", "$share/g/a"} {
		if _, err := c.Retained(within(t), f); !errors.As(err, &refused) {
			t.Errorf("%s: %v", f, err)
		}
	}
	// The connection breaks in the middle: an error, and nothing left subscribed afterwards.
	proxy.Tap(func(fromClient bool, data []byte) {
		if fromClient && bytes.Contains(data, []byte("takt/private/")) && data[0]>>4 == 3 {
			go proxy.Cut()
		}
	})
	proxy.Delay(200 * time.Millisecond) // in which it is cut
	if _, err := c.Retained(within(t), "a"); !errors.Is(err, mqtt.ErrLost) {
		t.Error(err)
	}
	proxy.Tap(nil)
	proxy.Delay(0)
	eventually(t, "reconnect", func() bool { return c.Facts().Connects == 2 && c.Facts().Connected })
	ready(t, c)
	box, pub := newInbox(), connected(t, b.URL, "pub")
	testenv.Must(t, c.Subscribe(within(t), box.sub("b")))
	if list, err := c.Retained(within(t), "a"); err != nil || len(list) != 0 {
		t.Error(err, list)
	}
	publish(t, pub, mqtt.Message{Topic: "a", QoS: 1})
	publish(t, pub, mqtt.Message{Topic: "b", QoS: 1})
	if in := box.next(t); in.Topic != "b" {
		t.Error(in.Topic)
	}
}
