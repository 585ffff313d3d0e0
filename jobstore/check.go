package jobstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// Violation is one broken invariant of the store: something is lost, stuck or left over.
type Violation struct {
	Key     string `json:"key"`
	Problem string `json:"problem"`
	Next    string `json:"next"` // what to do about it
}

func (v Violation) String() string { return v.Key + ": " + v.Problem + "; " + v.Next }

// Check lists the invariants that do not hold, nil if all do. Entries of streams younger than grace, and what depends
// on them, count as work in hand. It reads every key of the prefix, in pages, and changes nothing; while orders move it may report what
// is just being done.
func (s *Store) Check(ctx context.Context, grace time.Duration) ([]Violation, error) {
	c := &checker{store: s, grace: grace, busy: make(map[string]bool), jobs: make(map[string]*StoredOrder), executions: make(map[string]*recipe.Execution), listed: make(map[string]isa95.Scope)}
	for _, step := range []func(context.Context) error{c.scan, c.streams, c.scopes, c.recipes, c.timers} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("jobstore: check: %w", err)
		}
	}
	slices.SortFunc(c.found, func(a, b Violation) int { return strings.Compare(a.Key+a.Problem, b.Key+b.Problem) })
	return c.found, nil
}

type checker struct {
	store *Store
	grace time.Duration
	found []Violation

	keys       []string
	jobs       map[string]*StoredOrder      // by id, expiring ones too
	executions map[string]*recipe.Execution // by job id
	listed     map[string]isa95.Scope       // job ids in a list
	busy       map[string]bool              // job ids with work in hand
}

func (c *checker) violation(key, next, problem string, args ...any) {
	c.found = append(c.found, Violation{Key: key, Problem: fmt.Sprintf(problem, args...), Next: next})
}

const (
	nextReport  = "this should not happen: keep the data and report it"
	nextWait    = "is an engine running? `takt serve --roles engine`"
	nextSenders = "is an instance running, and the broker up? `takt serve`"
)

// scan reads all keys of the prefix and the documents of jobs and executions.
func (c *checker) scan(ctx context.Context) error {
	s, cursor := c.store, uint64(0)
	prefix := s.keys.Prefix() + ":"
	for {
		page, err := s.rdb.Do(ctx, s.rdb.B().Scan().Cursor(cursor).Match(globEscape(prefix)+"*").Count(1000).Build()).AsScanEntry()
		if err != nil {
			return err
		}
		c.keys = append(c.keys, page.Elements...)
		if cursor = page.Cursor; cursor == 0 {
			break
		}
	}
	slices.Sort(c.keys)
	c.keys = slices.Compact(c.keys)
	for _, key := range c.keys {
		rest := strings.TrimPrefix(key, prefix)
		id, isJob := strings.CutPrefix(rest, "joborder:")
		if isJob && !strings.HasPrefix(id, "list:") && !strings.HasPrefix(id, "changes:") {
			if err := c.job(ctx, key, id); err != nil {
				return err
			}
		}
		if id, ok := strings.CutPrefix(rest, "sfc:execution:"); ok {
			doc, err := s.get(ctx, key)
			if err != nil {
				continue // expired meanwhile
			}
			x, err := recipe.DecodeExecution(doc)
			if err != nil {
				c.violation(key, nextReport, "cannot be read: %v", err)
				continue
			}
			c.executions[id] = x
		}
	}
	return nil
}

