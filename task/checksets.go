package task

import (
	"context"
	"hash/maphash"
	"strconv"
	"time"

	"github.com/taktworks/takt/task/internal/wire"
)

var fingerprints = maphash.MakeSeed()

func fingerprint(s string) uint64 { return maphash.String(fingerprints, s) }

// delayed reads the delayed set: every member can be read, and none is overdue.
func (a *auditor) delayed(ctx context.Context) error {
	key := a.c.keys.TaskDelayed()
	if !a.has(key) {
		return nil
	}
	seen := make(map[uint64]bool)
	err := a.c.zsetPairs(ctx, key, func(member, score string) {
		print := fingerprint(member)
		if seen[print] {
			return
		}
		seen[print] = true
		a.report.Delayed++
		m, ok := a.message(key, "a message due at "+score, member)
		if !ok {
			return
		}
		if before, twice := a.member[m.ID]; twice && before != print {
			a.violation(key, nextReport, "task %s is there twice", m.ID)
		}
		a.member[m.ID] = print
		a.take(&m, spot{key: key})
		if due := parseDue(score); a.old(due) {
			a.violation(key, nextWorkers, "task %s was due at %s", m.ID, due.Format(time.RFC3339Nano))
		}
	})
	return a.failed(key, err)
}

// blocked compares those that wait for a lock with the delayed set.
func (a *auditor) blocked(ctx context.Context) error {
	key := a.c.keys.TaskBlocked()
	if !a.has(key) {
		return nil
	}
	seen := make(map[string]bool)
	err := a.c.hashPairs(ctx, key, func(id, member string) {
		if seen[id] {
			return
		}
		seen[id] = true
		a.report.Blocked++
		if print, ok := a.member[id]; !ok || print != fingerprint(member) {
			a.violation(key, nextReport, "task %s is not delayed with this message: it would be woken in vain", id)
		}
	})
	return a.failed(key, err)
}

// collected reads the tasks that wait for others of their kind: each collection has its time to be handed over.
func (a *auditor) collected(ctx context.Context) error {
	key := a.c.keys.TaskCollecting()
	due := make(map[string]time.Time)
	if a.has(key) {
		if err := a.failed(key, a.c.zsetPairs(ctx, key, func(name, score string) { due[name] = parseDue(score) })); err != nil {
			return err
		}
	}
	all, names := a.each("tasks:collected:{name}")
	for i, collection := range all {
		seen := make(map[string]bool)
		err := a.c.hashPairs(ctx, collection, func(field, value string) {
			if _, err := strconv.Atoi(field); err != nil || seen[field] {
				return
			}
			seen[field] = true
			a.report.Collected++
			if m, ok := a.message(collection, "member "+field, value); ok {
				a.take(&m, spot{key: collection})
			}
		})
		if err := a.failed(collection, err); err != nil {
			return err
		}
		if at, ok := due[names[i]]; !ok && !a.unreadable(key) {
			a.violation(collection, nextReport, "is not in %s: nobody hands it over", key)
		} else if ok && a.old(at) {
			a.violation(collection, nextWorkers, "was to be handed over at %s", at.Format(time.RFC3339Nano))
		}
		delete(due, names[i])
	}
	for name := range due {
		if !a.unreadable(a.c.keys.TaskCollected(name)) {
			a.violation(key, nextReport, "names %s, of which nothing is collected", name)
		}
	}
	return nil
}

// dead compares the dead letters with their index.
func (a *auditor) dead(ctx context.Context) error {
	letters, index := a.c.keys.TaskDead(), a.c.keys.TaskDeadIndex()
	there, listed := make(map[string]bool), make(map[string]bool)
	if a.has(letters) {
		err := a.c.hashPairs(ctx, letters, func(id, raw string) {
			there[id] = true
			a.letter(letters, id, raw)
		})
		if err := a.failed(letters, err); err != nil {
			return err
		}
	}
	if a.has(index) {
		err := a.c.zsetPairs(ctx, index, func(id, score string) { listed[id] = true })
		if err := a.failed(index, err); err != nil {
			return err
		}
	}
	a.report.Dead = len(there)
	if a.unreadable(letters) || a.unreadable(index) {
		return nil
	}
	for id := range there {
		if !listed[id] {
			a.violation(letters, nextReport, "the letter of task %s is not in the index", id)
		}
	}
	for id := range listed {
		if !there[id] {
			a.violation(index, nextReport, "names task %s, which has no letter", id)
		}
	}
	return nil
}

// unreadable says whether a key is there and was reported.
func (a *auditor) unreadable(key string) bool {
	typ, scanned := a.types[key]
	return scanned && typ == ""
}

func (a *auditor) letter(key, id, raw string) {
	a.place(id, spot{key: key})
	l, err := letterCodec.DecodeValue([]byte(raw))
	if err != nil {
		a.violation(key, nextReport, "the letter of task %s cannot be read: %v", id, err)
		return
	}
	if l.Readable {
		if m, err := wire.Decode(l.Message); err != nil || m.ID != id {
			a.violation(key, nextReport, "the letter of task %s holds another message, %q: %v", id, m.ID, err)
		}
	}
}
