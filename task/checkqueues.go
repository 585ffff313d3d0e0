package task

import (
	"context"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/stream"
	"github.com/taktworks/takt/task/internal/wire"
)

// pools reads which sizes and pools are listed.
func (a *auditor) pools(ctx context.Context) error {
	key := a.c.keys.TaskPools()
	if !a.has(key) {
		return nil
	}
	err := a.c.zsetPairs(ctx, key, func(name, score string) {
		if err := Size(name).validate(); err != nil {
			a.violation(key, nextDelete+" (ZREM)", "%v", err)
		}
	})
	if err == nil {
		a.served, err = parsePools(a.c.rdb.Do(ctx, a.c.askPools()))
	}
	return a.failed(key, err)
}

// queues reads the streams: every entry can be read, and waits to be delivered or is held by a worker that lives. Those of a pool are listed, and have a worker if something waits.
func (a *auditor) queues(ctx context.Context) error {
	all, names := a.each("tasks:{priority}:{size}")
	for i, key := range all {
		first, err := a.queue(ctx, key)
		if err := a.failed(key, err); err != nil {
			return err
		}
		if q := Queue(names[i]); err == nil && !slices.Contains(queues, q) {
			a.pool(key, q.size(), first)
		}
	}
	return nil
}

// pool judges a stream of a pool by its first entry that no worker has taken, "" = there is none.
func (a *auditor) pool(key string, pool Size, first string) {
	until, listed := a.served[pool]
	switch {
	case first == "" || !a.old(entryTime(first)):
	case !listed && !a.unreadable(a.c.keys.TaskPools()):
		a.violation(key, "submit to the pool, or start a worker with slots for it", "has tasks, and pool %s is not in %s: nobody sees it", pool, a.c.keys.TaskPools())
	case !until.After(a.now):
		a.violation(key, "start a worker with slots for the pool; if its name is wrong, cancel its tasks", "entry %s waits, and no worker has slots for pool %s", first, pool)
	}
}

// queue reads a stream. first is the oldest entry that no worker has taken, "" = there is none.
func (a *auditor) queue(ctx context.Context, key string) (first string, err error) {
	g, err := a.c.groupOf(ctx, key)
	if err != nil {
		return "", err
	}
	held := make(map[string]bool) // ids of the entries, true = held by a worker
	if err := a.entries(ctx, key, held); err != nil {
		return "", err
	}
	if g.delivered != "" { // else no worker has been there yet
		consumers, err := a.consumers(ctx, key)
		if err != nil {
			return "", err
		}
		if err := a.pending(ctx, key, held, consumers); err != nil {
			return "", err
		}
	}
	for id, is := range held {
		switch {
		case is:
			a.report.Running++
		case g.delivered == "" || stream.Before(g.delivered, id):
			a.report.Waiting++
			if first == "" || stream.Before(id, first) {
				first = id
			}
		default:
			a.violation(key, nextReport, "entry %s was delivered and nobody holds it: it never runs", id)
		}
	}
	return first, nil
}

// entries reads a stream in pages.
func (a *auditor) entries(ctx context.Context, key string, held map[string]bool) error {
	for from := "-"; ; {
		page, err := a.c.rdb.Do(ctx, a.c.rdb.B().Xrange().Key(key).Start(from).End("+").Count(auditPage).Build()).AsXRange()
		if err != nil {
			return err
		}
		for _, e := range page {
			held[e.ID] = false
			data, ok := e.FieldValues["data"]
			if !ok || len(e.FieldValues) != 1 {
				a.violation(key, nextRead, `entry %s should have the one field "data"`, e.ID)
			}
			if m, ok := a.message(key, "entry "+e.ID, data); ok {
				a.take(&m, spot{key, e.ID})
			}
		}
		if len(page) < auditPage {
			return nil
		}
		from = "(" + page[len(page)-1].ID
	}
}

// message reads one, or reports that it cannot be read.
func (a *auditor) message(key, where, data string) (wire.Message, bool) {
	m, err := wire.Decode([]byte(data))
	if err != nil {
		a.violation(key, nextRead, "%s cannot be read: %v", where, err)
		return m, false
	}
	if q := queueOfMessage(&m); q.validate() != nil {
		a.violation(key, nextRead, "%s: task %s names queue %s, which there is not", where, m.ID, q)
	}
	return m, true
}

