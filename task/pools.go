package task

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
)

const maxPool = 64 // bytes of a name

// validate checks that z may be the name of a pool. It stands in keys, references and labels of metrics, beside a priority and between colons, slashes and spaces: none of these can be in it,
// so it is never taken for anything else.
func (z Size) validate() error {
	if z == "" || len(z) > maxPool {
		return fmt.Errorf("size %q: want 1 to %d bytes, has %d", z, maxPool, len(z))
	}
	for i, c := range []byte(z) {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || i > 0 && strings.IndexByte("-_.", c) >= 0) {
			return fmt.Errorf("size %q: want a-z, 0-9, '-', '_' and '.', a letter or digit first", z)
		}
	}
	if slices.Contains(Priorities(), Priority(z)) {
		return fmt.Errorf("size %q: is a priority: want small, medium, large or a pool of another name", z)
	}
	return nil
}

// pools are those that this client has listed, and when.
//
// The list in Redis is a sorted set. Its members are the pools that were ever used, and all sizes that a worker ever served; a score is until when one does, see register.lua, or 0.
// So inspection knows which streams there are and which of them nobody reads. A client lists a pool before it first writes to it and once a minute after, so that a list
// that was lost, with everything else, comes back; the built-in sizes need no listing and cost nothing.
type pools struct {
	mu     sync.Mutex
	listed map[Size]time.Time
}

const listAgain = time.Minute

// target is the stream of a queue for whoever is about to write to it. It lists its pool first: one round trip a minute, none for a built-in size. Who is refused, for the list is
// a key of another type, goes on: Stats fails and Check says so, and tasks are not held up.
func (c *Client) target(ctx context.Context, q Queue) (stream string, err error) {
	if key, ok := c.streams[q]; ok {
		return key, nil
	}
	stream, pool := c.keys.TaskStream(string(q)), q.size()
	if !c.pools.due(pool) {
		return stream, nil
	}
	err = c.rdb.Do(ctx, c.rdb.B().Zadd().Key(c.keys.TaskPools()).Nx().ScoreMember().ScoreMember(0, string(pool)).Build()).Error()
	if _, refused := rueidis.IsRedisErr(err); refused && !redis.Away(err) {
		c.log.Warn("task: a pool is not listed, its queues are not seen", "pool", pool, "error", err)
		err = nil
	}
	if err != nil {
		return "", fmt.Errorf("list pool %s: %w", pool, err)
	}
	c.pools.note(pool)
	return stream, nil
}

func (p *pools) due(pool Size) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.listed[pool]
	return !ok || time.Since(at) > listAgain
}

func (p *pools) note(pool Size) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listed == nil {
		p.listed = make(map[Size]time.Time)
	}
	p.listed[pool] = time.Now()
}

// targets are the streams that a script gets among its keys, each once.
type targets struct {
	c    *Client
	keys []string
	at   map[Queue]int // from 1
}

func (c *Client) targets() *targets { return &targets{c: c, at: make(map[Queue]int)} }

// add takes a queue in, if it is not yet.
func (t *targets) add(ctx context.Context, q Queue) error {
	if t.at[q] > 0 {
		return nil
	}
	key, err := t.c.target(ctx, q)
	if err != nil {
		return err
	}
	t.keys = append(t.keys, key)
	t.at[q] = len(t.keys)
	return nil
}

// index is the place of a queue that is in, from 1.
func (t *targets) index(q Queue) string { return strconv.Itoa(t.at[q]) }

// askPools reads the list, parsePools its answer: until when a worker serves each size and pool. What is no name is left to Check.
func (c *Client) askPools() rueidis.Completed {
	return c.rdb.B().Zrange().Key(c.keys.TaskPools()).Min("0").Max("-1").Withscores().Build()
}

func parsePools(r rueidis.RedisResult) (map[Size]time.Time, error) {
	list, err := r.AsZScores()
	if err != nil {
		return nil, fmt.Errorf("pools: %w", err)
	}
	until := make(map[Size]time.Time, len(list))
	for _, m := range list {
		if z := Size(m.Member); z.validate() == nil {
			until[z] = time.UnixMilli(int64(m.Score))
		}
	}
	return until, nil
}

// queuesOf are the queues of the pools in a list, by name, without those of the built-in sizes.
func queuesOf(listed map[Size]time.Time) (all []Queue) {
	for _, z := range slices.Sorted(maps.Keys(listed)) {
		if slices.Contains(Sizes(), z) {
			continue
		}
		for _, p := range Priorities() {
			all = append(all, queueOf(p, z))
		}
	}
	return all
}

// queues are all that there are: the nine, and those of pools. One round trip.
func (c *Client) queues(ctx context.Context) ([]Queue, error) {
	listed, err := parsePools(c.rdb.Do(ctx, c.askPools()))
	if err != nil {
		return nil, err
	}
	return slices.Concat(queues, queuesOf(listed)), nil
}
