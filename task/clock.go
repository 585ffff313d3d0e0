package task

import (
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// setClock notes how far the server's clock is before ours, by the reply to a TIME that was sent at sent.
func (c *Client) setClock(sent time.Time, reply rueidis.RedisResult) (ahead time.Duration, err error) {
	v, err := reply.AsIntSlice()
	if err != nil {
		return 0, err
	}
	if len(v) != 2 {
		return 0, fmt.Errorf("TIME: %d values, want 2", len(v))
	}
	ahead = time.Unix(v[0], v[1]*int64(time.Microsecond)).Sub(sent.Add(time.Since(sent) / 2).Round(0))
	c.ahead.Store(int64(ahead))
	return ahead, nil
}

// serverTime is when the run was begun, by the server's clock: deadlines and waiting times are judged by that, for ours may be wrong.
func (r *run) serverTime() time.Time {
	return r.begun.Add(time.Duration(r.worker.client.ahead.Load())).Round(0)
}
