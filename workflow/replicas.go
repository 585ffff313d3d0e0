package workflow

import (
	"cmp"
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/redis/script"
)

// ReplicasError says that something was written, and that fewer replicas than Options.Replicas have acknowledged it: a failover now may undo it. Start and Signal may be
// repeated, which changes nothing but waits once more. A checkpoint, or the result of an activity, is recorded and cannot be repeated: go on; if a failover undoes it, the task is handed out again.
// Acknowledged and Want are numbers of replicas, Within is how long was waited; Err is why nothing is known of replicas, nil if the time was over.
type ReplicasError = redis.ReplicasError

// write runs a script whose effect must outlive a failover, if Options say so. short is not nil if it ran and too few replicas have acknowledged that; the reply holds all the same.
func (s *shard) write(ctx context.Context, run *script.Script, keys []string, args ...string) (reply rueidis.RedisResult, short *ReplicasError) {
	if s.safe == nil {
		return run.Run(ctx, s.c.rdb, keys, args...), nil
	}
	one := &redis.Noting{Replicated: s.safe}
	reply = run.Run(ctx, one, keys, args...)
	return reply, one.Short
}

func (o Options) wait() redis.Wait {
	return redis.Wait{Replicas: o.Replicas, ForDisk: o.WaitForDisk, Within: o.ReplicasWithin}
}

// callTimeout bounds one call to Redis, and the wait for replicas after it.
func (c *Client) callTimeout() time.Duration {
	if !c.opts.wait().Wants() {
		return callTimeout
	}
	return callTimeout + cmp.Or(c.opts.ReplicasWithin, redis.WaitWithin)
}

// callTimeoutFor is callTimeout for a call that carries these words: a second more for each MiB.
func (c *Client) callTimeoutFor(words []string) time.Duration {
	bytes := 0
	for _, w := range words {
		bytes += len(w)
	}
	return c.callTimeout() + time.Duration(bytes)*time.Second>>20
}