func (c *checker) job(ctx context.Context, key, id string) error {
	doc, err := c.store.get(ctx, key)
	if err != nil {
		return nil // expired meanwhile
	}
	o, err := decodeOrder(key, doc)
	switch {
	case err != nil:
		c.violation(key, nextReport, "cannot be read: %v", err)
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
	ttl, err := c.store.rdb.Do(ctx, c.store.rdb.B().Pttl().Key(key).Build()).AsInt64()
	if err == nil && ttl == -1 {
		c.violation(key, nextReport, "is in EndState and never expires")
	}
	return err
}

// streams reports entries that nobody finishes, and dead letters.
func (c *checker) streams(ctx context.Context) error {
	s := c.store
	for _, stream := range []string{s.keys.SfcWork(), s.keys.SfcOutbox(), s.keys.EventReceiver(), s.keys.EventResponder()} {
		next := nextSenders
		if stream == s.keys.SfcWork() {
			next = nextWait
		}
		oldest := true
		for after := "-"; ; {
			entries, err := s.rdb.Do(ctx, s.rdb.B().Xrange().Key(stream).Start(after).End("+").Count(1000).Build()).AsXRange()
			if err != nil {
				return err
			}
			for _, e := range entries {
				c.busy[e.FieldValues["job_id"]] = true
				if age := c.store.Now().Sub(entryTime(e.ID)); oldest && age > c.grace {
					c.violation(stream, next, "entry %s is %v old and not finished: %v", e.ID, age.Round(time.Second), e.FieldValues)
				}
				oldest = false
			}
			if len(entries) < 1000 {
				break
			}
			after = "(" + entries[len(entries)-1].ID
		}
		dead, err := s.rdb.Do(ctx, s.rdb.B().Xlen().Key(s.keys.DeadLetter(stream)).Build()).AsInt64()
		if err != nil {
			return err
		}
		if dead > 0 {
			c.violation(s.keys.DeadLetter(stream), "read it with XRANGE, mend the cause, then DEL it", "%d dead letters", dead)
		}
	}
	letters, err := s.rdb.Do(ctx, s.rdb.B().Xlen().Key(s.keys.PublisherDeadLetter()).Build()).AsInt64()
	if err == nil && letters > 0 {
		c.violation(s.keys.PublisherDeadLetter(), "read it with XRANGE, mend the cause, then DEL it", "%d changes could not be published", letters)
	}
	return err
}

func entryTime(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	n, _ := strconv.ParseInt(ms, 10, 64) // ids are made by the server
	return time.UnixMilli(n)
}

// scopes compares job orders, their list, their responses and the index of the retained topics.
func (c *checker) scopes(ctx context.Context) error {
	s := c.store
	scopes, err := s.Scopes(ctx)
	if err != nil {
		return err
	}
	for _, scope := range scopes {
		list, err := s.rdb.Do(ctx, s.rdb.B().Zrange().Key(s.keys.JobOrderList(string(scope))).Min("0").Max("-1").Withscores().Build()).AsZScores()
		if err != nil {
			return err
		}
		index, err := s.rdb.Do(ctx, s.rdb.B().Hgetall().Key(s.keys.PubIndex(string(scope))).Build()).AsStrMap()
		if err != nil {
			return err
		}
		for _, member := range list {
			c.member(scope, member.Member, member.Score, index)
		}
		for id, raw := range index {
			e, err := decodeIndexEntry(s.keys.PubIndex(string(scope)), []byte(raw))
			if err != nil {
				c.violation(s.keys.PubIndex(string(scope)), nextReport, "field %s cannot be read: %v", id, err)
				continue
			}
			if !e.Gone && c.listed[id] != scope {
				c.violation(s.keys.PubIndex(string(scope)), nextReport, "names %s, which is in no list of this scope", id)
			}
			if err := c.response(ctx, scope, id, e); err != nil {
				return err
			}
		}
	}
	for id, o := range c.jobs {
		if !o.State.IsEnd() && c.listed[id] == "" {
			c.violation(s.keys.JobOrder(id), nextReport, "is %s and in no list", o.State)
		}
	}
	return nil
}

func (c *checker) member(scope isa95.Scope, id string, score float64, index map[string]string) {
	list := c.store.keys.JobOrderList(string(scope))
	if other, twice := c.listed[id]; twice {
		c.violation(list, nextReport, "names %s, which is also in the list of %s", id, other)
	}
	c.listed[id] = scope
	o := c.jobs[id]
	switch {
	case o == nil:
		c.violation(list, nextReport, "names %s, which has no document", id)
		return
	case o.Scope != scope:
		c.violation(list, nextReport, "names %s, which belongs to %s", id, o.Scope)
	case o.State.IsEnd():
		c.violation(list, nextReport, "names %s, which is in EndState", id)
	case score != float64(o.JobOrder.PriorityOr0()):
		c.violation(list, nextReport, "has %s at %v, its priority is %d", id, score, o.JobOrder.PriorityOr0())
	}
	var e IndexEntry
	if err := json.Unmarshal([]byte(index[id]), &e); err != nil {
		c.violation(c.store.keys.PubIndex(string(scope)), nextReport, "does not name %s", id)
		return
	}
	if state, err := isa95.ParseState(e.State); err != nil || state != o.State {
		c.violation(c.store.keys.PubIndex(string(scope)), nextReport, "has %s as %s, it is %s", id, state, o.State)
	}
}

// response: an order that can be cleared has a response, any other has none.
func (c *checker) response(ctx context.Context, scope isa95.Scope, id string, e IndexEntry) error {
	if e.Gone {
		return nil
	}
	o := c.jobs[id]
	if o == nil {
		return nil
	}
	key := c.store.keys.JobResponse(string(ResponseID(isa95.JobOrderID(id))))
	doc, err := c.store.rdb.Do(ctx, c.store.rdb.B().Get().Key(key).Build()).AsBytes()
	switch {
	case rueidis.IsRedisNil(err):
		if o.State.Clearable() {
			c.violation(key, nextReport, "is missing, though the order is %s", o.State)
		}
		return nil
	case err != nil:
		return err
	}
	if !o.State.Clearable() {
		c.violation(key, nextReport, "is there, though the order is %s", o.State)
	}
	if revision(doc) != e.Result {
		c.violation(c.store.keys.PubIndex(string(scope)), nextReport, "has another revision of the response to %s", id)
	}
	return nil
}

// recipes compares executions with their orders: nothing runs for an order that does not, nothing that runs is forgotten.
func (c *checker) recipes(ctx context.Context) error {
	s := c.store
	active, err := s.rdb.Do(ctx, s.rdb.B().Smembers().Key(s.keys.SfcActiveJobs()).Build()).AsStrSlice()
	if err != nil {
		return err
	}
	running := make(map[string]bool, len(active))
	for _, id := range active {
		running[id] = true
		switch x, o := c.executions[id], c.jobs[id]; {
		case x == nil:
			c.violation(s.keys.SfcActiveJobs(), nextReport, "names %s, which has no execution document", id)
		case x.Terminal():
			c.violation(s.keys.SfcActiveJobs(), nextReport, "names %s, whose recipe is over", id)
		case o == nil:
			c.violation(s.keys.SfcExecution(id), nextReport, "runs, but there is no such order")
		case o.State.Top != isa95.Running && o.State.Top != isa95.Interrupted:
			c.violation(s.keys.SfcExecution(id), nextReport, "runs, but the order is %s", o.State)
		}
	}
	for id, x := range c.executions {
		if !x.Terminal() && !running[id] {
			c.violation(s.keys.SfcExecution(id), nextReport, "runs, but is not in %s", s.keys.SfcActiveJobs())
		}
		c.commandIDs(id, x)
	}
	for id, o := range c.jobs {
		if o.State.Top == isa95.AllowedToStart && !c.busy[id] {
			if err := c.startable(ctx, id, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// commandIDs: one id per action, iteration and attempt.
func (c *checker) commandIDs(id string, x *recipe.Execution) {
	for _, a := range x.Actions {
		if a.CommandID != "" && a.State == recipe.ActionDispatched && a.CommandID != recipe.CommandID(x.CorrelationID, a.Name, a.Iteration, a.Attempt) {
			c.violation(c.store.keys.SfcExecution(id), nextReport, "action %s has command id %s, not that of its iteration and attempt", a.Name, a.CommandID)
		}
	}
}

// startable reports an order that may start, has a recipe of ours, and that no work entry will start.
func (c *checker) startable(ctx context.Context, id string, o *StoredOrder) error {
	wm := o.WorkMaster()
	if wm == "" {
		return nil // left to another program
	}
	snap, err := c.store.Load(ctx, Query{WorkMaster: wm})
	if err != nil {
		c.violation(c.store.keys.WorkMaster(string(wm)), nextReport, "cannot be read: %v", err)
		return nil
	}
	if snap.WorkMaster != nil && snap.WorkMaster.DataSchema == recipe.SchemaURI {
		c.violation(c.store.keys.JobOrder(id), nextWait+"; it enqueues such orders again", "is %s and nothing will start it", o.State)
	}
	return nil
}

// timers: every recipe that waits for a time has its timer, and no other job has one.
func (c *checker) timers(ctx context.Context) error {
	s := c.store
	timers, err := s.rdb.Do(ctx, s.rdb.B().Zrange().Key(s.keys.SfcTimers()).Min("0").Max("-1").Withscores().Build()).AsZScores()
	if err != nil {
		return err
	}
	set := make(map[string]bool, len(timers))
	for _, t := range timers {
		set[t.Member] = true
		if x := c.executions[t.Member]; x == nil || x.Terminal() {
			c.violation(s.keys.SfcTimers(), nextReport, "names %s, which has no running recipe", t.Member)
		}
		if late := s.Now().Sub(time.UnixMilli(int64(t.Score))); late > c.grace {
			c.violation(s.keys.SfcTimers(), nextWait, "the timer of %s is %v late", t.Member, late.Round(time.Second))
		}
	}
	for id, x := range c.executions {
		if due := x.Due(); !due.IsZero() && !set[id] {
			c.violation(s.keys.SfcExecution(id), nextReport, "waits for %v and has no timer", due)
		}
	}
	return nil
}

// WorkMaster is the first work master that the order names, "" if it names none: the one whose recipe it runs.
func (o *StoredOrder) WorkMaster() isa95.WorkMasterID {
	for _, ref := range o.JobOrder.WorkMasterID {
		if ref.ID != "" {
			return isa95.WorkMasterID(ref.ID)
		}
	}
	return ""
}

func globEscape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
