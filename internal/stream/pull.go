package stream

import (
	"context"
	"slices"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
)

const (
	// offerTime is how long after its read an entry may be offered, at the least; how an own read that was quicker than the offer is remembered.
	offerTime = 5 * time.Minute
	// offerGrace is how long after its read an entry that is pending for this worker and not held is believed to be on its way to Offer.
	offerGrace = time.Second
)

// Wake lets the reader of a group with Free ask it again at once. It interrupts no read that waits in Redis. It is cheap, takes no lock, and may be called
// from any goroutine, before, during and after Run.
func (g *Group) Wake() {
	if l := g.loop(); l != nil {
		l.poke()
	}
}

// Offer takes in an entry that a script of the caller has read, by XREADGROUP with ">" for this worker's consumer and this group, while it found token in the
// heartbeat; id and fields are those of the entry. It is handled like one that the loop has read (Deliveries 1), when a slot is free, and Entry.Given is given.
// The map is the loop's from then on. Make the offer within five minutes after the read, and before Free counts the taker that it is for; else another is read for that one, too.
//
// false: nothing was taken in, because the group runs under another token, or does not run, or is about to end, or has the entry already, or has no such
// stream, or no Free. The caller has nothing to do then: the entry is pending, and is found as one whose reply was lost.
// It does not block, and may be called from any goroutine, before, during and after Run, but not with a lock that Order or Closed takes.
func (g *Group) Offer(token, stream, id string, fields map[string]string, given any) bool {
	l := g.loop()
	if l == nil || g.Free == nil {
		return false
	}
	s, at := l.now.Load(), slices.Index(g.Streams, stream)
	if s == nil || s.epoch.token != token || s.epoch.ctx.Err() != nil || at < 0 {
		return false
	}
	e := s.blank(at, id)
	e.Given, e.Fields = given, fields
	e.count(g.Before)
	if g.Field != "" {
		data, found := fields[g.Field]
		if e.Data = data; found && len(fields) == 1 {
			e.Fields = nil
		}
	}
	return s.held.offer(e)
}

// loop is the one that runs, nil = none does.
func (g *Group) loop() *loop {
	if g.Worker == nil {
		return nil
	}
	if l, ok := g.Worker.loops.Load(g); ok {
		return l.(*loop)
	}
	return nil
}

// poke lets the reader of a group with Free ask it again.
func (l *loop) poke() {
	lifecycle.Poke(l.poked)
}

// pull is the turn of a group with Free. Nothing is sent to Redis while it has no room.
func (s *session) pull(run context.Context) error {
	room := s.awaitRoom(run)
	switch {
	case room <= 0: // to end, or to look again at what is closed
		return nil
	case !s.made:
		return s.makeGroups(run)
	case s.held.again.Swap(false):
		s.own, s.grace = fromStart, 0
	}
	if s.own.id != "" {
		return s.pullOwn(run, room)
	}
	if time.Until(s.sweep) <= 0 {
		return s.sweepDead(run)
	}
	return s.readNew(run, slices.Repeat([]int{room}, len(s.g.Streams)), 0)
}

// awaitRoom blocks until there is room. 0 = the session ends, or a stream may be open again, and nobody told.
func (s *session) awaitRoom(run context.Context) int {
	var look <-chan time.Time
	for run.Err() == nil && s.epoch.ctx.Err() == nil {
		if room := s.room(); room > 0 {
			return room
		}
		if s.astray() {
			return ownPage
		}
		if s.g.Closed != nil && look == nil {
			look = time.After(longestSweep)
		}
		select {
		case <-s.poked:
		case <-look:
			return 0
		case <-run.Done():
		case <-s.epoch.ctx.Done():
		}
	}
	return 0
}

// astray says that entries may be pending for this worker that it does not hold: it had them under the token before, or somebody gave them up. They are
// looked for even if there is no room: as long as this worker lives, nobody else takes them.
func (s *session) astray() bool { return s.resumed && s.own.id != "" || s.held.again.Load() }

// room is how many more entries may be taken in now.
func (s *session) room() int {
	if s.g.Free == nil {
		return s.held.room(s.g.slots(), s.ready())
	}
	uncounted := s.held.uncounted() // first: what Free learns of after that is taken off twice, and not left out
	return s.g.Free() - uncounted
}

// pullOwn takes in the next of those that are pending for this worker and not held. Where many are held, and for long, it lists them first, so that their data
// is not sent again.
func (s *session) pullOwn(run context.Context, room int) error {
	s.held.watch()
	defer s.held.unwatch()
	stream := s.own.stream
	page, err := s.ownPending(run)
	if err != nil {
		return err
	}
	missing := func(p own) bool { return p.idle >= s.grace && !s.held.knows(ref{stream, p.id}) }
	begin := slices.IndexFunc(page, missing)
	if begin < 0 {
		last := ""
		if len(page) == ownPage {
			last = page[len(page)-1].id
		}
		s.ownNext(last)
		return nil
	}
	end := begin + 1
	for end < len(page) && end-begin < room && missing(page[end]) {
		end++
	}
	if _, _, err := s.claim(run, stream, s.g.Worker.id, page[begin].id, end-begin); err != nil {
		return err
	}
	s.ownNext(page[end-1].id)
	return nil
}

// own is an entry that is pending for this worker.
type own struct {
	id   string
	idle time.Duration // since it was read or begun
}

// ownPending lists a page of them. One round trip.
func (s *session) ownPending(run context.Context) ([]own, error) {
	ctx, cancel := call(run, 0)
	defer cancel()
	rdb := s.g.Worker.rdb
	list, err := rdb.Do(ctx, rdb.B().Xpending().Key(s.g.Streams[s.own.stream]).Group(s.g.Name).Start(s.own.id).End("+").Count(ownPage).
		Consumer(s.g.Worker.id).Build()).ToArray()
	if err != nil {
		return nil, err
	}
	page := make([]own, 0, len(list))
	for _, m := range list {
		part, err := parts(m, 4)
		if err != nil {
			return nil, err
		}
		id, err := part[0].ToString()
		if err != nil {
			return nil, err
		}
		idle, err := part[2].AsInt64()
		if err != nil {
			return nil, err
		}
		page = append(page, own{id, time.Duration(idle) * time.Millisecond})
	}
	return page, nil
}

// offer takes an entry in that the reader has not read. false if the intake is closed, if it is held already, or if the reader was quicker and it was
// let go since.
func (h *held) offer(e *Entry) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.has(e.ref()) || h.found.has(e.ref()) {
		return false
	}
	h.admit(e)
	return true
}

// finds remembers, for offerTime at least and twice that at most, the entries that were found pending though they may be offered yet: those were handled already.
type finds struct {
	now, before map[ref]struct{}
	turned      time.Time
}

func (f *finds) add(r ref) {
	if time.Since(f.turned) > offerTime {
		if time.Since(f.turned) > 2*offerTime {
			f.now = nil
		}
		f.now, f.before, f.turned = map[ref]struct{}{}, f.now, time.Now()
	}
	f.now[r] = struct{}{}
}

func (f *finds) has(r ref) bool {
	_, now := f.now[r]
	_, before := f.before[r]
	return now || before
}

// knows says whether an entry is held or was let go a moment ago.
func (h *held) knows(r ref) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.has(r)
}

// uncounted is how many entries wait for a slot, or have one and are not among those that Free knows of.
func (h *held) uncounted() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting() + h.picked
}

func (h *held) counted(e *Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.account(e)
}

// account leaves an entry to Free, if it was not yet; mu is held.
func (h *held) account(e *Entry) {
	if e.picked {
		e.picked = false
		h.picked--
		h.poke()
	}
}
