package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/internal/stream"
)

var statsScript = script.LoadReader(files, "task/stats")

// PauseQueue has no worker take anything more from a queue; what runs goes on. It is safe to repeat, and workers know at once.
func (c *Client) PauseQueue(ctx context.Context, q Queue) error {
	now, err := c.Now(ctx)
	if err != nil {
		return err
	}
	return c.order(ctx, q, pauseQueue, now.UTC().Format(time.RFC3339))
}

// ResumeQueue ends a pause.
func (c *Client) ResumeQueue(ctx context.Context, q Queue) error {
	return c.order(ctx, q, pauseQueue, "")
}

const maxRate = 1_000_000 // per second

// SetRate bounds how many tasks of a queue all workers together begin, per second; 0 = no bound. Less than one is allowed: 0.1 is one in ten seconds.
func (c *Client) SetRate(ctx context.Context, q Queue, perSecond float64) error {
	if !(perSecond >= 0 && perSecond <= maxRate) { // NaN is neither
		return fmt.Errorf("task: SetRate: %v per second: want 0 to %d", perSecond, maxRate)
	}
	if perSecond == 0 {
		return c.order(ctx, q, rateQueue, "")
	}
	return c.order(ctx, q, rateQueue, strconv.FormatFloat(perSecond, 'g', -1, 64))
}

// order writes one field about a queue, or deletes it, and tells the workers. One round trip.
func (c *Client) order(ctx context.Context, q Queue, about, value string) error {
	if err := q.validate(); err != nil {
		return err
	}
	if _, err := c.target(ctx, q); err != nil { // Stats is to show it, mistyped or not
		return fmt.Errorf("task: %s%s: %w", about, q, err)
	}
	field, b := about+string(q), c.rdb.B()
	set := b.Hset().Key(c.keys.TaskControl()).FieldValue().FieldValue(field, value).Build()
	if value == "" {
		set = b.Hdel().Key(c.keys.TaskControl()).Field(field).Build()
	}
	if err := c.tellWorkers(ctx, set); err != nil {
		return fmt.Errorf("task: %s: %w", field, err)
	}
	return nil
}

// tellWorkers changes something in Redis that workers are to know, and wakes them: those that do not hear of it look every few seconds.
func (c *Client) tellWorkers(ctx context.Context, changes ...rueidis.Completed) error {
	publish := c.rdb.B().Publish().Channel(c.keys.TaskControl()).Message("").Build()
	return c.rdb.DoMulti(ctx, append(changes, publish)...)[0].Error()
}

const drainPoll = 100 * time.Millisecond

// Drain blocks until a queue is empty: nothing waits or runs. What is delayed does not count, nor what is submitted later. It neither pauses nor runs anything. An error: ctx ended, or
// Redis does not answer.
func (c *Client) Drain(ctx context.Context, q Queue) error {
	if err := q.validate(); err != nil {
		return err
	}
	tick := time.Tick(drainPoll)
	var left int64
	for {
		n, err := c.rdb.Do(ctx, c.rdb.B().Xlen().Key(c.keys.TaskStream(string(q))).Build()).AsInt64()
		switch {
		case err != nil && left > 0: // it was seen before, and is not now: most likely ctx has ended
			return fmt.Errorf("task: drain %s: %d tasks are left: %w", q, left, err)
		case err != nil:
			return fmt.Errorf("task: drain %s: %w", q, err)
		case n == 0:
			return nil
		}
		left = n
		select {
		case <-ctx.Done():
			return fmt.Errorf("task: drain %s: %d tasks are left: %w", q, n, context.Cause(ctx))
		case <-tick:
		}
	}
}

// Purge cancels what waits in a queue when it begins; what runs goes on. confirm must be the queue again. Each task ends as Cancel ends it: with a result for those who wait, and if it
// concerns others by the worker that takes it. It returns how many it ended or marked; repeat it if it failed. Pause the queue before to keep workers from it.
func (c *Client) Purge(ctx context.Context, q, confirm Queue) (n int, err error) {
	if err := q.validate(); err != nil {
		return 0, err
	}
	if confirm != q {
		return 0, fmt.Errorf("task: purge %s: confirm is %q, want the queue again: this ends all tasks that wait in it", q, confirm)
	}
	now, err := c.Now(ctx)
	if err != nil {
		return 0, err
	}
	until := strconv.FormatInt(now.UnixMilli(), 10)
	for from := "-"; ; {
		page, err := c.rdb.Do(ctx, c.rdb.B().Xrange().Key(c.keys.TaskStream(string(q))).Start(from).End(until).Count(scanPage).Build()).AsXRange()
		if err != nil {
			return n, fmt.Errorf("task: purge %s: %w", q, err)
		}
		ended, err := c.purgePage(ctx, q, page)
		if n += ended; err != nil {
			return n, fmt.Errorf("task: purge %s: %w", q, err)
		}
		if len(page) < scanPage {
			return n, nil
		}
		from = "(" + page[len(page)-1].ID
	}
}

