package mqtt

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func drawMessage(t *rapid.T) Message {
	text := rapid.StringMatching(`[a-zA-Zäß ]{0,20}`)
	m := Message{
		Topic:           "t/" + text.Draw(t, "topic"),
		Payload:         rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "payload"),
		QoS:             rapid.ByteRange(0, 1).Draw(t, "qos"),
		Retain:          rapid.Bool().Draw(t, "retain"),
		ContentType:     text.Draw(t, "content type"),
		ResponseTopic:   text.Draw(t, "response topic"),
		CorrelationData: rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "correlation"),
		Expiry:          time.Duration(rapid.Uint32().Draw(t, "expiry")) * time.Second,
		UTF8:            rapid.Bool().Draw(t, "utf8"),
	}
	for range rapid.IntRange(0, 10).Draw(t, "n") {
		m.User = append(m.User, UserProperty{text.Draw(t, "name"), text.Draw(t, "value")})
	}
	return m
}

// What size says is what goes over the wire, and what comes off it is what went in.
func TestMessageOnTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t)
		p := m.packet().Packet()
		p.PacketID = 7
		var wire bytes.Buffer
		if _, err := p.WriteTo(&wire); err != nil {
			t.Fatal(err)
		}
		if wire.Len() != m.size() {
			t.Fatalf("%d bytes, size says %d", wire.Len(), m.size())
		}
		back, err := packets.ReadPacket(&wire)
		if err != nil {
			t.Fatal(err)
		}
		got := fromPacket(paho.PublishFromPacketPublish(back.Content.(*packets.Publish)))
		if diff := cmp.Diff(normal(m), normal(got)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// normal takes the difference between nil and empty away.
func normal(m Message) Message {
	if len(m.Payload) == 0 {
		m.Payload = nil
	}
	if len(m.CorrelationData) == 0 {
		m.CorrelationData = nil
	}
	return m
}

func TestVarIntSizes(t *testing.T) {
	for n, want := range map[int]int{0: 1, 127: 1, 128: 2, 16383: 2, 16384: 3, 2097151: 3, 2097152: 4} {
		if got := varInt(n); got != want {
			t.Errorf("varInt(%d) = %d", n, got)
		}
	}
}

func TestMessageCheck(t *testing.T) {
	long := strings.Repeat("x", 65536)
	for field, m := range map[string]Message{
		"topic":                {Topic: "a/+"},
		"response topic":       {Topic: "a", ResponseTopic: "b/#"},
		"content type":         {Topic: "a", ContentType: "a\nb"},
		"correlation data":     {Topic: "a", CorrelationData: []byte(long)},
		"user property name":   {Topic: "a", User: []UserProperty{{"a\x00", ""}}},
		"user property reason": {Topic: "a", User: []UserProperty{{"reason", long}}},
	} {
		var e *MessageError
		if err := m.check(); !errors.As(err, &e) || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, m := range []Message{{Topic: "a", QoS: 2}, {Topic: "a", Expiry: -1}} {
		if m.check() == nil {
			t.Errorf("%+v passed", m)
		}
	}
	if err := (&Message{Topic: "a"}).check(); err != nil {
		t.Error(err)
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]uint32{
		-1: 0, 0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, 1<<63 - 1: 1<<32 - 1,
	} {
		if got := seconds(d); got != want {
			t.Errorf("seconds(%v) = %d, want %d", d, got, want)
		}
	}
}

func TestResponseRule(t *testing.T) {
	s := &Server{o: ServerOptions{Filters: []string{"takt/+/commands", "$share/g/other/#"}}}
	for topic, fine := range map[string]bool{
		"": true, "mes/answers": true, "takt/responses/1": true,
		"a/#": false, "a/+": false, "a\x00": false, "$SYS/a": false, "$share/g/a": false,
		"takt/m42/commands": false, "other/a/b": false,
	} {
		if rule := s.responseRule(topic); (rule == "") != fine {
			t.Errorf("%q: %q", topic, rule)
		}
	}
}
