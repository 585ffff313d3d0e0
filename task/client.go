package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/lock"
)

// Options are the settings of a Client. The zero value is ready.
type Options struct {
	// Prefix is what all keys begin with, without the colon; "" = "takt". On a cluster it needs a hash tag, {takt}. Python peers use "diracx".
	Prefix string
	// LockPrefix stands before the keys of locks and limiters, verbatim; "" = nothing, as Python peers expect it.
	LockPrefix string
	// LockTypes are the object types that locks may name; nil = the built-in ones.
	LockTypes *lock.Types
	// MaxMessage is the largest encoded message in bytes; 0 = 1 MiB.
	MaxMessage int
	// MaxBacklog refuses submissions to a queue that holds at least as many tasks, looked at ten times a second; 0 = no limit.
	MaxBacklog int64
	// KnownFor is how long a submission under a Key, or with an ID of its own, is remembered; 0 = 24 h.
	KnownFor time.Duration
	// Replicas is how many replicas of Redis must have acknowledged a submission (WAIT) before Submit, SubmitMany and Spawn return without an error; 0 = none, what
	// a failover then loses is gone. If they have not within ReplicasWithin, 0 = 1 s, the error is a *ReplicasError. It takes two commands and the way to the
	// replicas for each call, whose connection is its own meanwhile. What becomes of a task later does not wait: a failover may undo it, and it is done again.
	Replicas       int
	ReplicasWithin time.Duration
	// WaitForDisk has the append-only files of the master and of Replicas replicas acknowledge a submission (WAITAOF), not their memories: then it outlives a loss of power,
	// too. It needs Valkey, or Redis 7.2 or later, with appendonly yes; Open fails without.
	WaitForDisk bool
	// NoPropagate leaves the trace context of submitters (W3C traceparent and tracestate) out of messages. It takes 60 bytes of a message that was submitted within a span.
	NoPropagate bool
	// Log may be nil.
	Log *slog.Logger
}

const (
	defaultPrefix     = "takt"
	defaultMaxMessage = 1 << 20
	defaultKnownFor   = 24 * time.Hour
	callTimeout       = 5 * time.Second
)

// Client submits tasks, waits for their results and makes workers. It is safe for concurrent use.
type Client struct {
	rdb     rueidis.Client
	in      rueidis.Client // for submissions: rdb, or one that waits for replicas
	owned   bool           // close rdb with it
	keys    keys.Keys
	opts    Options
	locker  *lock.Locker
	log     *slog.Logger
	streams map[Queue]string // keys of those of the built-in sizes
	pools   pools
	waits   *redis.Waiters
	levels  levels
	clock   serverClock
}

// Connect is what Open needs to know of a server.
type Connect struct {
	// URL as in redis://user:password@host:port/db, rediss:// for TLS, redis+sentinel://s1,s2/master, unix:///path.
	URL string
	// Username and Password win over those in URL; CAFile, CertFile and KeyFile are PEM files for TLS; all may be "".
	Username, Password, CAFile, CertFile, KeyFile string
	// SentinelUsername and SentinelPassword are those of the sentinels themselves; "" = none.
	SentinelUsername, SentinelPassword string
	// ServerName is the name that the certificate of each server must have; "" = the one by which each is reached.
	ServerName string
	// Embedded says that the server is the in-process one of takt demo and takt dev, or another miniredis.
	Embedded bool
	// Looks says that the program only reads, so rights to read are enough.
	Looks bool
}

// Open connects to a server and returns a Client on it, which Close closes. It blocks until the server has answered or ctx ends.
func Open(ctx context.Context, url string, o Options) (*Client, error) {
	return Connect{URL: url}.Open(ctx, o)
}

