package mqtt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/mqtt"
)

func ptr[T any](v T) *T { return &v }

// What the broker says of itself is kept, and respected.
func TestFacts(t *testing.T) {
	s := newScript(t, &packets.Connack{SessionPresent: true, Properties: &packets.Properties{
		SessionExpiryInterval: ptr(uint32(60)), ServerKeepAlive: ptr(uint16(7)), MaximumQOS: ptr(byte(1)),
		MaximumPacketSize: ptr(uint32(200)), ReceiveMaximum: ptr(uint16(3)), RetainAvailable: ptr(byte(0)),
		SharedSubAvailable: ptr(byte(0)), WildcardSubAvailable: ptr(byte(0)), SubIDAvailable: ptr(byte(0)),
	}}, granting)
	c := connected(t, s.url, "c", withSession)
	want := mqtt.Facts{
		Connected: true, Broker: s.url, ClientID: "c", SessionPresent: true, SessionExpiry: time.Minute,
		KeepAlive: 7 * time.Second, MaximumQoS: 1, MaximumPacketSize: 200, ReceiveMaximum: 3, Connects: 1,
	}
	if diff := cmp.Diff(want, c.Facts(), cmpopts.IgnoreFields(mqtt.Facts{}, "Since")); diff != "" || c.Facts().Since.IsZero() {
		t.Error(diff)
	}

	var size *mqtt.SizeError
	if err := c.Publish(within(t), mqtt.Message{Topic: "a", Payload: make([]byte, 200)}); !errors.As(err, &size) || size.Max != 200 || size.Size != 207 {
		t.Errorf("%v", err)
	}
	var refused *mqtt.PublishError
	if err := c.Publish(within(t), mqtt.Message{Topic: "a", Retain: true}); !errors.As(err, &refused) || refused.Code != 0x9a {
		t.Errorf("%v", err)
	}
	if _, err := c.Retained(within(t), "a"); err == nil {
		t.Error("Retained without retain")
	}
	for filter, code := range map[string]byte{"$share/g/a": 0x9e, "a/+": 0xa2} {
		var refused *mqtt.SubscribeError
		err := c.Subscribe(within(t), newInbox().sub(filter))
		if !errors.As(err, &refused) || refused.Code != code || refused.Filter != filter {
			t.Errorf("%v", err)
		}
	}
	if n := len(s.packets(packets.SUBSCRIBE)) + len(s.packets(packets.PUBLISH)); n != 0 {
		t.Errorf("%d packets sent for nothing", n)
	}
	connect := s.packets(packets.CONNECT)[0].(*packets.Connect)
	if connect.CleanStart || *connect.Properties.SessionExpiryInterval != 3600 || connect.Properties.RequestProblemInfo != nil || connect.ClientID != "c" || connect.KeepAlive != 30 || connect.Properties.MaximumPacketSize == nil {
		t.Errorf("%+v", connect)
	}
}

func TestFactsQoS0(t *testing.T) {
	s := newScript(t, &packets.Connack{Properties: &packets.Properties{MaximumQOS: ptr(byte(0))}}, granting)
	c := connected(t, s.url, "c")
	var refused *mqtt.PublishError
	if err := c.Publish(within(t), mqtt.Message{Topic: "a", QoS: 1}); !errors.As(err, &refused) || refused.Code != 0x9b {
		t.Errorf("%v", err)
	}
}

// PUBACK has a reason code. 0x80 and more is a failure, less is none.
func TestPublishReasons(t *testing.T) {
	codes := map[byte]bool{0x00: true, 0x10: true, 0x80: false, 0x87: false, 0x90: false, 0x97: false, 0x99: false, 0xfe: false}
	s := newScript(t, &packets.Connack{}, func(p *packets.ControlPacket) []packets.Packet {
		publish := p.Content.(*packets.Publish)
		return []packets.Packet{&packets.Puback{PacketID: publish.PacketID, ReasonCode: publish.Payload[0], Properties: &packets.Properties{ReasonString: "because"}}}
	})
	c := connected(t, s.url, "c")
	for code, ok := range codes {
		err := c.Publish(within(t), mqtt.Message{Topic: "a", QoS: 1, Payload: []byte{code}})
		var refused *mqtt.PublishError
		switch {
		case ok && err != nil:
			t.Errorf("%#x: %v", code, err)
		case !ok && (!errors.As(err, &refused) || refused.Code != code || refused.Topic != "a" || refused.Temporary() != (code == 0x80 || code == 0x97)):
			t.Errorf("%#x: %v", code, err)
		}
	}
}

