package stream

import (
	"context"

	"github.com/taktworks/takt/internal/lifecycle"
)

// ending is what became of an entry after Handle, or while it ran.
type ending uint8

const (
	endedNot     ending = iota // somebody has it in hand, or Handle does
	endedSettled               // End(true)
	endedOpen                  // End(false)
	endedLost                  // its context ended before
)

// End ends what Handle began by returning Later; it may be called from any goroutine, also before Handle has returned. settled: a commit or a script of the
// caller has looked at the token, acknowledged and deleted the entry, all in one step. Not settled: it is only forgotten, and stays pending for this worker, which looks
// for it as soon as there is room and handles it again, as another delivery (MaxDeliveries counts it); a caller that does not know whether its script ran says that.
//
// Only the first call counts, and none after the entry's Context has ended: it has, or will have, another owner then. End does not block. It must not be
// called with a lock that Order or Closed takes.
func (e *Entry) End(settled bool) {
	how := endedOpen
	if settled {
		how = endedSettled
	}
	if s := e.session; s != nil && s.held.end(e, how) {
		s.ended(e, how)
	}
}

// Context ends when the entry is no longer this process' business, with cause ErrLost or ErrStopped: what Handle got, for those who have the entry after it. The
// context of an Entry that came from no group never ends.
func (e *Entry) Context() context.Context {
	if e.session == nil {
		return context.Background()
	}
	return e.session.ctx
}

// later leaves an entry to its End.
func (s *session) later(e *Entry) {
	switch how := s.held.leave(e); how {
	case endedNot:
	case endedLost:
		s.held.letGo(e)
	default: // End came before
		s.ended(e, how)
	}
}

// ended forgets an entry that somebody had in hand.
func (s *session) ended(e *Entry, how ending) {
	if how == endedSettled {
		s.g.observe(Handled, 1)
	}
	s.held.letGo(e)
	if how == endedOpen {
		s.held.again.Store(true)
		s.poke()
		lifecycle.Poke(s.again)
	}
	s.held.leftNoMore(e)
}

// leave notes that somebody has the entry in hand until its End, and says what became of it already.
func (h *held) leave(e *Entry) ending {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		e.ending = endedLost
	}
	if e.ending == endedNot {
		h.left[e] = struct{}{}
	}
	return e.ending
}

// end notes how an entry ended. true: it was left, and is to be forgotten by the caller.
func (h *held) end(e *Entry, how ending) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || e.ending != endedNot {
		return false
	}
	e.ending = how
	_, left := h.left[e]
	return left
}

// reopen is for an entry that is tried again: an End of the try before does not count.
func (h *held) reopen(e *Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.ending = endedNot
}

func (h *held) leftNoMore(e *Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.left, e)
	h.none.Broadcast()
}

// awaitLeft blocks until all that was left has ended, or the session's context has.
func (h *held) awaitLeft() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.left) > 0 {
		h.none.Wait()
	}
}

// expire forgets what is left: the session's context has ended, and no End counts any more.
func (h *held) expire() {
	h.letGo(h.leftAtLast()...)
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.left)
	h.none.Broadcast()
}

func (h *held) leftAtLast() (lost []*Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	for e := range h.left {
		if e.ending == endedNot { // others are being forgotten now
			e.ending = endedLost
			lost = append(lost, e)
		}
	}
	return lost
}
