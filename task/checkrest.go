package task

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/stream"
	"github.com/taktworks/takt/task/internal/wire"
)

// results: every result expires, and only tasks that have ended have one.
func (a *auditor) results(ctx context.Context) error {
	all, ids := a.each("results:{id}")
	a.report.Results = len(all)
	return a.ttl(ctx, all, func(i int, ms int64) {
		if ms == forever {
			a.violation(all[i], nextReport, "never expires")
		}
		if ms > 0 && a.waits(ids[i]) {
			a.violation(all[i], nextReport, "task %s has a result, and is in %s", ids[i], a.spots[ids[i]])
		}
	})
}

// awaited: who asks to be told of a task that there is not must at least be listening.
func (a *auditor) awaited(ctx context.Context) error {
	key := a.c.keys.TaskAwaited()
	if !a.has(key) {
		return nil
	}
	asked := make(map[string]string)
	err := a.c.hashPairs(ctx, key, func(id, who string) { asked[id] = who })
	if err != nil {
		return a.failed(key, err)
	}
	a.report.Awaited = len(asked)
	listening := make(map[string]bool)
	for id, who := range asked {
		if a.waits(id) {
			continue
		}
		heard := false
		for name := range strings.SplitSeq(who, ",") {
			if _, known := listening[name]; !known {
				if listening[name], err = a.c.listens(ctx, a.c.keys.TaskAwaitChannel(name)); err != nil {
					return err
				}
			}
			heard = heard || listening[name]
		}
		if !heard {
			a.violation(key, nextDelete+" (HDEL)", "names task %s, which does not wait or run, and nobody listens", id)
		}
	}
	return nil
}

// listens says whether anybody has subscribed to a channel.
func (c *Client) listens(ctx context.Context, channel string) (bool, error) {
	for _, node := range redis.Nodes(c.rdb) {
		m, err := node.Do(ctx, node.B().PubsubNumsub().Channel(channel).Build()).AsIntMap()
		if err != nil {
			return false, err
		}
		if m[channel] > 0 {
			return true, nil
		}
	}
	return false, nil
}

// unique: a key that keeps others out expires, and belongs to a task that has not ended.
func (a *auditor) unique(ctx context.Context) error {
	all, _ := a.each("tasks:unique:{key}")
	a.report.Unique = len(all)
	err := a.pipeline(ctx, all, func(key string) rueidis.Completed { return a.c.rdb.B().Get().Key(key).Build() },
		func(i int, r rueidis.RedisResult) error {
			id, err := r.ToString()
			if err == nil && !a.waits(id) {
				a.violation(all[i], "DEL it, for it keeps others out", "is held by task %s, which does not wait or run", id)
			}
			return err
		})
	if err != nil {
		return err
	}
	return a.expire(ctx, all)
}

func (a *auditor) known(ctx context.Context) error {
	all, _ := a.each("tasks:known:{key}")
	return a.expire(ctx, all)
}

func (a *auditor) expire(ctx context.Context, all []string) error {
	return a.ttl(ctx, all, func(i int, ms int64) {
		if ms == forever {
			a.violation(all[i], nextReport, "never expires")
		}
	})
}

// counters: what was counted by type was counted by queue.
func (a *auditor) counters(ctx context.Context) error {
	key := a.c.keys.TaskCounters()
	if !a.has(key) {
		return nil
	}
	fields, err := a.c.rdb.Do(ctx, a.c.rdb.B().Hgetall().Key(key).Build()).AsStrMap()
	if err != nil {
		return a.failed(key, err)
	}
	byType, byQueue := make(map[string]int64), make(map[string]int64)
	for f, value := range fields {
		n, err := strconv.ParseInt(value, 10, 64)
		kind, of, _ := strings.Cut(f, " ")
		switch {
		case err != nil || n < 0:
			a.violation(key, nextReport, "field %q is %q, should be a number", f, value)
		case strings.HasPrefix(of, "type "):
			byType[kind] += n
		case strings.HasPrefix(of, "queue "):
			byQueue[kind] += n
		default:
			a.violation(key, nextReport, "field %q is not known", f)
		}
	}
	for kind, n := range byType {
		if byQueue[kind] != n {
			a.violation(key, nextReport, "%d tasks %s by type, %d by queue", n, kind, byQueue[kind])
		}
	}
	for kind, n := range byQueue {
		if _, ok := byType[kind]; !ok {
			a.violation(key, nextReport, "0 tasks %s by type, %d by queue", kind, n)
		}
	}
	return nil
}

