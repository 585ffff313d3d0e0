package task

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/taktworks/takt/internal/invariant"
	"github.com/taktworks/takt/internal/stream"
	"github.com/taktworks/takt/task/internal/wire"
)

// Violation is one broken invariant: a task or a key is lost, stuck or left over.
type Violation = invariant.Violation

// Report counts what Audit has seen. Tasks that wait for a lock are Delayed, too.
type Report struct {
	Waiting   int `json:"waiting"` // in a queue, held by no worker
	Running   int `json:"running"` // held by a worker
	Delayed   int `json:"delayed"`
	Blocked   int `json:"blocked"`   // those of Delayed that wait for a lock
	Collected int `json:"collected"` // wait for others of their kind, see Aggregate
	Dead      int `json:"dead"`
	Results   int `json:"results"`
	Awaited   int `json:"awaited"` // tasks whose result somebody waits for
	Unique    int `json:"unique"`  // unique keys that are held
	Groups    int `json:"groups"`
	Workers   int `json:"workers"` // that live and read a queue
}

// Unfinished is how many tasks have not ended. An aggregate counts as one.
func (r Report) Unfinished() int { return r.Waiting + r.Running + r.Delayed + r.Collected }

// Check lists the invariants that do not hold, nil if all do. What is younger than grace counts as work in hand: tasks that are overdue, or held
// by a worker that is gone. It reads every key of the prefix, in pages, and holds the ids of all tasks in memory; it changes nothing. What one pass finds is
// looked for again, so that what was only on its way between two reads is not reported. An error means that the server could not be asked, or that ctx ended;
// a key that cannot be read is a violation.
func Check(ctx context.Context, c *Client, grace time.Duration) ([]Violation, error) {
	_, found, err := Audit(ctx, c, grace)
	return found, err
}

// Audit is Check, and counts.
func Audit(ctx context.Context, c *Client, grace time.Duration) (report Report, found []Violation, err error) {
	found, err = invariant.Standing(ctx, 2, 0, func() ([]Violation, error) {
		a, err := c.audit(ctx, grace)
		report = a.report
		return a.Sorted(), err
	})
	return report, found, err
}

// auditor is one pass over all keys.
type auditor struct {
	*invariant.Pass
	c      *Client
	grace  time.Duration
	now    time.Time // of the server
	report Report

	spots  map[string]spot    // where a task is that has not ended, or is dead, by id
	member map[string]uint64  // fingerprint of the delayed message, by id
	alive  map[string]bool    // workers that read a queue
	served map[Size]time.Time // until when a worker serves the sizes and pools that are listed
	open   map[string]bool    // groups of which somebody waits, by id
}

// spot is one place where a task is.
type spot struct {
	key   string
	entry string // id in a stream, "" elsewhere
}

func (s spot) String() string {
	if s.entry == "" {
		return s.key
	}
	return s.key + " (entry " + s.entry + ")"
}

func (c *Client) audit(ctx context.Context, grace time.Duration) (*auditor, error) {
	a := &auditor{
		Pass: &invariant.Pass{Ctx: ctx, Redis: c.rdb, Keys: c.keys, Families: []string{"tasks:", "results:", "groups:", "scheduler:"}},
		c:    c, grace: grace, spots: make(map[string]spot), member: make(map[string]uint64), alive: make(map[string]bool), open: make(map[string]bool),
	}
	for _, step := range []func(){
		a.clock, a.Scan, a.pools, a.queues, a.delayed, a.blocked, a.collected, a.dead, a.results, a.awaited, a.unique, a.known, a.counters, a.groups, a.registry,
	} {
		if step(); a.Err != nil {
			return &auditor{Pass: new(invariant.Pass)}, fmt.Errorf("task: check: %w", a.Err)
		}
	}
	return a, nil
}

const (
	nextReport  = invariant.NextReport
	nextWorkers = "does a worker run? It puts that right"
	nextRead    = "a worker makes it a dead letter; look there who sent it"
	nextDelete  = "look at it, then delete it"
)

// old says whether something of that time is older than grace.
func (a *auditor) old(at time.Time) bool { return a.now.Sub(at) > a.grace }

func (a *auditor) clock() {
	now, err := a.c.Now(a.Ctx)
	a.Fail(err)
	a.now = now
}

// pairs calls f for each pair of a hash or sorted set, some perhaps twice. read is hashPairs or zsetPairs. False: the key is not there, or cannot be read.
func (a *auditor) pairs(read func(context.Context, string, func(name, value string)) error, key string, f func(name, value string)) bool {
	return a.Has(key) && a.OK(key, read(a.Ctx, key, f))
}

// living says which of these workers live.
func (a *auditor) living(ids iter.Seq[string]) map[string]bool {
	alive, err := stream.Living(a.Ctx, a.Redis, a.Keys, slices.Collect(ids))
	a.Fail(err)
	return alive
}

// place notes where a task is: it is in one place at a time.
func (a *auditor) place(id string, at spot) {
	before, twice := a.spots[id]
	if !twice {
		a.spots[id] = at
	} else if before != at {
		a.Add(before.key, nextReport, "task %s is in %s and in %s", id, before, at)
	}
}

// take notes where a message is, the tasks that it brings together, and their groups.
func (a *auditor) take(m *wire.Message, at spot) {
	a.place(m.ID, at)
	if gid := m.Labels.String(groupLabel); gid != "" {
		a.open[gid] = true
	}
	for _, raw := range membersOf(m) {
		if one, ok := a.message(at.key, "a member of "+m.ID, string(raw)); ok {
			a.place(one.ID, at)
		}
	}
}

// membersOf are the messages of an aggregate, nil if it is none.
func membersOf(m *wire.Message) [][]byte {
	if is, _ := m.Labels.Get(batchLabel); is != true {
		return nil
	}
	all, err := membersCodec.DecodeArgs(m.Args)
	if err != nil {
		return nil
	}
	return all
}

// waits says whether a task has not ended: it is in a queue, delayed or collected.
func (a *auditor) waits(id string) bool {
	at, ok := a.spots[id]
	return ok && at.key != a.c.keys.TaskDead()
}
