package mqtt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/mqtt"
)

// The handler's store is away: the command is held, and decided when the store is back; or
// answered with SERVICE_UNAVAILABLE when it takes too long. What nobody waits for is held on.
func TestServerHold(t *testing.T) {
	long.Test(t, "waits until a command is given up")
	b := testenv.Mosquitto(t)
	var away atomic.Bool
	h := &handler{handle: func(_ context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
		if away.Load() {
			return nil, errors.New("redis: connection refused")
		}
		return answered(e)
	}}
	r := newRig(t, b, b.URL, b.URL, mqtt.ServerOptions{Handler: h, Hold: 3 * time.Second})
	away.Store(true)
	r.send(t, command("1"))
	eventually(t, "two tries", func() bool { return h.calls() >= 2 })
	away.Store(false)
	if e := r.answer(t); e.ErrorKind != "" {
		t.Errorf("%+v", e)
	}
	away.Store(true)
	r.send(t, command("2"))
	if e := r.answer(t); e.ErrorKind != cloudevent.KindServiceUnavailable || strings.Contains(e.ErrorMessage, "redis") {
		t.Errorf("%+v", e)
	}
	calls := h.calls()
	publish(t, r.peer, mqtt.Encode(commands, command("3")))
	eventually(t, "more tries than Hold has room for", func() bool { return h.calls() >= calls+9 })
	away.Store(false)
	r.send(t, command("4"))
	if e := r.answer(t); e.CausationID != "4" {
		t.Error("out of order")
	}
	r.stats(t, func(s mqtt.ServerStats) bool { return s.Refused == 1 && s.Received == 4 })
}

// The receiving connection breaks while a command is at work. The broker kept the session: the
// command comes again, and there is one answer, the handler's stored one. Repeats are acknowledged as all are, so that they do
// not fill the window.
func TestServerReceiverLost(t *testing.T) {
	long.Test(t, "breaks a link")
	brokers(t, func(t *testing.T, b *testenv.Broker) {
		h, begun, proceed := blocking()
		proxy := testenv.CountingProxy(t, b.URL)
		r := newRig(t, b, proxy.URL, b.URL, mqtt.ServerOptions{Handler: h})
		r.send(t, command("1"))
		r.send(t, command("2")) // waits in the lane
		handedOut(t, r.peer)
		<-begun
		proxy.Refuse(true)
		proxy.Cut()
		eventually(t, "loss noticed", func() bool { return !r.recv.Facts().Connected })
		close(proceed)
		eventually(t, "effect stored", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.stored["urn:test:mes 1"] != nil })
		proxy.Refuse(false)
		first, second := r.answer(t).CausationID, r.answer(t).CausationID
		if b.Server.Kind == "mochi" { // it sends again in any order
			first, second = min(first, second), max(first, second)
		}
		if first != "1" || second != "2" {
			t.Errorf("answers to %s and %s", first, second)
		}
		r.send(t, command("3"))
		if e := r.answer(t); e.CausationID != "3" {
			t.Errorf("a second answer to %s", e.CausationID)
		}
		r.stats(t, func(s mqtt.ServerStats) bool { return s.Answered == 3 && s.Again > 0 })
	})
}

// The publishing connection breaks before the reply is out: it goes out on the next one.
func TestServerPublisherLost(t *testing.T) {
	brokers(t, func(t *testing.T, b *testenv.Broker) {
		h := &handler{}
		proxy := testenv.CountingProxy(t, b.URL)
		r := newRig(t, b, b.URL, proxy.URL, mqtt.ServerOptions{Handler: h})
		proxy.Refuse(true)
		proxy.Cut()
		eventually(t, "loss noticed", func() bool { return !r.pub.Facts().Connected })
		r.send(t, command("1"))
		r.send(t, command("2"))
		eventually(t, "handled", func() bool { return h.calls() > 0 })
		proxy.Refuse(false)
		for _, want := range []string{"1", "2"} {
			if e := r.answer(t); e.CausationID != want {
				t.Errorf("answer to %s, want %s", e.CausationID, want)
			}
		}
		if h.calls() != 2 {
			t.Errorf("%d calls", h.calls())
		}
	})
}

