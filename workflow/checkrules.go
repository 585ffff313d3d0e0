package workflow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// instances: an active execution has its document, its place in the indexes, and a task if it has events and may run.
func (k *checker) instances(p *picture) {
	for id, run := range p.runs {
		key, member := p.s.keys.Run(id), id+":"+run["x"]
		switch doc, ok := p.docs[member]; {
		case !ok:
			k.Add(key, nextReport, "the document of execution %s is missing", run["x"])
		case doc.State != Active || doc.String() != member || doc.Queue != run["q"]:
			k.Add(key, nextReport, "is of execution %s in queue %s, its document says %s in queue %s, %s", run["x"], run["q"], doc.Instance, doc.Queue, doc.State)
		}
		if _, ok := p.active[member]; !ok {
			k.Add(key, nextReport, "execution %s is not in the index of active ones", run["x"])
		}
		if p.last[id] != run["x"] {
			k.Add(key, nextReport, "execution %s is active, and %q is noted as the newest", run["x"], p.last[id])
		}
		k.task(p, id, run)
		for field, value := range run {
			switch kind, ref, _ := strings.Cut(field, ":"); kind {
			case "t":
				if _, ok := p.timers[ref+":"+run["x"]+":"+id]; !ok {
					k.Add(key, nextReport, "timer %s is not in the set of timers", ref)
				}
			case "a":
				entry, queue, _ := strings.Cut(value, " ")
				if f, ok := p.entry(activities, queue, entry); !ok || f["i"] != id || f["x"] != run["x"] || f["r"] != ref {
					k.Add(key, nextReport, "activity %s is not entry %s of queue %s", ref, entry, queue)
				}
			}
		}
	}
}

// task: an instance has a task if it has events, unless it is paused or waits at a gate.
func (k *checker) task(p *picture, id string, run map[string]string) {
	key, entry := p.s.keys.Run(id), run["e"]
	_, paused := run["p"]
	_, waits := run["g"]
	switch {
	case entry == "" && p.inbox[id] > 0 && !paused && !waits:
		k.Add(key, nextReport, "has %d events and no task", p.inbox[id])
	case entry != "" && p.inbox[id] == 0:
		k.Add(key, nextReport, "has a task, entry %s, and no events", entry)
	case entry != "":
		if f, ok := p.entry(tasks, run["q"], entry); !ok || f["i"] != id {
			k.Add(key, nextReport, "its task is not entry %s of queue %s", entry, run["q"])
		}
	}
}

// entry is one of a queue, or of what is held of it.
func (p *picture) entry(kind, queue, entry string) (map[string]string, bool) {
	name := kind + ":" + queue
	if strings.HasPrefix(entry, "h") {
		name, entry = "held:"+name, entry[1:]
	}
	f, ok := p.queues[name][entry]
	return f, ok
}

// documents: each belongs to an active execution or to one that has ended, and is in the indexes; history and events belong to one.
func (k *checker) documents(p *picture) {
	for member, doc := range p.docs {
		key := p.s.base + "doc:" + member
		_, ended := p.ended[member]
		_, created := p.created[member]
		switch {
		case doc.State == Active && p.runs[doc.ID]["x"] != doc.Execution:
			k.Add(key, nextReport, "says that it is active, and active is %q", p.runs[doc.ID]["x"])
		case doc.State.Ended() && !ended:
			k.Add(key, nextReport, "has ended and is not in the index of those that have")
		}
		if !created {
			k.Add(key, nextReport, "is not in the index")
		}
		if last, ok := p.history[member]; doc.LastSequence > 0 && (!ok || sequence(last) != doc.LastSequence) {
			k.Add(key, nextReport, "its last event has number %d, that of its history %d", doc.LastSequence, sequence(last))
		}
	}
	for member := range p.history {
		if _, ok := p.docs[member]; !ok {
			k.Add(p.s.base+"his:"+member, nextReport, "belongs to no document")
		}
	}
	for id := range p.inbox {
		if _, ok := p.runs[id]; !ok {
			k.Add(p.s.keys.Inbox(id), nextReport, "no execution is active")
		}
	}
	for id, x := range p.last {
		if _, ok := p.docs[id+":"+x]; !ok {
			k.Add(p.s.keys.Last(id), nextReport, "the document of execution %s is missing", x)
		}
	}
}

func sequence(event string) int64 {
	e, err := decodeEvent(event)
	if err != nil {
		return 0
	}
	return e.Sequence
}

