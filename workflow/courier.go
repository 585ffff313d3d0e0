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
	couriers    = 64          // messages of a shard that are on their way at once
	unheardTime = time.Minute // how long a message waits for an execution that nobody has heard of: its start may be behind it
)

// errUnheard: the execution that a message is for is not there yet.
var errUnheard = errors.New("workflow: nobody has heard of the execution yet")

// courier carries messages of a shard to the others.
func (w *Worker) courier(s *shard) *stream.Group {
	return &stream.Group{
		Worker: w.alive[s.n], Streams: []string{s.keys.Outbox()}, Name: s.keys.Group(), Slots: couriers, MaxDeliveries: -1, Drain: w.opts.Drain, Log: w.c.log,
		Handle: func(ctx context.Context, e *stream.Entry) (stream.Result, error) {
			return stream.Ack, w.c.carry(ctx, s, e)
		},
		Transient: func(err error) bool { return errors.Is(err, errUnheard) },
	}
}

// carry does what a message says on the shard that it is for. It may be done again: an event counts once by its place in the outbox, the rest bears repetition.
func (c *Client) carry(ctx context.Context, from *shard, e *stream.Entry) error {
	n, err := strconv.Atoi(e.Fields["s"])
	if err != nil || n < 0 || n >= len(c.shards) {
		return fmt.Errorf("workflow: a message for shard %q of %d", e.Fields["s"], len(c.shards))
	}
	words := make([]string, 0, len(e.Fields)-1)
	for i := 1; i < len(e.Fields); i++ {
		words = append(words, e.Fields[strconv.Itoa(i)])
	}
	once, to := "", c.shards[n]
	if words[0] == "event" {
		once = eventID(words[3])
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	word, err := to.act(call, once, to.keys.Run(words[1]), words...)
	switch {
	case err != nil:
		return err
	case word == "later" && age(e.ID) < unheardTime:
		return errUnheard
	case word == "later":
		c.log.Warn("workflow: a message is dropped, nobody has heard of the execution that it is for", "instance", words[1], "execution", words[2], "from_shard", from.n)
	}
	return nil
}

func eventID(text string) string {
	e, err := decodeEvent(text)
	if err != nil {
		return ""
	}
	return e.ID
}

// age is how long ago an entry was written, by our clock.
func age(entry string) time.Duration {
	for i := range entry {
		if entry[i] == '-' {
			return time.Since(time.UnixMilli(parseInt(entry[:i])))
		}
	}
	return 0
}
