package main

import (
	"bytes"
	"context"
	"sync"

	"github.com/taktworks/takt/internal/proxy"
)

// trips counts on the wire what one workflow takes on Takt, in a process that is client and worker: requests that name the instance, and replies to reads of a queue that brought
// something. Reads that bring nothing name neither.
func (s side) trips(ctx context.Context, p plan, to, prefix string) (int, error) {
	between, err := proxy.New(to)
	if err != nil {
		return 0, err
	}
	defer between.Close()
	r, err := s.start(ctx, between.URL, prefix, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = r.stop() }()
	for _, id := range []string{"warm-1", "warm-2"} { // connections, scripts, queues
		if err := r.one(ctx, id, chain, p.Activities); err != nil {
			return 0, err
		}
	}
	c := &counter{id: []byte("run:the-one"), read: []byte(prefix + ":workflow:")}
	between.Tap(c.tap)
	if err := r.one(ctx, "the-one", chain, p.Activities); err != nil {
		return 0, err
	}
	between.Tap(nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n, nil
}

// counter counts round trips.
type counter struct {
	id, read []byte
	mu       sync.Mutex
	n        int
}

func (c *counter) tap(fromClient bool, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if fromClient {
		c.n += bytes.Count(data, c.id)
		return
	}
	c.n += bytes.Count(data, append(bytes.Clone(c.read), "tasks:"...)) + bytes.Count(data, append(bytes.Clone(c.read), "activities:"...))
}