// pending reads who holds what: of each entry that is held the data is there, and the worker lives. What was given back waits, and is taken out of held.
func (a *auditor) pending(ctx context.Context, key string, held map[string]bool, consumers map[string]consumer) error {
	for from := "-"; ; {
		page, err := a.c.pendingPage(ctx, key, from, auditPage)
		if err != nil {
			return err
		}
		for _, p := range page {
			_, there := held[p.entry]
			if there {
				held[p.entry] = true
			}
			if there && p.givenBack() {
				a.report.Waiting++
				delete(held, p.entry)
				continue
			}
			by := consumers[p.worker]
			if !there && p.idle >= a.grace {
				a.violation(key, nextWorkers, "entry %s is held by %s, its data is gone: somebody deleted or trimmed it", p.entry, p.worker)
			}
			if there && !by.alive && min(p.idle, by.idle) >= a.grace {
				a.violation(key, nextWorkers, "entry %s is held by worker %s, which is gone", p.entry, p.worker)
			}
		}
		if len(page) < auditPage {
			return nil
		}
		from = "(" + page[len(page)-1].entry
	}
}

// consumers lists those of the group of tasks, and reports those that are left over.
func (a *auditor) consumers(ctx context.Context, key string) (map[string]consumer, error) {
	all, err := a.c.consumersOf(ctx, key)
	if err != nil {
		return nil, err
	}
	for id, c := range all {
		if c.alive && !a.alive[id] {
			a.alive[id] = true
			a.report.Workers++
		}
		if !c.alive && c.pending == 0 && c.idle >= a.grace {
			a.violation(key, nextWorkers, "consumer %s is left over: it holds nothing, and its worker is gone", id)
		}
	}
	return all, nil
}

// group is what a stream knows of the consumer group of tasks.
type group struct {
	delivered string // id of the last entry given to a worker, "" = there is no group
	pending   int64
}

// undelivered is where a range of the entries begins that no worker was given yet.
func (g group) undelivered() string {
	if g.delivered == "" {
		return "-"
	}
	return "(" + g.delivered
}

// consumer is one worker as a stream knows it.
type consumer struct {
	pending int64
	idle    time.Duration // since it last asked
	alive   bool
}

// held is one entry that a worker holds, or gave back.
type held struct {
	entry, worker string
	idle          time.Duration // since it was delivered
	deliveries    int64
}

// givenBack says that the entry waits for any worker: one had fetched it, and gave it back.
func (h held) givenBack() bool { return stream.GivenBack(h.worker) }

func (c *Client) groupOf(ctx context.Context, key string) (group, error) {
	return parseGroup(c.rdb.Do(ctx, c.rdb.B().XinfoGroups().Key(key).Build()), c.keys.TaskGroup())
}

func parseGroup(r rueidis.RedisResult, name string) (group, error) {
	list, err := r.ToArray()
	if err != nil {
		return group{}, err
	}
	for _, m := range list {
		info, err := m.AsMap()
		if err != nil {
			return group{}, err
		}
		if text(info["name"]) == name {
			return group{delivered: text(info["last-delivered-id"]), pending: number(info["pending"])}, nil
		}
	}
	return group{}, nil
}

func text(m rueidis.RedisMessage) string {
	s, _ := m.ToString()
	return s
}

func number(m rueidis.RedisMessage) int64 {
	n, _ := m.AsInt64()
	return n
}

// consumersOf lists the workers that read a stream. Two round trips.
func (c *Client) consumersOf(ctx context.Context, key string) (map[string]consumer, error) {
	list, err := c.rdb.Do(ctx, c.rdb.B().XinfoConsumers().Key(key).Group(c.keys.TaskGroup()).Build()).ToArray()
	if err != nil {
		return nil, err
	}
	all, ids := make(map[string]consumer, len(list)), make([]string, 0, len(list))
	for _, m := range list {
		info, err := m.AsMap()
		if err != nil {
			return nil, err
		}
		id := text(info["name"])
		ids = append(ids, id)
		all[id] = consumer{pending: number(info["pending"]), idle: time.Duration(number(info["idle"])) * time.Millisecond}
	}
	alive, err := stream.Living(ctx, c.rdb, c.keys, ids)
	if err != nil {
		return nil, err
	}
	for id, is := range alive {
		v := all[id]
		v.alive = is
		all[id] = v
	}
	return all, nil
}

// pendingPage lists entries that workers hold, or gave back, from one id on.
func (c *Client) pendingPage(ctx context.Context, key, from string, count int64) ([]held, error) {
	return parsePending(c.rdb.Do(ctx, c.rdb.B().Xpending().Key(key).Group(c.keys.TaskGroup()).Start(from).End("+").Count(count).Build()))
}

func parsePending(r rueidis.RedisResult) ([]held, error) {
	list, err := r.ToArray()
	if err != nil {
		return nil, err
	}
	all := make([]held, 0, len(list))
	for _, m := range list {
		part, err := m.ToArray()
		if err != nil {
			return nil, err
		}
		if len(part) != 4 {
			continue
		}
		all = append(all, held{entry: text(part[0]), worker: text(part[1]), idle: time.Duration(number(part[2])) * time.Millisecond, deliveries: number(part[3])})
	}
	return all, nil
}
