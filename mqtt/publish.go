package mqtt

import (
	"context"
	"fmt"
	"time"

	"github.com/eclipse/paho.golang/packets"

	"github.com/taktworks/takt/cloudevent"
)

// Publish sends m. With QoS 1 it waits until the broker has it: nil means it does. Many callers
// may publish at once; their messages are in flight together, up to what the broker allows.
// m is not kept after the return.
//
//	ErrDown                       nothing was sent; Ready, then repeat
//	ErrLost, ErrTimeout, ctx      outcome unknown; repeat for at least once
//	*PublishError                 the broker has refused it; Temporary says whether to repeat
//	*MessageError, *SizeError     it can never be sent
func (c *Conn) Publish(ctx context.Context, m Message) error {
	if err := m.check(); err != nil {
		return err
	}
	return c.send(ctx, &m)
}

// publishEncoded is Publish for a message as Encode made it.
func (c *Conn) publishEncoded(ctx context.Context, m Message) error {
	if err := m.checkEncoded(); err != nil {
		return err
	}
	return c.send(ctx, &m)
}

// send publishes m, which has passed its check.
func (c *Conn) send(ctx context.Context, m *Message) error {
	shown := c.o.ShownTopic(m.Topic)
	l, err := c.current()
	if err != nil {
		return fmt.Errorf("publish %s: %w", shown, err)
	}
	limit := maxMQTT
	if n := l.facts.MaximumPacketSize; n > 0 {
		limit = n
	}
	if n := m.size(); n > limit {
		return &SizeError{shown, n, limit}
	}
	switch {
	case m.Retain && !l.facts.RetainAvailable:
		return &PublishError{shown, 0x9a, reason(0x9a, "")}
	case m.QoS > l.facts.MaximumQoS:
		return &PublishError{shown, 0x9b, reason(0x9b, "")}
	}
	late := time.NewTimer(c.o.PublishTimeout)
	defer late.Stop()
	return l.publish(ctx, m, shown, late)
}

// publish sends m and waits for the broker until late fires; errors name its topic as shown.
func (l *link) publish(ctx context.Context, m *Message, shown string, late *time.Timer) error {
	done := make(chan packets.ControlPacket, 1)
	if err := l.session.publish(ctx, late.C, m, done); err != nil {
		return l.explain(err, "publish "+shown)
	}
	if m.QoS == 0 {
		return nil
	}
	select {
	case answer := <-done:
		ack, ok := answer.Content.(*packets.Puback)
		switch {
		case !ok:
			return fmt.Errorf("publish %s: %w", shown, ErrLost)
		case ack.ReasonCode >= 0x80:
			words := ""
			if ack.Properties != nil {
				words = ack.Properties.ReasonString
			}
			return &PublishError{shown, ack.ReasonCode, reason(ack.ReasonCode, words)}
		}
		return nil
	case <-late.C:
		return l.explain(context.DeadlineExceeded, "publish "+shown)
	case <-ctx.Done():
		return l.explain(ctx.Err(), "publish "+shown)
	}
}

// PublishEvent publishes e as Encode writes it. Errors are those of Publish.
func (c *Conn) PublishEvent(ctx context.Context, topic string, e cloudevent.Event) error {
	return c.publishEncoded(ctx, Encode(topic, e))
}
