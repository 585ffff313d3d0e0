package mqtt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/eclipse/paho.golang/paho"
	pahosession "github.com/eclipse/paho.golang/paho/session"
)

// A Subscription asks for the messages of one filter. Filters of one Conn should not overlap: a
// message goes to all it falls under, and some brokers send it once for each.
type Subscription struct {
	Filter string // may be shared: $share/{name}/{filter}
	QoS    byte   // 0 or 1; with 0 what the broker cannot send at once is lost

	RetainAsPublished bool // keep the retain flag of live messages as the publisher set it
	// RetainHandling: 0 = retained messages at every subscribe, reconnects included; 1 = only
	// when the broker did not know the subscription; 2 = never.
	RetainHandling byte

	// Handle is called in order of arrival, one message at a time for the whole Conn, also with
	// what a kept session had waiting. It must not block: hand the message on, and call
	// Inbound.Ack once its effect is stored. ctx is that of Run. A panic is logged and the message acknowledged.
	Handle func(ctx context.Context, in *Inbound)

	temporary bool // not made again after a reconnect
}

func (s *Subscription) check() error {
	switch {
	case s.QoS > 1:
		return messageError("filter", s.Filter, fmt.Sprintf("QoS %d: want 0 or 1", s.QoS))
	case s.RetainHandling > 2:
		return messageError("filter", s.Filter, fmt.Sprintf("RetainHandling %d: want 0, 1 or 2", s.RetainHandling))
	case s.Handle == nil:
		return messageError("filter", s.Filter, "without Handle")
	}
	return CheckFilter(s.Filter)
}

// Subscribe adds subscriptions, which are made again after every connect. While there is no
// connection it only remembers them; subscribe before Run, so that messages a kept session has
// waiting find their handler. With a connection it waits for the broker's answer: a
// *SubscribeError says which filter was refused, and that one is forgotten again.
func (c *Conn) Subscribe(ctx context.Context, subs ...Subscription) error {
	added := make([]*Subscription, len(subs))
	for i := range subs {
		if err := subs[i].check(); err != nil {
			return err
		}
		added[i] = &subs[i]
	}
	c.mu.Lock()
	c.subs = append(slices.Clip(c.subs), added...) // dispatch reads the old slice without a lock
	l := c.link
	c.mu.Unlock()
	if !l.up() || len(added) == 0 {
		return nil
	}
	refused, err := l.subscribe(ctx, c.o.PublishTimeout, added)
	switch {
	case len(refused) > 0:
		var subs []*Subscription
		for _, r := range refused {
			subs = append(subs, r.sub)
		}
		c.forget(subs)
		return refused[0].err
	case errors.Is(err, ErrDown):
		return nil // remembered; the next connect makes it
	}
	return err
}

func (c *Conn) forget(subs []*Subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subs = slices.DeleteFunc(slices.Clone(c.subs), func(s *Subscription) bool { return slices.Contains(subs, s) })
}

// subscribeAll makes subscriptions on a new connection and returns those still missing. What the
// broker refuses is asked for again later: rights may be given while we run, and the other
// subscriptions work meanwhile.
func (c *Conn) subscribeAll(ctx context.Context, l *link, subs []*Subscription) (missing []*Subscription) {
	if len(subs) == 0 {
		return nil
	}
	refused, err := l.subscribe(ctx, c.o.PublishTimeout, subs)
	if err != nil {
		if l.up() && ctx.Err() == nil {
			c.log.Error("mqtt: subscribe", "err", err)
			c.set(func() { c.failure = err })
		}
		return subs
	}
	var filters []string
	for _, r := range refused {
		c.log.Error("mqtt: subscription refused", "err", r.err)
		c.set(func() { c.failure = r.err })
		missing, filters = append(missing, r.sub), append(filters, r.sub.Filter)
	}
	c.set(func() { c.facts.RefusedFilters = filters })
	return missing
}

// refusal is one filter the broker did not grant.
type refusal struct {
	sub *Subscription
	err *SubscribeError
}

