// Package clock keeps a process' idea of times that others count: the wall clock of a server, and installation time.
//
// Both are learned from replies and carried on by the process' own monotonic clock in between. Neither ever steps back. The
// types are plain arithmetic: the caller passes in its own time, as time.Now returns it, with the monotonic reading.
package clock

import (
	"sync"
	"time"
)

// Wall is a server's wall clock as a process sees it. The zero value is the process' own clock until Learn is called. It is
// safe for concurrent use.
type Wall struct {
	mu    sync.Mutex
	at    time.Time // the server's time at own
	own   time.Time
	known bool
	last  time.Time // the latest that Now returned
}

// Learn takes the server's time from a reply that came at received, by the own clock. The reply counts as made then, so Now is behind by at most its way.
func (w *Wall) Learn(server, received time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.known || !received.Before(w.own) { // replies may be learned in another order than they came
		w.at, w.own, w.known = server, received, true
	}
}

// Now is the server's time at own, the caller's time.Now(). It never returns less than before.
func (w *Wall) Now(own time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.known {
		w.at, w.own, w.known = own.Round(0), own, true
	}
	now := w.at.Add(own.Sub(w.own))
	if now.Before(w.last) {
		return w.last
	}
	w.last = now
	return now
}

// Installation is installation time as a process sees it: it stands still while no process could take answers, and does not
// follow steps of any clock. The zero value knows nothing yet. It is safe for concurrent use.
type Installation struct {
	mu      sync.Mutex
	at      time.Time // installation time at own
	own     time.Time
	resumed time.Time
	known   bool
	last    time.Time
}

// Lead is how far a process carries installation time on by itself: without a reply for longer than that, it stands still.
const Lead = 2 * time.Second

// replaced is how far back installation time must be for the store to have been emptied or replaced by a copy: its documents
// have its times, so they are followed.
const replaced = 10 * time.Second

// Learn takes installation time from a reply that came at received, by the own clock. However long the reply took, it counts as
// made at received: time that may not have passed would let dwell times and time-outs end early. resumed is since when, in
// installation time, answers can be taken without a break; zero: there was no break yet.
func (c *Installation) Learn(installation, resumed, received time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.own, c.resumed, c.known = installation, received, resumed, true
	if c.last.Sub(installation) > replaced {
		c.last = time.Time{}
	}
}

// Now is installation time at own, the caller's time.Now(). It never returns less than before, unless the store was replaced.
func (c *Installation) Now(own time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.at.Add(min(max(own.Sub(c.own), 0), Lead))
	if now.Before(c.last) {
		return c.last
	}
	c.last = now
	return now
}

// Resumed is since when, in installation time, answers can be taken without a break, as far as this process knows.
func (c *Installation) Resumed() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resumed
}

// Age is how long ago, at own, the process learned installation time; known is false if it never did.
func (c *Installation) Age(own time.Time) (age time.Duration, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return own.Sub(c.own), c.known
}
