package task

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/redis"
)

// auditPage is how much one command of a check reads at most.
const auditPage = 200

// families are what the keys of this package begin with, below the prefix.
var families = []string{"tasks:", "results:", "groups:", "scheduler:"}

// scan reads the names of all keys of tasks, and reports those that are not known or have another type.
func (a *auditor) scan(ctx context.Context) error {
	err := redis.Scan(ctx, a.c.rdb, redis.Glob(a.c.keys.Prefix())+":*", func(names []string) error { return a.page(ctx, names) })
	slices.Sort(a.keys)
	return err
}

// page takes in one page of keys, in one pipeline. A page may name a key again.
func (a *auditor) page(ctx context.Context, names []string) error {
	names = slices.DeleteFunc(names, func(key string) bool { _, again := a.types[key]; return again || !a.ours(key) })
	slices.Sort(names)
	names = slices.Compact(names)
	asks := make(rueidis.Commands, len(names))
	for i, key := range names {
		asks[i] = a.c.rdb.B().Type().Key(key).Build()
	}
	for i, reply := range a.c.rdb.DoMulti(ctx, asks...) {
		typ, err := reply.ToString()
		if err := a.failed(names[i], err); err != nil {
			return err
		}
		if err == nil && typ != "none" { // none: gone meanwhile
			a.key(names[i], typ)
		}
	}
	return nil
}

func (a *auditor) ours(key string) bool {
	rest := a.rest(key)
	return slices.ContainsFunc(families, func(f string) bool { return strings.HasPrefix(rest, f) })
}

// key compares a key with the table of keys.
func (a *auditor) key(key, typ string) {
	p, known := keys.Match(a.rest(key))
	a.types[key] = ""
	switch {
	case !known || p.Owner != "task":
		a.violation(key, nextForeign, "is not a key of Takt")
	case p.Pattern == "tasks:{priority}:{size}" && Queue(strings.TrimPrefix(a.rest(key), "tasks:")).validate() != nil:
		a.violation(key, "submit its entries to a queue, then DEL it", "is no queue, nobody reads it")
	case typ != p.Type:
		a.violation(key, nextType, "is a %s, should be a %s", typ, p.Type)
	default:
		a.types[key] = typ
		a.keys = append(a.keys, key)
	}
}

// rest is a key below the prefix.
func (a *auditor) rest(key string) string { return strings.TrimPrefix(key, a.c.keys.Prefix()+":") }

// has says whether a key is there and can be read.
func (a *auditor) has(key string) bool { return a.types[key] != "" }

// each lists the readable keys of a pattern of keys.All, and what stands for the names of the pattern.
func (a *auditor) each(pattern string) (all, names []string) {
	before, _, _ := strings.Cut(pattern, "{")
	for _, key := range a.keys {
		rest := a.rest(key)
		if !strings.HasPrefix(rest, before) {
			continue
		}
		if p, _ := keys.Match(rest); p.Pattern == pattern {
			all, names = append(all, key), append(names, strings.TrimPrefix(rest, before))
		}
	}
	return all, names
}

// pipeline asks the same of many keys, a page at a time.
func (a *auditor) pipeline(ctx context.Context, all []string, ask func(key string) rueidis.Completed, answer func(i int, r rueidis.RedisResult) error) error {
	for from := 0; from < len(all); from += auditPage {
		part := all[from:min(from+auditPage, len(all))]
		cmds := make(rueidis.Commands, len(part))
		for i, key := range part {
			cmds[i] = ask(key)
		}
		for i, r := range a.c.rdb.DoMulti(ctx, cmds...) {
			if err := a.failed(part[i], answer(from+i, r)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ttl is the time to live of many keys, in ms; < 0 as PTTL says.
func (a *auditor) ttl(ctx context.Context, all []string, each func(i int, ms int64)) error {
	return a.pipeline(ctx, all, func(key string) rueidis.Completed { return a.c.rdb.B().Pttl().Key(key).Build() },
		func(i int, r rueidis.RedisResult) error {
			ms, err := r.AsInt64()
			if err == nil {
				each(i, ms)
			}
			return err
		})
}

const forever = -1 // what PTTL says of a key that never expires

// pairs calls f for each pair of a hash or sorted set, some perhaps twice, with HSCAN or ZSCAN.
func (c *Client) pairs(ctx context.Context, page func(cursor uint64) rueidis.Completed, f func(name, value string)) error {
	for cursor := uint64(0); ; {
		r, err := c.rdb.Do(ctx, page(cursor)).AsScanEntry()
		if err != nil {
			return err
		}
		for i := 0; i+1 < len(r.Elements); i += 2 {
			f(r.Elements[i], r.Elements[i+1])
		}
		if cursor = r.Cursor; cursor == 0 {
			return nil
		}
	}
}

func (c *Client) hashPairs(ctx context.Context, key string, f func(field, value string)) error {
	return c.pairs(ctx, func(cursor uint64) rueidis.Completed {
		return c.rdb.B().Hscan().Key(key).Cursor(cursor).Count(auditPage).Build()
	}, f)
}

func (c *Client) zsetPairs(ctx context.Context, key string, f func(member, score string)) error {
	return c.pairs(ctx, func(cursor uint64) rueidis.Completed {
		return c.rdb.B().Zscan().Key(key).Cursor(cursor).Count(auditPage).Build()
	}, f)
}
