package mes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/isa95"
)

// ask sends a request and reads the answer's body into result, which status reads the ReturnStatus from.
func ask(ctx context.Context, c *Client, what string, e cloudevent.Event, result any, status func() isa95.ReturnStatus) (isa95.ReturnStatus, error) {
	answer, err := c.exchange(ctx, e)
	if err != nil {
		return 0, fmt.Errorf("mes: %s: %w", what, err)
	}
	if len(answer.Data) > 0 {
		if err := isa95.Unmarshal(answer.Data, result); err != nil && answer.Err() == nil {
			return 0, fmt.Errorf("mes: %s: answer: %w", what, err)
		}
	}
	s, refusal := status(), answer.Err()
	switch {
	case refusal != nil:
		return s, &RefusedError{What: what, Status: s, Kind: refusal.Kind, Message: refusal.Message, Context: refusal.Context}
	case s == isa95.NoError:
		return s, nil
	case s == 0:
		return 0, fmt.Errorf("mes: %s: the answer has no ReturnStatus: %.200q", what, answer.Data)
	}
	return s, &RefusedError{What: what, Status: s, Message: answer.ErrorMessage, Context: answer.ErrorContext}
}

// exchange asks until there is an answer that was decided: SERVICE_UNAVAILABLE says that Takt's store is away, so the
// same request is sent again a little later.
func (c *Client) exchange(ctx context.Context, e cloudevent.Event) (cloudevent.Event, error) {
	topic, err := c.commandTopic(e.Scope())
	if err != nil {
		return cloudevent.Event{}, err
	}
	if err := ctx.Err(); err != nil { // an answer may be as quick as the look at ctx
		return cloudevent.Event{}, fmt.Errorf("not sent: %w", err)
	}
	var undecided error // the answer before
	for wait := 250 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		answer, err := c.requests.Request(ctx, topic, e)
		var unreadable *cloudevent.Error
		switch {
		case errors.As(err, &unreadable):
			return answer, fmt.Errorf("the answer cannot be read: %w", err)
		case err != nil && undecided != nil:
			return answer, fmt.Errorf("no decision: %w (%w)", err, undecided)
		case err != nil:
			return answer, err
		case answer.ErrorKind != cloudevent.KindServiceUnavailable:
			return answer, nil
		}
		undecided = answer.Err()
		c.log.Warn("mes: Takt cannot decide yet", "type", e.Type, "id", e.ID, "err", undecided, "again_in", wait)
		if !lifecycle.Sleep(ctx, wait) {
			return answer, fmt.Errorf("no decision: %w (%w)", ctx.Err(), undecided)
		}
	}
}

// commandTopic is where commands for a scope go. A scope that no topic can have goes to the topic without one, so that
// Takt answers what is wrong with it.
func (c *Client) commandTopic(scope string) (string, error) {
	if scope == "" {
		return "", errors.New("the scope is missing")
	}
	if _, err := isa95.ParseScope(scope); err != nil {
		return c.o.TopicPrefix + "/commands", nil
	}
	return c.o.TopicPrefix + "/" + scope + "/commands", nil
}
