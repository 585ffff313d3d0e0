package task

import (
	"maps"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/invariant"
	"github.com/taktworks/takt/internal/stream"
	"github.com/taktworks/takt/task/internal/wire"
)

// pools reads which sizes and pools are listed.
func (a *auditor) pools() {
	key := a.Keys.TaskPools()
	if !a.pairs(a.c.zsetPairs, key, func(name, score string) {
		if err := Size(name).validate(); err != nil {
			a.Add(key, nextDelete+" (ZREM)", "%v", err)
		}
	}) {
		return
	}
	var err error
	a.served, err = parsePools(a.c.rdb.Do(a.Ctx, a.c.askPools()))
	a.OK(key, err)
}

// queues reads the streams: every entry can be read, and waits to be delivered or is held by a worker that lives. Those of a pool are listed, and have a worker if something waits.
func (a *auditor) queues() {
	for key, name := range a.Named("tasks:{priority}:{size}") {
		q := Queue(name)
		if q.validate() != nil {
			a.Add(key, "submit its entries to a queue, then DEL it", "is no queue, nobody reads it")
			continue
		}
		first := a.queue(key)
		if !slices.Contains(queues, q) {
			a.pool(key, q.size(), first)
		}
	}
}

// pool judges a stream of a pool by its first entry that no worker has taken, "" = there is none.
func (a *auditor) pool(key string, pool Size, first string) {
	until, listed := a.served[pool]
	switch {
	case first == "" || !a.old(entryTime(first)):
	case !listed && !a.Unreadable(a.Keys.TaskPools()):
		a.Add(key, "submit to the pool, or start a worker with slots for it", "has tasks, and pool %s is not in %s: nobody sees it", pool, a.Keys.TaskPools())
	case !until.After(a.now):
		a.Add(key, "start a worker with slots for the pool; if its name is wrong, cancel its tasks", "entry %s waits, and no worker has slots for pool %s", first, pool)
	}
}

// queue reads a stream. first is the oldest entry that no worker has taken, "" = there is none.
func (a *auditor) queue(key string) (first string) {
	g, ok := invariant.Read(a.Pass, key, a.groupOf)
	if !ok {
		return ""
	}
	held := make(map[string]bool) // ids of the entries, true = held by a worker
	for e := range a.Entries(key) {
		held[e.ID] = false
		data, ok := e.FieldValues["data"]
		if !ok || len(e.FieldValues) != 1 {
			a.Add(key, nextRead, `entry %s should have the one field "data"`, e.ID)
		}
		if m, ok := a.message(key, "entry "+e.ID, data); ok {
			a.take(&m, spot{key, e.ID})
		}
	}
	if g.delivered != "" { // else no worker has been there yet
		a.pending(key, held, a.consumers(key))
	}
	if a.Unreadable(key) {
		return ""
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
			a.Add(key, nextReport, "entry %s was delivered and nobody holds it: it never runs", id)
		}
	}
	return first
}

// message reads one, or reports that it cannot be read.
func (a *auditor) message(key, where, data string) (wire.Message, bool) {
	m, err := wire.Decode([]byte(data))
	if err != nil {
		a.Add(key, nextRead, "%s cannot be read: %v", where, err)
		return m, false
	}
	if q := queueOfMessage(&m); q.validate() != nil {
		a.Add(key, nextRead, "%s: task %s names queue %s, which there is not", where, m.ID, q)
	}
	return m, true
}

// pending reads who holds what: of each entry that is held the data is there, and the worker lives. What was given back waits, and is taken out of entries.
func (a *auditor) pending(key string, entries map[string]bool, consumers map[string]consumer) {
	ask := func(from string) rueidis.Completed {
		return a.Redis.B().Xpending().Key(key).Group(a.Keys.TaskGroup()).Start(from).End("+").Count(invariant.Page).Build()
	}
	for p := range invariant.Pages(a.Pass, key, ask, parsePending, func(h held) string { return h.entry }) {
		_, there := entries[p.entry]
		if there {
			entries[p.entry] = true
		}
		if there && p.givenBack() {
			a.report.Waiting++
			delete(entries, p.entry)
			continue
		}
		by := consumers[p.worker]
		if !there && p.idle >= a.grace {
			a.Add(key, nextWorkers, "entry %s is held by %s, its data is gone: somebody deleted or trimmed it", p.entry, p.worker)
		}
		if there && !by.alive && min(p.idle, by.idle) >= a.grace {
			a.Add(key, nextWorkers, "entry %s is held by worker %s, which is gone", p.entry, p.worker)
		}
	}
}

// consumers lists those of the group of tasks, and reports those that are left over.
func (a *auditor) consumers(key string) map[string]consumer {
	all, _ := invariant.Read(a.Pass, key, a.consumersOf)
	alive := a.living(maps.Keys(all))
	for id, c := range all {
		c.alive = alive[id]
		all[id] = c
		if c.alive && !a.alive[id] {
			a.alive[id] = true
			a.report.Workers++
		}
		if !c.alive && c.pending == 0 && c.idle >= a.grace {
			a.Add(key, nextWorkers, "consumer %s is left over: it holds nothing, and its worker is gone", id)
		}
	}
	return all
}

func (a *auditor) groupOf(b rueidis.Builder, key string) (rueidis.Completed, func(rueidis.RedisResult) (group, error)) {
	return b.XinfoGroups().Key(key).Build(), func(r rueidis.RedisResult) (group, error) { return parseGroup(r, a.Keys.TaskGroup()) }
}

func (a *auditor) consumersOf(b rueidis.Builder, key string) (rueidis.Completed, func(rueidis.RedisResult) (map[string]consumer, error)) {
	return b.XinfoConsumers().Key(key).Group(a.Keys.TaskGroup()).Build(), func(r rueidis.RedisResult) (map[string]consumer, error) {
		list, err := r.ToArray()
		all := make(map[string]consumer, len(list))
		for _, m := range list {
			info, err := m.AsMap()
			if err != nil {
				return nil, err
			}
			all[text(info["name"])] = consumer{pending: number(info["pending"]), idle: time.Duration(number(info["idle"])) * time.Millisecond}
		}
		return all, err
	}
}

// group is what a stream knows of the consumer group of tasks.
type group struct {
	delivered string // id of the last entry given to a worker, "" = there is no group
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
			return group{delivered: text(info["last-delivered-id"])}, nil
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
