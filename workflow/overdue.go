package workflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taktworks/takt/internal/redis"
)

// Overdue is how long the first timer is overdue, 0 = none is, and how many dead letters there are. One round trip for each shard.
func (c *Client) Overdue(ctx context.Context) (late time.Duration, letters int64, err error) {
	b := c.rdb.B()
	for _, s := range c.shards {
		replies := c.rdb.DoMulti(ctx, b.Time().Build(), b.Zrange().Key(s.keys.Timers()).Min("0").Max("0").Withscores().Build(), b.Xlen().Key(s.all.DeadLetter(s.keys.Outbox())).Build())
		now, errNow := redis.ReadTime(replies[0])
		timer, errTimer := replies[1].AsZScores()
		n, errLetters := replies[2].AsInt64()
		if err := errors.Join(errNow, errTimer, errLetters); err != nil {
			return 0, 0, fmt.Errorf("workflow: overdue: %w", err)
		}
		if letters += n; len(timer) > 0 {
			late = max(late, now.Sub(time.UnixMilli(int64(timer[0].Score))))
		}
	}
	return late, letters, nil
}
