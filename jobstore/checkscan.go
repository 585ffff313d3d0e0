package jobstore

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/recipe"
)

// scan reads the names of all keys of the prefix, and reports those that Takt does not know or that have another type.
func (c *checker) scan(ctx context.Context) error {
	err := redis.Scan(ctx, c.store.rdb, redis.Glob(c.store.keys.Prefix())+":*", func(names []string) error { return c.page(ctx, names) })
	slices.Sort(c.keys)
	return err
}

// page takes in one page of keys, in one pipeline. A page may name a key again.
func (c *checker) page(ctx context.Context, names []string) error {
	s := c.store
	names = slices.DeleteFunc(names, func(key string) bool { _, again := c.types[key]; return again })
	slices.Sort(names)
	names = slices.Compact(names)
	asks := make(rueidis.Commands, len(names))
	for i, key := range names {
		asks[i] = s.rdb.B().Type().Key(key).Build()
	}
	for i, reply := range s.rdb.DoMulti(ctx, asks...) {
		typ, err := reply.ToString()
		if err := c.failed(names[i], err); err != nil {
			return err
		}
		if err == nil && typ != "none" { // none: expired meanwhile
			c.key(names[i], typ)
		}
	}
	return nil
}

// key compares a key with the table of keys.
func (c *checker) key(key, typ string) {
	p, known := keys.Match(c.rest(key))
	switch {
	case !known:
		c.violation(key, nextForeign, "is not a key of Takt")
		c.types[key] = ""
	case typ != p.Type:
		c.violation(key, nextType, "is a %s, should be a %s", typ, p.Type)
		c.types[key] = ""
	default:
		c.types[key] = typ
		c.keys = append(c.keys, key)
	}
}

// rest is a key below the prefix.
func (c *checker) rest(key string) string { return strings.TrimPrefix(key, c.store.keys.Prefix()+":") }

// each calls f for every readable key of a pattern of keys.All, until it fails. name is what stands for the names of the pattern.
func (c *checker) each(pattern string, f func(key, name string) error) error {
	before, _, _ := strings.Cut(pattern, "{")
	for _, key := range c.keys {
		rest := c.rest(key)
		if !strings.HasPrefix(rest, before) {
			continue
		}
		if p, _ := keys.Match(rest); p.Pattern != pattern {
			continue
		}
		if err := f(key, strings.TrimPrefix(rest, before)); err != nil {
			return err
		}
	}
	return nil
}

// documents reads the job orders and the executions.
func (c *checker) documents(ctx context.Context) error {
	if err := c.each("joborder:{id}", func(key, id string) error { return c.job(ctx, key, id) }); err != nil {
		return err
	}
	return c.each("sfc:execution:{job}", func(key, id string) error { return c.execution(ctx, key, id) })
}

func (c *checker) job(ctx context.Context, key, id string) error {
	doc, ok, err := read(ctx, c, key, c.store.rdb.B().Get().Key(key).Build(), asBytes)
	if !ok {
		return err // nil: expired meanwhile
	}
	o, err := c.store.opt.Schemas.decodeOrder(key, doc)
	switch {
	case c.newer(key, err):
		c.types[key] = ""
	case err != nil:
		c.violation(key, nextReport, "cannot be read: %v", err)
		c.types[key] = ""
	case o.JobOrder.JobOrderID != id:
		c.violation(key, nextReport, "holds job order %q", o.JobOrder.JobOrderID)
	case o.Scope == "":
		c.violation(key, nextReport, "has no _scope")
	default:
		c.jobs[id] = o
	}
	if o == nil || !o.State.IsEnd() {
		return nil
	}
	stays, err := c.stays(ctx, key)
	if stays {
		c.violation(key, nextReport, "is in EndState and never expires")
	}
	return err
}

// stays says whether a key is there and never expires.
func (c *checker) stays(ctx context.Context, key string) (bool, error) {
	ttl, ok, err := read(ctx, c, key, c.store.rdb.B().Pttl().Key(key).Build(), asInt)
	return ok && ttl == -1, err
}

func (c *checker) execution(ctx context.Context, key, id string) error {
	doc, ok, err := read(ctx, c, key, c.store.rdb.B().Get().Key(key).Build(), asBytes)
	if !ok {
		return err // nil: expired meanwhile
	}
	x, err := recipe.DecodeExecution(doc)
	if err != nil {
		c.violation(key, nextReport, "cannot be read: %v", err)
		c.types[key] = ""
		return nil
	}
	c.executions[id] = x
	return nil
}