// Open is the function Open with more to say about the connection.
func (s Connect) Open(ctx context.Context, o Options) (*Client, error) {
	rdb, err := redis.Connect(ctx, redis.Options{URL: s.URL, Username: s.Username, Password: s.Password, CAFile: s.CAFile, CertFile: s.CertFile, KeyFile: s.KeyFile, ServerName: s.ServerName,
		SentinelUsername: s.SentinelUsername, SentinelPassword: s.SentinelPassword, Embedded: s.Embedded, Looks: s.Looks, Prefix: o.prefix(), Log: o.Log})
	if err != nil {
		return nil, err
	}
	c, err := New(rdb, o)
	if err == nil {
		if err = o.wait().Probe(ctx, rdb); err != nil {
			err = fmt.Errorf("task: %w", err)
		}
	}
	if err != nil {
		rdb.Close()
		return nil, err
	}
	c.owned = true
	return c, nil
}

// New makes a Client on a connection that stays the caller's. It must not retry writes (rueidis.ClientOption.DisableRetry). Each size that a Worker serves blocks on a connection of
// its own, and each Worker has a few more: those beyond rueidis.ClientOption.BlockingPoolSize, 1,024 if nothing is said, wait for ever. Open allows for any number.
func New(rdb rueidis.Client, o Options) (*Client, error) {
	switch {
	case rdb == nil:
		return nil, errors.New("task: the Redis client is missing")
	case strings.ContainsAny(o.prefix(), " \t\r\n*?[]\\"):
		return nil, fmt.Errorf("task: Options.Prefix %q: want no white space and none of *?[]\\", o.Prefix)
	case o.MaxMessage < 0:
		return nil, fmt.Errorf("task: Options.MaxMessage %d: want bytes, 0 for %d", o.MaxMessage, defaultMaxMessage)
	case o.MaxBacklog < 0:
		return nil, fmt.Errorf("task: Options.MaxBacklog %d: want tasks, 0 for no limit", o.MaxBacklog)
	case o.KnownFor < 0:
		return nil, fmt.Errorf("task: Options.KnownFor %v: want a time, 0 for %v", o.KnownFor, defaultKnownFor)
	}
	wait := o.wait()
	if err := wait.Check(); err != nil {
		return nil, fmt.Errorf("task: %w", err)
	}
	k := keys.New(o.prefix())
	if rdb.Mode() == rueidis.ClientModeCluster && !k.Tagged() {
		return nil, fmt.Errorf("task: Options.Prefix %q: a cluster needs a hash tag, for example {takt}", o.prefix())
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.MaxMessage = cmp.Or(o.MaxMessage, defaultMaxMessage)
	o.KnownFor = cmp.Or(o.KnownFor, defaultKnownFor)
	locker, err := lock.New(rdb, lock.Options{Prefix: o.LockPrefix, Types: o.LockTypes, Log: o.Log})
	if err != nil {
		return nil, err
	}
	c := &Client{rdb: rdb, in: rdb, keys: k, opts: o, locker: locker, log: o.Log, streams: make(map[Queue]string)}
	if safe := wait.On(rdb, k.TaskReplicated()); safe != nil {
		c.in = safe
	}
	for _, q := range queues {
		c.streams[q] = k.TaskStream(string(q))
	}
	c.waits = redis.NewWaiters(rdb, newID(), o.Log)
	return c, nil
}

func (o Options) wait() redis.Wait {
	return redis.Wait{Replicas: o.Replicas, ForDisk: o.WaitForDisk, Within: o.ReplicasWithin}
}

func (o Options) prefix() string { return cmp.Or(o.Prefix, defaultPrefix) }

// Close ends what Await uses, and the connection if Open made it. Workers must have ended before.
func (c *Client) Close() {
	c.waits.Close()
	if c.owned {
		c.rdb.Close()
	}
}

// Locker takes locks of the same kind as Locks declares, outside tasks.
func (c *Client) Locker() *lock.Locker { return c.locker }

// Now is the server's clock, by which due times, leases and limits are judged.
func (c *Client) Now(ctx context.Context) (time.Time, error) { return redis.ServerTime(ctx, c.rdb) }
