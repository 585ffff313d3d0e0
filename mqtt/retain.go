package mqtt

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Retain replaces the retained message of topic and waits until the broker has it. After expiry
// the broker forgets it (whole seconds; 0: never). An empty payload deletes it. No properties
// besides the expiry are set. Errors are those of Publish.
func (c *Conn) Retain(ctx context.Context, topic string, payload []byte, expiry time.Duration, user ...UserProperty) error {
	m := Message{Topic: topic, Payload: payload, QoS: 1, Retain: true, Expiry: expiry, User: user}
	if len(payload) == 0 {
		m.Expiry = 0
	}
	return c.Publish(ctx, m)
}

// Retained returns the retained messages that fall under filters now, by topic, each topic
// once. It subscribes, then publishes a marker to itself: a broker serves one client in order,
// so what was retained has come when the marker comes. No time is waited for.
//
// Messages go to other subscriptions of this Conn too if they fall under those. A filter that this Conn is
// subscribed to is refused: ask on another. Retained runs once at a time. ErrLost, ErrTimeout: the connection broke, or nothing came for PublishTimeout; repeat.
func (c *Conn) Retained(ctx context.Context, filters ...string) ([]Message, error) {
	found := make(map[string]Message)
	err := c.EachRetained(ctx, func(m Message) {
		if len(m.Payload) == 0 {
			delete(found, m.Topic)
		} else {
			found[m.Topic] = m
		}
	}, filters...)
	if err != nil {
		return nil, err
	}
	var list []Message
	for _, topic := range slices.Sorted(maps.Keys(found)) {
		list = append(list, found[topic])
	}
	return list, nil
}

// EachRetained is Retained for more than fits in memory: take is called with the messages as they come, one at a time and not after EachRetained has returned. A topic that
// changes meanwhile comes again; an empty payload says that it was deleted. While take is busy no more than Options.ReceiveBytes are read from the broker.
func (c *Conn) EachRetained(ctx context.Context, take func(Message), filters ...string) error {
	select {
	case c.retained <- struct{}{}:
		defer func() { <-c.retained }()
	case <-ctx.Done():
		return ctx.Err()
	}
	l, err := c.current()
	if err != nil {
		return fmt.Errorf("retained: %w", err)
	}
	if !l.facts.RetainAvailable {
		return fmt.Errorf("mqtt: retained: %s", reason(0x9a, ""))
	}
	col := collection{marker: c.o.PrivateTopic + "/" + uuid.NewString(), done: make(chan struct{}), each: take}
	defer col.end()
	filters = append(slices.Clone(filters), col.marker)
	subs, err := c.collectors(&col, filters)
	if err != nil {
		return err
	}
	defer c.forget(subs)
	defer c.unsubscribe(ctx, l, filters) // first, so that nothing comes without a subscription

	refused, err := l.subscribe(ctx, c.o.PublishTimeout, subs)
	switch {
	case err != nil:
		return err
	case len(refused) > 0:
		return refused[0].err
	}
	if err := c.Publish(ctx, Message{Topic: col.marker}); err != nil {
		return err
	}
	return col.wait(ctx, l, c.o.PublishTimeout)
}

// wait returns when the marker comes. It gives up when nothing at all came for as long as patience: with
// QoS 0 a broker in need may drop the marker too.
func (col *collection) wait(ctx context.Context, l *link, patience time.Duration) error {
	quiet := time.Tick(patience)
	for before := 0; ; {
		select {
		case <-col.done:
			return nil
		case <-l.session.lost:
			return fmt.Errorf("retained: %w", ErrLost)
		case <-ctx.Done():
			return ctx.Err()
		case <-quiet:
			came := col.count()
			if came == before {
				return fmt.Errorf("retained: the end marker does not come: %w", ErrTimeout)
			}
			before = came
		}
	}
}

// collectors adds the subscriptions of one collection. They have QoS 0, which is outside the
// queues a broker limits: mosquitto drops what exceeds its own without a word. What is lost with
// the connection is noticed.
//
// So a subscription that is there can be neither used nor, by a second SUBSCRIBE, replaced
// [MQTT-3.8.4-3].
func (c *Conn) collectors(col *collection, filters []string) ([]*Subscription, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	take := func(_ context.Context, in *Inbound) {
		defer in.Ack()
		col.take(in.Message)
	}
	var subs []*Subscription
	for _, f := range filters {
		if err := CheckFilter(f); err != nil {
			return nil, err
		}
		if strings.HasPrefix(f, "$share/") {
			return nil, messageError("filter", f, "shared subscriptions get no retained messages")
		}
		if slices.ContainsFunc(c.subs, func(s *Subscription) bool { return s.Filter == f }) {
			return nil, messageError("filter", f, "this connection is subscribed to it: ask on another")
		}
		subs = append(subs, &Subscription{Filter: f, temporary: true, Handle: take})
	}
	c.subs = append(slices.Clip(c.subs), subs...)
	return subs, nil
}

// collection passes retained messages on until its marker comes.
type collection struct {
	marker string
	done   chan struct{}

	mu    sync.Mutex
	each  func(Message)
	came  int // messages, of whatever kind
	ended bool
}

func (col *collection) count() int {
	col.mu.Lock()
	defer col.mu.Unlock()
	return col.came
}

// end lets nothing more be passed on.
func (col *collection) end() {
	col.mu.Lock()
	defer col.mu.Unlock()
	col.ended = true
}

func (col *collection) take(m Message) {
	col.mu.Lock()
	defer col.mu.Unlock()
	col.came++
	switch {
	case col.ended:
	case m.Topic == col.marker:
		col.ended = true
		close(col.done)
	case m.Retain:
		col.each(m)
	}
}
