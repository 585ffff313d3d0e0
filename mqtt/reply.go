package mqtt

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/lifecycle"
)

// replyMessage is reply as it goes to who sent request: correlation data verbatim, in the same form, and our own
// response topic as the way back for errors about it.
func (s *Server) replyMessage(request, reply cloudevent.Event) Message {
	reply.Delivery = cloudevent.Delivery{
		ResponseTopic:   s.o.ResponseTopic,
		CorrelationData: request.Delivery.CorrelationData,
		Form:            request.Delivery.Form,
	}
	if reply.ExpiryInterval == 0 {
		reply.ExpiryInterval = int64(seconds(s.o.Expiry))
	}
	return Encode(request.Delivery.ResponseTopic, reply)
}

// maxLost is how often a connection may end while one reply is on its way, before the reply is
// taken for the reason. Whoever asked asks again.
const maxLost = 10

// reply publishes until the broker has the reply, or has refused it: true, acknowledge. false:
// the broker sends the message again, or the server stops, so do not.
func (s *Server) reply(ctx context.Context, in *Inbound, request, reply cloudevent.Event) bool {
	m := s.replyMessage(request, reply)
	wait := 50 * time.Millisecond
	tooLarge, lost := false, 0
	for {
		// With the receiving connection away nobody knows yet whether the message comes again; an
		// answer now would be one of two.
		if in.delivery.fate() == unknown {
			if s.recv.connected(ctx) != nil && ctx.Err() != nil {
				return false
			}
		}
		if in.delivery.fate() == again {
			return false
		}
		err := s.pub.publishEncoded(ctx, m)
		size, over := errors.AsType[*SizeError](err)
		switch {
		case err == nil:
			s.count(&s.stats.Answered)
			return true
		case ctx.Err() != nil || errors.Is(err, ErrClosed):
			return false
		case over && !tooLarge:
			tooLarge = true
			refusal := s.refuse(ctx, request, cloudevent.Errorf(cloudevent.KindResourceExhausted,
				"the answer of %d bytes is larger than the broker takes (%d)", size.Size, size.Max))
			if refusal == nil {
				return true
			}
			m = s.replyMessage(request, *refusal)
			continue
		case errors.Is(err, ErrLost):
			lost++
		}
		if !transient(err) || lost >= maxLost {
			s.denied.note(m.Topic, err)
			s.count(&s.stats.ReplyFailed)
			s.log.Error("mqtt: reply not taken", "topic", s.recv.o.ShownTopic(in.Topic), "id", request.ID, "err", err)
			return true
		}
		s.log.Warn("mqtt: reply not sent yet", "topic", s.recv.o.ShownTopic(in.Topic), "id", request.ID, "err", err)
		if errors.Is(err, ErrDown) && s.pub.connected(ctx) != nil {
			return false
		}
		if !errors.Is(err, ErrDown) {
			if !lifecycle.Sleep(ctx, wait) {
				return false
			}
			wait = min(2*wait, 5*time.Second)
		}
	}
}

// transient reports whether the same publish may succeed later.
func transient(err error) bool {
	if refused, ok := errors.AsType[*PublishError](err); ok {
		return refused.Temporary()
	}
	return errors.Is(err, ErrDown) || errors.Is(err, ErrTimeout)
}

// denials remembers response topics the broker does not let us write to, for mosquitto 2.0.11
// answers such a publish with 0x87 and closes the connection: a requester with a wrong response
// topic would keep everyone's replies from going out.
type denials struct {
	mu     sync.Mutex
	topics map[string]time.Time // until when
}

const (
	denialLasts = time.Minute
	maxDenials  = 1000
)

func (d *denials) note(topic string, err error) {
	var refused *PublishError
	if !errors.As(err, &refused) || refused.Code != 0x87 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.topics == nil || len(d.topics) >= maxDenials {
		d.topics = make(map[string]time.Time)
	}
	d.topics[topic] = time.Now().Add(denialLasts)
}

func (d *denials) has(topic string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	until, ok := d.topics[topic]
	if ok && time.Now().After(until) {
		delete(d.topics, topic)
		return false
	}
	return ok
}
