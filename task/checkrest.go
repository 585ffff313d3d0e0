package task

import (
	"maps"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/invariant"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/task/internal/wire"
)

// results: every result expires, and only tasks that have ended have one.
func (a *auditor) results() {
	invariant.Each(a.Pass, "results:{id}", invariant.TTL, func(key, id string, ms int64) {
		a.report.Results++
		a.expires(key, id, ms)
		if ms > 0 && a.waits(id) {
			a.Add(key, nextReport, "task %s has a result, and is in %s", id, a.spots[id])
		}
	})
}

// awaited: who asks to be told of a task that there is not must at least be listening.
func (a *auditor) awaited() {
	key := a.Keys.TaskAwaited()
	asked := make(map[string]string)
	a.pairs(a.c.hashPairs, key, func(id, who string) { asked[id] = who })
	a.report.Awaited = len(asked)
	listening := make(map[string]bool)
	for id, who := range asked {
		if a.waits(id) {
			continue
		}
		heard := false
		for name := range strings.SplitSeq(who, ",") {
			if _, known := listening[name]; !known {
				listening[name] = a.listens(a.Keys.TaskAwaitChannel(name))
			}
			heard = heard || listening[name]
		}
		if !heard {
			a.Add(key, nextDelete+" (HDEL)", "names task %s, which does not wait or run, and nobody listens", id)
		}
	}
}

// listens says whether anybody has subscribed to a channel.
func (a *auditor) listens(channel string) bool {
	for _, node := range redis.Nodes(a.Redis) {
		m, err := node.Do(a.Ctx, node.B().PubsubNumsub().Channel(channel).Build()).AsIntMap()
		a.Fail(err)
		if m[channel] > 0 {
			return true
		}
	}
	return false
}

// unique: a key that keeps others out expires, and belongs to a task that has not ended.
func (a *auditor) unique() {
	invariant.Each(a.Pass, "tasks:unique:{key}", invariant.Text, func(key, _, id string) {
		a.report.Unique++
		if !a.waits(id) {
			a.Add(key, "DEL it, for it keeps others out", "is held by task %s, which does not wait or run", id)
		}
	})
	invariant.Each(a.Pass, "tasks:unique:{key}", invariant.TTL, a.expires)
}

func (a *auditor) known() { invariant.Each(a.Pass, "tasks:known:{key}", invariant.TTL, a.expires) }

func (a *auditor) expires(key, _ string, ms int64) {
	if ms == invariant.Forever {
		a.Add(key, nextReport, "never expires")
	}
}

// counters: what was counted by type was counted by queue.
func (a *auditor) counters() {
	key := a.Keys.TaskCounters()
	fields, _ := invariant.Read(a.Pass, key, invariant.Hash)
	byType, byQueue := make(map[string]int64), make(map[string]int64)
	for f, value := range fields {
		n, err := strconv.ParseInt(value, 10, 64)
		kind, of, _ := strings.Cut(f, " ")
		switch {
		case err != nil || n < 0:
			a.Add(key, nextReport, "field %q is %q, should be a number", f, value)
		case strings.HasPrefix(of, "type "):
			byType[kind] += n
		case strings.HasPrefix(of, "queue "):
			byQueue[kind] += n
		default:
			a.Add(key, nextReport, "field %q is not known", f)
		}
	}
	for kind, n := range byType {
		if byQueue[kind] != n {
			a.Add(key, nextReport, "%d tasks %s by type, %d by queue", n, kind, byQueue[kind])
		}
	}
	for kind, n := range byQueue {
		if _, ok := byType[kind]; !ok {
			a.Add(key, nextReport, "0 tasks %s by type, %d by queue", kind, n)
		}
	}
}

// groups: what is left of a group is what has not ended of it, somebody of it waits or runs, and its callback is fired when nothing is left.
func (a *auditor) groups() {
	waiting := make(map[string]string) // key by group that waits for children
	for key, name := range a.Named("groups:{gid}:state") {
		a.report.Groups++
		if gid := strings.TrimSuffix(name, ":state"); a.group(key, gid) {
			waiting[gid] = key
		}
	}
	for gid, key := range waiting {
		if !a.open[gid] {
			a.Add(key, nextReport, "children remain, and none of them waits or runs: the group never ends")
		}
	}
	for _, pattern := range []string{"groups:{gid}:callback", "groups:{gid}:remaining", "groups:{gid}:results:{child}", "groups:{gid}:done", "groups:{gid}:state"} {
		invariant.Each(a.Pass, pattern, invariant.TTL, a.expires)
	}
}

// group reads one group. waits = all its children were submitted, and some have not ended.
func (a *auditor) group(key, gid string) (waits bool) {
	b := a.Redis.B()
	remaining := a.Keys.GroupRemaining(gid)
	if a.Unreadable(a.Keys.GroupDone(gid)) || a.Unreadable(remaining) {
		return false
	}
	replies := a.Redis.DoMulti(a.Ctx, b.Hgetall().Key(key).Build(), b.Scard().Key(a.Keys.GroupDone(gid)).Build(), b.Get().Key(remaining).Build())
	state, err := replies[0].AsStrMap()
	if !a.OK(key, err) || len(state) == 0 {
		return false
	}
	done, err := replies[1].AsInt64()
	if !a.OK(key, err) {
		return false
	}
	left, err := replies[2].AsInt64()
	if rueidis.IsRedisNil(err) {
		a.Add(remaining, nextReport, "is missing, the group has a state")
	}
	if !a.OK(key, err) {
		return false
	}
	total, err := strconv.ParseInt(state["total"], 10, 64)
	if err != nil {
		a.Add(key, nextReport, "total is %q", state["total"])
		return false
	}
	if left != total-done {
		a.Add(key, nextReport, "%d of %d children have ended, but %d are said to remain", done, total, left)
	}
	if fired := state["fired"] != ""; fired != (left <= 0) {
		a.Add(key, nextReport, "%d children remain, and fired is %q", left, state["fired"])
	}
	if left > 0 {
		a.outer(state["callback"], state["failure"])
	}
	return left > 0 && state["sent"] == state["total"]
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
func (a *auditor) registry() {
	key := a.Keys.TaskWorkers()
	all := make(map[string]WorkerInfo)
	a.pairs(a.c.hashPairs, key, func(id, record string) {
		w, failed := readWorker(id, record)
		if failed != nil {
			a.Add(key, nextDelete+" (HDEL)", "the record of worker %s cannot be read: %v", id, failed)
		} else {
			all[id] = w
		}
	})
	alive := a.living(maps.Keys(all))
	for id, w := range all {
		if !alive[id] && a.old(w.Seen) {
			a.Add(key, nextWorkers, "worker %s is gone, its record is left", id)
		}
	}
}
