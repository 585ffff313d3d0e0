package sfc

import (
	"context"
	"strings"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// An answer is taken from each client that can publish below {TopicPrefix}/responses, and command ids can be guessed. So each command has a token in its response topic, which only
// those learn that may read the commands of the station: docs/adr/0017.

// repeated is the route of a command that is sent again, so that it goes out with the token that it had.
func (e *Engine) repeated(ctx context.Context, c recipe.Command, fresh jobstore.Route) (jobstore.Route, error) {
	if route, ok := e.routes.get(c.ID); ok {
		return route, nil
	}
	fresh.Token = e.draw().Token(c.ID)
	return e.store.KeepRoute(ctx, c, fresh)
}

// forged says why ev is no answer of the equipment, "" if nothing speaks against it.
func (e *Engine) forged(ctx context.Context, ev cloudevent.Event, route jobstore.Route) (string, error) {
	_, token := topics.Prefix(e.opt.TopicPrefix).AnsweredOn(ev.Delivery.Topic)
	if !route.Token.Matches(recipe.Token(token)) {
		return "its topic does not have the token of the command", nil
	}
	ours, err := e.process(ctx, ev.Source)
	if ours {
		return "its source is a process of Takt", err
	}
	return "", err
}

const (
	sourcePrefix = "urn:takt:"
	sourceLasts  = 10 * time.Second
	sourceBytes  = 256 << 10 // for what is remembered of sources,
	sourceWeight = 128       // of which each takes about this beside its name
)

// sourceSeen is whether a source was that of a process, at a time.
type sourceSeen struct {
	process bool
	at      time.Time
}

// process says whether source is that of a process of this installation. What it learns of others counts for sourceLasts.
func (e *Engine) process(ctx context.Context, source string) (bool, error) {
	if source == e.opt.Source {
		return true, nil
	}
	name, ok := strings.CutPrefix(source, sourcePrefix)
	if !ok {
		return false, nil
	}
	if seen, ok := e.sources.Get(name); ok && time.Since(seen.at) < sourceLasts {
		return seen.process, nil
	}
	is, err := e.store.IsProcess(ctx, name)
	if err == nil {
		e.sources.Put(strings.Clone(name), sourceSeen{is, time.Now()}, sourceWeight+len(name))
	}
	return is, err
}
