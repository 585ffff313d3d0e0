package station

import (
	"context"
	"errors"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mqtt"
)

// take is a message on the command topic of scope. The connection calls it in the order of arrival.
func (s *Station) take(scope isa95.Scope, in *mqtt.Inbound) {
	c, e, mine, refusal := s.readCommand(scope, in.Message)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return // not acknowledged: the session keeps it
	}
	defer func() {
		if s.failed == nil {
			_ = in.Ack() // a lost connection means that the broker sends it again
		}
	}()
	switch r := s.commands[c.ID]; {
	case !mine:
		s.log.Debug("station: command for other equipment", "topic", in.Topic, "type", e.Type, "id", e.ID)
	case refusal != nil:
		s.log.Warn("station: command refused", "topic", in.Topic, "type", e.Type, "id", e.ID, "err", refusal)
		if e.Delivery.ResponseTopic != "" {
			answer := e.Refusal(refusal, s.o.Equipment.Source, time.Now())
			s.running.Go(func() { s.send(s.ctx, e.Delivery.ResponseTopic, answer) })
		}
	case r != nil:
		r.deliveries++
		r.responseTopic, r.correlationData = e.Delivery.ResponseTopic, e.Delivery.CorrelationData
		entry := r.entry(Repeated)
		entry.ResponseTopic, entry.CorrelationData = r.responseTopic, r.correlationData
		s.write(entry)
		if r.executed {
			s.running.Go(func() { s.answer(s.ctx, r) })
		}
	default:
		r = s.add(c, e.Delivery.ResponseTopic, e.Delivery.CorrelationData, time.Now())
		entry := r.entry(Received)
		entry.Subject, entry.Correlation, entry.Body, entry.Cancels = c.Subject, c.Correlation, c.Parameters, c.Cancels
		entry.ResponseTopic, entry.CorrelationData = r.responseTopic, r.correlationData
		s.write(entry)
		s.running.Go(func() { s.execute(s.ctx, r) })
	}
}

// resume goes on with a command from the log. s.mu is held.
func (s *Station) resume(r *record) {
	switch {
	case !r.executed:
		s.running.Go(func() { s.execute(s.ctx, r) })
	default:
		if !r.answered {
			s.running.Go(func() { s.answer(s.ctx, r) })
		}
		s.announceAll(r)
	}
}

// execute does the work of a command, once; then it answers and sends the events.
func (s *Station) execute(ctx context.Context, r *record) {
	if pause(ctx, r.takes, r.canceled); ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	r.executed = true
	entry := r.entry(Executed)
	entry.Body = r.result
	if r.refused != nil {
		entry.Error = &LogError{string(r.refused.Kind), r.refused.Message}
	}
	s.write(entry)
	if s.open {
		s.announceAll(r)
	}
	s.mu.Unlock()
	s.answer(ctx, r)
}

// answer sends the answer, unless this command shall meet silence for some deliveries more.
func (s *Station) answer(ctx context.Context, r *record) {
	s.mu.Lock()
	silent := r.silent() || r.responseTopic == ""
	topic, answer := r.responseTopic, r.answer(s.o.Equipment.Source, time.Now())
	s.mu.Unlock()
	if silent || !s.send(ctx, topic, answer) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.answered = true
	entry := r.entry(Answered)
	entry.ResponseTopic = topic
	s.write(entry)
}

// send publishes until the broker has it; false when ctx ended or the broker will never take it.
func (s *Station) send(ctx context.Context, topic string, e cloudevent.Event) bool {
	m := mqtt.Encode(topic, e)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := s.pub.Publish(ctx, m)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		var refused *mqtt.PublishError
		switch {
		case errors.Is(err, mqtt.ErrDown):
			if s.pub.Ready(ctx) != nil {
				return false
			}
		case errors.Is(err, mqtt.ErrTimeout), errors.As(err, &refused) && refused.Temporary():
		default:
			s.log.Error("station: the broker does not take it", "topic", topics.Prefix(s.o.TopicPrefix).Shown(topic), "id", e.ID, "err", err)
			return false
		}
		if !lifecycle.Sleep(ctx, wait) {
			return false
		}
	}
}

// entry is a log entry about r.
func (r *record) entry(kind Kind) Entry {
	return Entry{
		Kind: kind, Command: r.ID, Scope: string(r.Scope), Order: r.Order, Action: r.Action, Attempt: r.Attempt, Type: r.Type,
	}
}

// refusal is what an executed command was refused with, nil when it was not.
func (e *Entry) refusal() *cloudevent.Error {
	if e.Error == nil {
		return nil
	}
	return &cloudevent.Error{Kind: cloudevent.ErrorKind(e.Error.Kind), Message: e.Error.Message}
}