// The broker is killed and forgets everything, the session too: nobody sends the command again,
// so the server sends the reply it has.
func TestServerBrokerForgot(t *testing.T) {
	long.Test(t, "kills the broker")
	b := testenv.Mosquitto(t)
	h, begun, proceed := blocking()
	r := newRig(t, b, b.URL, b.URL, mqtt.ServerOptions{Handler: h})
	r.send(t, command("1"))
	<-begun
	testenv.Must(t, b.Server.Kill())
	eventually(t, "loss noticed", func() bool { return !r.recv.Facts().Connected && !r.pub.Facts().Connected && !r.peer.Facts().Connected })
	close(proceed)
	testenv.Must(t, b.Server.Restart(within(t)))
	eventually(t, "reply sent", func() bool { return r.server.Stats().Answered == 1 })
	if h.calls() != 1 {
		t.Errorf("%d calls", h.calls())
	}
}

// The broker is killed with a command at work and remembers: the command comes again.
func TestServerBrokerKilled(t *testing.T) {
	long.Test(t, "kills the broker")
	b := testenv.StartMosquitto(t, embedded.MosquittoOptions{Dir: t.TempDir()})
	h := &handler{}
	r := newRig(t, b, b.URL, b.URL, mqtt.ServerOptions{Handler: h})
	client := newConn(t, b.URL, "client-recv", withSession)
	requester, err := mqtt.NewClient(client, r.peer, mqtt.ClientOptions{ResponseTopic: "mes/client", RepeatAfter: 200 * time.Millisecond})
	testenv.Must(t, err)
	run(t, client.Run)
	ready(t, client)
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 25 {
				e := command(fmt.Sprint(worker, "-", i))
				reply, err := requester.Request(within(t), commands, e)
				if err != nil || reply.CausationID != e.ID || reply.ErrorKind != "" {
					t.Errorf("%v %+v", err, reply)
				}
			}
		})
	}
	for range 2 {
		calls := h.calls()
		eventually(t, "some work", func() bool { return h.calls() > calls })
		testenv.Must(t, b.Server.Kill())
		testenv.Must(t, b.Server.Restart(within(t)))
	}
	all.Wait()
	if len(h.stored) != 100 {
		t.Errorf("%d commands", len(h.stored))
	}
}

// At the end, what is at work may finish; what was not begun is left to the next process.
func TestServerStops(t *testing.T) {
	long.Test(t, "stops a server that is at work")
	brokers(t, func(t *testing.T, b *testenv.Broker) {
		h, begun, proceed := blocking()
		r := newRig(t, b, b.URL, b.URL, mqtt.ServerOptions{Handler: h})
		r.send(t, command("1"))
		r.send(t, command("2"))
		handedOut(t, r.peer)
		<-begun
		time.AfterFunc(50*time.Millisecond, func() { close(proceed) })
		r.stop()
		if e := r.answer(t); e.CausationID != "1" {
			t.Error(e.CausationID)
		}
		second := &handler{}
		r.serve(t, b.URL, b.URL, mqtt.ServerOptions{Handler: second})
		e := r.answer(t)
		if b.Server.Kind == "mochi" && e.CausationID == "1" {
			// The embedded broker may lose an acknowledgement just before the end of its connection, and sends the message again, in any order.
			e = r.answer(t)
		}
		if e.CausationID != "2" {
			t.Errorf("answer to %s", e.CausationID)
		}
		second.mu.Lock()
		defer second.mu.Unlock()
		if b.Server.Kind != "mochi" && (len(second.seen) != 1 || !second.seen[0].Delivery.Duplicate) {
			t.Errorf("%+v", second.seen)
		}
	})
}

