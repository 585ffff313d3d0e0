package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/redis"
)

var (
	// ErrNotFound: there is no such execution, or none is active where one must be, or no such schedule.
	ErrNotFound = errors.New("workflow: no such instance")
	// ErrExists: an execution of that instance is active. Wait for its end, signal it, or choose another id.
	ErrExists = errors.New("workflow: the instance is active already")
	// ErrNotFinished: an active execution cannot be removed. Cancel or terminate it first.
	ErrNotFinished = errors.New("workflow: the instance is active")
	// ErrLost: a task is not, or no longer, this worker's. Nothing was done; somebody else does it.
	ErrLost = errors.New("workflow: the task belongs to another worker, or is done")
	// ErrShards: other processes use another number of shards under this prefix.
	ErrShards = errors.New("workflow: number of shards")
)

// absence is an ErrNotFound that says what is not there.
type absence string

func (a absence) Error() string { return "workflow: " + string(a) }
func (absence) Unwrap() error   { return ErrNotFound }

func notActive(i Instance) error {
	if i.Execution == "" {
		return absence("no execution of " + i.ID + " is active")
	}
	return absence("execution " + i.String() + " is not active")
}

func noSchedule(name string) error { return absence("no such schedule: " + name) }

// Options are the settings of a Client. The zero value is ready.
type Options struct {
	// Prefix is what all keys begin with, without the colon; "" = "takt". On a cluster with one shard it needs a hash tag, {takt}, and all instances are on one node. With more shards {takt} is
	// the same as takt, so that one setting serves tasks, too, which need the tag there.
	Prefix string
	// Shards is how many parts the instances are spread over, for a cluster; 0 = 1. With more than one, shard i has the prefix {Prefix-i}, without braces around Prefix. It is the same
	// in all processes and does not change while there are instances: Open compares it with what is stored.
	Shards int
	// Retention is how long executions are kept that have ended; 0 = 7 days, negative = for ever.
	Retention time.Duration
	// KnownFor is how long the id of a signal is remembered, so that it is delivered once; 0 = 15 min.
	KnownFor time.Duration
	// MaxEvent is the largest event in bytes, as JSON, when it is accepted; 0 = 1 MiB. In the history it is larger by its number.
	MaxEvent int
	// Log may be nil.
	Log *slog.Logger
}

const (
	defaultPrefix    = "takt"
	defaultRetention = 7 * 24 * time.Hour
	defaultKnownFor  = 15 * time.Minute
	defaultMaxEvent  = 1 << 20
	maxShards        = 256
	callTimeout      = 5 * time.Second
)

