package workflow

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/invariant"
	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/stream"
)

// Violation is one broken invariant: an instance or a key is lost, stuck or left over.
type Violation = invariant.Violation

const (
	nextReport  = invariant.NextReport
	nextWorkers = "does a worker run that reads it? It puts that right"
	nextAny     = "does any worker run? It puts that right"
	nextLetters = "look who writes to the outbox and stop that; XRANGE shows what and why, DEL the key then"

	checkPage = 1000 // entries of an outbox that one command reads
)

// Check lists the invariants that do not hold, nil if all do. What is younger than grace counts as work in hand: tasks that nobody took, timers that are due, messages
// to other shards. It reads every key of the prefix, in pages, and holds what active instances have in memory; it changes nothing. What one pass finds is looked for again,
// so that what was only on its way between two reads is not reported. An error means that the server could not be asked, or that ctx ended; a key that cannot be read
// is a violation.
func (c *Client) Check(ctx context.Context, grace time.Duration) ([]Violation, error) {
	return invariant.Standing(ctx, 2, 0, func() ([]Violation, error) {
		found, err := c.checkOnce(ctx, grace)
		if err != nil {
			return nil, fmt.Errorf("workflow: check: %w", err)
		}
		return found, nil
	})
}

// checker is one pass over all keys of all shards.
type checker struct {
	invariant.List
	c     *Client
	grace time.Duration
	now   time.Time // of the server
	seen  []*picture
}

// picture is what a pass saw of a shard.
type picture struct {
	*invariant.Pass
	s       *shard
	runs    map[string]map[string]string            // by id
	docs    map[string]Info                         // by id:execution
	history map[string]string                       // last event, by id:execution
	inbox   map[string]int64                        // number of events, by id
	last    map[string]string                       // by id
	queues  map[string]map[string]map[string]string // kind:name or held:kind:name -> entry -> fields
	holders map[string]map[string]string            // kind:name -> entry -> consumer
	gates   map[string]map[string]float64           // by gate
	most    map[string]string                       // by gate
	outbox  map[string]map[string]string            // entry -> fields
	paused  []string
	workers map[string]bool // those that hold something, and whether they live

	timers, created, active, ended map[string]float64
}

func (c *Client) checkOnce(ctx context.Context, grace time.Duration) ([]Violation, error) {
	now, err := redis.ServerTime(ctx, c.rdb)
	if err != nil {
		return nil, err
	}
	k := &checker{c: c, grace: grace, now: now}
	for _, s := range c.shards {
		p := look(ctx, s)
		if p.Err != nil {
			return nil, p.Err
		}
		k.seen, k.List = append(k.seen, p), append(k.List, p.List...)
	}
	for _, p := range k.seen {
		k.instances(p)
		k.documents(p)
		k.work(p)
		k.indexes(p)
		k.passages(p)
	}
	return k.Sorted(), nil
}

// old says whether a stream entry is older than grace.
func (k *checker) old(entry string) bool {
	ms, _, _ := strings.Cut(strings.TrimPrefix(entry, "h"), "-")
	return k.now.Sub(time.UnixMilli(parseInt(ms))) > k.grace
}