// A handler that does not come to an end within Drain is cancelled; its command stays.
func TestServerDrain(t *testing.T) {
	b := testenv.Mosquitto(t)
	begun := make(chan struct{}, 10)
	h := &handler{handle: func(ctx context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	r := newRig(t, b, b.URL, b.URL, mqtt.ServerOptions{Handler: h, Drain: 20 * time.Millisecond})
	r.send(t, command("1"))
	<-begun
	r.stop()
	r.answers.empty(t)
	r.serve(t, b.URL, b.URL, mqtt.ServerOptions{Handler: &handler{}})
	if e := r.answer(t); e.CausationID != "1" {
		t.Error(e.CausationID)
	}
}

// A broker that has no room for the reply just now is asked again, and the command acknowledged
// after that.
func TestServerReplyQuota(t *testing.T) {
	var refusals, acks atomic.Int32
	s := newScript(t, &packets.Connack{}, func(p *packets.ControlPacket) []packets.Packet {
		answers := granting(p)
		switch p.Type {
		case packets.SUBSCRIBE: // a command comes
			e := command("1")
			m := mqtt.Encode(commands, e)
			publish := &packets.Publish{Topic: commands, Payload: m.Payload, QoS: 1, PacketID: 9, Properties: &packets.Properties{ResponseTopic: "r"}}
			for _, u := range m.User {
				publish.Properties.User = append(publish.Properties.User, packets.User{Key: u.Name, Value: u.Value})
			}
			return append(answers, publish)
		case packets.PUBLISH:
			if refusals.Add(1) <= 2 {
				answers[0].(*packets.Puback).ReasonCode = 0x97
			}
		case packets.PUBACK:
			if refusals.Load() != 3 || p.PacketID() != 9 {
				t.Error("acknowledged before the reply was out")
			}
			acks.Add(1)
		}
		return answers
	})
	recv, pub := newConn(t, s.url, "recv"), newConn(t, s.url, "pub")
	server, err := mqtt.NewServer(recv, pub, mqtt.ServerOptions{Filters: []string{commands}, Handler: &handler{}})
	testenv.Must(t, err)
	run(t, recv.Run)
	run(t, pub.Run)
	run(t, server.Run)
	eventually(t, "acknowledged", func() bool { return acks.Load() == 1 })
	if s := server.Stats(); s.Answered != 1 || s.Received != 1 {
		t.Errorf("%+v", s)
	}
}

// QoS 0 has no flow control: beyond what a lane holds it is dropped and counted, QoS 1 never.
func TestServerOverflow(t *testing.T) {
	long.Test(t, "floods a broker, which may drop messages")
	b := testenv.Mosquitto(t)
	block := make(chan struct{})
	h := &handler{handle: func(context.Context, cloudevent.Event) (*cloudevent.Event, error) {
		<-block
		return nil, nil
	}}
	r := newRig(t, b, b.URL, b.URL, mqtt.ServerOptions{Handler: h})
	for i := range 1100 {
		if i == 1 {
			eventually(t, "the first at work", func() bool { return h.calls() == 1 })
		}
		m := mqtt.Encode(commands, command(fmt.Sprint(i)))
		m.QoS = 0
		publish(t, r.peer, m)
	}
	for i := range 100 {
		publish(t, r.peer, mqtt.Encode(commands, command(fmt.Sprint("kept ", i))))
	}
	r.stats(t, func(s mqtt.ServerStats) bool { return s.Overflow == 1100-1-1024 })
	close(block)
	r.stats(t, func(s mqtt.ServerStats) bool { return s.Received == 1+1024+100 })
}

// While nothing can be decided, a process holds at most the bytes that it may, over lost connections too; the broker has the rest,
// and all of it is handled afterwards.
func TestReceiveBytes(t *testing.T) {
	const (
		messages, size = 200, 100 << 10
		budget         = 1 << 20
	)
	b := testenv.Mosquitto(t)
	var away atomic.Bool
	away.Store(true)
	var mu sync.Mutex
	done := map[string]bool{}
	h := &handler{handle: func(_ context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
		if away.Load() {
			return nil, errors.New("the store is away")
		}
		mu.Lock()
		defer mu.Unlock()
		done[e.ID] = true
		return nil, nil
	}}
	handled := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(done)
	}
	recv := newConn(t, b.URL, "recv", withSession, func(o *mqtt.Options) {
		o.ReceiveBytes, o.ReceiveMaximum, o.KeepAlive = budget, 512, time.Second
	})
	pub := connected(t, b.URL, "pub")
	server, err := mqtt.NewServer(recv, pub, mqtt.ServerOptions{Filters: []string{"budget/#"}, Handler: h, Log: quiet()})
	testenv.Must(t, err)
	run(t, recv.Run)
	run(t, server.Run)
	ready(t, recv)
	for i := range messages {
		e := command(fmt.Sprintf("C-%03d", i)).WithData(bytes.Repeat([]byte("1"), size), "")
		e.Delivery.ResponseTopic = ""
		publish(t, pub, mqtt.Encode(fmt.Sprintf("budget/%d", i), e))
	}
	most := 0
	held := func() int {
		n := recv.Facts().HeldBytes
		most = max(most, n)
		return n
	}
	eventually(t, "the budget is used", func() bool { return held() > budget-2*size })
	eventually(t, "the connection was lost for want of room, and is back", func() bool {
		held()
		f := recv.Facts()
		return f.Losses > 0 && f.Connected
	})
	eventually(t, "the budget is used again", func() bool { return held() > budget-2*size })
	away.Store(false)
	eventually(t, "everything is handled", func() bool { held(); return handled() == messages })
	eventually(t, "nothing is held", func() bool { return held() == 0 })
	if most > budget {
		t.Errorf("%d bytes were held, want at most %d", most, budget)
	}
}
