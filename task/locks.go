package task

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/limit"
	"github.com/taktworks/takt/lock"
)

// A task that is refused a lock goes back to the delayed set: it is blocked, which is neither an attempt nor an end. It has a place in the line of the lock,
// and is started when that comes. Should nobody tell it, it looks by itself after growing pauses.
const (
	firstPause   = 100 * time.Millisecond // doubles each time
	lastPause    = 5 * time.Second
	pauseBehind  = 10 * time.Millisecond // more, for each that waits in front
	longestPause = time.Minute
	placeKept    = 90 * time.Second // in the line: longer than any pause, and the way through the queue
	slowQueue    = time.Second      // who is called has so long to come, see late
)

// Exclusive lets one task of the type run at a time, by a mutex of its name: lock:mutex:task:NAME.
func Exclusive() TypeOption {
	return typeOption(func(s *spec) {
		s.own = append(s.own, func(any) []lock.Spec { return []lock.Spec{lock.Mutex(s.object())} })
	})
}

// ExclusiveBy lets one task of the type run at a time for each value of key, which must be a pure function of the arguments and returns 1 to 8
// parts: lock:mutex:task:NAME:PART.... T is that of the Type.
func ExclusiveBy[T any](key func(T) []string) TypeOption {
	return typeOption(func(s *spec) {
		s.keyed = append(s.keyed, key)
		s.own = append(s.own, func(args any) []lock.Spec { return []lock.Spec{lock.Mutex(s.object(key(args.(T))...))} })
	})
}

// Limits bounds how many tasks of the type run at once, and how many start in any window, over all workers; 0 = no bound. A Config overrides it.
// The limiters have the type's name: limiter:conc:task:NAME and limiter:rate:task:NAME.
func Limits(concurrency, rate int, window time.Duration) TypeOption {
	return typeOption(func(s *spec) { s.limits = limits{concurrency, rate, window} })
}

// limits are those of a type.
type limits struct {
	concurrency, rate int
	window            time.Duration
}

func (l limits) validate(o lock.Object) error {
	if (l.rate == 0) != (l.window == 0) {
		return fmt.Errorf("task: Limits: rate %d, window %v: want both, or neither", l.rate, l.window)
	}
	for _, s := range l.specs(o, o) {
		if err := s.Validate(); err != nil {
			return fmt.Errorf("task: Limits: %w", err)
		}
	}
	return nil
}

// specs are the limiters of these objects; a limit of 0 is none.
func (l limits) specs(concurrency, rate lock.Object) []lock.Spec {
	return []lock.Spec{limit.Concurrency(concurrency, l.concurrency), limit.Rate(rate, l.rate, l.window)}
}

// object is what the type's own locks are of: its name, never that of a Go type.
func (s *spec) object(parts ...string) lock.Object {
	return lock.Object{Type: lock.Task, Key: s.name, Extra: parts}
}

// lock takes everything that the task needs while it runs, or says what becomes of it instead.
func (r *run) lock(ctx context.Context) *outcome {
	specs, err := r.specs()
	if err != nil {
		return r.failed(err, nil)
	}
	if len(specs) == 0 {
		return nil
	}
	r.worker.waiters.expect(r.msg.ID)
	r.held, err = r.take(ctx, specs)
	if err != nil {
		return r.refused(ctx, err)
	}
	r.worker.waiters.forget(r.msg.ID)
	if r.msg.Meta.Blocked > 0 {
		r.worker.client.unblock(ctx, r.msg.ID)
	}
	return nil
}

// specs are the locks of the task: those of its arguments, those of its type, and its limits. A panic in the code that says which is an error.
func (r *run) specs() (all []lock.Spec, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	if r.handler.lock != nil {
		if all, err = r.handler.lock(r); err != nil {
			return nil, err
		}
	}
	return append(all, r.limits()...), nil
}

// late says that tasks take so long through this queue that one which is called would come too late: a lock that is kept for it would stand idle, and after it
// for the next. Then tasks stand in no line, and who finds a lock free has it.
func (r *run) late() bool { return r.inQueue() > slowQueue }

// inQueue is how long the entry waited, by the server's clock as far as it is known.
func (r *run) inQueue() time.Duration {
	return r.serverTime().Sub(entryTime(r.entry.ID))
}