// look reads a shard.
func look(ctx context.Context, s *shard) *picture {
	pass := &invariant.Pass{Ctx: ctx, Redis: s.c.rdb, Keys: s.all, Families: []string{"workflow:"}, Reads: isRead}
	pass.Scan()
	p := &picture{
		Pass: pass, s: s,
		runs:    invariant.All(pass, "workflow:run:{id}", invariant.Hash),
		docs:    invariant.All(pass, "workflow:doc:{id}:{x}", document),
		history: invariant.All(pass, "workflow:his:{id}:{x}", lastOf),
		inbox:   invariant.All(pass, "workflow:in:{id}", invariant.Length),
		last:    invariant.All(pass, "workflow:last:{id}", invariant.Text),
		gates:   invariant.All(pass, "workflow:gate:{key}", invariant.Scores),
		queues:  make(map[string]map[string]map[string]string), holders: make(map[string]map[string]string),
	}
	var holders []string
	for _, pattern := range queuePatterns {
		for key := range p.Named(pattern) {
			queue := strings.TrimPrefix(key, s.base)
			p.queues[queue], p.holders[queue] = p.entries(key), p.pending(key)
			holders = slices.AppendSeq(holders, maps.Values(p.holders[queue]))
		}
	}
	slices.Sort(holders)
	var err error
	p.workers, err = stream.Living(ctx, p.Redis, s.all, slices.Compact(holders))
	p.Fail(err)
	p.outbox = p.entries(s.keys.Outbox())
	p.timers, _ = invariant.Read(pass, s.keys.Timers(), invariant.Scores)
	p.created, _ = invariant.Read(pass, s.keys.Created(), invariant.Scores)
	p.active, _ = invariant.Read(pass, s.keys.Active(), invariant.Scores)
	p.ended, _ = invariant.Read(pass, s.keys.Ended(), invariant.Scores)
	p.paused, _ = invariant.Read(pass, s.keys.Paused(), invariant.Set)
	p.most, _ = invariant.Read(pass, s.keys.Gates(), invariant.Hash)
	letters := s.all.DeadLetter(s.keys.Outbox())
	if n, _ := invariant.Read(pass, letters, invariant.Length); n > 0 {
		p.Add(letters, nextLetters, "holds %d entries of the outbox that are no messages", n)
	}
	return p
}

var queuePatterns = []string{"workflow:tasks:{queue}", "workflow:activities:{queue}", "workflow:held:tasks:{queue}", "workflow:held:activities:{queue}"}

// isRead says whether look reads the keys of a pattern.
func isRead(p keys.Pattern) bool {
	switch p.Pattern {
	case "workflow:early:{id}:{x}", "workflow:queues", "workflow:seen", "workflow:counters", "workflow:schedule:{name}", "workflow:schedules", "workflow:watched",
		"workflow:mended", "workflow:clock", "workflow:shards":
		return false
	}
	return true
}

func document(b rueidis.Builder, key string) (rueidis.Completed, func(rueidis.RedisResult) (Info, error)) {
	return b.Get().Key(key).Build(), func(r rueidis.RedisResult) (Info, error) {
		text, err := r.ToString()
		if err != nil {
			return Info{}, err
		}
		return decodeInfo(text)
	}
}

func lastOf(b rueidis.Builder, key string) (rueidis.Completed, func(rueidis.RedisResult) (string, error)) {
	return b.Lindex().Key(key).Index(-1).Build(), rueidis.RedisResult.ToString
}

// entries are all of a stream.
func (p *picture) entries(key string) map[string]map[string]string {
	all := make(map[string]map[string]string)
	for e := range p.Entries(key) {
		all[e.ID] = e.FieldValues
	}
	return all
}

// pending says who holds which entries of a queue.
func (p *picture) pending(key string) map[string]string {
	all := make(map[string]string)
	ask := func(from string) rueidis.Completed {
		return p.Redis.B().Xpending().Key(key).Group(p.s.keys.Group()).Start(from).End("+").Count(invariant.Page).Build()
	}
	for part := range invariant.Pages(p.Pass, key, ask, pendingOf, func(part []string) string { return part[0] }) {
		all[part[0]] = part[1]
	}
	return all
}

// pendingOf lists entries that are held: id, consumer, and two numbers.
func pendingOf(r rueidis.RedisResult) (list [][]string, err error) {
	page, err := r.ToArray()
	if err != nil && stream.IsNoGroup(err) {
		return nil, nil
	}
	for _, m := range page {
		part, err := m.AsStrSlice()
		if err != nil {
			return nil, err
		}
		list = append(list, part)
	}
	return list, err
}
