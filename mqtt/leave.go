package mqtt

import (
	"context"
	"fmt"
	"time"
)

// Leave takes all subscriptions back at the broker and waits until everything that came before is acknowledged: the broker
// then holds nothing for this client, and when Run's ctx ends the session ends too. Handlers must be running. An error means that
// something may be left, and the session stays.
func (c *Conn) Leave(ctx context.Context) error {
	l, err := c.current()
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	var filters []string
	c.mu.Lock()
	for _, s := range c.subs {
		if !s.temporary {
			filters = append(filters, s.Filter)
		}
	}
	c.mu.Unlock()
	if len(filters) > 0 {
		c.unsubscribe(ctx, l, filters)
	}
	// A broker serves one client in order: when a marker comes, what was queued and fits the window of unacknowledged messages has come
	// before. When a marker comes after the last acknowledgement and no message with it, nothing is queued any more.
	for {
		if err := l.settled(ctx); err != nil { // the acknowledgements are sent before the marker is asked for
			return fmt.Errorf("leave: %w", err)
		}
		_, before := l.session.unsettled()
		if _, err := c.Retained(ctx); err != nil {
			return fmt.Errorf("leave: %w", err)
		}
		open, after := l.session.unsettled()
		if open == 0 && before == after {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = true
	return nil
}

// settled waits until every message that came is acknowledged, and the acknowledgements are sent.
func (l *link) settled(ctx context.Context) error {
	look := time.Tick(5 * time.Millisecond)
	for {
		open, _ := l.session.unsettled()
		if open == 0 {
			l.session.acknowledge() // waits for a run under way
			return nil
		}
		select {
		case <-look:
		case <-l.session.lost:
			return ErrLost
		case <-ctx.Done():
			return fmt.Errorf("%d messages are not handled: %w", open, ctx.Err())
		}
	}
}
