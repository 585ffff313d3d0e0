package mqtt

import (
	"errors"
	"fmt"
)

var (
	// ErrDown: there is no connection; nothing was sent. Wait for Ready and repeat.
	ErrDown = errors.New("mqtt: not connected")

	// ErrLost is an ErrDown where the connection ended before the broker acknowledged: it may
	// have the message or not. Repeating makes it at least once.
	ErrLost = fmt.Errorf("%w: connection lost before the acknowledgement", ErrDown)

	// ErrTimeout: no acknowledgement within PublishTimeout though the connection stands; the
	// outcome is as unknown as with ErrLost.
	ErrTimeout = errors.New("mqtt: no acknowledgement in time")

	// ErrClosed is an ErrDown that lasts: Run has returned.
	ErrClosed = fmt.Errorf("%w: connection is closed for good", ErrDown)
)

// A PublishError is a broker's refusal of one message (PUBACK with a reason of 0x80 or more,
// or a limit it named in CONNACK). The message was not taken.
type PublishError struct {
	Topic  string // as Options.ShownTopic shows it
	Code   byte   // reason code, MQTT 5 2.4
	Reason string // name of the code, and the broker's own words if it gave any
}

func (e *PublishError) Error() string {
	return fmt.Sprintf("mqtt: broker refused %s: %#02x %s", e.Topic, e.Code, e.Reason)
}

// Temporary reports whether the same message may be taken later: quota exceeded and errors
// without a nearer reason. Not authorized, a bad topic or format are for an operator.
func (e *PublishError) Temporary() bool {
	switch e.Code {
	case 0x80, 0x83, 0x88, 0x89, 0x91, 0x93, 0x96, 0x97:
		return true
	}
	return false
}

// A SizeError: the message is larger than the broker's Maximum Packet Size, and sending it
// would end the connection.
type SizeError struct {
	Topic     string // as Options.ShownTopic shows it
	Size, Max int    // bytes of the whole packet
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("mqtt: %s: a packet of %d bytes, the broker takes %d", e.Topic, e.Size, e.Max)
}

// A SubscribeError: the broker refused a filter (SUBACK with a reason of 0x80 or more).
type SubscribeError struct {
	Filter string
	Code   byte
	Reason string
}

func (e *SubscribeError) Error() string {
	return fmt.Sprintf("mqtt: broker refused the subscription to %s: %#02x %s", e.Filter, e.Code, e.Reason)
}

// ErrNoMQTT5: what is behind the URL answers CONNECT, or a handshake of TLS or WebSocket, with something else, such as a CONNACK of an earlier MQTT, or closes the connection. Use a broker for MQTT 5, and check port and TLS.
var ErrNoMQTT5 = errors.New("it speaks no MQTT 5, or port or TLS is wrong")

const codeUnsupportedProtocol = 0x84

// A ConnectError: the broker answered CONNECT with a refusal.
type ConnectError struct {
	Code   byte
	Reason string
}

func (e *ConnectError) Error() string {
	return fmt.Sprintf("mqtt: broker refused the connection: %#02x %s", e.Code, e.Reason)
}

// reasons are the names of MQTT 5, 2.4 that a client can meet.
var reasons = map[byte]string{
	0x80: "unspecified error", 0x81: "malformed packet", 0x82: "protocol error",
	0x83: "implementation specific error", 0x84: "unsupported protocol version",
	0x85: "client identifier not valid", 0x86: "bad user name or password",
	0x87: "not authorized", 0x88: "server unavailable", 0x89: "server busy", 0x8a: "banned",
	0x8b: "server shutting down", 0x8c: "bad authentication method", 0x8d: "keep alive timeout",
	0x8e: "session taken over by another connection with this client id",
	0x8f: "topic filter invalid", 0x90: "topic name invalid", 0x91: "packet identifier in use",
	0x92: "packet identifier not found", 0x93: "receive maximum exceeded",
	0x94: "topic alias invalid", 0x95: "packet too large", 0x96: "message rate too high",
	0x97: "quota exceeded", 0x98: "administrative action", 0x99: "payload format invalid",
	0x9a: "retain not supported", 0x9b: "QoS not supported", 0x9c: "use another server",
	0x9d: "server moved", 0x9e: "shared subscriptions not supported",
	0x9f: "connection rate exceeded", 0xa0: "maximum connect time",
	0xa1: "subscription identifiers not supported", 0xa2: "wildcard subscriptions not supported",
}

// codeTakenOver is what a broker says when another connection uses our client id.
const codeTakenOver = 0x8e

func reason(code byte, words string) string {
	name, ok := reasons[code]
	if !ok {
		name = "unknown reason"
	}
	if words != "" {
		name += ": " + words
	}
	return name
}
