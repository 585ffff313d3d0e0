package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/taktworks/takt/internal/redis"
)

const (
	firstPoll = 250 * time.Millisecond // pauses between tries of one that nobody wakes: they double, with jitter, up to lastPoll
	lastPoll  = 5 * time.Second
	placeKept = 3 * lastPoll // a waiter that died holds up nobody, but a second if its turn comes before
)

// Acquire waits until it has all of specs, or ctx ends. Waiters of one lock get it in the order they came, readers together; a release wakes
// the next through pub/sub, and each also looks by itself, after growing pauses of at most 5 s, or exactly when the lease of the holder ends or
// the quota comes back. A list of locks is waited for without holding any of them: in the line of the one that refused.
//
// An error of the first try is returned as Try returns it; later ones that only say that Redis is away are waited out. When ctx ends, the
// place in the line is given up, and the error is the cause of ctx, with the last *HeldError in it. The locks outlive ctx: see Held.Context.
func (l *Locker) Acquire(ctx context.Context, specs ...Spec) (*Held, error) {
	me := newOwner()
	o := TryOptions{Owner: me, Waiter: me, WaitFor: placeKept}
	held, err := l.Try(ctx, specs, o)
	var refused *HeldError
	switch {
	case errors.As(err, &refused):
	case err != nil && ctx.Err() != nil: // the try may have got a place all the same
		l.abandon(ctx, me, specs)
		return nil, fmt.Errorf("lock: gave up waiting: %w (%w)", context.Cause(ctx), err)
	default:
		return held, err
	}
	turn := l.wakes.join(me)
	defer l.wakes.leave(me)
	for poll := firstPoll; ; poll = min(2*poll, lastPoll) {
		switch {
		case err == nil:
			return held, nil
		case errors.As(err, &refused) && refused.Owner == me:
			l.disown(ctx, specs, me) // taken by a try whose reply was lost
		case ctx.Err() != nil || !passes(err) || !turn.wait(ctx, pause(err, poll)):
			l.abandon(ctx, me, specs)
			if ctx.Err() != nil {
				err = fmt.Errorf("lock: gave up waiting: %w (%w)", context.Cause(ctx), refused)
			}
			return nil, err
		}
		held, err = l.Try(ctx, specs, o)
	}
}

// passes says whether an error does with time.
func passes(err error) bool {
	_, refused := errors.AsType[*HeldError](err)
	return refused || redis.Away(err)
}

// pause is how long to wait before trying unasked: until the time the refusal named, for one who is next, else some.
func pause(err error, poll time.Duration) time.Duration {
	d := poll/2 + rand.N(poll/2+1)
	if refused, ok := errors.AsType[*HeldError](err); ok && refused.RetryAfter > 0 && (refused.Ahead == 0 || refused.Spec.kind == kindRate) {
		d = min(d, refused.RetryAfter+time.Millisecond)
	}
	return d
}

// disown gives back what an owner has without a Held.
func (l *Locker) disown(ctx context.Context, specs []Spec, owner string) {
	parts, err := l.parts(specs)
	if err != nil {
		return // Try told
	}
	h := newHeld(ctx, l, owner)
	for _, p := range parts {
		h.leases = append(h.leases, &taken{part: p})
	}
	h.rollBack(ctx, errors.New("its reply was lost"))
}

// abandon leaves the line for good.
func (l *Locker) abandon(ctx context.Context, waiter string, specs []Spec) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if _, err := l.Leave(ctx, waiter, specs...); err != nil {
		l.log.Warn("lock: cannot leave the line; the place is lost with time", "waiter", waiter, "err", err)
	}
}

// Leave gives up the place that a waiter got by Try, in whichever of specs it stands. woken are those whose turn it is instead. A waiter that
// stands nowhere is no error. A waiter that never comes back need not leave: its place goes after WaitFor, or a second after its turn came.
func (l *Locker) Leave(ctx context.Context, waiter string, specs ...Spec) (woken []string, err error) {
	parts, err := l.parts(specs)
	if err != nil {
		return nil, err
	}
	if err := checkPart("waiter", waiter); err != nil {
		return nil, err
	}
	var errs []error
	for _, group := range l.groups(parts) {
		keys, args := l.call(group, nil, waiter)
		names, err := leaveScript.Run(ctx, l.rdb, keys, args...).AsStrSlice()
		if err != nil {
			errs = append(errs, fmt.Errorf("lock: leave: %w", err))
		}
		woken = append(woken, names...)
	}
	return woken, errors.Join(errs...)
}
