package task

import (
	"hash/maphash"
	"strconv"
	"time"

	"github.com/taktworks/takt/task/internal/wire"
)

var fingerprints = maphash.MakeSeed()

func fingerprint(s string) uint64 { return maphash.String(fingerprints, s) }

// delayed reads the delayed set: every member can be read, and none is overdue.
func (a *auditor) delayed() {
	key := a.Keys.TaskDelayed()
	seen := make(map[uint64]bool)
	a.pairs(a.c.zsetPairs, key, func(member, score string) {
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
			a.Add(key, nextReport, "task %s is there twice", m.ID)
		}
		a.member[m.ID] = print
		a.take(&m, spot{key: key})
		if due := parseDue(score); a.old(due) {
			a.Add(key, nextWorkers, "task %s was due at %s", m.ID, due.Format(time.RFC3339Nano))
		}
	})
}

// blocked compares those that wait for a lock with the delayed set.
func (a *auditor) blocked() {
	key := a.Keys.TaskBlocked()
	seen := make(map[string]bool)
	a.pairs(a.c.hashPairs, key, func(id, member string) {
		if seen[id] {
			return
		}
		seen[id] = true
		a.report.Blocked++
		if print, ok := a.member[id]; !ok || print != fingerprint(member) {
			a.Add(key, nextReport, "task %s is not delayed with this message: it would be woken in vain", id)
		}
	})
}

// collected reads the tasks that wait for others of their kind: each collection has its time to be handed over.
func (a *auditor) collected() {
	key := a.Keys.TaskCollecting()
	due := make(map[string]time.Time)
	a.pairs(a.c.zsetPairs, key, func(name, score string) { due[name] = parseDue(score) })
	for collection, name := range a.Named("tasks:collected:{name}") {
		seen := make(map[string]bool)
		a.pairs(a.c.hashPairs, collection, func(field, value string) {
			if _, err := strconv.Atoi(field); err != nil || seen[field] {
				return
			}
			seen[field] = true
			a.report.Collected++
			if m, ok := a.message(collection, "member "+field, value); ok {
				a.take(&m, spot{key: collection})
			}
		})
		if at, ok := due[name]; !ok && !a.Unreadable(key) {
			a.Add(collection, nextReport, "is not in %s: nobody hands it over", key)
		} else if ok && a.old(at) {
			a.Add(collection, nextWorkers, "was to be handed over at %s", at.Format(time.RFC3339Nano))
		}
		delete(due, name)
	}
	for name := range due {
		if !a.Unreadable(a.Keys.TaskCollected(name)) {
			a.Add(key, nextReport, "names %s, of which nothing is collected", name)
		}
	}
}

// dead compares the dead letters with their index.
func (a *auditor) dead() {
	letters, index := a.Keys.TaskDead(), a.Keys.TaskDeadIndex()
	there, listed := make(map[string]bool), make(map[string]bool)
	a.pairs(a.c.hashPairs, letters, func(id, raw string) {
		there[id] = true
		a.letter(letters, id, raw)
	})
	a.pairs(a.c.zsetPairs, index, func(id, _ string) { listed[id] = true })
	a.report.Dead = len(there)
	if a.Unreadable(letters) || a.Unreadable(index) {
		return
	}
	for id := range there {
		if !listed[id] {
			a.Add(letters, nextReport, "the letter of task %s is not in the index", id)
		}
	}
	for id := range listed {
		if !there[id] {
			a.Add(index, nextReport, "names task %s, which has no letter", id)
		}
	}
}

func (a *auditor) letter(key, id, raw string) {
	a.place(id, spot{key: key})
	l, err := letterCodec.DecodeValue([]byte(raw))
	if err != nil {
		a.Add(key, nextReport, "the letter of task %s cannot be read: %v", id, err)
		return
	}
	if l.Readable {
		if m, err := wire.Decode(l.Message); err != nil || m.ID != id {
			a.Add(key, nextReport, "the letter of task %s holds another message, %q: %v", id, m.ID, err)
		}
	}
}
