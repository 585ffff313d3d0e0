package stream

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// held is what a group holds under one token: entries ready to be handled, being handled, or waiting for their acknowledgement.
type held struct {
	mu      sync.Mutex
	arrived sync.Cond // an entry is ready, or the intake is closed
	freed   sync.Cond // there is the room that the reader waits for, or the intake is closed
	want    int       // the reader waits until no more than this waits for a slot or runs
	order   func() []int
	shut    func(stream int) bool // nothing of that stream is to be begun now
	alone   chan struct{}         // holds a token while a suspect runs
	inOrder bool                  // nothing overtakes within a stream
	rejoins func()                // called, without mu, after a suspect gave its token back
	ready   [][]*Entry            // by stream, in the order of arrival
	suspect []int                 // by stream, how many of those ready must run alone
	queued  int
	running int
	poke    func()           // lets Free be asked again; nil without Free
	picked  int              // with Free: of those that run, how many it does not count yet
	ids     map[ref]struct{} // all of them
	recent  map[ref]struct{} // let go since an own read began; nil = none is going on
	closed  bool

	found finds               // what an Offer may come too late for
	left  map[*Entry]struct{} // by Handle to others, until End
	none  sync.Cond           // none is left
	over  bool                // no End counts any more
	again atomic.Bool         // something is pending for this worker and was let go
}

func newHeld(l *loop) *held {
	streams := len(l.g.Streams)
	order := l.g.Order
	if order == nil {
		strict := make([]int, streams)
		for i := range strict {
			strict[i] = i
		}
		order = func() []int { return strict }
	}
	shut := l.g.Closed
	if shut == nil {
		shut = func(int) bool { return false }
	}
	h := &held{ready: make([][]*Entry, streams), suspect: make([]int, streams), ids: map[ref]struct{}{}, order: order,
		shut: shut, alone: l.alone, inOrder: l.g.slots() == 1, rejoins: l.wake, left: map[*Entry]struct{}{}}
	if l.g.Free != nil {
		h.poke = l.poke
	}
	h.arrived.L, h.freed.L, h.none.L = &h.mu, &h.mu, &h.mu
	return h
}

// add takes an entry in. false if it is held already or was let go a moment ago. One that was on its way to us when the intake was closed is not begun.
func (h *held) add(e *Entry) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.has(e.ref()) {
		return false
	}
	h.admit(e)
	return true
}

func (h *held) has(r ref) bool {
	_, have := h.ids[r]
	_, had := h.recent[r]
	return have || had
}

func (h *held) admit(e *Entry) {
	if e.found {
		h.found.add(e.ref())
	}
	h.ids[e.ref()] = struct{}{}
	e.since = time.Now()
	h.enqueue(e)
}

// putBack lets an entry that runs wait for its turn again, outside of its slot.
func (h *held) putBack(e *Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enqueue(e)
}

func (h *held) enqueue(e *Entry) {
	h.account(e)
	h.ready[e.stream] = insert(h.ready[e.stream], e)
	h.queued++
	if e.suspect() {
		h.suspect[e.stream]++
	}
	h.arrived.Signal()
}

// insert keeps the order of the stream; entries come in order unless they were pending for somebody.
func insert(q []*Entry, e *Entry) []*Entry {
	i := len(q)
	for i > 0 && compareIDs(e.ID, q[i-1].ID) < 0 {
		i--
	}
	return slices.Insert(q, i, e)
}

// compareIDs compares two entry ids, milliseconds-sequence, both decimal without leading zeros.
func compareIDs(a, b string) int {
	ams, aseq, _ := strings.Cut(a, "-")
	bms, bseq, _ := strings.Cut(b, "-")
	return cmp.Or(cmp.Compare(len(ams), len(bms)), cmp.Compare(ams, bms), cmp.Compare(len(aseq), len(bseq)), cmp.Compare(aseq, bseq))
}

// next blocks until there is an entry that may be handled now, of the first stream in order that has one. nil = closed.
func (h *held) next() *Entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	for !h.closed {
		if e := h.pick(); e != nil {
			return e
		}
		h.arrived.Wait()
	}
	return nil
}

// pick takes the next entry out, nil if there is none that may begin. Entries of closed streams stay, and so do suspects while one of their like
// runs: waiting in a slot they would keep the others from it.
func (h *held) pick() *Entry {
	if h.queued == 0 {
		return nil
	}
	for _, stream := range h.order() {
		if len(h.ready[stream]) == 0 || h.shut(stream) {
			continue
		}
		for i, e := range h.ready[stream] {
			if e.suspect() && !e.secede(h.alone) {
				if h.inOrder {
					break
				}
				continue
			}
			h.remove(stream, i)
			h.running++
			if h.poke != nil {
				e.picked = true
				h.picked++
			}
			return e
		}
	}
	return nil
}

