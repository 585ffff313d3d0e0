package invariant

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/redis"
)

// Page is how many keys or elements one round trip reads at most.
const Page = 200

// Pass is one pass over the keys below a prefix. After Scan its rules read them with Read, Each, All and Pages. An error that says nothing about a key ends the
// pass: from then on reads give nothing, Err is the error, and List is worth nothing.
type Pass struct {
	List
	Err error

	Ctx      context.Context
	Redis    rueidis.Client
	Keys     keys.Keys
	Families []string                // what the keys begin with, below the prefix; nil = all keys
	Reads    func(keys.Pattern) bool // these are read later, which shows their type; nil = none

	seen map[string]bool     // false = the key is not as it should be and no step reads it
	by   map[string][]string // readable keys by pattern, sorted
}

// Scan reads the names of all keys, and reports those that are not known or have another type.
func (p *Pass) Scan() {
	p.seen, p.by = make(map[string]bool), make(map[string][]string)
	p.Fail(redis.Scan(p.Ctx, p.Redis, redis.Glob(p.Keys.Prefix())+":*", p.page))
	for _, all := range p.by {
		slices.Sort(all)
	}
}

// page takes in one page of keys, in one pipeline. A page may name a key again.
func (p *Pass) page(names []string) error {
	var cmds rueidis.Commands
	var asked []string
	var rows []keys.Pattern
	for _, key := range names {
		rest := p.rest(key)
		if _, again := p.seen[key]; again || p.Families != nil && !slices.ContainsFunc(p.Families, func(f string) bool { return strings.HasPrefix(rest, f) }) {
			continue
		}
		row, known := keys.Match(rest)
		p.seen[key] = known
		switch {
		case !known:
			p.Add(key, nextForeign, "is not a key of Takt")
		case p.Reads != nil && p.Reads(row):
			p.by[row.Pattern] = append(p.by[row.Pattern], key)
		default:
			asked, rows, cmds = append(asked, key), append(rows, row), append(cmds, p.Redis.B().Type().Key(key).Build())
		}
	}
	for i, reply := range p.Redis.DoMulti(p.Ctx, cmds...) {
		key, row := asked[i], rows[i]
		switch typ, err := reply.ToString(); {
		case !p.OK(key, err):
		case typ == "none": // gone meanwhile
			delete(p.seen, key)
		case typ != row.Type:
			p.Add(key, nextType, "is a %s, should be a %s", typ, row.Type)
			p.seen[key] = false
		default:
			p.by[row.Pattern] = append(p.by[row.Pattern], key)
		}
	}
	return p.Err
}

// rest is a key below the prefix.
func (p *Pass) rest(key string) string { return strings.TrimPrefix(key, p.Keys.Prefix()+":") }

// Has says whether a key was there and can be read.
func (p *Pass) Has(key string) bool { return p.seen[key] }

// Unreadable says whether a key is there and its content is unknown: it has been reported.
func (p *Pass) Unreadable(key string) bool {
	readable, scanned := p.seen[key]
	return scanned && !readable
}

// Scanned says whether a key was there.
func (p *Pass) Scanned(key string) bool {
	_, scanned := p.seen[key]
	return scanned
}

// Spoil notes that a key is there and its content is unknown, which the caller has reported.
func (p *Pass) Spoil(key string) { p.seen[key] = false }

// Fail ends the pass if err is one.
func (p *Pass) Fail(err error) { p.Err = cmp.Or(p.Err, err) }

