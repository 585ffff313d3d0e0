package mqtt

import (
	"context"
	"hash/fnv"
	"runtime/debug"
	"sync"
	"time"

	"github.com/taktworks/takt/cloudevent"
)

// lane is a queue handled by one goroutine, which begins with its first message: one for each would grow its stack
// anew each time. It is bounded by what the broker may send without acknowledgements.
type lane struct {
	mu      sync.Mutex
	more    sync.Cond // there is a message, or the goroutine is to end
	waiting []*Inbound
	isOpen  bool
	busy    bool // it has its goroutine
}

// take puts a message in its lane. The connection calls it in order of arrival.
func (s *Server) take(_ context.Context, in *Inbound) {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(s.o.Lane(in.Message)))
	l := &s.lanes[int(hash.Sum32())%len(s.lanes)]
	l.mu.Lock()
	defer l.mu.Unlock()
	if in.QoS == 0 && len(l.waiting) >= maxWaitingQoS0 {
		s.count(&s.stats.Overflow)
		in.delivery.release()
		return
	}
	l.waiting = append(l.waiting, in)
	s.wake(l)
}

func (s *Server) open(l *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isOpen = true
	s.wake(l)
}

// wake wakes the goroutine of the lane if a message waits, and starts it if there is none. l.mu is held.
func (s *Server) wake(l *lane) {
	switch {
	case !l.isOpen || len(l.waiting) == 0:
	case l.busy:
		l.more.Signal()
	default:
		l.busy = true
		s.running.Go(func() {
			for in := l.next(); in != nil; in = l.next() {
				s.serve(s.ctx, in)
			}
		})
	}
}

// next waits for the message to handle, and returns nil when the lane is closed.
func (l *lane) next() *Inbound {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.isOpen && len(l.waiting) == 0 {
		l.more.Wait()
	}
	if !l.isOpen {
		l.busy = false
		return nil
	}
	in := l.waiting[0]
	l.waiting[0] = nil
	l.waiting = l.waiting[1:]
	return in
}

func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isOpen = false
	l.more.Signal()
}

// stuck is how long a call of Handler.Handle may take before the log names it.
const stuck = time.Minute

// call is Handler.Handle; a panic becomes an error the requester is told.
func (s *Server) call(ctx context.Context, e cloudevent.Event) (reply *cloudevent.Event, err error) {
	defer time.AfterFunc(stuck, func() {
		s.log.Error("mqtt: a message is being handled for a minute: the acknowledgements of all that came after it wait", "topic", s.recv.o.ShownTopic(e.Delivery.Topic),
			"type", e.Type, "source", e.Source, "id", e.ID)
	}).Stop()
	defer func() {
		if p := recover(); p != nil {
			s.panicked(e, p)
			err = cloudevent.Errorf(cloudevent.KindInternalLogicError, "an error in the program; it was logged")
		}
	}()
	return s.o.Handler.Handle(ctx, e)
}

// refuse is Handler.Refuse. A panic in it costs the answer.
func (s *Server) refuse(ctx context.Context, e cloudevent.Event, why *cloudevent.Error) (reply *cloudevent.Event) {
	s.count(&s.stats.Refused)
	if e.Delivery.ResponseTopic == "" {
		s.count(&s.stats.Unanswered)
		s.log.Warn("mqtt: refused; no answer was asked for", "topic", s.recv.o.ShownTopic(e.Delivery.Topic), "source", e.Source, "id", e.ID, "err", why)
	}
	defer func() {
		if p := recover(); p != nil {
			s.panicked(e, p)
			reply = nil
		}
	}()
	return s.o.Handler.Refuse(ctx, e, why)
}

func (s *Server) panicked(e cloudevent.Event, p any) {
	s.count(&s.stats.Panics)
	s.log.Error("mqtt: handler panicked", "topic", s.recv.o.ShownTopic(e.Delivery.Topic), "type", e.Type, "source", e.Source, "id", e.ID,
		"panic", p, "stack", string(debug.Stack()))
}
