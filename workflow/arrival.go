package workflow

import (
	"context"
	"fmt"
	"strconv"
	"time"

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

// coming says whether a start of an instance is in the outbox of another shard.
func (c *Client) coming(ctx context.Context, id string) (bool, error) {
	home := c.of(id)
	for _, s := range c.shards {
		if s == home {
			continue
		}
		if found, err := s.sends(ctx, home, id); err != nil || found {
			return found, err
		}
	}
	return false, nil
}

// sends says whether a start of an instance is in the outbox of this shard.
func (s *shard) sends(ctx context.Context, home *shard, id string) (bool, error) {
	to := strconv.Itoa(home.n)
	for from := "-"; ; {
		page, err := s.c.rdb.Do(ctx, s.c.rdb.B().Xrange().Key(s.keys.Outbox()).Start(from).End("+").Count(checkPage).Build()).AsXRange()
		if err != nil {
			return false, err
		}
		for _, m := range page {
			if f := m.FieldValues; f["s"] == to && f["1"] == "start" && f["2"] == id {
				return true, nil
			}
			from = "(" + m.ID
		}
		if len(page) < checkPage {
			return false, nil
		}
	}
}