// take tries once: one round trip. Quota that comes back later than a place is kept is asked for again, for a place that long.
func (r *run) take(ctx context.Context, specs []lock.Spec) (*lock.Held, error) {
	l := r.worker.client.locker
	o := lock.TryOptions{Waiter: r.waiter(), WaitFor: placeKept}
	if r.late() {
		o.Waiter, o.WaitFor = "", 0
		if r.msg.Meta.Blocked > 0 { // it may have a place from better times
			r.leave(ctx)
		}
	}
	held, err := l.Try(ctx, specs, o)
	if e, ok := errors.AsType[*lock.HeldError](err); ok && e.RetryAfter > placeKept/2 && r.quota(e) && o.Waiter != "" {
		r.worker.client.wake(ctx, e.Woken)
		o.WaitFor += e.RetryAfter
		held, err = l.Try(ctx, specs, o)
	}
	return held, err
}

// waiter is the task's name in the lines of locks: its id, if that is fit to be one.
func (r *run) waiter() string {
	if checkName("id", r.msg.ID) != nil {
		return ""
	}
	return r.msg.ID
}

// quota says that a rate refused: then it says exactly when to come again.
func (r *run) quota(e *lock.HeldError) bool {
	return strings.HasPrefix(e.Key, r.worker.client.opts.LockPrefix+"limiter:rate:")
}

// refused says what becomes of a task that did not get its locks.
func (r *run) refused(ctx context.Context, err error) *outcome {
	var held *lock.HeldError
	var spec *lock.SpecError
	var unknown *lock.UnknownTypeError
	switch {
	case errors.As(err, &held):
		r.worker.client.wake(ctx, held.Woken)
		r.worker.waiters.listen()
		return r.block(r.pause(held), err)
	case ctx.Err() != nil:
		return r.again(Returned, 0, err)
	case redis.Away(err):
		return r.block(jitter(time.Second), err)
	case errors.As(err, &spec), errors.As(err, &unknown): // no repetition mends it
		v := &verdict{err: err, final: true}
		return r.failed(v, v)
	}
	return r.failed(err, nil)
}

func (r *run) block(pause time.Duration, err error) *outcome {
	r.msg.Meta.Blocked++
	return r.again(Blocked, pause, err)
}

// pause is how long a blocked task sleeps if nobody wakes it. Those who are refused together do not come back together: by jitter, and by their places.
func (r *run) pause(e *lock.HeldError) time.Duration {
	behind := time.Duration(e.Ahead) * pauseBehind
	longest := min(firstPause<<min(r.msg.Meta.Blocked, 10), lastPause) + behind
	if r.late() { // not to fill the queue with tasks that only ask
		longest = max(longest, r.inQueue())
	}
	d := jitter(min(longest, longestPause))
	switch {
	case e.RetryAfter > 0 && r.quota(e) && r.late(): // all that are refused are told the same time
		return e.RetryAfter + d
	case e.RetryAfter > 0 && r.quota(e):
		return e.RetryAfter + time.Millisecond
	}
	if e.RetryAfter > 0 && (e.Ahead == 0 || e.Owner == "") { // the first in line comes when the lease ends; and a lock that is free is not kept for long
		d = min(d, e.RetryAfter+behind+rand.N(10*time.Millisecond))
	}
	return d
}

// unlock gives back what the run holds, and starts those whose turn it is. It changes nothing of what the run achieved: an error is logged, and the rest expires.
func (r *run) unlock(ctx context.Context) {
	if r.held == nil {
		return
	}
	woken, err := r.held.Release(ctx)
	if err != nil {
		r.worker.log.Warn("task: a lock could not be given back, or was not held any more", "task", r.msg.ID, "name", r.msg.Name, "error", err)
	}
	r.worker.client.wake(ctx, woken)
}

// leave gives up the places in lines of a blocked task that will not run now, so that nobody waits for it.
func (r *run) leave(ctx context.Context) {
	c := r.worker.client
	c.unblock(ctx, r.msg.ID)
	if r.handler == nil || r.waiter() == "" {
		return
	}
	specs, err := r.specs()
	if err != nil || len(specs) == 0 {
		return
	}
	woken, err := c.locker.Leave(ctx, r.waiter(), specs...)
	if err != nil {
		r.worker.log.Warn("task: a place in the line of a lock is not given up, it goes with time", "task", r.msg.ID, "error", err)
	}
	c.wake(ctx, woken)
}
