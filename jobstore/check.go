package jobstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taktworks/takt/internal/invariant"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// Violation is one broken invariant of the store: something is lost, stuck or left over.
type Violation = invariant.Violation

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
		Pass: &invariant.Pass{Ctx: ctx, Redis: s.rdb, Keys: s.keys}, store: s, opt: o, jobs: make(map[string]*StoredOrder), executions: make(map[string]*recipe.Execution),
		listed: make(map[string]isa95.Scope), blind: make(map[isa95.Scope]bool), busy: make(map[string]bool),
	}
	for _, step := range []func(){c.Scan, c.documents, c.workMasters, c.streams, c.scopes, c.waiting, c.responses, c.responseIndexes, c.recipes, c.timers, c.histories} {
		if step(); c.Err != nil {
			return nil, fmt.Errorf("jobstore: check: %w", c.Err)
		}
	}
	return c.Sorted(), nil
}

type checker struct {
	*invariant.Pass
	store *Store
	opt   CheckOptions

	jobs       map[string]*StoredOrder      // by id, expiring ones too
	executions map[string]*recipe.Execution // by job id
	listed     map[string]isa95.Scope       // job ids in a list
	blind      map[isa95.Scope]bool         // scopes whose list cannot be read
	busy       map[string]bool              // job ids with work in hand
}

const (
	nextReport  = invariant.NextReport
	nextWait    = "is an engine running? `takt serve --roles engine`"
	nextSenders = "is an instance running, and the broker up? `takt serve`"
	nextNewer   = "leave it as it is, and run the version of Takt that wrote it"
	nextDelete  = "look at it, then DEL it"
)

// newer reports a document of a schema that this version cannot read. False: err says nothing like that.
func (c *checker) newer(key string, err error) bool {
	schema, ok := errors.AsType[*SchemaError](err)
	if ok {
		c.Add(key, nextNewer, "%v", schema)
	}
	return ok
}

// documents reads the job orders and the executions.
func (c *checker) documents() {
	invariant.Each(c.Pass, "joborder:{id}", invariant.Text, c.job)
	invariant.Each(c.Pass, "sfc:execution:{job}", invariant.Text, func(key, id, doc string) {
		x, err := recipe.DecodeExecution([]byte(doc))
		if err != nil {
			c.Add(key, nextReport, "cannot be read: %v", err)
			c.Spoil(key)
			return
		}
		c.executions[id] = x
	})
}

func (c *checker) job(key, id, doc string) {
	o, err := c.store.opt.Schemas.decodeOrder(key, []byte(doc))
	switch {
	case c.newer(key, err):
		c.Spoil(key)
	case err != nil:
		c.Add(key, nextReport, "cannot be read: %v", err)
		c.Spoil(key)
	case o.JobOrder.JobOrderID != id:
		c.Add(key, nextReport, "holds job order %q", o.JobOrder.JobOrderID)
	case o.Scope == "":
		c.Add(key, nextReport, "has no _scope")
	default:
		c.jobs[id] = o
	}
	if o != nil && o.State.IsEnd() && c.stays(key) {
		c.Add(key, nextReport, "is in EndState and never expires")
	}
}

// stays says whether a key is there and never expires.
func (c *checker) stays(key string) bool {
	ttl, ok := invariant.Read(c.Pass, key, invariant.TTL)
	return ok && ttl == invariant.Forever
}
