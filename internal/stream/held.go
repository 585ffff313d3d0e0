package stream

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// held is what a group holds under one token: entries ready to be handled, being handled, or waiting for their acknowledgement.
type held struct {
	mu      sync.Mutex
	arrived sync.Cond  // an entry is ready, or the intake is closed
	freed   sync.Cond  // there is more room, or the intake is closed
	ready   [][]*Entry // by stream, in the order of arrival
	queued  int
	running int
	ids     map[ref]struct{} // all of them
	recent  map[ref]struct{} // let go since an own read began; nil = none is going on
	closed  bool
}

func newHeld(streams int) *held {
	h := &held{ready: make([][]*Entry, streams), ids: map[ref]struct{}{}}
	h.arrived.L, h.freed.L = &h.mu, &h.mu
	return h
}

// add takes an entry in. false if it is held already, was let go a moment ago, or nothing is taken in any more.
func (h *held) add(e *Entry) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	_, have := h.ids[e.ref()]
	_, had := h.recent[e.ref()]
	if have || had {
		return false
	}
	h.ids[e.ref()] = struct{}{}
	h.ready[e.stream] = insert(h.ready[e.stream], e)
	h.queued++
	h.arrived.Signal()
	return true
}

// insert keeps the order of the stream; entries come in order unless they were pending for somebody.
func insert(q []*Entry, e *Entry) []*Entry {
	i := len(q)
	for i > 0 && before(e.ID, q[i-1].ID) {
		i--
	}
	return slices.Insert(q, i, e)
}

// before compares two entry ids, milliseconds-sequence, both decimal without leading zeros.
func before(a, b string) bool {
	ams, aseq, _ := strings.Cut(a, "-")
	bms, bseq, _ := strings.Cut(b, "-")
	return cmp.Or(cmp.Compare(len(ams), len(bms)), cmp.Compare(ams, bms), cmp.Compare(len(aseq), len(bseq)), cmp.Compare(aseq, bseq)) < 0
}

// next blocks until there is an entry to handle, of the earliest stream that has one. nil = closed.
func (h *held) next() *Entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.queued == 0 && !h.closed {
		h.arrived.Wait()
	}
	if h.closed {
		return nil
	}
	for i, q := range h.ready {
		if len(q) == 0 {
			continue
		}
		e := q[0]
		q[0] = nil
		h.ready[i] = q[1:]
		h.queued--
		h.running++
		return e
	}
	panic("stream: queued entries in no queue")
}

// handled frees the slot of an entry; it is still held until let go.
func (h *held) handled() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running--
	h.freed.Signal() // only the reader waits for it
}

// letGo forgets entries that are settled, or somebody else's.
func (h *held) letGo(entries ...*Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range entries {
		delete(h.ids, e.ref())
		if h.recent != nil {
			h.recent[e.ref()] = struct{}{}
		}
	}
}

// watch begins, and unwatch ends, an own read: what is let go in between may still be in the reply and must not be taken in again.
func (h *held) watch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recent = map[ref]struct{}{}
}

func (h *held) unwatch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recent = nil
}

func (h *held) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ids)
}

// room is how many more entries may be read so that no more than slots run and ready wait.
func (h *held) room(slots, ready int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slots + ready - h.queued - h.running
}

// awaitRoom blocks until at least half the ready buffer is free, or anything if there is none, so that reads are few and large;
// or until nothing is taken in any more.
func (h *held) awaitRoom(slots, ready int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for !h.closed && slots+ready-h.queued-h.running < max(ready/2, 1) {
		h.freed.Wait()
	}
}

// close ends the intake and returns how many entries were never begun.
func (h *held) close() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.arrived.Broadcast()
	h.freed.Broadcast()
	return h.queued
}
