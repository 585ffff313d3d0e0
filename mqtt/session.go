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
	wire    *wire // nil before CONNACK and when the connection is over
	waiting map[uint16]request
	lastID  map[bool]uint16 // by request.publish
	slots   chan struct{}   // one element per publish in flight; capacity = the broker's Receive Maximum
	order   []uint16        // deliveries not acknowledged, as they arrived
	unacked map[uint16]bool // those; true: it may be acknowledged
	came    int64           // deliveries of QoS 1 so far
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
		unacked: make(map[uint16]bool),
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
	s.wire = w.(*wire)
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

// AddToSession gives p, which is a SUBSCRIBE or an UNSUBSCRIBE, its identifier.
func (s *session) AddToSession(_ context.Context, p pahosession.Packet, done chan<- packets.ControlPacket) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wire == nil {
		return pahosession.ErrNoConnection
	}
	id, err := s.register(request{false, done})
	if err == nil {
		p.SetIdentifier(id)
	}
	return err
}

// publish writes m. With QoS 1 it first waits until the broker's Receive Maximum leaves room, not longer than late,
// and done gets the PUBACK, or a packet of no type when the connection ends before.
func (s *session) publish(ctx context.Context, late <-chan time.Time, m *Message, done chan<- packets.ControlPacket) error {
	if m.QoS > 0 {
		select {
		case s.slots <- struct{}{}:
		default:
			select {
			case s.slots <- struct{}{}:
			case <-s.lost:
				return ErrDown
			case <-late:
				return context.DeadlineExceeded
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	s.mu.Lock()
	w := s.wire
	var id uint16
	err := ErrDown
	if w != nil {
		err = nil
		if m.QoS > 0 {
			id, err = s.register(request{true, done})
		}
	}
	s.mu.Unlock()
	if err != nil {
		if m.QoS > 0 {
			<-s.slots
		}
		return err
	}

	frame := frames.Get().(*[]byte)
	defer frames.Put(frame)
	*frame = m.appendPublish((*frame)[:0], id)
	w.Lock()
	defer w.UnlockSoon()
	if _, err := w.Write(*frame); err == nil {
		_, _ = w.Write(m.Payload)
	}
	return nil // if writing fails the connection is over, and done is told
}

// frames are buffers for packets without their payload.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// register finds an identifier not in use for r. s.mu is held.
func (s *session) register(r request) (uint16, error) {
	first, last := uint16(firstOtherID), uint16(lastOtherID)
	if r.publish {
		first, last = firstPublishID, lastPublishID
	}
	id := s.lastID[r.publish]
	for range int(last-first) + 1 {
		if id < first || id == last {
			id = first
		} else {
			id++
		}
		if _, used := s.waiting[id]; !used {
			s.lastID[r.publish] = id
			s.waiting[id] = r
			return id, nil
		}
	}
	return 0, pahosession.ErrPacketIdentifiersExhausted
}

// PacketReceived gives an answer to who waits for it. Deliveries and most PUBACKs do not come
// this way: see wire.
func (s *session) PacketReceived(p *packets.ControlPacket, _ chan<- *packets.Publish) error {
	s.answer(p.PacketID(), *p)
	return nil
}

// success is a PUBACK that says no more than that. It is not changed.
var success = packets.ControlPacket{Content: new(packets.Puback)}

// acknowledged is a PUBACK of success.
func (s *session) acknowledged(id uint16) { s.answer(id, success) }

func (s *session) answer(id uint16, p packets.ControlPacket) {
	s.mu.Lock()
	r, ok := s.waiting[id]
	delete(s.waiting, id)
	s.mu.Unlock()
	if !ok {
		return
	}
	if r.publish {
		<-s.slots
	}
	r.done <- p
}

// arrived notes a delivery of QoS 1. It is called in the order of arrival.
func (s *session) arrived(id uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.unacked[id]; !known {
		s.unacked[id] = false
		s.order = append(s.order, id)
		s.came++
	}
}

// settle allows the acknowledgement of a delivery. It is sent, with others, once all that
// arrived earlier are settled too: PUBACKs follow the order of arrival [MQTT-4.6.0-2].
// false: the connection the delivery came on is over.
func (s *session) settle(id uint16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.unacked[id]
	if !known || s.wire == nil {
		return false
	}
	s.unacked[id] = true
	if s.order[0] == id && !s.due {
		s.due = true
		time.AfterFunc(ackDelay, s.acknowledge)
	}
	return true
}

// unsettled is how many deliveries of QoS 1 were not acknowledged, and came is how many there were in all.
func (s *session) unsettled() (n int, came int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.order), s.came
}

// acknowledge sends a PUBACK for every delivery that is settled and has no unsettled one before it.
func (s *session) acknowledge() {
	s.ackMu.Lock()
	defer s.ackMu.Unlock()
	s.mu.Lock()
	s.due = false
	var acks []byte
	for len(s.order) > 0 && s.unacked[s.order[0]] {
		id := s.order[0]
		s.order = s.order[1:]
		delete(s.unacked, id)
		acks = append(acks, packets.PUBACK<<4, 2, byte(id>>8), byte(id))
	}
	w := s.wire
	s.mu.Unlock()
	if w == nil || len(acks) == 0 {
		return
	}
	w.Lock()
	defer w.UnlockSoon()
	_, _ = w.Write(acks) // if it fails the connection is over, and the broker sends them again
}

// Ack is called by the library when a delivery was passed on, which is too early: settle it is.
func (s *session) Ack(*packets.Publish) error { return nil }

// Close, SetErrorLogger and SetDebugLogger complete the library's interface.
func (s *session) Close() error              { return nil }
func (s *session) SetErrorLogger(log.Logger) {}
func (s *session) SetDebugLogger(log.Logger) {}
