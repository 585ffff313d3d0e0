// Package lease decides how long the holder of a lease may trust it, and renews it.
//
// A lease is a key or a document in a store, with a time to live. The store counts from the moment it carries out a request; the holder counts from the moment
// before it sends that request, by its monotonic clock, and stops a tenth of the time to live earlier. So the holder stops before the store gives the lease away.
// This holds while the process runs: a process that was stopped wakes up for an instant in which it does not know yet. Scripts that compare a token, and fences,
// refuse what it writes then.
package lease

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
)

var (
	// ErrGone is the answer of a store in which the lease ended, was deleted or has another holder. An ask function returns it, wrapped or not, for Keep to stop at once.
	ErrGone = errors.New("the store has no such lease, or another holder's")

	// ErrExpired is returned by Keep when no answer came in time. The store may still have the lease.
	ErrExpired = errors.New("not renewed in time")
)

// Until is the end of the trust in a lease of ttl that a request sent at that instant gave: nine tenths of ttl later. The last tenth covers clocks that run at different speeds.
func Until(sent time.Time, ttl time.Duration) time.Time { return sent.Add(ttl - ttl/10) }

// Lease is one lease as its holder sees it. Its methods are safe for concurrent use.
type Lease struct {
	moved  chan struct{} // holds one after a change of ttl or until
	doubts chan struct{} // holds one after Doubt

	mu    sync.Mutex
	ttl   time.Duration
	sent  time.Time // of the last request that counted
	until time.Time
}

// New makes a Lease that a request sent at that instant gave for ttl. A ttl of 0 or less never ends, and Keep does not renew it.
func New(sent time.Time, ttl time.Duration) *Lease {
	l := &Lease{moved: make(chan struct{}, 1), doubts: make(chan struct{}, 1)}
	l.Given(sent, ttl)
	return l
}

// Given notes that a request sent at that instant gave the lease for ttl. An answer to an earlier request than the last one noted changes nothing.
func (l *Lease) Given(sent time.Time, ttl time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sent.Before(l.sent) {
		return
	}
	l.sent, l.ttl, l.until = sent, max(ttl, 0), Until(sent, ttl)
	lifecycle.Poke(l.moved)
}

// TTL is the time to live that was noted last; 0 never ends.
func (l *Lease) TTL() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ttl
}

// Left is how long the lease is trusted from now on, 0 or less if it is not. It reads the clock and waits for no timer, so it is right also in the first instant after a pause of the process.
func (l *Lease) Left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ttl == 0 {
		return math.MaxInt64
	}
	return time.Until(l.until)
}

// Valid reports whether the lease is trusted now, as Left does.
func (l *Lease) Valid() bool { return l.Left() > 0 }

// Doubt makes Keep ask now, without waiting for its time, unless a question is open already.
func (l *Lease) Doubt() { lifecycle.Poke(l.doubts) }

// answer is the outcome of one question.
type answer struct {
	sent time.Time
	ttl  time.Duration
	err  error
}

// Keep renews the lease until ctx ends and then returns nil. It returns ErrExpired, with the last error of ask, when the trust ends, and the error of ask if that is ErrGone.
//
// ask asks the store for ttl more; nil means given. Keep calls it after a third of the time to live, after an error again after a twentieth. Where a question stays open for a sixth of the time to
// live, Keep asks again beside it. again says that an earlier question did not give the lease: ask then uses another connection, for the first one may be dead or filled with a large
// reply. The earlier answer still counts when it comes, so ask must be safe for concurrent use. The context of ask ends with the trust.
// With a nil ask the lease is not renewed, and Keep waits for its end.
func (l *Lease) Keep(ctx context.Context, ask func(ctx context.Context, ttl time.Duration, again bool) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		answers = make(chan answer)
		asked   time.Time // when the last question began
		open    bool      // it has no answer yet
		failed  error     // of it
		retry   time.Time // when to ask again after that
	)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		l.mu.Lock()
		ttl, sent, until := l.ttl, l.sent, l.until
		l.mu.Unlock()
		due, doubts := timer.C, l.doubts
		next := sent.Add(ttl / 3)
		switch {
		case ttl == 0:
			due, doubts = nil, nil
		case ask == nil:
			next, doubts = until, nil
		case open:
			next, doubts = asked.Add(ttl/6), nil
		case failed != nil && asked.After(sent):
			next = retry
		}
		if until.Before(next) {
			next = until
		}
		timer.Reset(time.Until(next))
		select {
		case <-ctx.Done():
			return nil
		case <-l.moved:
			continue
		case a := <-answers:
			last := a.sent.Equal(asked)
			open = open && !last
			switch {
			case a.err == nil:
				l.Given(a.sent, a.ttl)
			case errors.Is(a.err, ErrGone):
				return a.err
			}
			if last {
				failed, retry = a.err, time.Now().Add(max(ttl/20, time.Millisecond))
			}
			continue
		case <-due:
		case <-doubts:
		}
		now := time.Now()
		if !now.Before(until) {
			if failed != nil {
				return fmt.Errorf("%w: %w", ErrExpired, failed)
			}
			return ErrExpired
		}
		again := asked.After(sent)
		asked, open = now, true
		go func() {
			call, cancel := context.WithDeadline(ctx, until)
			defer cancel()
			a := answer{sent: now, ttl: ttl, err: ask(call, ttl, again)}
			select {
			case answers <- a:
			case <-ctx.Done():
			}
		}()
	}
}