// remove takes an entry out of the ready ones.
func (h *held) remove(stream, i int) {
	q := h.ready[stream]
	if q[i].suspect() {
		h.suspect[stream]--
	}
	h.queued--
	if i == 0 {
		q[0] = nil
		h.ready[stream] = q[1:]
		return
	}
	h.ready[stream] = slices.Delete(q, i, i+1)
}

// startable is how many entries of a stream wait for nothing but a slot. Others do not count against the room: they would keep out what can run.
func (h *held) startable(stream int) int {
	n := len(h.ready[stream]) - h.suspect[stream]
	if n == 0 || h.shut(stream) {
		return 0
	}
	return n
}

// waiting is how many entries wait for a slot.
func (h *held) waiting() (n int) {
	if h.queued == 0 {
		return 0
	}
	for i := range h.ready {
		n += h.startable(i)
	}
	return n
}

// surplus takes out the last of the entries that wait for a slot, all but keep, if one of them has waited for longer than patience; else none.
func (h *held) surplus(keep int, patience time.Duration) (out []*Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.waiting() - keep
	if n <= 0 || !h.waited(patience) {
		return nil
	}
	for stream := len(h.ready) - 1; stream >= 0; stream-- {
		if h.shut(stream) {
			continue
		}
		for i := len(h.ready[stream]) - 1; i >= 0 && len(out) < n; i-- {
			if e := h.ready[stream][i]; !e.suspect() {
				h.remove(stream, i)
				out = append(out, e)
			}
		}
	}
	return out
}

// waited says whether an entry that waits for a slot was taken in longer ago than d.
func (h *held) waited(d time.Duration) bool {
	for stream, q := range h.ready {
		if h.startable(stream) == 0 {
			continue
		}
		for _, e := range q {
			if !e.suspect() {
				if time.Since(e.since) > d {
					return true
				}
				break
			}
		}
	}
	return false
}

// wake lets everybody look again: what may begin has changed.
func (h *held) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.arrived.Broadcast()
	h.freed.Signal()
}

// first is the order in which the open streams are to be read now.
func (h *held) first() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.order()), h.shut)
}

// shares is how many of the next n entries each stream would have, if all had enough.
func (h *held) shares(n int) []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	shares := make([]int, len(h.ready))
	for range n {
		for _, stream := range h.order() {
			if !h.shut(stream) {
				shares[stream]++
				break
			}
		}
	}
	return shares
}

// handled frees the slot of an entry; it is still held until let go.
func (h *held) handled() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running--
	if h.waiting()+h.running <= h.want {
		h.freed.Signal() // only the reader waits for it
	}
}

// letGo forgets entries that are settled, or somebody else's.
func (h *held) letGo(entries ...*Entry) {
	rejoined := false
	defer func() {
		if rejoined {
			h.rejoins()
		}
	}()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range entries {
		rejoined = e.rejoin() || rejoined
		h.account(e)
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
	return slots + ready - h.waiting() - h.running
}

// rooms is how many more entries may be read of each stream: what waits of later streams does not count against an earlier one,
// which is handled before it.
func (h *held) rooms(slots, ready int) []int {
	rooms := make([]int, len(h.ready))
	upto, waiting := 0, h.waiting()
	for i := range h.ready {
		upto += h.startable(i)
		rooms[i] = slots + max(ready, waiting-upto) - h.running - upto
	}
	return rooms
}

// await blocks until at least half the ready buffer is free, or anything if there is none, so that reads are few and large. all = false: that is
// not so yet after patience, but earlier streams have room. nil = nothing is taken in any more, or something
// has waited for a slot for look; 0 = that does not matter.
func (h *held) await(slots, ready int, patience, look time.Duration) (rooms []int, all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var timer, looking *time.Timer
	late, over := false, false
	for !h.closed && !over {
		h.want = slots + ready - max(ready/2, 1)
		if h.waiting()+h.running <= h.want {
			return h.rooms(slots, ready), true
		}
		if looking == nil && look > 0 && h.waiting() > 0 {
			looking = time.AfterFunc(look, func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				over = true
				h.freed.Signal()
			})
			defer looking.Stop()
		}
		rooms := h.rooms(slots, ready)
		if rooms[0] <= 0 || len(rooms) == 1 {
			h.freed.Wait()
			continue
		}
		if late {
			return rooms, false
		}
		if timer == nil {
			timer = time.AfterFunc(patience, func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				late = true
				h.freed.Signal()
			})
			defer timer.Stop()
		}
		h.freed.Wait()
	}
	return nil, false
}

// rest takes out all that was never begun. The intake is closed.
func (h *held) rest() (out []*Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for stream, q := range h.ready {
		out = append(out, q...)
		h.ready[stream], h.suspect[stream] = nil, 0
	}
	h.queued = 0
	return out
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