// subscribe sends one SUBSCRIBE and returns what the broker refused of it. Identifiers in use at
// a broker that kept our session are passed over by trying again.
func (l *link) subscribe(ctx context.Context, timeout time.Duration, subs []*Subscription) ([]refusal, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p := &paho.Subscribe{Properties: &paho.SubscribeProperties{}}
	subs, refused := l.possible(subs)
	if len(subs) == 0 {
		return refused, nil
	}
	for _, s := range subs {
		p.Subscriptions = append(p.Subscriptions, paho.SubscribeOptions{
			Topic: s.Filter, QoS: s.QoS,
			RetainAsPublished: s.RetainAsPublished, RetainHandling: s.RetainHandling,
		})
	}
	for {
		ack, err := l.client.Subscribe(ctx, p)
		switch {
		case ack == nil:
			return nil, l.explain(err, "subscribe "+subs[0].Filter)
		case len(ack.Reasons) != len(subs):
			return nil, fmt.Errorf("mqtt: SUBACK with %d reasons for %d filters", len(ack.Reasons), len(subs))
		}
		if ack.Reasons[0] == 0x91 && ctx.Err() == nil { // packet identifier in use
			continue // the next try has another identifier
		}
		words := ""
		if ack.Properties != nil {
			words = ack.Properties.ReasonString
		}
		for i, code := range ack.Reasons {
			if code >= 0x80 {
				refused = append(refused, refusal{subs[i], &SubscribeError{subs[i].Filter, code, reason(code, words)}})
			}
		}
		return refused, nil
	}
}

// possible divides subs into those the broker may grant and those CONNACK already ruled out.
func (l *link) possible(subs []*Subscription) (possible []*Subscription, refused []refusal) {
	for _, s := range subs {
		code := byte(0)
		switch {
		case !l.facts.SharedSubscriptions && strings.HasPrefix(s.Filter, "$share/"):
			code = 0x9e
		case !l.facts.WildcardSubscriptions && strings.ContainsAny(s.Filter, "+#"):
			code = 0xa2
		default:
			possible = append(possible, s)
			continue
		}
		refused = append(refused, refusal{s, &SubscribeError{s.Filter, code, reason(code, "")}})
	}
	return possible, refused
}

// explain makes one of our errors of one of the library's, for something that got no answer.
func (l *link) explain(err error, what string) error {
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("mqtt: %s: %w", what, err)
	case errors.Is(err, ErrDown), errors.Is(err, pahosession.ErrNoConnection):
		return fmt.Errorf("%s: %w", what, ErrDown)
	case !l.up():
		return fmt.Errorf("%s: %w", what, ErrLost)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w: %w", what, ErrTimeout, err)
	}
	return fmt.Errorf("mqtt: %s: %w", what, err)
}

// unsubscribe takes filters back. Should the connection break meanwhile, they stay in a kept session: what they bring is dropped.
func (c *Conn) unsubscribe(ctx context.Context, l *link, filters []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.o.PublishTimeout)
	defer cancel()
	_, _ = l.client.Unsubscribe(ctx, &paho.Unsubscribe{Topics: filters})
}

// dispatch hands a message to every subscription it falls under, one message at a time in the
// order of arrival.
func (c *Conn) dispatch(l *link, p arrival) {
	c.mu.Lock()
	subs, ctx := c.subs, c.ctx
	c.mu.Unlock()
	d := &delivery{conn: c, link: l, id: p.id, qos: p.QoS, size: p.size()}
	takers := make([]*Subscription, 0, 8) // on the stack, and enough
	for _, s := range subs {
		if Matches(unshared(s.Filter), p.Topic) {
			takers = append(takers, s)
		}
	}
	if len(takers) == 0 {
		// Left in the session by an earlier configuration. Kept, it would hold up all
		// acknowledgements behind it. With QoS 0 it was on its way when Retained took its
		// subscriptions back: a broker may send after its UNSUBACK what it had taken up before.
		level := slog.LevelWarn
		if p.QoS == 0 {
			level = slog.LevelDebug
		}
		c.log.Log(ctx, level, "mqtt: message without subscription dropped", "topic", c.o.ShownTopic(p.Topic))
		d.left.Store(1)
		_ = d.ack()
		return
	}
	d.left.Store(int32(len(takers)))
	for _, s := range takers {
		c.handle(ctx, s, &Inbound{Message: p.Message, Duplicate: p.duplicate, Arrived: p.at, delivery: d})
	}
}

func (c *Conn) handle(ctx context.Context, s *Subscription, in *Inbound) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("mqtt: handler panicked", "filter", s.Filter, "topic", c.o.ShownTopic(in.Topic), "panic", p, "stack", string(debug.Stack()))
			_ = in.Ack()
		}
	}()
	s.Handle(ctx, in)
}
