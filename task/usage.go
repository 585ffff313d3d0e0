package task

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
)

// Usage is what the tasks of one prefix cost the server.
type Usage struct {
	Keys     int
	Results  int   // keys that hold a result
	Bytes    int64 // of memory, as MEMORY USAGE says of all keys together
	Commands int64 // that the server has processed since it started, of all its clients, those inside scripts included
}

// Usage looks at every key of the prefix, in pages: for measurements, not for every day.
func (c *Client) Usage(ctx context.Context) (u Usage, err error) {
	err = c.eachKey(ctx, func(key string) rueidis.Completed {
		u.Keys++
		if strings.HasPrefix(key, c.keys.TaskResult("")) {
			u.Results++
		}
		return c.rdb.B().MemoryUsage().Key(key).Samples(0).Build()
	}, func(r rueidis.RedisResult) error {
		n, err := r.AsInt64()
		if err != nil && !rueidis.IsRedisNil(err) { // nil: it has expired meanwhile
			return err
		}
		u.Bytes += n
		return nil
	})
	if err != nil {
		return u, fmt.Errorf("task: usage: %w", err)
	}
	for _, node := range redis.Nodes(c.rdb) {
		info, err := node.Do(ctx, node.B().Info().Section("commandstats").Build()).ToString()
		if err != nil {
			return u, fmt.Errorf("task: usage: %w", err)
		}
		u.Commands += commandCalls(info)
	}
	return u, nil
}

// commandCalls adds up the calls of INFO commandstats: "cmdstat_xadd:calls=12,usec=...".
func commandCalls(info string) (sum int64) {
	for line := range strings.Lines(info) {
		_, rest, ok := strings.Cut(line, ":calls=")
		if !ok {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		if n, err := strconv.ParseInt(calls, 10, 64); err == nil {
			sum += n
		}
	}
	return sum
}

// eachKey runs a command for every key of the prefix, a page of them in one pipeline.
func (c *Client) eachKey(ctx context.Context, command func(key string) rueidis.Completed, take func(rueidis.RedisResult) error) error {
	return redis.Scan(ctx, c.rdb, redis.Glob(c.keys.Prefix())+":*", func(keys []string) error {
		cmds := make(rueidis.Commands, len(keys))
		for i, key := range keys {
			cmds[i] = command(key)
		}
		for _, r := range c.rdb.DoMulti(ctx, cmds...) {
			if err := take(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// Drop deletes every key of the prefix, in pages: for benchmarks and tests, never for a prefix that anybody works with.
func (c *Client) Drop(ctx context.Context) error {
	err := c.eachKey(ctx, func(key string) rueidis.Completed { return c.rdb.B().Unlink().Key(key).Build() }, rueidis.RedisResult.Error)
	if err != nil {
		return fmt.Errorf("task: drop: %w", err)
	}
	return nil
}

// MessageSize is how many bytes a submission of args takes when it is encoded.
func (t *Type[T, R]) MessageSize(c *Client, args T, opts ...SubmitOption) (int, error) {
	s, err := t.submission(context.Background(), c, args, opts)
	if err != nil {
		return 0, err
	}
	b, err := c.encode(&t.spec, s)
	return len(b), err
}
