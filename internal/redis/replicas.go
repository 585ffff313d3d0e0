package redis

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

const (
	replicatedFor = time.Minute     // how long the mark of a Replicated stays
	replicaCall   = 5 * time.Second // of a call, beside the wait for replicas
	replicaRounds = 4               // waits under way at once
	replicaBatch  = 256             // calls that share a wait, at most
)

// Replicated is a connection for writes that must outlive a failover. WAIT counts the replicas that have what was written on the same connection, so each pipeline has
// one of its own while it takes, and its last write is one of Takt's own: replies may tell of what others wrote before, such as a name that is taken. Calls that come
// while others wait share the next pipeline and its WAIT. Redirections of a cluster are not followed, for the WAIT would stay behind; they are errors of the kind Away.
// It is safe for concurrent use.
type Replicated struct {
	rueidis.Client
	Mark   string        // key of the last write, in the slot of what is written
	Want   int           // replicas
	Within time.Duration // how long is waited for them
	// Short makes the error that Do and DoMulti have in the place of each reply if too few replicas answered.
	Short func(*Shortage) error

	mu     sync.Mutex
	queue  []*replicatedCall
	rounds int // under way
}

// replicatedCall is one call of Ask. Its reply is read after done is closed.
type replicatedCall struct {
	ctx     context.Context
	cmds    []rueidis.Completed
	done    chan struct{}
	replies []rueidis.RedisResult
	short   *Shortage
}

// Shortage says that something was written, and that too few replicas have acknowledged it: a failover now may lose it.
type Shortage struct {
	Acknowledged, Want int
	Within             time.Duration // how long was waited
	Err                error         // why nothing is known of replicas, nil if the time was over
}

// Text is what an error says of it; written is the word for what was done.
func (s *Shortage) Text(written string) string {
	if s.Err != nil {
		return fmt.Sprintf("%s, but it is not known whether %d replicas have it: %v", written, s.Want, s.Err)
	}
	return fmt.Sprintf("%s, but %d of %d replicas acknowledged it within %v (Options.Replicas)", written, s.Acknowledged, s.Want, s.Within)
}

// Do is that of the client; a reply comes without an error only when replicas have what it tells of.
func (r *Replicated) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return r.DoMulti(ctx, cmd)[0]
}

// DoMulti is Do for a pipeline.
func (r *Replicated) DoMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	replies, short := r.Ask(ctx, cmds...)
	for i := range replies {
		if short != nil && replies[i].Error() == nil {
			replies[i] = rueidis.NewErrorResult(r.Short(short))
		}
	}
	return replies
}

// Ask is DoMulti for those who want the replies whatever the replicas say; nil = enough of them have it.
func (r *Replicated) Ask(ctx context.Context, cmds ...rueidis.Completed) ([]rueidis.RedisResult, *Shortage) {
	if len(cmds) == 0 {
		return nil, nil
	}
	call := &replicatedCall{ctx: ctx, cmds: cmds, done: make(chan struct{})}
	r.mu.Lock()
	r.queue = append(r.queue, call)
	if r.rounds < replicaRounds {
		r.rounds++
		go r.work()
	}
	r.mu.Unlock()
	select {
	case <-call.done:
		return call.replies, call.short
	case <-ctx.Done(): // the commands may be carried out all the same, as with any call that is given up
		return repeated(ctx.Err(), len(cmds)), &Shortage{Want: r.Want, Within: r.Within, Err: ctx.Err()}
	}
}

func repeated(err error, n int) []rueidis.RedisResult {
	return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(err)}, n)
}

// work makes rounds until no call waits for one.
func (r *Replicated) work() {
	for {
		r.mu.Lock()
		calls := r.queue[:min(len(r.queue), replicaBatch)]
		r.queue = slices.Clone(r.queue[len(calls):])
		if len(calls) == 0 {
			r.rounds--
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		r.round(slices.DeleteFunc(calls, func(c *replicatedCall) bool { return c.ctx.Err() != nil }))
	}
}

// round sends the commands of all calls, waits for replicas once, and answers each call.
func (r *Replicated) round(calls []*replicatedCall) {
	if len(calls) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.Within+replicaCall)
	defer cancel()
	var all []rueidis.Completed
	for _, c := range calls {
		all = append(all, c.cmds...)
	}
	b := r.B()
	all = append(all,
		b.Set().Key(r.Mark).Value("").Px(replicatedFor).Build(),
		b.Wait().Numreplicas(int64(r.Want)).Timeout(max(r.Within.Milliseconds(), 1)).Build())
	conn, release := r.Dedicate()
	replies := conn.DoMulti(ctx, all...)
	if slices.ContainsFunc(replies, func(reply rueidis.RedisResult) bool { return reply.NonRedisError() != nil }) {
		conn.Close() // what is still to come on it would be taken for the answer to something else
	}
	release()
	replies, last := replies[:len(replies)-2], replies[len(replies)-2:]
	have, err := last[1].AsInt64()
	if marked := last[0].Error(); marked != nil {
		err = marked
	}
	var short *Shortage
	if err != nil || int(have) < r.Want {
		short = &Shortage{Acknowledged: int(have), Want: r.Want, Within: r.Within, Err: err}
	}
	for _, c := range calls {
		c.replies, replies, c.short = replies[:len(c.cmds):len(c.cmds)], replies[len(c.cmds):], short
		close(c.done)
	}
}