// purgePage cancels the entries of a page that no worker holds. What cannot be read stays: a worker makes it a dead letter.
func (c *Client) purgePage(ctx context.Context, q Queue, page []rueidis.XRangeEntry) (n int, err error) {
	if len(page) == 0 {
		return 0, nil
	}
	holders, err := c.holders(ctx, c.keys.TaskStream(string(q)), page[0].ID, page[len(page)-1].ID, scanPage)
	if err != nil {
		return 0, err
	}
	running := make(map[string]bool, len(holders))
	for _, h := range holders {
		running[h.entry] = !h.givenBack()
	}
	for _, e := range page {
		t := inQueue(q, e.ID, e.FieldValues["data"])
		if running[e.ID] || t.ID == "" {
			continue
		}
		word, err := c.cancel(ctx, &t)
		if err != nil {
			return n, err
		}
		if word != "gone" {
			n++
		}
	}
	return n, nil
}

// QueueStats is what a queue looks like.
type QueueStats struct {
	Queue   Queue         `json:"queue"`
	Waiting int64         `json:"waiting"`             // what workers gave back included
	Running int64         `json:"running"`             // held by workers
	Oldest  time.Duration `json:"oldest_ns,omitempty"` // age of its oldest task, in this queue; 0 = it is empty
	Paused  bool          `json:"paused,omitempty"`
	Rate    float64       `json:"rate,omitempty"` // tasks per second, 0 = no bound

	// Unserved says that tasks wait and no worker that lives has slots for the size. It is told at once of a pool without workers, and about a lease after the last one ended.
	Unserved bool `json:"unserved,omitempty"`
}

// Stats is what all tasks look like.
type Stats struct {
	At      time.Time    `json:"at"`      // by the server's clock
	Queues  []QueueStats `json:"queues"`  // the nine of the built-in sizes, and three of each pool that was ever used, by name
	Delayed int64        `json:"delayed"` // the blocked included
	NextDue time.Time    `json:"next_due,omitzero"`
	Blocked int64        `json:"blocked"`
	Paused  []string     `json:"paused_types,omitempty"` // those that are paused or, be it for one VO, not enabled; their tasks are delayed
	Dead    int64        `json:"dead"`
	Workers int64        `json:"workers"` // in the registry

	// ByType and ByQueue count how tasks ended, and how runs did, since the counters were made.
	ByType  map[string]map[Outcome]int64 `json:"by_type,omitempty"`
	ByQueue map[Queue]map[Outcome]int64  `json:"by_queue,omitempty"`
}

// Stats reads the state of all queues and the counters, in ten commands; eleven if there are pools. Two round trips, or three.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	s, err := c.stats(ctx)
	if err != nil {
		return Stats{}, fmt.Errorf("task: stats: %w", err)
	}
	return s, nil
}

