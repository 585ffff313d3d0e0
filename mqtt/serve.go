package mqtt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/lifecycle"
)

// A Handler decides what a message is answered. It is called by several goroutines at once, but
// for one lane in order. It does not publish.
type Handler interface {
	// Handle takes an event and returns its reply, nil for none. When it returns without error
	// the event's effect is stored. A *cloudevent.Error becomes a refusal. Any other error means
	// that nothing was decided (the store is away, say): see Server for what follows.
	//
	// An event may come again with the same source and id, and must then get the same reply.
	// ctx ends when the event is given up, at the latest with the Server; it need not end when Handle
	// returns: what Handle begins with it must end by itself.
	Handle(ctx context.Context, e cloudevent.Event) (*cloudevent.Event, error)

	// Refuse makes the answer to an event that could not be read, or was not handled, nil for
	// none. e holds what could be read.
	Refuse(ctx context.Context, e cloudevent.Event, why *cloudevent.Error) *cloudevent.Event
}

// ServerOptions of a Server. The zero value of a field means its default.
type ServerOptions struct {
	Filters []string // to subscribe to, QoS 1; shared ones ($share/{name}/...) too; at least one
	Handler Handler  // required

	// Silent says of an event that it gets no reply: its response topic means nothing, and Handle gets it also if it cannot be read, with
	// Delivery.Unreadable. nil: every event may get a reply.
	Silent func(cloudevent.Event) bool

	Lanes int                    // messages handled at once, default 64
	Lane  func(m Message) string // messages of one lane are handled in order of arrival; default: the topic

	ResponseTopic string        // of replies, for errors about them; "": none
	Expiry        time.Duration // of replies that set none themselves; 0: none

	Hold  time.Duration // how long a command waits for a handler that cannot decide, default 10 s
	Drain time.Duration // how long work under way may go on once Run's ctx has ended, default 5 s

	Log *slog.Logger // default: that of recv
}

// ServerStats counts since the server was made.
type ServerStats struct {
	Received, Answered int64 // messages taken in hand; replies the broker acknowledged
	Refused            int64 // unreadable, panicked, or still undecided after Hold
	Unanswered         int64 // refused, but nobody asked for an answer
	BadResponseTopic   int64 // no reply can go there
	ReplyFailed        int64 // the broker refused the reply
	Panics             int64
	Again              int64 // left to the broker, which sends them again
	Overflow           int64 // QoS 0 only, which has no flow control: dropped
}

// maxWaitingQoS0 bounds messages without flow control that wait in one lane.
const maxWaitingQoS0 = 1024

// Server answers what comes on its filters: decode, Handler, reply on the response topic,
// acknowledge, in that order. Each message that asked for an answer gets one:
//
//   - what cannot be read, and a panic (INTERNAL_LOGIC_ERROR), is answered through Handler.Refuse; one without a reply (Silent) is handled;
//   - a Handler that cannot decide is asked again for Hold, then the answer is
//     SERVICE_UNAVAILABLE. A message nobody waits for is held until it can be decided, for
//     nobody would send it again;
//   - if the broker goes away before it has the reply, the message stays unacknowledged. A broker
//     that kept the session sends it again, and the reply is the Handler's to that. If the
//     session is gone, this server sends the reply it has;
//   - a response topic with wildcards, on a $ topic, or one of the server's own filters gets no
//     answer: it is counted and logged. What else follows from it the Handler decides, which sees
//     it.
//
// A reply may come twice when a connection breaks between the broker's taking it and our
// learning so; it then has the same causationid.
type Server struct {
	o         ServerOptions
	recv, pub *Conn
	log       *slog.Logger
	lanes     []lane
	running   sync.WaitGroup // lanes at work
	ctx       context.Context
	denied    denials

	mu    sync.Mutex
	stats ServerStats
}

// NewServer makes a Server and registers its subscriptions on recv, so make it before recv runs.
// Replies go out on pub, which should be another Conn. What comes before Run waits.
func NewServer(recv, pub *Conn, o ServerOptions) (*Server, error) {
	switch {
	case o.Handler == nil:
		return nil, errors.New("mqtt: ServerOptions.Handler: missing")
	case len(o.Filters) == 0:
		return nil, errors.New("mqtt: ServerOptions.Filters: want at least one")
	case o.Lanes < 0 || o.Expiry < 0 || o.Hold < 0 || o.Drain < 0:
		return nil, errors.New("mqtt: ServerOptions: Lanes, Expiry, Hold and Drain: want 0 or more")
	}
	if o.ResponseTopic != "" {
		if err := CheckTopic(o.ResponseTopic); err != nil {
			return nil, fmt.Errorf("mqtt: ServerOptions.ResponseTopic: %w", err)
		}
	}
	o.Lanes = cmp.Or(o.Lanes, 64)
	if o.Lane == nil {
		o.Lane = func(m Message) string { return m.Topic }
	}
	o.Hold = cmp.Or(o.Hold, 10*time.Second)
	o.Drain = cmp.Or(o.Drain, 5*time.Second)
	o.Log = cmp.Or(o.Log, recv.log)
	s := &Server{o: o, recv: recv, pub: pub, log: o.Log, lanes: make([]lane, o.Lanes)}
	for i := range s.lanes {
		s.lanes[i].more.L = &s.lanes[i].mu
	}
	var subs []Subscription
	for _, f := range o.Filters {
		// Retained messages are old: they never come with the subscription, though mosquitto before 2.0.21 sends them to new shared ones. Live messages keep
		// their retain flag, so that the Handler can refuse them.
		subs = append(subs, Subscription{Filter: f, QoS: 1, RetainAsPublished: true, RetainHandling: 2, Handle: s.take})
	}
	if err := recv.Subscribe(context.Background(), subs...); err != nil {
		return nil, err
	}
	return s, nil
}

