package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/task/internal/wire"
)

// Violation is one broken invariant: a task or a key is lost, stuck or left over.
type Violation struct {
	Key     string `json:"key"`
	Problem string `json:"problem"`
	Next    string `json:"next"` // what to do about it
}

func (v Violation) String() string { return v.Key + ": " + v.Problem + "; " + v.Next }

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
func Audit(ctx context.Context, c *Client, grace time.Duration) (Report, []Violation, error) {
	a, err := c.audit(ctx, grace)
	if err != nil || len(a.found) == 0 {
		return a.report, nil, err
	}
	again, err := c.audit(ctx, grace)
	if err != nil {
		return Report{}, nil, err
	}
	both := slices.DeleteFunc(again.found, func(v Violation) bool { return !slices.Contains(a.found, v) })
	if len(both) == 0 {
		both = nil
	}
	return again.report, both, nil
}

// auditor is one pass over all keys.
type auditor struct {
	c      *Client
	grace  time.Duration
	now    time.Time // of the server
	found  []Violation
	report Report

	types  map[string]string  // Redis type by key, "" = the key is not as it should be and no step reads it
	keys   []string           // those to read, sorted
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
	a := &auditor{c: c, grace: grace, types: make(map[string]string), spots: make(map[string]spot), member: make(map[string]uint64), alive: make(map[string]bool), open: make(map[string]bool)}
	for _, step := range []func(context.Context) error{
		a.clock, a.scan, a.control, a.pools, a.queues, a.delayed, a.blocked, a.collected, a.dead, a.results, a.awaited, a.unique, a.known, a.counters, a.groups, a.registry,
	} {
		if err := step(ctx); err != nil {
			return &auditor{}, fmt.Errorf("task: check: %w", err)
		}
	}
	slices.SortFunc(a.found, func(x, y Violation) int { return strings.Compare(x.Key+x.Problem, y.Key+y.Problem) })
	a.found = slices.Compact(a.found)
	return a, nil
}

func (a *auditor) violation(key, next, problem string, args ...any) {
	a.found = append(a.found, Violation{Key: key, Problem: fmt.Sprintf(problem, args...), Next: next})
}

const (
	nextReport  = "this should not happen: keep the data and report it"
	nextWorkers = "does a worker run? It puts that right"
	nextForeign = "look who writes it: give each program a prefix of its own, then DEL the key"
	nextType    = "look who writes it and stop that; keep a copy with DUMP, DEL the key, and check again"
	nextRead    = "a worker makes it a dead letter; look there who sent it"
	nextDelete  = "look at it, then delete it"
)

// failed judges an error met with a key. One that says nothing about the key is returned, and ends the check; any other is a violation.
func (a *auditor) failed(key string, err error) error {
	if err == nil || rueidis.IsRedisNil(err) {
		return nil
	}
	if redis.Away(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	a.violation(key, nextType, "cannot be read: %v", err)
	return nil
}

// old says whether something of that time is older than grace.
func (a *auditor) old(at time.Time) bool { return a.now.Sub(at) > a.grace }

func (a *auditor) clock(ctx context.Context) (err error) {
	a.now, err = a.c.Now(ctx)
	return err
}

func (a *auditor) control(ctx context.Context) error {
	key := a.c.keys.TaskControl()
	if !a.has(key) {
		return nil
	}
	return a.failed(key, a.c.rdb.Do(ctx, a.c.rdb.B().Hlen().Key(key).Build()).Error())
}

// place notes where a task is: it is in one place at a time.
func (a *auditor) place(id string, at spot) {
	before, twice := a.spots[id]
	if !twice {
		a.spots[id] = at
	} else if before != at {
		a.violation(before.key, nextReport, "task %s is in %s and in %s", id, before, at)
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
