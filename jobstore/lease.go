package jobstore

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/taktworks/takt/internal/lease"
	"github.com/taktworks/takt/internal/redis/script"
)

//go:embed lease.lua
var leaseLua string

var leaseScript = script.New("jobstore/lease", leaseLua)

// RolePublisher is the role of the one process that publishes the retained topics.
const RolePublisher = "publisher"

// ErrLeaseLost: the role is another process' by now, or may be; nothing was written.
var ErrLeaseLost = errors.New("jobstore: the lease is lost")

// Lease is the right of one process to act alone in a role. Its token goes into every script that writes in the role, so that
// a process that was paused past the end of its lease writes nothing.
type Lease struct {
	Key, Token string

	ctx   context.Context
	trust *lease.Lease
}

// Valid reports whether the lease is this process' without doubt. It is right also in the first instant after a pause of the process.
func (l *Lease) Valid() bool { return l.ctx.Err() == nil && l.trust.Valid() }

// Context ends when the lease is lost; it outlives the context that hold got when that ends because the process stops, so
// that hold can finish what it has in hand. After hold has returned it is over.
func (l *Lease) Context() context.Context { return l.ctx }

func (s *Store) leaseKey(role string) string {
	if role == RolePublisher {
		return s.keys.PublisherLease()
	}
	return s.keys.Lease(role)
}

// Lease waits until no other process has the role, calls hold, and gives the role back when hold returns, so that
// another can have it at once. The context of hold ends when ctx ends, and when the lease is lost: before it expires in
// Redis after ttl without renewal (Redis was away, or the process was paused), or when somebody deleted it. Then, once hold has
// returned, Lease waits for the role again.
//
// It returns nil when ctx has ended, else what hold returned while it had the lease. It blocks; a process may have many
// roles at once. ttl is at least 100 ms; renewal is every third of it.
func (s *Store) Lease(ctx context.Context, role string, ttl time.Duration, hold func(ctx context.Context, l *Lease) error) error {
	if ttl < 100*time.Millisecond {
		return fmt.Errorf("jobstore: lease of %s for %v: must be at least 100ms", role, ttl)
	}
	for {
		l, err := s.take(ctx, role, ttl)
		if err != nil {
			return nil // ctx has ended
		}
		lost, err := s.hold(ctx, l, ttl, hold)
		switch {
		case ctx.Err() != nil && (lost || errors.Is(err, context.Canceled)):
			return nil
		case !lost:
			return err
		}
		s.log.Warn("jobstore: lease lost", "role", role, "err", err)
	}
}

// take asks for the lease until it has it, or ctx ends.
func (s *Store) take(ctx context.Context, role string, ttl time.Duration) (*Lease, error) {
	l := &Lease{Key: s.leaseKey(role), Token: s.opt.Instance + " " + uuid.NewString()} // the name is for people
	pause := min(max(ttl/20, 10*time.Millisecond), 250*time.Millisecond)
	away := false
	for {
		sent := time.Now()
		got, err := s.ask(ctx, "take", l, ttl)
		switch {
		case got:
			l.trust = lease.New(sent, ttl)
			return l, nil
		case ctx.Err() != nil:
			s.give(ctx, l) // the answer may have been lost
			return nil, ctx.Err()
		case err != nil && !away:
			s.log.Warn("jobstore: cannot ask for a lease", "role", role, "err", err)
		}
		away = err != nil
		if err := sleep(ctx, pause); err != nil {
			if away {
				s.give(ctx, l)
			}
			return nil, err
		}
	}
}

// hold calls f and renews the lease until it returns. lost says that the lease was not kept so long.
func (s *Store) hold(ctx context.Context, l *Lease, ttl time.Duration, f func(context.Context, *Lease) error) (lost bool, err error) {
	var lose context.CancelCauseFunc
	l.ctx, lose = context.WithCancelCause(context.WithoutCancel(ctx))
	inner, stop := context.WithCancelCause(l.ctx)
	defer context.AfterFunc(ctx, func() { stop(ctx.Err()) })()
	defer stop(nil)

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := l.trust.Keep(l.ctx, func(ctx context.Context, ttl time.Duration, _ bool) error {
			kept, err := s.ask(ctx, "keep", l, ttl)
			if err == nil && !kept {
				err = lease.ErrGone
			}
			return err
		})
		if err != nil {
			lose(fmt.Errorf("%w: %w", ErrLeaseLost, err))
		}
	}()
	err = f(inner, l)
	if cause := context.Cause(l.ctx); errors.Is(cause, ErrLeaseLost) {
		lost = true
		err = cmp.Or(err, cause)
	}
	lost = lost || errors.Is(err, ErrLeaseLost)
	lose(nil)
	<-ended
	if !lost {
		s.give(ctx, l)
	}
	return lost, err
}

// give lets the next one have the role; if it fails, the lease expires by itself.
func (s *Store) give(ctx context.Context, l *Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if _, err := s.ask(ctx, "give", l, 0); err != nil {
		s.log.Warn("jobstore: cannot give a lease back; it expires", "key", l.Key, "err", err)
	}
}

func (s *Store) ask(ctx context.Context, action string, l *Lease, ttl time.Duration) (bool, error) {
	run := leaseScript.Run
	if action == "keep" { // it must not wait behind large documents
		run = leaseScript.RunApart
	}
	n, err := run(ctx, s.rdb, []string{l.Key}, action, l.Token, strconv.FormatInt(ttl.Milliseconds(), 10)).AsInt64()
	return n == 1, err
}

// sleep waits for d, or until ctx ends and then returns why.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