// Run handles messages until ctx ends. Then work under way may finish for Drain; what was not
// begun stays unacknowledged, for the next process with this client id or another of the shared
// subscription. The connections must outlive Run.
func (s *Server) Run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	s.ctx = work
	for i := range s.lanes {
		s.open(&s.lanes[i])
	}
	<-ctx.Done()
	defer time.AfterFunc(s.o.Drain, cancel).Stop()
	for i := range s.lanes {
		s.lanes[i].close()
	}
	s.running.Wait()
	return nil
}

// Stats returns the counters.
func (s *Server) Stats() ServerStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// count adds one to a counter of s.stats.
func (s *Server) count(n *int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
}

// serve does everything about one message. It is acknowledged unless the broker is to send it
// again.
func (s *Server) serve(ctx context.Context, in *Inbound) {
	defer in.delivery.release()
	if in.delivery.fate() == again {
		s.count(&s.stats.Again)
		return
	}
	s.count(&s.stats.Received)
	if !s.answer(ctx, in) {
		s.count(&s.stats.Again)
		return
	}
	_ = in.Ack() // if its connection is over, the broker sends it again or forgot it: no matter
}

// answer decides about a message and publishes the reply. false: the broker is to send the message again.
func (s *Server) answer(ctx context.Context, in *Inbound) (done bool) {
	e, err := Decode(in.Message)
	e.Delivery.Duplicate = in.Duplicate
	if in.Expiry > 0 {
		e.Delivery.Deadline = in.Arrived.Add(in.Expiry)
	}
	silent := s.o.Silent != nil && s.o.Silent(e)
	if silent {
		e.Delivery.ResponseTopic = ""
	}
	rule := s.responseRule(e.Delivery.ResponseTopic)
	if rule != "" {
		s.count(&s.stats.BadResponseTopic)
		s.log.Warn("mqtt: no answer can be given", "topic", s.recv.o.ShownTopic(in.Topic), "id", e.ID,
			"response_topic", clean(e.Delivery.ResponseTopic, 256), "why", rule)
	}
	if rule == ruleDenied { // the broker's word of a moment ago says nothing about the request
		e.Delivery.ResponseTopic = ""
	}

	var reply *cloudevent.Event
	refusal, unreadable := errors.AsType[*cloudevent.Error](err)
	if unreadable && silent { // the sender learns nothing of it, so the Handler has to act on it
		s.count(&s.stats.Refused)
		s.count(&s.stats.Unanswered)
		e.Delivery.Unreadable = refusal
		unreadable = false
	}
	if unreadable {
		reply = s.refuse(ctx, e, refusal)
	} else if reply, done = s.decide(ctx, in, e); !done {
		return false
	}
	return reply == nil || rule != "" || e.Delivery.ResponseTopic == "" || s.reply(ctx, in, e, *reply)
}

// responseRule says why no reply can go to topic, "" when one can or none is wanted.
func (s *Server) responseRule(topic string) string {
	switch {
	case topic == "":
		return ""
	case topic[0] == '$':
		return "a topic of the broker's own"
	case slices.ContainsFunc(s.o.Filters, func(f string) bool { return Matches(unshared(f), topic) }):
		return "this server would be answering itself"
	case s.denied.has(topic):
		return ruleDenied
	}
	return topicRule(topic)
}

const ruleDenied = "the broker did not let us write there a moment ago"

// decide asks the handler until it knows. false: nothing was decided, and the broker is to send the message again.
func (s *Server) decide(ctx context.Context, in *Inbound, e cloudevent.Event) (reply *cloudevent.Event, done bool) {
	start, tries := time.Now(), 0
	wait := 50 * time.Millisecond
	for {
		reply, err := s.call(ctx, e)
		if err == nil {
			return reply, true
		}
		if refusal, ok := errors.AsType[*cloudevent.Error](err); ok {
			return s.refuse(ctx, e, refusal), true
		}
		switch {
		case ctx.Err() != nil, in.delivery.fate() == again:
			return nil, false
		case e.Delivery.ResponseTopic != "" && time.Since(start) >= s.o.Hold:
			s.log.Warn("mqtt: not handled", "topic", s.recv.o.ShownTopic(in.Topic), "id", e.ID, "held", time.Since(start), "err", err)
			return s.refuse(ctx, e, cloudevent.Errorf(cloudevent.KindServiceUnavailable, "could not be decided within %v; send it again under the same id", s.o.Hold)), true
		}
		level := slog.LevelDebug // a message is logged once, not each second of an outage
		if tries++; tries == 1 {
			level = slog.LevelWarn
		}
		s.log.Log(ctx, level, "mqtt: not handled yet", "topic", s.recv.o.ShownTopic(in.Topic), "id", e.ID, "again_in", wait, "err", err)
		if !lifecycle.Sleep(ctx, wait) {
			return nil, false
		}
		wait = min(2*wait, time.Second)
	}
}
