package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/redis"
)

// Violation is one broken invariant: an instance or a key is lost, stuck or left over.
type Violation struct {
	Key     string `json:"key"`
	Problem string `json:"problem"`
	Next    string `json:"next"` // what to do about it
}

func (v Violation) String() string { return v.Key + ": " + v.Problem + "; " + v.Next }

const (
	nextReport  = "this should not happen: keep the data and report it"
	nextWorkers = "does a worker run that reads it? It puts that right"
	nextForeign = "look who writes it: give each program a prefix of its own, then DEL the key"
	nextLetters = "look who writes to the outbox and stop that; XRANGE shows what and why, DEL the key then"
	nextType    = "look who writes it and stop that; keep a copy with DUMP, DEL the key, and check again"
)

// Check lists the invariants that do not hold, nil if all do. What is younger than grace counts as work in hand: tasks that nobody took, timers that are due, messages
// to other shards. It reads every key of the prefix, in pages, and holds what active instances have in memory; it changes nothing. What one pass finds is looked for again,
// so that what was only on its way between two reads is not reported. An error means that the server could not be asked, or that ctx ended; a key that cannot be read
// is a violation.
func (c *Client) Check(ctx context.Context, grace time.Duration) ([]Violation, error) {
	first, err := c.checkOnce(ctx, grace)
	if err != nil || len(first) == 0 {
		return nil, err
	}
	again, err := c.checkOnce(ctx, grace)
	if err != nil {
		return nil, err
	}
	both := slices.DeleteFunc(again, func(v Violation) bool { return !slices.Contains(first, v) })
	if len(both) == 0 {
		return nil, nil
	}
	return both, nil
}

// checker is one pass over all keys of all shards.
type checker struct {
	c     *Client
	grace time.Duration
	now   time.Time // of the server
	seen  []*picture
	found []Violation
}

// picture is what a pass saw of a shard.
type picture struct {
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
		return nil, fmt.Errorf("workflow: check: %w", err)
	}
	k := &checker{c: c, grace: grace, now: now}
	for _, s := range c.shards {
		p, err := k.look(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("workflow: check: %w", err)
		}
		k.seen = append(k.seen, p)
	}
	for _, p := range k.seen {
		k.instances(p)
		k.documents(p)
		k.work(p)
		k.indexes(p)
		k.passages(p)
	}
	slices.SortFunc(k.found, func(a, b Violation) int { return strings.Compare(a.Key+a.Problem, b.Key+b.Problem) })
	return slices.Compact(k.found), nil
}

func (k *checker) violation(key, next, problem string, args ...any) {
	k.found = append(k.found, Violation{Key: key, Problem: fmt.Sprintf(problem, args...), Next: next})
}

