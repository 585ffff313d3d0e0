package workflow

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/lifecycle"
)

// longestWay is how long an event waits for an instance whose start is on its way. It is short while a worker runs.
const longestWay = 30 * time.Second

// arrived waits until no start of an instance is on its way to its shard. Its parent knows of it once its own task is recorded, when the start may still be in an outbox.
func (c *Client) arrived(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, longestWay, fmt.Errorf("its start did not arrive from another shard within %s: does any worker run?", longestWay))
	defer cancel()
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		coming, err := c.coming(ctx, id)
		if err != nil || !coming {
			return err
		}
		if !lifecycle.Sleep(ctx, pause) {
			return context.Cause(ctx)
		}
	}
}

// coming says whether a start of an instance is in the outbox of another shard. It reads a page of all outboxes in one pipeline, and more of those that are longer.
func (c *Client) coming(ctx context.Context, id string) (bool, error) {
	home := c.of(id)
	type place struct {
		s    *shard
		from string
	}
	var left []place
	for _, s := range c.shards {
		if s != home {
			left = append(left, place{s, "-"})
		}
	}
	for len(left) > 0 {
		cmds := make(rueidis.Commands, len(left))
		for i, p := range left {
			cmds[i] = c.rdb.B().Xrange().Key(p.s.keys.Outbox()).Start(p.from).End("+").Count(checkPage).Build()
		}
		var longer []place
		for i, r := range c.rdb.DoMulti(ctx, cmds...) {
			page, err := r.AsXRange()
			if err != nil {
				return false, err
			}
			if home.startedBy(page, id) {
				return true, nil
			}
			if len(page) == checkPage {
				longer = append(longer, place{left[i].s, "(" + page[len(page)-1].ID})
			}
		}
		left = longer
	}
	return false, nil
}

// startedBy says whether a start of an instance of this shard is among messages.
func (s *shard) startedBy(messages []rueidis.XRangeEntry, id string) bool {
	to := strconv.Itoa(s.n)
	return slices.ContainsFunc(messages, func(m rueidis.XRangeEntry) bool {
		f := m.FieldValues
		return f["s"] == to && f["1"] == "start" && f["2"] == id
	})
}