func (o Options) withDefaults() (Options, error) {
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	o.Shards = cmp.Or(o.Shards, 1)
	o.Retention = cmp.Or(o.Retention, defaultRetention)
	o.KnownFor = cmp.Or(o.KnownFor, defaultKnownFor)
	o.MaxEvent = cmp.Or(o.MaxEvent, defaultMaxEvent)
	if o.Shards > 1 {
		o.Prefix = untag(o.Prefix)
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	switch {
	case strings.ContainsAny(o.Prefix, " \t\r\n*?[]\\"):
		return o, fmt.Errorf("workflow: Options.Prefix %q: want no white space and none of *?[]\\", o.Prefix)
	case o.Shards < 1 || o.Shards > maxShards:
		return o, fmt.Errorf("workflow: Options.Shards %d: want 1 to %d", o.Shards, maxShards)
	case o.Shards > 1 && strings.ContainsAny(o.Prefix, "{}"):
		return o, fmt.Errorf("workflow: Options.Prefix %q: want no braces with %d shards, or one pair around all of it: each shard has a tag of its own", o.Prefix, o.Shards)
	case o.KnownFor < 0:
		return o, fmt.Errorf("workflow: Options.KnownFor %s: must not be negative", o.KnownFor)
	case o.MaxEvent < 0:
		return o, fmt.Errorf("workflow: Options.MaxEvent %d: want bytes, 0 for %d", o.MaxEvent, defaultMaxEvent)
	}
	return o, nil
}

// untag is a prefix without the braces around it, if it is a tag as a whole.
func untag(prefix string) string {
	inner := strings.TrimSuffix(strings.TrimPrefix(prefix, "{"), "}")
	if inner != "" && prefix == "{"+inner+"}" && !strings.ContainsAny(inner, "{}") {
		return inner
	}
	return prefix
}

// keep is how long an ended execution is kept, in ms; 0 = for ever.
func (o Options) keep() string {
	if o.Retention < 0 {
		return "0"
	}
	return milliseconds(o.Retention)
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }

// Client starts, signals, ends and looks at instances, and makes workers. It is safe for concurrent use.
type Client struct {
	rdb    rueidis.Client
	owned  bool // close rdb with it
	opts   Options
	log    *slog.Logger
	shards []*shard
	waits  *redis.Waiters
}

// shard is one part of the instances; its keys have one hash tag.
type shard struct {
	c    *Client
	n    int
	all  keys.Keys
	keys keys.Workflow
	base string
}

// name is what a shard is called by another one, "" by itself.
func (s *shard) name(from *shard) string {
	if s == from {
		return ""
	}
	return strconv.Itoa(s.n)
}

// Open connects to a server and returns a Client on it, which Close closes. url is as in redis://user:password@host:port/db, rediss:// for TLS,
// redis+sentinel://s1,s2/master, redis://n1,n2,n3 for the nodes of a cluster. It blocks until the server has answered or ctx ends. ErrShards: o.Shards is not what others use.
func Open(ctx context.Context, url string, o Options) (*Client, error) {
	return Connect{URL: url}.Open(ctx, o)
}

// New makes a Client on a connection that stays the caller's. It must not retry writes (rueidis.ClientOption.DisableRetry).
func New(rdb rueidis.Client, o Options) (*Client, error) {
	if rdb == nil {
		return nil, errors.New("workflow: the Redis client is missing")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if rdb.Mode() == rueidis.ClientModeCluster && o.Shards == 1 && !keys.New(o.Prefix).Tagged() {
		return nil, fmt.Errorf("workflow: Options.Prefix %q has no hash tag, and the server is a cluster: %s", o.Prefix, untagged(o.Prefix))
	}
	c := &Client{rdb: rdb, opts: o, log: o.Log}
	for n := range o.Shards {
		prefix := o.Prefix
		if o.Shards > 1 {
			prefix = shardPrefix(o.Prefix, n)
		}
		all := keys.New(prefix)
		s := &shard{c: c, n: n, all: all, keys: all.Workflow(), base: all.Workflow().Base()}
		c.shards = append(c.shards, s)
	}
	c.waits = redis.NewWaiters(rdb, newID(), o.Log)
	return c, nil
}

// untagged is the advice for a cluster.
func untagged(prefix string) string {
	return fmt.Sprintf("set Options.Shards to four times the number of masters or so, which spreads instances over them, or choose Options.Prefix {%s}, which keeps all on one node", prefix)
}

func shardPrefix(prefix string, n int) string { return fmt.Sprintf("{%s-%d}", prefix, n) }

// Close ends what Await listens with, and the connection if Open made it.
func (c *Client) Close() {
	c.waits.Close()
	if c.owned {
		c.rdb.Close()
	}
}

// of is the shard that an instance, or a gate, belongs to.
func (c *Client) of(name string) *shard {
	if len(c.shards) == 1 {
		return c.shards[0]
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails, by its contract
	return c.shards[h.Sum32()%uint32(len(c.shards))]
}

func newID() string { return uuid.NewString() }

// callTimeoutFor is callTimeout for a call that carries these words: a second more for each MiB.
func callTimeoutFor(words []string) time.Duration {
	bytes := 0
	for _, w := range words {
		bytes += len(w)
	}
	return callTimeout + time.Duration(bytes)*time.Second>>20
}