// No more publishes are in flight than the broker allows; the others wait their turn.
func TestReceiveMaximum(t *testing.T) {
	release := make(chan struct{})
	s := newScript(t, &packets.Connack{Properties: &packets.Properties{ReceiveMaximum: ptr(uint16(2))}}, nil)
	var held []packets.Packet
	s.answer = func(p *packets.ControlPacket) []packets.Packet {
		held = append(held, granting(p)...)
		if len(held) < 2 {
			return nil
		}
		<-release
		answers := held
		held = nil
		return answers
	}
	c := connected(t, s.url, "c")
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if err := c.Publish(within(t), mqtt.Message{Topic: "a", QoS: 1}); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 5 {
		eventually(t, "two in flight", func() bool { return len(s.packets(packets.PUBLISH)) == 2*(i+1) })
		release <- struct{}{}
	}
	all.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	go func() { // fills one of two places
		_ = c.Publish(ctx, mqtt.Message{Topic: "a", QoS: 1})
	}()
	go func() {
		_ = c.Publish(ctx, mqtt.Message{Topic: "a", QoS: 1})
	}()
	if err := c.Publish(ctx, mqtt.Message{Topic: "a", QoS: 1}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	close(release)
}

// A refused subscription is reported, kept from Ready, and asked for again while the others work.
func TestSubscriptionRefused(t *testing.T) {
	var mu sync.Mutex
	allowed := false
	s := newScript(t, &packets.Connack{}, func(p *packets.ControlPacket) []packets.Packet {
		answers := granting(p)
		if sub, ok := p.Content.(*packets.Subscribe); ok {
			mu.Lock()
			defer mu.Unlock()
			for i, o := range sub.Subscriptions {
				if o.Topic == "secret" && !allowed {
					answers[0].(*packets.Suback).Reasons[i] = 0x87
				}
			}
		}
		return answers
	})
	c := newConn(t, s.url, "c")
	testenv.Must(t, c.Subscribe(t.Context(), newInbox().sub("open"), newInbox().sub("secret")))
	run(t, c.Run)
	eventually(t, "refused", func() bool { return cmp.Equal(c.Facts().RefusedFilters, []string{"secret"}) })
	var refused *mqtt.SubscribeError
	if err := whyNotReady(t, c); !errors.As(err, &refused) || refused.Filter != "secret" || refused.Code != 0x87 {
		t.Error(err)
	}
	if err := c.Subscribe(within(t), newInbox().sub("secret")); !errors.As(err, &refused) {
		t.Error(err)
	}
	publish(t, c, mqtt.Message{Topic: "a", QoS: 1})
	mu.Lock()
	allowed = true
	mu.Unlock()
	ready(t, c)
	if f := c.Facts(); len(f.RefusedFilters) != 0 || f.Connects != 1 {
		t.Errorf("%+v", f)
	}
	// The filter that was refused while connected is forgotten, the first two are asked for by name.
	subscribes := s.packets(packets.SUBSCRIBE)
	if last := subscribes[len(subscribes)-1].(*packets.Subscribe); len(last.Subscriptions) != 1 || last.Subscriptions[0].Topic != "secret" {
		t.Errorf("%+v", last.Subscriptions)
	}
}

// An identifier the broker has in use is passed over (libraries: the embedded broker's table).
func TestSubscribeIdentifierInUse(t *testing.T) {
	n := 0
	s := newScript(t, &packets.Connack{}, func(p *packets.ControlPacket) []packets.Packet {
		answers := granting(p)
		if n++; n < 4 {
			answers[0].(*packets.Suback).Reasons[0] = 0x91
		}
		return answers
	})
	c := newConn(t, s.url, "c")
	subscribed(t, c, newInbox().sub("a"))
	ids := map[uint16]bool{}
	for _, p := range s.packets(packets.SUBSCRIBE) {
		ids[p.(*packets.Subscribe).PacketID] = true
	}
	if len(ids) != 4 {
		t.Errorf("%v", ids)
	}
}

// A refused CONNECT is a *ConnectError in what Ready says, without the password, and is tried
// again.
func TestConnectRefused(t *testing.T) {
	s := newScript(t, &packets.Connack{ReasonCode: 0x86, Properties: &packets.Properties{ReasonString: "no such user"}}, granting)
	c := newConn(t, s.url, "c", func(o *mqtt.Options) { o.Username, o.Password = "user", "s3cr3t" })
	run(t, c.Run)
	eventually(t, "two attempts", func() bool { return len(s.packets(packets.CONNECT)) >= 2 })
	err := whyNotReady(t, c)
	var refused *mqtt.ConnectError
	if !errors.As(err, &refused) || refused.Code != 0x86 || !errors.Is(err, mqtt.ErrDown) {
		t.Error(err)
	}
	if text := fmt.Sprintf("%v %+v", err, c.Facts()); strings.Contains(text, "s3cr3t") {
		t.Error(text)
	}
	if p := s.packets(packets.CONNECT)[0].(*packets.Connect); p.Username != "user" || string(p.Password) != "s3cr3t" || !p.CleanStart {
		t.Errorf("%+v", p)
	}
}

// A server that speaks no MQTT 5 is named as such, whether it refuses the version as MQTT 3.1.1 says, sends something else or closes the connection.
func TestNoMQTT5(t *testing.T) {
	for name, answer := range map[string]string{"MQTT 3.1.1 refuses the version": "\x20\x02\x00\x01", "MQTT 3.1.1 accepts": "\x20\x02\x00\x00", "closed": "",
		"HTTP": "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request", "SSH": "SSH-2.0-OpenSSH_9.2p1\r\n", "Redis": "-ERR unknown command\r\n", "SMTP": "220 mail.example.com ESMTP\r\n",
		"PUBLISH": "\x30\x02\x00\x09", "properties": "\x20\x05\x00\x00\x02\xff\x00",
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			testenv.Must(t, err)
			t.Cleanup(func() { l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = packets.ReadPacket(c)
					_, _ = io.WriteString(c, answer)
					c.Close()
				}
			}()
			c := newConn(t, "mqtt://"+l.Addr().String(), "c")
			run(t, c.Run)
			var refused *mqtt.ConnectError
			eventually(t, "a reason", func() bool {
				err = whyNotReady(t, c)
				return errors.Is(err, mqtt.ErrNoMQTT5) || errors.As(err, &refused)
			})
			if (refused != nil && refused.Code == 0x84) != strings.HasPrefix(name, "MQTT 3") {
				t.Error(err)
			}
		})
	}
}