func (c *Client) stats(ctx context.Context) (s Stats, err error) {
	b, k := c.rdb.B(), c.keys
	cmds := rueidis.Commands{b.Time().Build(), b.Hgetall().Key(k.TaskControl()).Build(), b.Zcard().Key(k.TaskDelayed()).Build(),
		b.Zrange().Key(k.TaskDelayed()).Min("0").Max("0").Withscores().Build(), b.Hlen().Key(k.TaskBlocked()).Build(), b.Hlen().Key(k.TaskDead()).Build(),
		b.Hlen().Key(k.TaskWorkers()).Build(), b.Hgetall().Key(k.TaskCounters()).Build(), c.askPools()}
	replies := c.rdb.DoMulti(ctx, cmds...)
	if s.At, err = redis.ReadTime(replies[0]); err != nil {
		return s, err
	}
	fields, err := replies[1].AsStrMap()
	if err != nil {
		return s, err
	}
	first, err := replies[3].AsZScores()
	if err != nil {
		return s, err
	}
	if len(first) > 0 {
		s.NextDue = dueOf(first[0].Score)
	}
	for i, at := range map[int]*int64{2: &s.Delayed, 4: &s.Blocked, 5: &s.Dead, 6: &s.Workers} {
		if *at, err = replies[i].AsInt64(); err != nil {
			return s, err
		}
	}
	counters, err := replies[7].AsIntMap()
	if err != nil {
		return s, err
	}
	s.count(counters)
	served, err := parsePools(replies[8])
	if err != nil {
		return s, err
	}
	o := parseOrders(fields)
	for _, all := range [][]Queue{queues, queuesOf(served)} {
		full, err := c.queueStats(ctx, s.At, all)
		if err != nil {
			return s, err
		}
		for _, one := range full {
			one.Paused, one.Rate = o.queues[one.Queue], o.rates[one.Queue]
			one.Unserved = one.Waiting > 0 && !served[one.Queue.size()].After(s.At)
			s.Queues = append(s.Queues, one)
		}
	}
	s.Paused = pausedTypes(fields)
	return s, nil
}

// queueStats is stats.lua. One round trip, none without queues.
func (c *Client) queueStats(ctx context.Context, now time.Time, all []Queue) ([]QueueStats, error) {
	if len(all) == 0 {
		return nil, nil
	}
	keys := make([]string, len(all))
	for i, q := range all {
		keys[i] = c.keys.TaskStream(string(q))
	}
	replies, err := statsScript.Run(ctx, c.rdb, keys, c.keys.TaskGroup()).ToArray()
	if err != nil {
		return nil, err
	}
	if len(replies) != len(all) {
		return nil, fmt.Errorf("stats.lua replied for %d queues instead of %d", len(replies), len(all))
	}
	stats := make([]QueueStats, len(all))
	for i, q := range all {
		if stats[i], err = queueStats(q, now, replies[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", q, err)
		}
	}
	return stats, nil
}

// queueStats reads what stats.lua replied for a queue.
func queueStats(q Queue, now time.Time, reply rueidis.RedisMessage) (QueueStats, error) {
	s := QueueStats{Queue: q}
	parts, err := reply.ToArray()
	if err != nil || len(parts) != 3 {
		return s, cmp.Or(err, errors.New("stats.lua replied no three parts"))
	}
	pending, err := parts[1].ToArray()
	if err != nil {
		return s, err
	}
	if s.Running, err = runningOf(pending); err != nil {
		return s, err
	}
	if first := text(parts[2]); first != "" {
		s.Oldest = max(now.Sub(entryTime(first)), 1)
	}
	s.Waiting = max(number(parts[0])-s.Running, 0)
	return s, nil
}

// runningOf reads how many entries workers hold from the reply of XPENDING: how many are pending, the first and the last, and how many for each consumer.
func runningOf(pending []rueidis.RedisMessage) (n int64, err error) {
	if len(pending) != 4 || number(pending[0]) == 0 {
		return 0, nil
	}
	consumers, err := pending[3].ToArray()
	if err != nil {
		return 0, err
	}
	n = number(pending[0])
	for _, m := range consumers {
		pair, err := m.ToArray()
		if err != nil {
			return 0, err
		}
		if len(pair) == 2 && stream.GivenBack(text(pair[0])) {
			held, err := pair[1].AsInt64()
			if err != nil {
				return 0, err
			}
			n -= held
		}
	}
	return n, nil
}

// count sorts the counters: "done type T", "done queue Q".
func (s *Stats) count(counters map[string]int64) {
	s.ByType, s.ByQueue = make(map[string]map[Outcome]int64), make(map[Queue]map[Outcome]int64)
	for f, n := range counters {
		kind, of, _ := strings.Cut(f, " ")
		if name, ok := strings.CutPrefix(of, "type "); ok {
			add(s.ByType, name, Outcome(kind), n)
		} else if q, ok := strings.CutPrefix(of, "queue "); ok {
			add(s.ByQueue, Queue(q), Outcome(kind), n)
		}
	}
}

func add[K comparable](m map[K]map[Outcome]int64, of K, kind Outcome, n int64) {
	if m[of] == nil {
		m[of] = make(map[Outcome]int64)
	}
	m[of][kind] += n
}
