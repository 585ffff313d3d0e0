package workflow

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/taktworks/takt/internal/redis"
)

// Change is the start or the end of an execution as watchers are told of it. One that continues as new ends, and the next one starts.
type Change struct {
	Kind ChangeKind `json:"change"`
	Info            // right after it
}

// ChangeKind says what happened.
type ChangeKind string

const (
	Started ChangeKind = "started"
	EndedAs ChangeKind = "ended" // Info.State and Info.Outcome say how
)

const watchBuffer = 4096 // changes that wait for a slow watcher

// Watch calls f, from one goroutine, with every start and every end of an execution until ctx ends, and returns nil then. ready, which may be nil, is called once, before it, when
// everything from then on is told. It is for people who look on, not for work that depends on it: what happens while a connection is lost, or while f is slower than the workers, is
// not told. Nothing is published unless somebody watches.
func (c *Client) Watch(ctx context.Context, ready func(), f func(Change)) error {
	if f == nil {
		return errors.New("workflow: Watch: the function is missing")
	}
	w := redis.Watcher{Package: "workflow", Publishers: "scripts", Database: redis.Database(ctx, c.rdb), Buffer: watchBuffer, Ready: ready, Log: c.log}
	channels := make([]redis.Watched, len(c.shards))
	for i, s := range c.shards {
		channels[i] = redis.Watched{Channel: s.keys.WatchChannel(w.Database), Key: s.keys.Watched()}
	}
	return w.Run(ctx, c.rdb, channels, func(text string) {
		if change, err := decodeChange(text); err != nil {
			c.log.Warn("workflow: what was published cannot be read", "error", err)
		} else {
			f(change)
		}
	})
}

// decodeChange reads what tell in instance.lua publishes: kind and document, a line each.
func decodeChange(text string) (Change, error) {
	kind, doc, ok := strings.Cut(text, "\n")
	if !ok {
		return Change{}, fmt.Errorf("workflow: %q has no document", clip(text))
	}
	info, err := decodeInfo(doc)
	return Change{ChangeKind(kind), info}, err
}
