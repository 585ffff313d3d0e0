// Package lock has locks on Redis: a mutex and a reader-writer lock, each with a fence. It takes the limiters of package limit in the same step.
//
//	held, err := locker.Try(ctx, []lock.Spec{lock.Mutex(site), limit.Rate(site, 10, time.Minute)}, lock.TryOptions{})
//	var refused *lock.HeldError
//	if errors.As(err, &refused) {
//		return later(refused.RetryAfter)
//	}
//	if err != nil {
//		return err
//	}
//	defer held.Release(ctx)
//	ctx, cancel := held.Guard(ctx) // ends when a lock is lost
//	defer cancel()
//	return write(ctx, held.Fence()) // the store refuses a fence lower than one it saw
//
// A list of locks is taken whole or not at all; nothing is held while waiting for the rest. On a single server, or with a prefix that has a
// hash tag, that is one script and one round trip, for one lock as for twenty; so is the renewal, and the release.
//
//	        Try / Acquire                    every third of the TTL                   Release
//	free ────────────────────► held, fence ────────────────────────► held ────────────────────────► free
//	 │ refused                       │ renewal refused, or none in time                                │ "!waiter"
//	 ▼                               ▼                                                                 ▼
//	line of the lock            Context ends: *LostError                                   first of the line is called
//
// # What it promises
//
// While the clock of the server and those of its clients run at about the same speed, and Redis keeps what it was told, two owners do not have
// a mutex at once, nor a writer and anybody else; a limiter lets through no more than its limit. All times are by the server's clock: those of
// the clients may be hours apart.
//
// Who is refused and named a waiter, or uses Acquire, stands in the line of that lock and gets it in the order of coming; readers who stand
// together go together. Newcomers do not pass the line. A writer waiting behind readers keeps new readers out, also without a place in the line
// (then for TryOptions.WaitFor). A release calls the next, who has a second to come; then its place is lost and the one behind is called, at
// the next try of anybody. So dead waiters cost those behind them a second or so each, once; not
// more than WaitFor (15 s for Acquire) and 5 s together, for by then all their places are lost. A call is told by pub/sub and in the replies (Held.Release,
// HeldError.Woken); waiters that hear of nothing look by themselves.
//
// A fence is a number that is higher with each time that the lock is given to somebody, over releases, expiry and Break. It is the server's time in
// microseconds, or one more than the last one. The last one is remembered for ten minutes after it was given, in a key beside the lock: so it need not
// be kept for ever for each of millions of locks, and still no number comes twice unless the server's clock was set back by more than that.
//
// # When something dies
//
// The holder: its locks are free after their time to live (TTL, 30 s), counted from its last renewal. What it used of a rate stays used.
//
// Redis, or the way to it: the context of the holder ends when the lock could expire, a tenth of its time to live before. When Redis comes
// back without its memory, at the next renewal. Acquire waits for Redis to come back, Try returns the error. A reply that was lost leaves no
// lock behind: Try gives it back, or it expires.
//
// An operator: Break frees a lock whoever has it. The holder's context ends at its next renewal.
//
// # What it cannot promise
//
// A process that is stopped (a debugger, a paused machine) after it looked at its context and before it writes, writes under a lock that somebody else
// may have by then. No lock over a network can prevent it: mutual exclusion under stalls is only as strong as the use of the fence. A machine
// that sleeps may not count that time on its monotonic clock, and then believes in its lock for as long.
//
// A replica that becomes the master may not know the latest locks, since replication is asynchronous: then two may have one, and a fence may be
// repeated if its clock is behind. Keys that were evicted or flushed are free locks: use maxmemory-policy noeviction.
//
// Locks are not re-entrant, and a list has no deadlock, but no guarantee either: one that needs many busy locks may wait long, as each refusal
// lets it stand in one line only. On a cluster without a hash tag the locks of a list are taken one by one, in the same order by everybody,
// limiters last; others may see a part of it taken, and given back.
//
// # Keys
//
// lock:mutex:…, lock:rw:…, limiter:conc:… and limiter:rate:… are those of the peers' page, as are the values of mutexes and slots. A
// reader-writer lock adds a lease per reader to the peers' counter; readers of peers have none, and are believed in until
// Options.ForeignGrace. Beside a lock stand, only while they are needed, its line (::wait), the times its places are kept (::until) and its
// fence (::fence). Every key expires, but those that peers wrote without a time to live, or count a reader in.
package lock
