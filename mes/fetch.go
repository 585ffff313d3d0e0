package mes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mqtt"
)

// wildcardFrom is how many results are fetched by one wildcard instead of one filter each.
const wildcardFrom = 50

// fetch reads the retained results of orders. Those that have none, or none that can be read, are not in the map.
func (s *scopeFollow) fetch(ctx context.Context, ids []isa95.JobOrderID) (map[isa95.JobOrderID]*isa95.JobResponse, error) {
	prefix := s.f.c.o.TopicPrefix + "/" + string(s.scope) + "/result/"
	filters := []string{prefix + "+"}
	if len(ids) < wildcardFrom {
		filters = nil
		for _, id := range ids {
			filters = append(filters, prefix+string(id))
		}
	}
	var messages []mqtt.Message
	for {
		var err error
		if messages, err = s.f.c.recv.Retained(ctx, filters...); err == nil {
			break
		}
		if ctx.Err() != nil || !errors.Is(err, mqtt.ErrDown) {
			return nil, fmt.Errorf("mes: results: %w", err)
		}
		if err := s.f.c.recv.Ready(ctx); err != nil {
			return nil, fmt.Errorf("mes: results: %w", err)
		}
	}
	found := make(map[isa95.JobOrderID]*isa95.JobResponse, len(messages))
	for _, m := range messages {
		id := isa95.JobOrderID(strings.TrimPrefix(m.Topic, prefix))
		r := &isa95.JobResponse{}
		if err := isa95.Unmarshal(m.Payload, r); err != nil || r.JobOrderID != string(id) {
			s.f.log.Error("mes: retained result cannot be used", "topic", m.Topic, "err", err)
			continue
		}
		found[id] = r
	}
	return found, nil
}

// ask is the way to a result whose topic is missing, because the broker forgot it or it ran out. nil without
// an error: there is none any more.
func (s *scopeFollow) ask(ctx context.Context, id isa95.JobOrderID) (*isa95.JobResponse, error) {
	r, err := s.f.c.JobResponse(ctx, s.scope, id)
	var refused *RefusedError
	switch {
	case err == nil && r.JobOrderID != string(id):
		return nil, fmt.Errorf("mes: asked for the result of %q, got that of %q", id, r.JobOrderID)
	case errors.As(err, &refused) && refused.Status == isa95.UnknownJobOrder:
		return nil, nil
	}
	return r, err
}
