package mqtt

import (
	"fmt"
	"math"
	"time"
)

// Message is a publish packet without its transport: what one side gives and the other gets.
type Message struct {
	Topic   string
	Payload []byte
	QoS     byte // 0 or 1
	Retain  bool // going out: keep for later subscribers; coming in: was kept

	ContentType     string
	ResponseTopic   string
	CorrelationData []byte
	Expiry          time.Duration // whole seconds, rounded up; 0: none; coming in: what was left of it
	UTF8            bool          // payload format indicator: the payload is text
	User            []UserProperty
}

// UserProperty is a name and a value. Names may repeat and keep their order.
type UserProperty struct{ Name, Value string }

// usualProperties are as many user properties as most messages have at most.
const usualProperties = 12

// check returns a *MessageError for what no broker takes. Most brokers close the connection on
// such a packet, and with it fails whatever else is under way.
func (m *Message) check() error {
	if err := m.checkEncoded(); err != nil {
		return err
	}
	if m.QoS > 1 {
		return messageError("topic", m.Topic, fmt.Sprintf("QoS %d: want 0 or 1", m.QoS))
	}
	if m.Expiry < 0 {
		return messageError("topic", m.Topic, fmt.Sprintf("Expiry %v: want 0 or more", m.Expiry))
	}
	if rule := textRule(m.ContentType); rule != "" {
		return messageError("content type", m.ContentType, rule)
	}
	for _, u := range m.User {
		if rule := textRule(u.Name); rule != "" {
			return messageError("user property name", u.Name, rule)
		}
		if rule := textRule(u.Value); rule != "" {
			return messageError("user property "+u.Name, u.Value, rule)
		}
	}
	return nil
}

// checkEncoded is check for a message as Encode made it: all other text in it is clean.
func (m *Message) checkEncoded() error {
	if err := CheckTopic(m.Topic); err != nil {
		return err
	}
	if m.ResponseTopic != "" {
		if rule := topicRule(m.ResponseTopic); rule != "" {
			return messageError("response topic", m.ResponseTopic, rule)
		}
	}
	if len(m.CorrelationData) > math.MaxUint16 {
		return messageError("correlation data", "", "longer than 65535 bytes")
	}
	return nil
}

// size is the length of the whole packet in bytes.
func (m *Message) size() int {
	_, rest := m.sizes()
	return 1 + varInt(rest) + rest
}

// sizes are the lengths of the properties, and of all that follows the fixed header.
func (m *Message) sizes() (properties, rest int) {
	text := func(n int) {
		if n > 0 {
			properties += 3 + n
		}
	}
	if m.UTF8 {
		properties += 2
	}
	if m.Expiry > 0 {
		properties += 5
	}
	text(len(m.ContentType))
	text(len(m.ResponseTopic))
	text(len(m.CorrelationData))
	for _, u := range m.User {
		properties += 5 + len(u.Name) + len(u.Value)
	}
	rest = 2 + len(m.Topic) + varInt(properties) + properties + len(m.Payload)
	if m.QoS > 0 {
		rest += 2
	}
	return properties, rest
}

// varInt is the length of n as a variable byte integer.
func varInt(n int) int {
	switch {
	case n < 1<<7:
		return 1
	case n < 1<<14:
		return 2
	case n < 1<<21:
		return 3
	}
	return 4
}

// maxMQTT is the largest packet of the protocol: a remaining length of four bytes.
const maxMQTT = 1 + 4 + 268_435_455