// A broker that takes the connection and closes it is not called twenty times a second.
func TestFlappingBroker(t *testing.T) {
	s := newScript(t, &packets.Connack{}, func(*packets.ControlPacket) []packets.Packet { return []packets.Packet{nil} })
	c := newConn(t, s.url, "c")
	testenv.Must(t, c.Subscribe(t.Context(), newInbox().sub("a")))
	run(t, c.Run)
	eventually(t, "four attempts", func() bool { return len(s.packets(packets.CONNECT)) >= 4 })
	start := time.Now()
	eventually(t, "two more", func() bool { return len(s.packets(packets.CONNECT)) >= 6 })
	if d := time.Since(start); d < 500*time.Millisecond {
		t.Errorf("two attempts in %v", d)
	}
}

// A broker that drops the end marker of Retained, as one in need may with QoS 0, makes an error of it: who reads retained
// messages must not stand still without a word.
func TestRetainedWithoutEnd(t *testing.T) {
	var mu sync.Mutex
	dropped := 0
	s := newScript(t, &packets.Connack{}, func(p *packets.ControlPacket) []packets.Packet {
		if m, ok := p.Content.(*packets.Publish); ok {
			mu.Lock()
			defer mu.Unlock()
			if dropped++; dropped == 1 {
				return nil
			}
			return []packets.Packet{&packets.Publish{Topic: m.Topic, Payload: m.Payload, Properties: &packets.Properties{}}}
		}
		return granting(p)
	})
	c := connected(t, s.url, "c", func(o *mqtt.Options) { o.PublishTimeout = 3 * time.Second })
	if _, err := c.Retained(within(t), "a"); !errors.Is(err, mqtt.ErrTimeout) || !strings.Contains(err.Error(), "marker") {
		t.Errorf("err = %v, want ErrTimeout of the marker", err)
	}
	eventually(t, "the next comes to its end", func() bool {
		list, err := c.Retained(within(t), "a")
		return err == nil && len(list) == 0
	})
}

// What was on its way with QoS 0 when its subscription was taken back is no trouble: a broker may still send it. With QoS 1 it
// is left over in a session, which somebody wants to know.
func TestMessageWithoutSubscription(t *testing.T) {
	for qos, want := range []string{"DEBUG", "WARN"} {
		s := newScript(t, &packets.Connack{}, func(p *packets.ControlPacket) []packets.Packet {
			if p.Type != packets.PUBLISH {
				return granting(p)
			}
			id := uint16(qos)
			return []packets.Packet{
				&packets.Publish{Topic: "gone", QoS: byte(qos), PacketID: id, Properties: &packets.Properties{}},
				&packets.Publish{Topic: "a", Properties: &packets.Properties{}},
			}
		})
		var log bytes.Buffer // read when the handler of the message after it has run
		box := newInbox()
		c := newConn(t, s.url, "c", func(o *mqtt.Options) {
			o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		stop := subscribed(t, c, box.sub("a"))
		publish(t, c, mqtt.Message{Topic: "go"})
		box.next(t)
		stop()
		if text := log.String(); !strings.Contains(text, "level="+want+` msg="mqtt: message without subscription dropped"`) {
			t.Errorf("QoS %d: want %s, the log is\n%s", qos, want, text)
		}
	}
}
