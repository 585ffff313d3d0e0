package task

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

const (
	defaultReplicasWithin = time.Second
	replicatedFor         = time.Minute
)

// ReplicasError says that a submission was written, and that fewer replicas than Options.Replicas have acknowledged it: a failover now may lose it. Submit it
// again under the same Key, ID or GroupID, which changes nothing but waits once more. Without such a name a repetition is another task.
type ReplicasError struct {
	Acknowledged, Want int
	Within             time.Duration // how long was waited
	Err                error         // why nothing is known of replicas, nil if the time was over
}

func (e *ReplicasError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("task: submitted, but it is not known whether %d replicas have it: %v", e.Want, e.Err)
	}
	return fmt.Sprintf("task: submitted, but %d of %d replicas acknowledged it within %v (Options.Replicas)", e.Acknowledged, e.Want, e.Within)
}

func (e *ReplicasError) Unwrap() error { return e.Err }

// replicated is a connection for submissions: a reply comes without an error only when replicas have what it tells of. WAIT counts those that have what was written
// on the same connection, so each pipeline has a connection of its own while it takes, and its last write is one of Takt's own: replies may tell of what others wrote
// before, such as a task that is known by its key. Redirections of a cluster are not followed, for the WAIT would stay behind; they are errors of the kind Away.
type replicated struct {
	rueidis.Client
	mark   string // key of the last write
	want   int
	within time.Duration
}

func (r *replicated) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return r.DoMulti(ctx, cmd)[0]
}

func (r *replicated) DoMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	if len(cmds) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.within+callTimeout)
	defer cancel()
	b := r.B()
	all := slices.Concat(cmds, []rueidis.Completed{
		b.Set().Key(r.mark).Value("").Px(replicatedFor).Build(),
		b.Wait().Numreplicas(int64(r.want)).Timeout(max(r.within.Milliseconds(), 1)).Build(),
	})
	conn, release := r.Dedicate()
	replies := conn.DoMulti(ctx, all...)
	if slices.ContainsFunc(replies, func(reply rueidis.RedisResult) bool { return reply.NonRedisError() != nil }) {
		conn.Close() // what is still to come on it would be taken for the answer to something else
	}
	release()
	replies, last := replies[:len(cmds)], replies[len(cmds):]
	have, err := last[1].AsInt64()
	if marked := last[0].Error(); marked != nil {
		err = marked
	}
	if err == nil && int(have) >= r.want {
		return replies
	}
	short := &ReplicasError{Acknowledged: int(have), Want: r.want, Within: r.within, Err: err}
	for i := range replies {
		if replies[i].Error() == nil {
			replies[i] = rueidis.NewErrorResult(short)
		}
	}
	return replies
}
