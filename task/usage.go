package task

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
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
	err = c.eachKey(ctx, func(keys []string) error {
		cmds := make(rueidis.Commands, len(keys))
		for i, key := range keys {
			cmds[i] = c.rdb.B().MemoryUsage().Key(key).Samples(0).Build()
			if strings.HasPrefix(key, c.keys.TaskResult("")) {
				u.Results++
			}
		}
		for _, r := range c.rdb.DoMulti(ctx, cmds...) {
			n, err := r.AsInt64()
			if err != nil && !rueidis.IsRedisNil(err) { // nil: it has expired meanwhile
				return err
			}
			u.Keys++
			u.Bytes += n
		}
		return nil
	})
	if err != nil {
		return u, fmt.Errorf("task: usage: %w", err)
	}
	for _, node := range c.rdb.Nodes() {
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

const usagePage = 1000

// eachKey calls f with the keys of the prefix, a page at a time; a key may come twice.
func (c *Client) eachKey(ctx context.Context, f func(keys []string) error) error {
	for _, node := range c.rdb.Nodes() {
		for cursor := uint64(0); ; {
			page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(globText(c.keys.Prefix())+":*").Count(usagePage).Build()).AsScanEntry()
			if err != nil {
				return err
			}
			if len(page.Elements) > 0 {
				if err := f(page.Elements); err != nil {
					return err
				}
			}
			if cursor = page.Cursor; cursor == 0 {
				break
			}
		}
	}
	return nil
}

// globText is text that stands for itself in a pattern.
func globText(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}

// Drop deletes every key of the prefix, in pages: for benchmarks and tests, never for a prefix that anybody works with.
func (c *Client) Drop(ctx context.Context) error {
	err := c.eachKey(ctx, func(keys []string) error {
		cmds := make(rueidis.Commands, len(keys))
		for i, key := range keys {
			cmds[i] = c.rdb.B().Unlink().Key(key).Build()
		}
		for _, r := range c.rdb.DoMulti(ctx, cmds...) {
			if err := r.Error(); err != nil {
				return err
			}
		}
		return nil
	})
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