// OK judges the error of a command on a key. False: the key is not there; or it cannot be read, which is a violation; or the error says nothing about the key, and
// the pass is over.
func (p *Pass) OK(key string, err error) bool {
	switch {
	case err == nil:
		return true
	case rueidis.IsRedisNil(err):
	case redis.Away(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		p.Fail(err)
	default:
		p.Add(key, nextType, "cannot be read: %v", err)
		p.Spoil(key)
	}
	return false
}

// Named are the readable keys of a pattern of keys.All, each with what stands for the names of the pattern.
func (p *Pass) Named(pattern string) iter.Seq2[string, string] {
	before, _, _ := strings.Cut(pattern, "{")
	return func(yield func(key, name string) bool) {
		for _, key := range p.by[pattern] {
			if p.Err != nil || !yield(key, strings.TrimPrefix(p.rest(key), before)) {
				return
			}
		}
	}
}

// Command is one that reads one key, and the form of its reply.
type Command[T any] func(b rueidis.Builder, key string) (rueidis.Completed, func(rueidis.RedisResult) (T, error))

// Text, Hash, Set, Scores, Length and TTL (milliseconds; < 0 as PTTL says) read keys of the types that they name.
func Text(b rueidis.Builder, key string) (rueidis.Completed, func(rueidis.RedisResult) (string, error)) {
	return b.Get().Key(key).Build(), rueidis.RedisResult.ToString
}

func Hash(b rueidis.Builder, key string) (rueidis.Completed, func(rueidis.RedisResult) (map[string]string, error)) {
	return b.Hgetall().Key(key).Build(), rueidis.RedisResult.AsStrMap
}

func Set(b rueidis.Builder, key string) (rueidis.Completed, func(rueidis.RedisResult) ([]string, error)) {
	return b.Smembers().Key(key).Build(), rueidis.RedisResult.AsStrSlice
}

func Scores(b rueidis.Builder, key string) (rueidis.Completed, func(rueidis.RedisResult) (map[string]float64, error)) {
	return b.Zrange().Key(key).Min("0").Max("-1").Withscores().Build(), func(r rueidis.RedisResult) (map[string]float64, error) {
		list, err := r.AsZScores()
		all := make(map[string]float64, len(list))
		for _, z := range list {
			all[z.Member] = z.Score
		}
		return all, err
	}
}

func Length(b rueidis.Builder, key string) (rueidis.Completed, func(rueidis.RedisResult) (int64, error)) {
	return b.Xlen().Key(key).Build(), rueidis.RedisResult.AsInt64
}

func TTL(b rueidis.Builder, key string) (rueidis.Completed, func(rueidis.RedisResult) (int64, error)) {
	return b.Pttl().Key(key).Build(), rueidis.RedisResult.AsInt64
}

// TTLs of a key that never expires, and of one that there is not.
const (
	Forever = -1
	Absent  = -2
)

// Read asks for a key, one that was not scanned, too. ok is false if there is no answer, or the key has been reported, here or before.
func Read[T any](p *Pass, key string, how Command[T]) (value T, ok bool) {
	if p.Err != nil || p.Unreadable(key) {
		return value, false
	}
	cmd, as := how(p.Redis.B(), key)
	value, err := as(p.Redis.Do(p.Ctx, cmd))
	return value, p.OK(key, err)
}

// Each reads the keys of a pattern, a page in one pipeline, and calls take for those that could be read. name is what stands for the names of the pattern.
func Each[T any](p *Pass, pattern string, how Command[T], take func(key, name string, value T)) {
	before, _, _ := strings.Cut(pattern, "{")
	for page := range slices.Chunk(p.by[pattern], Page) {
		if p.Err != nil {
			return
		}
		cmds, as := make(rueidis.Commands, len(page)), make([]func(rueidis.RedisResult) (T, error), len(page))
		for i, key := range page {
			cmds[i], as[i] = how(p.Redis.B(), key)
		}
		for i, r := range p.Redis.DoMulti(p.Ctx, cmds...) {
			if value, err := as[i](r); p.OK(page[i], err) {
				take(page[i], strings.TrimPrefix(p.rest(page[i]), before), value)
			}
		}
	}
}

// All is Each that returns the values by name.
func All[T any](p *Pass, pattern string, how Command[T]) map[string]T {
	all := make(map[string]T)
	Each(p, pattern, how, func(_, name string, value T) { all[name] = value })
	return all
}

// Pages reads a stream, or what is pending of it, from the first id to the last. ask asks for a page that begins at from.
func Pages[T any](p *Pass, key string, ask func(from string) rueidis.Completed, as func(rueidis.RedisResult) ([]T, error), id func(T) string) iter.Seq[T] {
	return func(yield func(T) bool) {
		for from, more := "-", true; more; {
			page, ok := Read(p, key, func(rueidis.Builder, string) (rueidis.Completed, func(rueidis.RedisResult) ([]T, error)) {
				return ask(from), as
			})
			for _, one := range page {
				if !yield(one) {
					return
				}
				from = "(" + id(one)
			}
			more = ok && len(page) == Page
		}
	}
}

// Entries are all of a stream.
func (p *Pass) Entries(key string) iter.Seq[rueidis.XRangeEntry] {
	ask := func(from string) rueidis.Completed {
		return p.Redis.B().Xrange().Key(key).Start(from).End("+").Count(Page).Build()
	}
	return Pages(p, key, ask, rueidis.RedisResult.AsXRange, func(e rueidis.XRangeEntry) string { return e.ID })
}
