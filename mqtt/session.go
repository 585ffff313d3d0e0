package mqtt

import (
	"context"
	"io"
	"math"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho/log"
	pahosession "github.com/eclipse/paho.golang/paho/session"
)

// ackDelay is how long an acknowledgement may wait for others to share its packet write.
const ackDelay = time.Millisecond

// Packet identifiers: publishes take the low ones, subscribes the high ones. The embedded
// broker keeps one table for both directions and counts its own from 1, so that a subscribe
// after a resumed session would meet an identifier in use.
const (
	firstPublishID, lastPublishID = 1, 0xefff
	firstOtherID, lastOtherID     = 0xf000, 0xffff
)

// session is the client's half of one connection's state: packet identifiers, publishes in
// flight, and deliveries not yet acknowledged.
//
// It replaces the library's own, which outlives connections and sends unacknowledged publishes
// again behind the caller's back, stores every packet a second time, and sends acknowledgements
// by a ticker. Here a connection that ends fails its publishes at once: the caller has an
// outbox and knows what to repeat. A lost PUBACK only means that the broker sends the message
// again.
type session struct {
	lost   chan struct{}          // closed when the connection is over
	begin  func(present bool) int // numbers the broker's sessions
	number int                    // which of them this connection continues

	mu      sync.Mutex
	wire    io.Writer // nil before CONNACK and when the connection is over
	waiting map[uint16]request
	lastID  map[bool]uint16 // by request.publish
	slots   chan struct{}   // one element per publish in flight; capacity = the broker's Receive Maximum
	order   []uint16        // deliveries not acknowledged, as they arrived
	settled map[uint16]bool // of those: may be acknowledged
	due     bool            // an acknowledgement run is under way
	bye     *packets.Disconnect

	ackMu sync.Mutex // keeps acknowledgements in order over several runs
}

type request struct {
	publish bool
	done    chan<- packets.ControlPacket // of capacity 1
}

func newSession(begin func(present bool) int) *session {
	return &session{
		begin:   begin,
		lost:    make(chan struct{}),
		waiting: make(map[uint16]request),
		lastID:  make(map[bool]uint16),
		settled: make(map[uint16]bool),
	}
}

// ConAckReceived starts the session: the library has a CONNACK without error.
func (s *session) ConAckReceived(w io.Writer, _ *packets.Connect, ack *packets.Connack) error {
	inFlight := uint16(math.MaxUint16)
	if ack.Properties != nil && ack.Properties.ReceiveMaximum != nil {
		inFlight = *ack.Properties.ReceiveMaximum
	}
	s.number = s.begin(ack.SessionPresent) // nothing reads it before the library's readers start
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wire = w
	s.slots = make(chan struct{}, max(1, min(inFlight, lastPublishID)))
	return nil
}

// ConnectionLost ends it; every request waiting is told. bye is the broker's reason, if it gave one.
func (s *session) ConnectionLost(bye *packets.Disconnect) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wire == nil {
		return nil
	}
	s.wire, s.bye = nil, bye
	close(s.lost)
	for _, r := range s.waiting {
		r.done <- packets.ControlPacket{} // the library's word for "over"
	}
	clear(s.waiting)
	return nil
}

// goodbye is the broker's DISCONNECT, nil if it sent none.
func (s *session) goodbye() *packets.Disconnect {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bye
}

// AddToSession gives p its identifier. For a publish it first waits until the broker's
// Receive Maximum leaves room.
func (s *session) AddToSession(ctx context.Context, p pahosession.Packet, done chan<- packets.ControlPacket) error {
	publish := p.Type() == packets.PUBLISH
	if publish {
		select {
		case s.slots <- struct{}{}:
		default:
			select {
			case s.slots <- struct{}{}:
			case <-s.lost:
				return pahosession.ErrNoConnection
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := pahosession.ErrNoConnection
	if s.wire != nil {
		var id uint16
		if id, err = s.nextID(publish); err == nil {
			s.waiting[id] = request{publish, done}
			p.SetIdentifier(id)
			return nil
		}
	}
	if publish {
		<-s.slots
	}
	return err
}

// nextID returns an identifier not in use. s.mu is held.
func (s *session) nextID(publish bool) (uint16, error) {
	first, last := uint16(firstOtherID), uint16(lastOtherID)
	if publish {
		first, last = firstPublishID, lastPublishID
	}
	id := s.lastID[publish]
	for range int(last-first) + 1 {
		if id < first || id == last {
			id = first
		} else {
			id++
		}
		if _, used := s.waiting[id]; !used {
			s.lastID[publish] = id
			return id, nil
		}
	}
	return 0, pahosession.ErrPacketIdentifiersExhausted
}

// PacketReceived sorts out what the broker sent: answers to requests, and deliveries, which
// are noted in the order of arrival and passed on.
func (s *session) PacketReceived(p *packets.ControlPacket, deliver chan<- *packets.Publish) error {
	switch content := p.Content.(type) {
	case *packets.Puback, *packets.Suback, *packets.Unsuback:
		s.mu.Lock()
		r, ok := s.waiting[p.PacketID()]
		delete(s.waiting, p.PacketID())
		s.mu.Unlock()
		if ok {
			if r.publish {
				<-s.slots
			}
			r.done <- *p
		}
	case *packets.Publish:
		s.mu.Lock()
		if _, known := s.settled[content.PacketID]; !known {
			s.settled[content.PacketID] = false
			s.order = append(s.order, content.PacketID)
		}
		s.mu.Unlock()
		deliver <- content
	}
	return nil // the packets of QoS 2 cannot come: we subscribe and publish with 0 and 1
}

// settle allows the acknowledgement of a delivery. It is sent, with others, once all that
// arrived earlier are settled too: PUBACKs follow the order of arrival [MQTT-4.6.0-2].
// false: the connection the delivery came on is over.
func (s *session) settle(id uint16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.settled[id]; !known || s.wire == nil {
		return false
	}
	s.settled[id] = true
	if s.order[0] == id && !s.due {
		s.due = true
		time.AfterFunc(ackDelay, s.acknowledge)
	}
	return true
}

// acknowledge sends a PUBACK for every delivery that is settled and has no unsettled one before it.
func (s *session) acknowledge() {
	s.ackMu.Lock()
	defer s.ackMu.Unlock()
	s.mu.Lock()
	s.due = false
	var acks []byte
	for len(s.order) > 0 && s.settled[s.order[0]] {
		id := s.order[0]
		s.order = s.order[1:]
		delete(s.settled, id)
		acks = append(acks, packets.PUBACK<<4, 2, byte(id>>8), byte(id))
	}
	w := s.wire
	s.mu.Unlock()
	if w == nil || len(acks) == 0 {
		return
	}
	if l, ok := w.(sync.Locker); ok {
		l.Lock()
		defer l.Unlock()
	}
	_, _ = w.Write(acks) // if it fails the connection is over, and the broker sends them again
}

// Ack is called by the library when a delivery was passed on, which is too early: settle it is.
func (s *session) Ack(*packets.Publish) error { return nil }

// Close, SetErrorLogger and SetDebugLogger complete the library's interface.
func (s *session) Close() error              { return nil }
func (s *session) SetErrorLogger(log.Logger) {}
func (s *session) SetDebugLogger(log.Logger) {}
