package workflow

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/redis"
)

// MaxShards is the most that Options.Shards may be.
const MaxShards = maxShards

// Connect says how to reach the server, where a URL is not enough.
type Connect struct {
	// URL as in redis://user:password@host:port/db, rediss:// for TLS, redis+sentinel://s1,s2/master, redis://n1,n2,n3 for the nodes of a cluster.
	URL string
	// Username and Password win over those in URL; CAFile, CertFile and KeyFile are PEM files for TLS; all may be "".
	Username, Password, CAFile, CertFile, KeyFile string
	// SentinelUsername and SentinelPassword are those of the sentinels themselves; "" = none.
	SentinelUsername, SentinelPassword string
	// ServerName is the name that the certificate of each server must have; "" = the one by which each is reached.
	ServerName string
	// Embedded says that the server is the in-process one of takt demo and takt dev, or another miniredis.
	Embedded bool
	// LookOn compares Options.Shards with what is stored, but does not store it where nothing is: for programs that look at and steer what others start.
	LookOn bool
	// Looks says that the program only reads, so rights to read are enough.
	Looks bool
}

// Open connects to a server and returns a Client on it, which Close closes. It blocks until the server has answered or ctx ends. ErrShards: o.Shards is not what others use.
func (s Connect) Open(ctx context.Context, o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	prefix := o.Prefix
	if o.Shards > 1 {
		prefix = shardPrefix(o.Prefix, 0)
	}
	rdb, err := redis.Connect(ctx, redis.Options{URL: s.URL, Username: s.Username, Password: s.Password, CAFile: s.CAFile, CertFile: s.CertFile, KeyFile: s.KeyFile, ServerName: s.ServerName,
		SentinelUsername: s.SentinelUsername, SentinelPassword: s.SentinelPassword,
		Embedded: s.Embedded, Looks: s.Looks, Prefix: prefix, Untagged: untagged(o.Prefix), Log: o.Log})
	if err != nil {
		return nil, err
	}
	c, err := New(rdb, o)
	if err == nil {
		err = c.checkShards(ctx, !s.LookOn)
	}
	if err != nil {
		rdb.Close()
		return nil, err
	}
	c.owned = true
	return c, nil
}

// checkShards compares the number of shards with what is stored, and stores it if nothing is and store says so. One shard and many have prefixes of their own, so it looks at both.
func (c *Client) checkShards(ctx context.Context, store bool) error {
	n := strconv.Itoa(len(c.shards))
	own := c.shards[0].keys.Shards()
	for _, key := range append(c.otherShards(), own) {
		if store && key == own {
			if err := c.rdb.Do(ctx, c.rdb.B().Set().Key(key).Value(n).Nx().Build()).Error(); err != nil && !rueidis.IsRedisNil(err) {
				return fmt.Errorf("workflow: shards: %w", err)
			}
		}
		stored, err := c.rdb.Do(ctx, c.rdb.B().Get().Key(key).Build()).ToString()
		switch {
		case rueidis.IsRedisNil(err), key != own && redis.Denied(err): // whoever may not read those keys has written none
		case err != nil:
			return fmt.Errorf("workflow: shards: %w", err)
		case stored != n:
			return fmt.Errorf("%w under prefix %s: %s here, %s in Redis (%s); use the same in all processes", ErrShards, c.opts.Prefix, n, stored, key)
		}
	}
	return nil
}

// otherShards are the keys with the number of shards of those who use one where we use many, or many where we use one.
func (c *Client) otherShards() []string {
	bare := strings.Trim(c.opts.Prefix, "{}")
	prefixes := []string{shardPrefix(bare, 0)}
	if len(c.shards) > 1 {
		prefixes = []string{bare, "{" + bare + "}"}
	}
	var all []string
	for _, p := range prefixes {
		all = append(all, keys.New(p).Workflow().Shards())
	}
	return all
}

// foreign says that a key is of another type than Takt's: somebody else wrote it.
func foreign(err error) bool {
	var re *rueidis.RedisError
	return errors.As(err, &re) && strings.Contains(re.Error(), "WRONGTYPE")
}
