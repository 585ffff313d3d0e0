package mqtt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
)

// Conn is one connection to a broker that comes back by itself. Make it with New, register
// subscriptions and OnConnect, then let Run hold it. All methods may be called by any goroutine.
//
// Take one Conn for receiving and another for publishing, each with a client id of its own: a
// flood on one does not delay the other, and the embedded broker needs it.
type Conn struct {
	o      Options
	broker *url.URL // without user and password
	log    *slog.Logger

	budget   *budget
	retained chan struct{} // capacity 1: Retained runs once at a time

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced whenever what follows changes
	link      *link         // the connection, nil when down
	ready     bool          // link is up and every subscription granted
	readyAt   time.Time     // since when
	facts     Facts
	failure   error           // of the last attempt to connect
	ctx       context.Context // of Run, given to handlers; nil before
	closed    bool            // Run has returned
	sessions  int             // how many sessions the broker began for us
	subs      []*Subscription
	left      bool // Leave has succeeded: the session may end
	onConnect []func()
}

// New checks the options and returns a Conn that is not connected yet: Run does that.
func New(o Options) (*Conn, error) {
	broker, err := o.validate()
	if err != nil {
		return nil, err
	}
	c := &Conn{
		o: o, broker: broker, budget: newBudget(o.ReceiveBytes),
		retained: make(chan struct{}, 1),
		changed:  make(chan struct{}),
	}
	c.log = o.Log.With("mqtt", broker.String(), "client_id", o.ClientID)
	return c, nil
}

// String is the broker and the client id.
func (c *Conn) String() string { return c.o.String() }

// OnConnect has f called after every connect, when all subscriptions are in place. f must not
// block. Register before Run.
func (c *Conn) OnConnect(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onConnect = append(c.onConnect, f)
}

// Run connects and stays connected until ctx ends; then it sends what is left of
// acknowledgements, says goodbye and returns nil. The session stays at the broker for
// SessionExpiry. It never gives up: refused credentials too may be right again tomorrow.
// What went wrong is logged, and told by Ready.
func (c *Conn) Run(ctx context.Context) error {
	c.mu.Lock()
	again := c.ctx != nil
	c.ctx = ctx
	c.mu.Unlock()
	if again {
		return errors.New("mqtt: Run called twice")
	}
	defer c.set(func() { c.closed = true })

	var wait backoff
	for {
		l, err := c.connect(ctx)
		if err == nil {
			start := time.Now()
			err = c.hold(ctx, l)
			wait.ended(time.Since(start), l.ending)
		}
		if ctx.Err() != nil {
			return nil
		}
		if c.o.OneConnection && l != nil {
			return err
		}
		d := wait.next()
		c.log.Warn("mqtt: no connection", "err", err, "again_in", d)
		c.set(func() { c.failure = err })
		if !lifecycle.Sleep(ctx, d) {
			return nil
		}
	}
}

// hold keeps l until it is lost or ctx ends, and says why it was lost.
func (c *Conn) hold(ctx context.Context, l *link) error {
	c.set(func() {
		c.link, c.facts = l, l.facts.counted(c.facts)
		c.facts.Connects++
	})
	c.log.Info("mqtt: connected", "session_present", l.facts.SessionPresent)
	defer c.set(func() {
		c.link, c.ready = nil, false
		if ctx.Err() == nil {
			c.facts.Losses++
		}
		if l.ending == taken {
			c.facts.TakenOver++
		}
	})

	retry := backoff{failures: 3}
	c.mu.Lock()
	missing := slices.DeleteFunc(slices.Clone(c.subs), func(s *Subscription) bool { return s.temporary })
	c.mu.Unlock()
	missing = c.subscribeAll(ctx, l, missing)
	for {
		var again <-chan time.Time
		if len(missing) == 0 {
			c.nowReady(l)
		} else {
			again = time.After(retry.next())
		}
		select {
		case <-l.session.lost:
			return l.whyLost()
		case <-ctx.Done():
			c.mu.Lock()
			forget := c.left
			c.mu.Unlock()
			l.disconnect(forget)
			return ctx.Err()
		case <-again:
			missing = c.subscribeAll(ctx, l, missing)
		}
	}
}

// nowReady tells everyone who waits that l is up with all its subscriptions.
func (c *Conn) nowReady(l *link) {
	if !l.up() {
		return
	}
	c.set(func() {
		if !c.ready {
			c.readyAt = time.Now()
		}
		c.ready, c.failure, c.facts.RefusedFilters = true, nil, nil
	})
	c.mu.Lock()
	call := slices.Clone(c.onConnect)
	c.mu.Unlock()
	for _, f := range call {
		f()
	}
}

// Ready waits until there is a connection with every subscription granted. An error means that
// ctx ended first, or Run (ErrClosed); it tells why the last attempt failed.
func (c *Conn) Ready(ctx context.Context) error {
	return c.await(ctx, func() bool { return c.ready })
}

// settled is how long a connection must have been ready for Receiving: by then the broker has sent what it kept.
const settled = time.Second

// Receiving says whether messages come in: all subscriptions have been granted for a second, and the broker has been heard within the
// keep-alive and half of it. It is false while the broker may hold messages back that it has for us. It does not block.
func (c *Conn) Receiving() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ready || !c.link.up() || time.Since(c.readyAt) < settled {
		return false
	}
	return c.link.wire.silence() < c.link.facts.KeepAlive*3/2
}

// connected waits until there is a connection, with all subscriptions or not.
func (c *Conn) connected(ctx context.Context) error {
	return c.await(ctx, func() bool { return true })
}

// await waits until there is a connection and ok, which is called with c.mu held.
func (c *Conn) await(ctx context.Context, ok func() bool) error {
	for {
		c.mu.Lock()
		done, changed, failure, closed := c.link.up() && ok(), c.changed, c.failure, c.closed
		c.mu.Unlock()
		switch {
		case done:
			return nil
		case closed:
			return ErrClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if failure != nil {
				return fmt.Errorf("%w: %w (%w)", ErrDown, failure, ctx.Err())
			}
			return fmt.Errorf("%w: %w", ErrDown, ctx.Err())
		}
	}
}

// Facts returns what the broker said when the connection was made.
func (c *Conn) Facts() Facts {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.facts
	f.Connected = c.link.up()
	f.HeldBytes = c.budget.held()
	f.RefusedFilters = slices.Clone(f.RefusedFilters)
	return f
}

// begin numbers the sessions the broker keeps for us: a new number whenever it had none.
func (c *Conn) begin(present bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !present {
		c.sessions++
	}
	return c.sessions
}

// current is the connection if there is one.
func (c *Conn) current() (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.link.up():
		return c.link, nil
	case c.closed:
		return nil, ErrClosed
	}
	return nil, ErrDown
}

// set changes state and wakes who waits for a change.
func (c *Conn) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}