// groups: what is left of a group is what has not ended of it, somebody of it waits or runs, and its callback is fired when nothing is left.
func (a *auditor) groups(ctx context.Context) error {
	states, names := a.each("groups:{gid}:state")
	a.report.Groups = len(states)
	waiting := make(map[string]string) // key by group that waits for children
	for i, key := range states {
		gid := strings.TrimSuffix(names[i], ":state")
		waits, err := a.group(ctx, key, gid)
		if err := a.failed(key, err); err != nil {
			return err
		}
		if waits {
			waiting[gid] = key
		}
	}
	for gid, key := range waiting {
		if !a.open[gid] {
			a.violation(key, nextReport, "children remain, and none of them waits or runs: the group never ends")
		}
	}
	var all []string
	for _, pattern := range []string{"groups:{gid}:callback", "groups:{gid}:remaining", "groups:{gid}:results:{child}", "groups:{gid}:done", "groups:{gid}:state"} {
		more, _ := a.each(pattern)
		all = append(all, more...)
	}
	return a.expire(ctx, all)
}

// group reads one group. waits = all its children were submitted, and some have not ended.
func (a *auditor) group(ctx context.Context, key, gid string) (waits bool, err error) {
	k, b := a.c.keys, a.c.rdb.B()
	for _, part := range []string{k.GroupDone(gid), k.GroupRemaining(gid)} {
		if a.unreadable(part) {
			return false, nil
		}
	}
	replies := a.c.rdb.DoMulti(ctx, b.Hgetall().Key(key).Build(), b.Scard().Key(k.GroupDone(gid)).Build(), b.Get().Key(k.GroupRemaining(gid)).Build())
	state, err := replies[0].AsStrMap()
	if err != nil || len(state) == 0 {
		return false, err
	}
	done, err := replies[1].AsInt64()
	if err != nil {
		return false, err
	}
	left, err := replies[2].AsInt64()
	if rueidis.IsRedisNil(err) {
		a.violation(k.GroupRemaining(gid), nextReport, "is missing, the group has a state")
		return false, nil
	}
	if err != nil {
		return false, err
	}
	total, err := strconv.ParseInt(state["total"], 10, 64)
	if err != nil {
		a.violation(key, nextReport, "total is %q", state["total"])
		return false, nil
	}
	if left != total-done {
		a.violation(key, nextReport, "%d of %d children have ended, but %d are said to remain", done, total, left)
	}
	if fired := state["fired"] != ""; fired != (left <= 0) {
		a.violation(key, nextReport, "%d children remain, and fired is %q", left, state["fired"])
	}
	if left > 0 {
		a.outer(state["callback"], state["failure"])
	}
	return left > 0 && state["sent"] == state["total"], nil
}

// outer notes the groups that what a group is to submit belongs to: they wait for it.
func (a *auditor) outer(messages ...string) {
	for _, raw := range messages {
		if m, err := wire.Decode([]byte(raw)); err == nil {
			if gid := m.Labels.String(groupLabel); gid != "" {
				a.open[gid] = true
			}
		}
	}
}

// registry: a record is of a worker that lives, or died a moment ago.
func (a *auditor) registry(ctx context.Context) error {
	key := a.c.keys.TaskWorkers()
	if !a.has(key) {
		return nil
	}
	all := make(map[string]WorkerInfo)
	err := a.c.hashPairs(ctx, key, func(id, record string) {
		w, failed := readWorker(id, record)
		if failed != nil {
			a.violation(key, nextDelete+" (HDEL)", "the record of worker %s cannot be read: %v", id, failed)
		} else {
			all[id] = w
		}
	})
	if err != nil {
		return a.failed(key, err)
	}
	alive, err := stream.Living(ctx, a.c.rdb, a.c.keys, slices.Collect(maps.Keys(all)))
	if err != nil {
		return err
	}
	for id, w := range all {
		if !alive[id] && a.old(w.Seen) {
			a.violation(key, nextWorkers, "worker %s is gone, its record is left", id)
		}
	}
	return nil
}
