package jobcontrol

import (
	"context"
	"errors"
	"fmt"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// EventSender sends the status events of the outbox to {prefix}/{scope}/events, QoS 1. Any number of instances may run one; one of them
// sends, the others stand by. Events of one job order leave one after the other, in the order of its changes. If the sending instance
// dies, another one takes over within jobstore.Options.WorkerTTL, and sends again what the broker may have already: an MES recognizes a
// repeat by the event's id.
type EventSender struct {
	Store       *jobstore.Store
	TopicPrefix string // default "takt"
	Slots       int    // events under way at once, each of another job order; default 64
	// Ready waits for the broker: mqtt.Conn.Ready. An instance that has none for longer than WorkerTTL lets another one send.
	// nil = there always is one.
	Ready func(ctx context.Context) error
	// Publish returns nil once the broker has the event: mqtt.Conn.PublishEvent. Required.
	Publish func(ctx context.Context, topic string, e cloudevent.Event) error
}

// Run sends until ctx ends, and returns nil once what was under way is sent.
func (s *EventSender) Run(ctx context.Context) error {
	prefix, slots := s.TopicPrefix, s.Slots
	if prefix == "" {
		prefix = "takt"
	}
	if slots <= 0 {
		slots = 64
	}
	return s.Store.RunEvents(ctx, slots, s.Ready, func(ctx context.Context, scope isa95.Scope, e cloudevent.Event) error {
		err := s.Publish(ctx, eventTopic(prefix, scope), e)
		if hopeless(err) {
			return fmt.Errorf("%w: %w", jobstore.ErrUnusable, err)
		}
		return err
	})
}

// hopeless says that the same publish can never succeed. A refusal by the broker is for an operator to mend, so it is
// tried until it does.
func hopeless(err error) bool {
	_, message := errors.AsType[*mqtt.MessageError](err)
	_, size := errors.AsType[*mqtt.SizeError](err)
	return message || size
}
