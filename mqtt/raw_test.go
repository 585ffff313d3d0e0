package mqtt_test

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/mqtt"
)

// rawPublish publishes what mqtt itself refuses to send, and reports whether the broker took it.
func rawPublish(t testing.TB, addr string, m mqtt.Message) bool {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	testenv.Must(t, err)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	connect := packets.NewControlPacket(packets.CONNECT)
	connect.Content.(*packets.Connect).ClientID = "raw"
	connect.Content.(*packets.Connect).CleanStart = true
	if _, err := connect.WriteTo(conn); err != nil {
		t.Fatal(err)
	}
	if p, err := packets.ReadPacket(conn); err != nil || p.Type != packets.CONNACK {
		t.Fatal(err)
	}
	publish := &packets.Publish{Topic: m.Topic, Payload: m.Payload, QoS: 1, PacketID: 1, Properties: &packets.Properties{ResponseTopic: m.ResponseTopic}}
	for _, u := range m.User {
		publish.Properties.User = append(publish.Properties.User, packets.User{Key: u.Name, Value: u.Value})
	}
	if _, err := publish.WriteTo(conn); err != nil {
		t.Fatal(err)
	}
	p, err := packets.ReadPacket(conn)
	if err != nil || p.Type != packets.PUBACK {
		return false
	}
	return p.Content.(*packets.Puback).ReasonCode < 0x80
}

// script is a broker that answers as a test says.
type script struct {
	url     string
	connack *packets.Connack
	// answer is called for every packet but CONNECT, PINGREQ and DISCONNECT; what it returns is
	// sent. It may be called by several connections at once.
	answer func(p *packets.ControlPacket) []packets.Packet

	mu   sync.Mutex
	seen []*packets.ControlPacket
}

func newScript(t testing.TB, connack *packets.Connack, answer func(p *packets.ControlPacket) []packets.Packet) *script {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.Must(t, err)
	if connack.Properties == nil {
		connack.Properties = &packets.Properties{}
	}
	s := &script{url: "mqtt://" + l.Addr().String(), connack: connack, answer: answer}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait() // the clients' own clean-up, which runs before, closes the connections
	})
	return s
}

func (s *script) serve(conn net.Conn) {
	defer conn.Close()
	for {
		p, err := packets.ReadPacket(conn)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.seen = append(s.seen, p)
		s.mu.Unlock()
		var answers []packets.Packet
		switch p.Type {
		case packets.CONNECT:
			answers = []packets.Packet{s.connack}
		case packets.PINGREQ:
			answers = []packets.Packet{&packets.Pingresp{}}
		case packets.DISCONNECT:
			return
		default:
			answers = s.answer(p)
		}
		for _, a := range answers {
			if a == nil { // close
				return
			}
			if _, err := a.(io.WriterTo).WriteTo(conn); err != nil {
				return
			}
		}
	}
}

// packets returns what came of one type.
func (s *script) packets(kind byte) []packets.Packet {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []packets.Packet
	for _, p := range s.seen {
		if p.Type == kind {
			list = append(list, p.Content)
		}
	}
	return list
}

// granting answers as a broker does that takes everything.
func granting(p *packets.ControlPacket) []packets.Packet {
	switch c := p.Content.(type) {
	case *packets.Publish:
		return []packets.Packet{&packets.Puback{PacketID: c.PacketID, Properties: &packets.Properties{}}}
	case *packets.Subscribe:
		reasons := make([]byte, len(c.Subscriptions))
		for i := range reasons {
			reasons[i] = c.Subscriptions[i].QoS
		}
		return []packets.Packet{&packets.Suback{PacketID: c.PacketID, Reasons: reasons, Properties: &packets.Properties{}}}
	case *packets.Unsubscribe:
		return []packets.Packet{&packets.Unsuback{PacketID: c.PacketID, Reasons: make([]byte, len(c.Topics)), Properties: &packets.Properties{}}}
	}
	return nil
}

func connackOK() *packets.Connack { return &packets.Connack{} }

func (s *script) connects() []*packets.Connect {
	var list []*packets.Connect
	for _, p := range s.packets(packets.CONNECT) {
		list = append(list, p.(*packets.Connect))
	}
	return list
}
