package jobstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// Violation is one broken invariant of the store: something is lost, stuck or left over.
type Violation struct {
	Key     string `json:"key"`
	Problem string `json:"problem"`
	Next    string `json:"next"` // what to do about it

	// Moment says at which moment a look found this, where Problem does not: two looks at an invariant that stays broken have the same one, also if ages and
	// counts in Problem have grown; of what is just being done they have different ones. "" = Problem says it.
	Moment string `json:"-"`
}

// Same says whether two looks, one after the other, found the same broken invariant, and nothing has moved there in between.
func (v Violation) Same(other Violation) bool {
	return v.Key == other.Key && v.moment() == other.moment()
}

func (v Violation) moment() string {
	if v.Moment != "" {
		return v.Moment
	}
	return v.Problem
}

func (v Violation) String() string { return v.Key + ": " + v.Problem + "; " + v.Next }

// CheckOptions are those of Check. The zero value takes nothing for work in hand.
type CheckOptions struct {
	Grace    time.Duration // entries of streams younger than this, and what depends on them, count as work in hand
	Waiting  time.Duration // an order that may start and has not for longer is reported; default 24 h
	AnyScope bool          // orders of scopes that were never configured are as they should be
}

// Check lists the invariants that do not hold, nil if all do. It reads every key of the prefix, in pages, and changes nothing; while orders move it may report what
// is just being done: what a second look finds again stands (see Violation.Same). A key that cannot be read is a violation and ends nothing: an error means that the server could not be asked
// (see Away), that it does not list its keys, or that ctx ended.
func (s *Store) Check(ctx context.Context, o CheckOptions) ([]Violation, error) {
	if o.Waiting == 0 {
		o.Waiting = 24 * time.Hour
	}
	c := &checker{
		store: s, opt: o, types: make(map[string]string), jobs: make(map[string]*StoredOrder), executions: make(map[string]*recipe.Execution),
		listed: make(map[string]isa95.Scope), blind: make(map[isa95.Scope]bool), busy: make(map[string]bool),
	}
	for _, step := range []func(context.Context) error{c.scan, c.documents, c.workMasters, c.streams, c.scopes, c.waiting, c.responses, c.responseIndexes, c.recipes, c.timers} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("jobstore: check: %w", err)
		}
	}
	slices.SortFunc(c.found, func(a, b Violation) int { return strings.Compare(a.Key+a.Problem, b.Key+b.Problem) })
	return slices.Compact(c.found), nil
}

type checker struct {
	store *Store
	opt   CheckOptions
	found []Violation

	types      map[string]string            // Redis type by key, "" = the key is not as it should be and no step reads it
	keys       []string                     // those to read, sorted
	jobs       map[string]*StoredOrder      // by id, expiring ones too
	executions map[string]*recipe.Execution // by job id
	listed     map[string]isa95.Scope       // job ids in a list
	blind      map[isa95.Scope]bool         // scopes whose list cannot be read
	busy       map[string]bool              // job ids with work in hand
}

func (c *checker) violation(key, next, problem string, args ...any) {
	c.found = append(c.found, Violation{Key: key, Problem: fmt.Sprintf(problem, args...), Next: next})
}

// violationOf is violation where problem names an age or a count that grows while it stands; moment is what does not.
func (c *checker) violationOf(moment, key, next, problem string, args ...any) {
	c.violation(key, next, problem, args...)
	c.found[len(c.found)-1].Moment = moment
}

const (
	nextReport  = "this should not happen: keep the data and report it"
	nextWait    = "is an engine running? `takt serve --roles engine`"
	nextSenders = "is an instance running, and the broker up? `takt serve`"
	nextForeign = "look who writes it: give each program a prefix of its own, then DEL the key"
	nextType    = "look who writes it and stop that; keep a copy with DUMP, DEL the key, and check again"
	nextNewer   = "leave it as it is, and run the version of Takt that wrote it"
	nextDelete  = "look at it, then DEL it"
)

// failed judges an error met with a key. One that says nothing about the key is returned, and ends the check; any other is a
// violation, and the check goes on.
func (c *checker) failed(key string, err error) error {
	if err == nil || rueidis.IsRedisNil(err) {
		return nil
	}
	if redis.Away(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	c.violation(key, nextType, "cannot be read: %v", err)
	return nil
}

// newer reports a document of a schema that this version cannot read. False: err says nothing like that.
func (c *checker) newer(key string, err error) bool {
	schema, ok := errors.AsType[*SchemaError](err)
	if ok {
		c.violation(key, nextNewer, "%v", schema)
	}
	return ok
}

// unreadable says whether a key is there and its content is unknown: it has been reported.
func (c *checker) unreadable(key string) bool {
	typ, scanned := c.types[key]
	return scanned && typ == ""
}

// read asks for a key and gives the answer as a T. ok is false if there is none: the key is absent or has been reported, here or
// before. The error is one that ends the check.
func read[T any](ctx context.Context, c *checker, key string, cmd rueidis.Completed, as func(rueidis.RedisResult) (T, error)) (value T, ok bool, err error) {
	if c.unreadable(key) {
		return value, false, nil
	}
	reply := c.store.rdb.Do(ctx, cmd)
	value, err = as(reply)
	return value, err == nil, c.failed(key, err)
}

func asBytes(r rueidis.RedisResult) ([]byte, error)                  { return r.AsBytes() }
func asInt(r rueidis.RedisResult) (int64, error)                     { return r.AsInt64() }
func asStrings(r rueidis.RedisResult) ([]string, error)              { return r.AsStrSlice() }
func asMap(r rueidis.RedisResult) (map[string]string, error)         { return r.AsStrMap() }
func asScores(r rueidis.RedisResult) ([]rueidis.ZScore, error)       { return r.AsZScores() }
func asEntries(r rueidis.RedisResult) ([]rueidis.XRangeEntry, error) { return r.AsXRange() }
