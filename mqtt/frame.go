package mqtt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// PUBLISH is the packet that comes and goes by the thousand. The library's decoder makes about
// 40 kB of garbage of one with ten user properties, so this one packet is read and written here.
// Both ways are tested against the library.

// identifiers of the properties of PUBLISH, MQTT 5 3.3.2.3
const (
	propPayloadFormat   = 0x01
	propExpiry          = 0x02
	propContentType     = 0x03
	propResponseTopic   = 0x08
	propCorrelationData = 0x09
	propSubscriptionID  = 0x0b
	propUser            = 0x26
)

// arrival is a PUBLISH from the broker.
type arrival struct {
	Message
	id        uint16 // 0 with QoS 0
	duplicate bool
	at        time.Time // set by the reader of the connection
}

// errMalformed ends the connection: what follows cannot be trusted [MQTT-4.13.1-1].
var errMalformed = errors.New("mqtt: the broker sent a malformed PUBLISH")

// parsePublish reads what follows the fixed header. All texts share one copy of what is before the payload. With keep the payload is part of body; else it and the
// correlation data share another copy, and nothing of body is kept.
func parsePublish(flags byte, body []byte, keep bool) (a arrival, err error) {
	a.QoS, a.Retain, a.duplicate = flags>>1&3, flags&1 == 1, flags&8 != 0
	if a.QoS > 1 { // we never ask for 2
		return a, errMalformed
	}
	first := reader[[]byte]{rest: body}
	topic := len(first.text())
	if a.QoS == 1 {
		if a.id = uint16(first.uint(2)); a.id == 0 {
			return a, errMalformed
		}
	}
	length := first.varInt()
	first.take(length)
	if first.bad {
		return a, errMalformed
	}
	payload := first.rest
	head := string(body[:len(body)-len(payload)])
	a.Topic = head[2 : 2+topic]
	correlation := ""
	r := reader[string]{rest: head[len(head)-length:]}
	for len(r.rest) > 0 {
		switch id := r.uint(1); id {
		case propPayloadFormat:
			a.UTF8 = r.uint(1) == 1
		case propExpiry:
			a.Expiry = time.Duration(r.uint(4)) * time.Second
		case propContentType:
			a.ContentType = r.text()
		case propResponseTopic:
			a.ResponseTopic = r.text()
		case propCorrelationData:
			correlation = r.text()
		case propSubscriptionID:
			r.varInt()
		case propUser:
			if a.User == nil {
				a.User = make([]UserProperty, 0, usualProperties)
			}
			name := r.text()
			a.User = append(a.User, UserProperty{name, r.text()})
		default: // a topic alias too: we allow none
			return a, fmt.Errorf("%w: property %#x", errMalformed, id)
		}
	}
	if r.bad {
		return a, errMalformed
	}
	n := len(correlation)
	if keep {
		a.Payload = payload
		if n > 0 {
			a.CorrelationData = []byte(correlation)
		}
		return a, nil
	}
	data := append(append(make([]byte, 0, n+len(payload)), correlation...), payload...)
	a.Payload = data[n:]
	if n > 0 {
		a.CorrelationData = data[:n:n]
	}
	return a, nil
}

// reader takes a packet apart; bad is set when it was too short.
type reader[T string | []byte] struct {
	rest T
	bad  bool
}

func (r *reader[T]) take(n int) T {
	if n < 0 || n > len(r.rest) {
		r.bad, n = true, len(r.rest)
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

// uint reads a number of n bytes.
func (r *reader[T]) uint(n int) (v uint32) {
	b := r.take(n)
	for i := range len(b) {
		v = v<<8 | uint32(b[i])
	}
	return v
}

func (r *reader[T]) text() T { return r.take(int(r.uint(2))) }

// varInt reads a variable byte integer; -1 when it has more than four bytes.
func (r *reader[T]) varInt() int {
	n := 0
	for shift := 0; shift < 28; shift += 7 {
		b := r.uint(1)
		n |= int(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
	return -1
}

// appendPublish appends the packet of m up to its payload. m has passed check.
func (m *Message) appendPublish(b []byte, id uint16) []byte {
	flags := byte(0x30) | m.QoS<<1
	if m.Retain {
		flags |= 1
	}
	properties, rest := m.sizes()
	b = append(b, flags)
	b = appendVarInt(b, rest)
	b = appendText(b, m.Topic)
	if m.QoS > 0 {
		b = binary.BigEndian.AppendUint16(b, id)
	}
	b = appendVarInt(b, properties)
	if m.UTF8 {
		b = append(b, propPayloadFormat, 1)
	}
	if m.Expiry > 0 {
		b = append(b, propExpiry)
		b = binary.BigEndian.AppendUint32(b, seconds(m.Expiry))
	}
	if m.ContentType != "" {
		b = appendText(append(b, propContentType), m.ContentType)
	}
	if m.ResponseTopic != "" {
		b = appendText(append(b, propResponseTopic), m.ResponseTopic)
	}
	if len(m.CorrelationData) > 0 {
		b = appendText(append(b, propCorrelationData), m.CorrelationData)
	}
	for _, u := range m.User {
		b = appendText(append(b, propUser), u.Name)
		b = appendText(b, u.Value)
	}
	return b
}

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(text))), text...)
}

func appendVarInt(b []byte, n int) []byte {
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}
