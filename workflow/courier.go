package workflow

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/taktworks/takt/internal/stream"
)

const (
	couriers  = 64               // messages of a shard that are on their way at once
	earlyTime = 10 * time.Minute // how long an event waits for an execution that nobody has heard of: its start may be behind it
)

// courier carries messages of a shard to the others.
func (w *Worker) courier(s *shard) *stream.Group {
	return &stream.Group{
		Worker: w.alive[s.n], Streams: []string{s.keys.Outbox()}, Name: s.keys.Group(), Slots: couriers, MaxDeliveries: -1, Drain: w.opts.Drain, Log: w.c.log,
		Handle: func(ctx context.Context, e *stream.Entry) (stream.Result, error) {
			return stream.Ack, w.c.carry(ctx, s, e)
		},
		Transient: func(err error) bool {
			var short *ReplicasError // it stays here until replicas have it there
			return errors.As(err, &short) || denied(err)
		},
	}
}

// carry does what a message says on the shard that it is for, once: by its place in the outbox. Messages may overtake each other.
func (c *Client) carry(ctx context.Context, from *shard, e *stream.Entry) error {
	n, err := strconv.Atoi(e.Fields["s"])
	if err != nil || n < 0 || n >= len(c.shards) || len(e.Fields) < 3 {
		return fmt.Errorf("workflow: a message of %d fields for shard %q of %d", len(e.Fields), e.Fields["s"], len(c.shards))
	}
	words := make([]string, 0, len(e.Fields)+1)
	for i := 1; i < len(e.Fields); i++ {
		words = append(words, e.Fields[strconv.Itoa(i)])
	}
	to := c.shards[n]
	switch words[0] {
	case "event":
		words = append(words, milliseconds(earlyTime))
	case "enter":
		words = append(words, from.name(to), to.name(from))
	}
	// No instance has an empty id, so this is never taken for an event of one.
	_, err = to.actOnce(ctx, fmt.Sprintf("\n%d\n%s", from.n, e.ID), max(c.opts.KnownFor, defaultKnownFor), to.keys.Run(words[1]), words...)
	return err
}