// work: what is in a queue, and a timer, is wanted by somebody, and gets done.
func (k *checker) work(p *picture) {
	for queue, entries := range p.queues {
		if strings.HasSuffix(queue, deadSuffix) {
			continue
		}
		kind, name, _ := strings.Cut(strings.TrimPrefix(queue, "held:"), ":")
		mark, held := "", strings.HasPrefix(queue, "held:")
		if held {
			mark = "h"
		}
		if paused := slices.Contains(p.paused, name); held && !paused && len(entries) > 0 {
			k.Add(p.s.base+queue, "does a worker run? It puts that right; or resume the queue again", "holds %d entries, and the queue is not paused", len(entries))
		}
		for entry, f := range entries {
			run := p.runs[f["i"]]
			wanted := run["e"] == mark+entry && run["q"] == name
			if kind == activities {
				wanted = run["x"] == f["x"] && run["a:"+f["r"]] == mark+entry+" "+name
			}
			holder, taken := p.holders[queue][entry]
			switch {
			case !wanted:
				k.Add(p.s.base+queue, nextReport, "entry %s of instance %s is wanted by nobody", entry, f["i"])
			case !held && !taken && k.old(entry) && !slices.Contains(p.paused, name):
				k.Add(p.s.base+queue, nextWorkers, "entry %s of instance %s waits since %s", entry, f["i"], k.age(entry))
			case !held && !taken && k.old(entry):
				k.Add(p.s.base+queue, "does a worker run? It puts that right; or pause the queue again", "entry %s of instance %s is not held back, and the queue is paused", entry, f["i"])
			case taken && k.old(entry) && !p.workers[holder]:
				k.Add(p.s.base+queue, nextWorkers, "entry %s of instance %s is with worker %s, which is gone", entry, f["i"], holder)
			}
		}
		for entry := range p.holders[queue] {
			if _, ok := entries[entry]; !ok {
				k.Add(p.s.base+queue, nextWorkers, "entry %s is with a worker and was deleted", entry)
			}
		}
	}
	for member, due := range p.timers {
		ref, x, id := splitTimer(member)
		at := time.UnixMilli(int64(due))
		switch run := p.runs[id]; {
		case run["x"] != x || run["t:"+ref] == "":
			k.Add(p.s.keys.Timers(), nextReport, "timer %s of %s:%s is wanted by nobody", ref, id, x)
		case k.now.Sub(at) > k.grace:
			k.Add(p.s.keys.Timers(), nextAny, "timer %s of %s is due since %s", ref, id, at.UTC().Format(time.RFC3339))
		}
	}
	for entry, f := range p.outbox {
		if k.old(entry) {
			k.Add(p.s.keys.Outbox(), nextAny, "message %s (%s for %s) waits since %s", entry, f["1"], f["2"], k.age(entry))
		}
	}
}

func (k *checker) age(entry string) string {
	ms, _, _ := strings.Cut(entry, "-")
	return time.UnixMilli(parseInt(ms)).UTC().Format(time.RFC3339)
}

// indexes: a member has its document, unless that has expired and the next cleaning is still to come.
func (k *checker) indexes(p *picture) {
	for member := range p.active {
		if i := ParseInstance(member); p.runs[i.ID]["x"] != i.Execution {
			k.Add(p.s.keys.Active(), nextReport, "%s is not active", member)
		}
	}
	for member, at := range p.ended {
		doc, ok := p.docs[member]
		expired := time.UnixMilli(int64(at)).Before(k.now.Add(k.grace)) // how long it was to be kept was known to its document
		if !ok && !expired || ok && !doc.State.Ended() {
			k.Add(p.s.keys.Ended(), nextReport, "%s has not ended, or was removed", member)
		}
	}
	for member, at := range p.created {
		doc, ok := p.docs[member]
		if _, ended := p.ended[member]; !ok && !ended {
			k.Add(p.s.keys.Created(), nextReport, "%s was removed", member)
		}
		if ok && doc.Created.UnixMicro() != int64(at) {
			k.Add(p.s.keys.Created(), nextReport, "%s was created at %d, not at %.0f", member, doc.Created.UnixMicro(), at)
		}
	}
}

// passages: who is at a gate is active, and a place that is free is given to who waits.
func (k *checker) passages(p *picture) {
	for gate, at := range p.gates {
		most, through, waiting := parseInt(p.most[gate]), int64(0), 0
		for member, since := range at {
			shard, rest, _ := strings.Cut(member, ":")
			x, id, _ := strings.Cut(rest, ":")
			home := p
			if n, err := strconv.Atoi(shard); err == nil && n >= 0 && n < len(k.seen) {
				home = k.seen[n]
			}
			run := home.runs[id]
			_, waits := run["g"]
			if since == 0 {
				through++
			} else {
				waiting++
			}
			switch busy := k.busy(p) || k.busy(home); {
			case busy:
			case run["x"] != x:
				k.Add(p.s.keys.Gate(gate), nextReport, "%s:%s is at the gate and not active", id, x)
			case waits != (since > 0):
				k.Add(p.s.keys.Gate(gate), nextReport, "%s:%s waits: %v, by its own account %v", id, x, since > 0, waits)
			}
		}
		if through < most && waiting > 0 {
			k.Add(p.s.keys.Gate(gate), nextReport, "%d of %d are through, and %d wait", through, most, waiting)
		}
	}
	for id, run := range p.runs {
		gate, waits := run["g"]
		if !waits {
			continue
		}
		home := k.seen[k.c.of(gate).n]
		if _, ok := home.gates[gate][fmt.Sprintf("%s:%s:%s", p.s.name(home.s), run["x"], id)]; !ok && !k.busy(p) && !k.busy(home) {
			k.Add(p.s.keys.Run(id), nextReport, "waits at gate %s, which does not know of it", gate)
		}
	}
	for gate := range p.most {
		if len(p.gates[gate]) == 0 {
			k.Add(p.s.keys.Gates(), nextReport, "nobody is at gate %s", gate)
		}
	}
}

// busy says whether messages are on their way from a shard.
func (k *checker) busy(p *picture) bool { return len(p.outbox) > 0 }
