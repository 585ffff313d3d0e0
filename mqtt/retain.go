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
// besides the expiry are set (spec/machinery-jobs G7). Errors are those of Publish.
func (c *Conn) Retain(ctx context.Context, topic string, payload []byte, expiry time.Duration) error {
	m := Message{Topic: topic, Payload: payload, QoS: 1, Retain: true, Expiry: expiry}
	if len(payload) == 0 {
		m.Expiry = 0
	}
	return c.Publish(ctx, m)
}

// Retained returns the retained messages that fall under filters now, by topic, each topic
// once. It subscribes, then publishes a marker to itself: a broker serves one client in order,
// so what was retained has come when the marker comes. No time is waited for.
//
// Best ask on the Conn that publishes: messages go to other subscriptions of this Conn too if they
// fall under those, and a filter it is subscribed to is refused. It runs once at a time.
// ErrLost: the connection broke; repeat.
func (c *Conn) Retained(ctx context.Context, filters ...string) ([]Message, error) {
	select {
	case c.retained <- struct{}{}:
		defer func() { <-c.retained }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l, err := c.current()
	if err != nil {
		return nil, fmt.Errorf("retained: %w", err)
	}
	if !l.facts.RetainAvailable {
		return nil, fmt.Errorf("mqtt: retained: %s", reason(0x9a, ""))
	}
	col := collection{marker: c.o.PrivateTopic + "/" + uuid.NewString(), done: make(chan struct{})}
	filters = append(slices.Clone(filters), col.marker)
	subs, err := c.collectors(&col, filters)
	if err != nil {
		return nil, err
	}
	defer c.forget(subs)
	defer c.unsubscribe(ctx, l, filters) // first, so that nothing comes without a subscription

	refused, err := l.subscribe(ctx, c.o.PublishTimeout, subs)
	switch {
	case err != nil:
		return nil, err
	case len(refused) > 0:
		return nil, refused[0].err
	}
	if err := c.Publish(ctx, Message{Topic: col.marker}); err != nil {
		return nil, err
	}
	select {
	case <-col.done:
		return col.messages(), nil
	case <-l.session.lost:
		return nil, fmt.Errorf("retained: %w", ErrLost)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// collectors adds the subscriptions of one collection. They have QoS 0, which is outside the
// queues a broker limits: mosquitto drops what exceeds its own without a word. What is lost with
// the connection is noticed. So a subscription that is there cannot be used, nor replaced.
func (c *Conn) collectors(col *collection, filters []string) ([]*Subscription, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var subs []*Subscription
	for _, f := range filters {
		switch err := CheckFilter(f); {
		case err != nil:
			return nil, err
		case strings.HasPrefix(f, "$share/"):
			return nil, messageError("filter", f, "shared subscriptions get no retained messages")
		case slices.ContainsFunc(c.subs, func(s *Subscription) bool { return s.Filter == f }):
			return nil, messageError("filter", f, "this connection is subscribed to it: ask on another")
		}
		subs = append(subs, &Subscription{Filter: f, Handle: col.take, temporary: true})
	}
	c.subs = append(slices.Clip(c.subs), subs...)
	return subs, nil
}

// collection gathers retained messages until its marker comes.
type collection struct {
	marker string
	done   chan struct{}

	mu    sync.Mutex
	found map[string]Message
	ended bool
}

func (col *collection) take(_ context.Context, in *Inbound) {
	defer in.Ack()
	col.mu.Lock()
	defer col.mu.Unlock()
	switch {
	case col.ended:
	case in.Topic == col.marker:
		col.ended = true
		close(col.done)
	case !in.Retain:
	case len(in.Payload) == 0: // deleted meanwhile
		delete(col.found, in.Topic)
	default:
		if col.found == nil {
			col.found = make(map[string]Message)
		}
		col.found[in.Topic] = in.Message
	}
}

func (col *collection) messages() []Message {
	col.mu.Lock()
	defer col.mu.Unlock()
	var list []Message
	for _, topic := range slices.Sorted(maps.Keys(col.found)) {
		list = append(list, col.found[topic])
	}
	return list
}