// failed judges an error met with a key. One that says nothing about the key is returned, and ends the check; any other is a violation.
func (k *checker) failed(key string, err error) error {
	if err == nil || rueidis.IsRedisNil(err) {
		return nil
	}
	if redis.Away(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	k.violation(key, nextType, "cannot be read: %v", err)
	return nil
}

// old says whether a stream entry is older than grace.
func (k *checker) old(entry string) bool {
	ms, _, _ := strings.Cut(strings.TrimPrefix(entry, "h"), "-")
	return k.now.Sub(time.UnixMilli(parseInt(ms))) > k.grace
}

// look reads a shard.
func (k *checker) look(ctx context.Context, s *shard) (*picture, error) {
	p := &picture{s: s, runs: map[string]map[string]string{}, docs: map[string]Info{}, history: map[string]string{}, inbox: map[string]int64{}, last: map[string]string{},
		queues: map[string]map[string]map[string]string{}, holders: map[string]map[string]string{}, gates: map[string]map[string]float64{}, workers: map[string]bool{}}
	var queues []string
	seen := make(map[string]bool)
	err := redis.Scan(ctx, k.c.rdb, redis.Glob(s.base)+"*", func(names []string) error {
		names = slices.DeleteFunc(names, func(n string) bool { again := seen[n]; seen[n] = true; return again })
		more, err := k.page(ctx, p, names)
		queues = append(queues, more...)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		if p.queues[q], err = k.entries(ctx, s.base+q); err != nil {
			return nil, err
		}
		if p.holders[q], err = k.pending(ctx, s, q); err != nil {
			return nil, err
		}
	}
	if err := k.lives(ctx, p); err != nil {
		return nil, err
	}
	if p.outbox, err = k.entries(ctx, s.keys.Outbox()); err != nil {
		return nil, err
	}
	for key, to := range map[string]*map[string]float64{s.keys.Timers(): &p.timers, s.keys.Created(): &p.created, s.keys.Active(): &p.active, s.keys.Ended(): &p.ended} {
		if *to, err = k.scores(ctx, key); err != nil {
			return nil, err
		}
	}
	if p.paused, err = k.c.rdb.Do(ctx, k.c.rdb.B().Smembers().Key(s.keys.Paused()).Build()).AsStrSlice(); k.failed(s.keys.Paused(), err) != nil {
		return nil, err
	}
	if p.most, err = k.c.rdb.Do(ctx, k.c.rdb.B().Hgetall().Key(s.keys.Gates()).Build()).AsStrMap(); k.failed(s.keys.Gates(), err) != nil {
		return nil, err
	}
	return p, nil
}

// note notes what is read, unless it cannot be, or its key has gone since it was listed.
func note[T any](in map[string]T, name string, read func() (T, error)) error {
	v, err := read()
	if err == nil {
		in[name] = v
	}
	return err
}

// page takes in a page of keys, in one pipeline; queues are left for later.
func (k *checker) page(ctx context.Context, p *picture, names []string) (queues []string, _ error) {
	b := k.c.rdb.B()
	var cmds rueidis.Commands
	var asked []string
	var takes []func(rueidis.RedisResult) error
	ask := func(key string, cmd rueidis.Completed, take func(rueidis.RedisResult) error) {
		asked, cmds, takes = append(asked, key), append(cmds, cmd), append(takes, take)
	}
	for _, key := range names {
		rest := strings.TrimPrefix(key, p.s.base)
		known, ok := keys.Match(strings.TrimPrefix(key, p.s.all.Prefix()+":"))
		if !ok || known.Owner != "workflow" {
			k.violation(key, nextForeign, "is not a key of Takt")
			continue
		}
		family, name, _ := strings.Cut(rest, ":")
		switch family {
		case "run":
			ask(key, b.Hgetall().Key(key).Build(), func(r rueidis.RedisResult) error { return note(p.runs, name, r.AsStrMap) })
		case "doc":
			ask(key, b.Get().Key(key).Build(), func(r rueidis.RedisResult) error { return p.takeDocument(name, r) })
		case "his":
			ask(key, b.Lindex().Key(key).Index(-1).Build(), func(r rueidis.RedisResult) error { return note(p.history, name, r.ToString) })
		case "in":
			ask(key, b.Xlen().Key(key).Build(), func(r rueidis.RedisResult) error { return note(p.inbox, name, r.AsInt64) })
		case "last":
			ask(key, b.Get().Key(key).Build(), func(r rueidis.RedisResult) error { return note(p.last, name, r.ToString) })
		case "gate":
			ask(key, b.Zrange().Key(key).Min("0").Max("-1").Withscores().Build(), func(r rueidis.RedisResult) error {
				return note(p.gates, name, func() (map[string]float64, error) { return scores(r) })
			})
		case tasks, activities, "held":
			queues = append(queues, rest)
		case "out":
			if name == "" { // look reads it as a whole
				continue
			}
			ask(key, b.Xlen().Key(key).Build(), func(r rueidis.RedisResult) error { // dead letters
				n, err := r.AsInt64()
				if err == nil && n > 0 {
					k.violation(key, nextLetters, "holds %d entries of the outbox that are no messages", n)
				}
				return err
			})
		case "timers", "created", "active", "ended", "paused", "gates": // look reads them as a whole
		default:
			ask(key, b.Type().Key(key).Build(), func(r rueidis.RedisResult) error {
				is, err := r.ToString()
				if err == nil && is != known.Type && is != "none" {
					k.violation(key, nextType, "is a %s, must be a %s", is, known.Type)
				}
				return err
			})
		}
	}
	for i, r := range k.c.rdb.DoMulti(ctx, cmds...) {
		if err := k.failed(asked[i], takes[i](r)); err != nil {
			return nil, err
		}
	}
	return queues, nil
}

func (p *picture) takeDocument(member string, r rueidis.RedisResult) error {
	text, err := r.ToString()
	if err != nil {
		return err
	}
	p.docs[member], err = decodeInfo(text)
	return err
}

func (k *checker) scores(ctx context.Context, key string) (map[string]float64, error) {
	all, err := scores(k.c.rdb.Do(ctx, k.c.rdb.B().Zrange().Key(key).Min("0").Max("-1").Withscores().Build()))
	return all, k.failed(key, err)
}

func scores(r rueidis.RedisResult) (map[string]float64, error) {
	list, err := r.AsZScores()
	all := make(map[string]float64, len(list))
	for _, z := range list {
		all[z.Member] = z.Score
	}
	return all, err
}

const checkPage = 1000

// entries are all of a stream.
func (k *checker) entries(ctx context.Context, key string) (map[string]map[string]string, error) {
	all := make(map[string]map[string]string)
	for from := "-"; ; {
		page, err := k.c.rdb.Do(ctx, k.c.rdb.B().Xrange().Key(key).Start(from).End("+").Count(checkPage).Build()).AsXRange()
		if err != nil {
			return all, k.failed(key, err)
		}
		for _, e := range page {
			all[e.ID] = e.FieldValues
			from = "(" + e.ID
		}
		if len(page) < checkPage {
			return all, nil
		}
	}
}

// pending says who holds which entries of a queue.
func (k *checker) pending(ctx context.Context, s *shard, queue string) (map[string]string, error) {
	all := make(map[string]string)
	for from := "-"; ; {
		page, err := k.c.rdb.Do(ctx, k.c.rdb.B().Xpending().Key(s.base+queue).Group(s.keys.Group()).Start(from).End("+").Count(checkPage).Build()).ToArray()
		if refused, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(refused.Error(), "NOGROUP") {
			return all, nil
		}
		if err != nil {
			return all, k.failed(s.base+queue, err)
		}
		for _, m := range page {
			part, err := m.AsStrSlice()
			if err != nil || len(part) < 2 { // id, consumer, and two numbers
				return all, k.failed(s.base+queue, err)
			}
			all[part[0]] = part[1]
			from = "(" + part[0]
		}
		if len(page) < checkPage {
			return all, nil
		}
	}
}

// lives asks which of those that hold entries are alive.
func (k *checker) lives(ctx context.Context, p *picture) error {
	for _, held := range p.holders {
		for _, worker := range held {
			p.workers[worker] = false
		}
	}
	for worker := range p.workers {
		n, err := k.c.rdb.Do(ctx, k.c.rdb.B().Exists().Key(p.s.all.Worker(worker)).Build()).AsInt64()
		if err != nil {
			return err
		}
		p.workers[worker] = n > 0
	}
	return nil
}
