package mqtt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/mqtt"
)

// shelf is a Keeper in memory.
type shelf struct {
	mu   sync.Mutex
	away bool
	kept []mqtt.Message
	asks int // of Room
}

var errAway = errors.New("redis: connection refused")

func (s *shelf) Keep(_ context.Context, m mqtt.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return errAway
	}
	s.kept = append(s.kept, m)
	return nil
}

func (s *shelf) Room(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks++
	if s.away {
		return errAway
	}
	return nil
}

func (s *shelf) messages() []mqtt.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept
}

// poisonous handles all but what has the id poison, with which it comes to no end, whatever its context says, until it is cured.
func poisonous(t *testing.T) (h *handler, cure func()) {
	cured := make(chan struct{})
	cure = sync.OnceFunc(func() { close(cured) })
	t.Cleanup(cure)
	return &handler{handle: func(_ context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
		if e.ID == "poison" {
			<-cured
		}
		reply := e.Reply(nil, "", "urn:takt", time.Now())
		return &reply, nil
	}}, cure
}

// lastDigit makes ten lanes of ids that are numbers; poison is in the one of 7.
func lastDigit(m mqtt.Message) string {
	for _, p := range m.User {
		if p.Name == "id" && p.Value != "poison" {
			return p.Value[len(p.Value)-1:]
		}
	}
	return "7"
}

// A message whose decision never ends holds up none of 2,000 others, at a broker that sends 512 without acknowledgements, though some of them are
// in its lane. It is kept aside, once, and answered when it can be decided.
func TestPoisonHoldsUpNoOther(t *testing.T) {
	const others, window = 2000, 512
	b := testenv.Mosquitto(t)
	h, cure := poisonous(t)
	keeper := &shelf{}
	r := newRig(t, b, b.URL, b.URL, mqtt.ServerOptions{
		Handler: h, Aside: keeper, AsideAfter: 6 * time.Second, Lane: lastDigit,
	}, func(o *mqtt.Options) { o.ReceiveMaximum = window })
	r.send(t, command("poison"))
	for i := range others {
		r.send(t, command(fmt.Sprint(i)))
	}
	answered := map[string]bool{}
	for range others {
		answered[r.answer(t).CausationID] = true
	}
	if len(answered) != others || answered["poison"] {
		t.Errorf("%d of %d others are answered", len(answered), others)
	}
	r.stats(t, func(s mqtt.ServerStats) bool { return s.Aside == 1 })
	kept := keeper.messages()
	if len(kept) != 1 {
		t.Fatalf("%d messages are kept aside", len(kept))
	}
	cure()
	if err := r.server.Decide(within(t), kept[0]); err != nil {
		t.Fatal(err)
	}
	if e := r.answer(t); e.CausationID != "poison" || !bytes.Equal(e.Delivery.CorrelationData, kept[0].CorrelationData) {
		t.Errorf("%+v", e)
	}
	r.answers.empty(t) // the handler that came to its end after all does not answer a second time
}

// While nothing can be kept aside, the connection is closed and the broker keeps everything. Then it all comes, and is answered.
func TestPoisonWhileNothingCanBeKept(t *testing.T) {
	long.Test(t, "waits until a message is put aside")
	brokers(t, func(t *testing.T, b *testenv.Broker) {
		const others = 100
		h, cure := poisonous(t)
		keeper := &shelf{away: true}
		r := newRig(t, b, b.URL, b.URL, mqtt.ServerOptions{Handler: h, Aside: keeper, AsideAfter: 300 * time.Millisecond})
		r.send(t, command("poison"))
		for i := range others {
			r.send(t, command(fmt.Sprint(i)))
		}
		eventually(t, "the connection rests", func() bool {
			keeper.mu.Lock()
			defer keeper.mu.Unlock()
			return keeper.asks > 1 && !r.recv.Facts().Connected
		})
		if r.recv.Receiving() {
			t.Error("a connection that rests receives")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := r.recv.Ready(ctx); !errors.Is(err, errAway) {
			t.Errorf("%v does not say why the connection rests", err)
		}
		r.send(t, command("late"))
		handedOut(t, r.peer)
		keeper.mu.Lock()
		keeper.away = false
		keeper.mu.Unlock()
		answered := map[string]bool{}
		for len(answered) < others+1 {
			answered[r.answer(t).CausationID] = true
		}
		r.stats(t, func(s mqtt.ServerStats) bool { return s.Aside == 1 })
		if answered["poison"] || len(keeper.messages()) != 1 {
			t.Errorf("%d messages are kept aside", len(keeper.messages()))
		}
		cure()
	})
}

// Without a session at the broker nothing is closed: what came would be lost.
func TestNoRestWithoutASession(t *testing.T) {
	b := testenv.Mosquitto(t)
	h, cure := poisonous(t)
	r := newRig(t, b, b.URL, b.URL, mqtt.ServerOptions{Handler: h, Aside: &shelf{away: true}, AsideAfter: 50 * time.Millisecond, Lane: func(m mqtt.Message) string { return fmt.Sprint(m.User) }, Lanes: 4096}, func(o *mqtt.Options) { o.SessionExpiry = 0 })
	r.send(t, command("poison"))
	for i := range 100 {
		r.send(t, command(fmt.Sprint(i)))
	}
	for range 100 {
		r.answer(t)
	}
	cure()
	if e := r.answer(t); e.CausationID != "poison" || r.recv.Facts().Connects != 1 {
		t.Errorf("%+v after %d connects", e, r.recv.Facts().Connects)
	}
}

// A message is the same after it was a packet, and what is no packet is refused.
func TestMessageAsPacket(t *testing.T) {
	full := mqtt.Encode("a/b", command("1"))
	full.ResponseTopic, full.CorrelationData, full.Expiry, full.Retain = "r/1", []byte{0, 1, 255}, 7*time.Second, true
	for _, m := range []mqtt.Message{full, {Topic: "t", Payload: []byte{}}, {Topic: "t", QoS: 1, Payload: bytes.Repeat([]byte("x"), 1<<14)}} {
		packet, err := m.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var got mqtt.Message
		if err := got.UnmarshalBinary(packet); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, got); diff != "" {
			t.Error(diff)
		}
		for _, bad := range [][]byte{nil, packet[:len(packet)-1], append(packet[:len(packet):len(packet)], 0), append([]byte{0x40}, packet[1:]...)} {
			if err := got.UnmarshalBinary(bad); err == nil {
				t.Errorf("%.20q is taken for a packet", bad)
			}
		}
	}
	if _, err := (mqtt.Message{Topic: "a/#"}).MarshalBinary(); err == nil {
		t.Error("a message that cannot be sent became a packet")
	}
}
