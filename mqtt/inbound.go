package mqtt

import (
	"sync/atomic"
	"time"
)

// Inbound is a message that came.
type Inbound struct {
	Message
	Duplicate bool      // the broker may have sent it before
	Arrived   time.Time // when it was read from the network

	delivery *delivery
	acked    atomic.Bool
}

// Ack acknowledges the message; call it after its effect is stored, or when it shall have none.
// It does not block and may be called once or often, in any order: the broker gets
// acknowledgements in the order of arrival, so one message that is never acknowledged holds up
// all behind it. ErrDown: the connection it came on is over; if the broker kept the session it
// sends the message again.
func (in *Inbound) Ack() error {
	if in.acked.Swap(true) {
		return nil
	}
	return in.delivery.ack()
}

// delivery is one packet from the broker, shared by the subscriptions it was handed to.
type delivery struct {
	conn *Conn
	link *link
	id   uint16
	qos  byte
	left atomic.Int32 // subscriptions that have not acknowledged
	size int          // of the budget
	free atomic.Bool  // it was given back
}

// release gives back what the message took of the budget: it is out of hand.
func (d *delivery) release() {
	if !d.free.Swap(true) {
		d.conn.budget.give(d.size)
	}
}

func (d *delivery) ack() error {
	if d.left.Add(-1) > 0 {
		return nil
	}
	d.release()
	if d.qos == 0 || d.link.session.settle(d.id) {
		return nil
	}
	return ErrDown
}

// fate of a message not yet acknowledged.
type fate int

const (
	live    fate = iota // its connection stands
	unknown             // its connection is over and there is no new one yet
	again               // the broker kept the session: it sends the message again
	orphan              // the session is gone: nobody sends it again
)

func (d *delivery) fate() fate {
	c := d.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.link == d.link && d.link.up():
		return live
	case c.link == d.link || c.link == nil:
		if c.closed {
			return again // nothing more will be known here; the next process with the session meets it
		}
		if d.link.up() {
			return live // CONNACK is in, Run is about to take the connection over
		}
		return unknown
	case d.qos == 1 && c.link.session.number == d.link.session.number:
		return again
	}
	return orphan
}
