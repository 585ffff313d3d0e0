package lock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/lease"
)

// Held is a list of locks that are held, all by one owner. Its methods are safe for concurrent use.
type Held struct {
	l      *Locker
	owner  string
	at     time.Time
	sent   time.Time    // of the first request that took one
	leases []*taken     // in the order they were taken
	trust  *lease.Lease // in all of them, by the shortest time to live; nil = nothing expires

	mu   sync.Mutex
	lost map[*taken]bool

	ctx  context.Context
	lose context.CancelCauseFunc

	stop  context.CancelFunc // of the renewal
	ended chan struct{}      // when it has
	once  sync.Once          // the release
}

// taken is one lock that is held.
type taken struct {
	part
	mark  string // what take.lua replied: the fence, or where a rate counted it
	fence uint64
}

func newHeld(ctx context.Context, l *Locker, owner string) *Held {
	h := &Held{l: l, owner: owner}
	h.ctx, h.lose = context.WithCancelCause(context.WithoutCancel(ctx))
	return h
}

// Context ends when any of the locks is lost or may be, with cause *LostError, and with ErrReleased when they are given back. It is of the
// values of the context that Try or Acquire got, but does not end with it: that may have been a limit for the waiting. See Guard.
//
// It ends before the lease does in Redis: what is trusted is counted from before each request was sent, by the monotonic clock, less a tenth
// for clocks that run apart. That holds as long as this process runs: one that was stopped wakes up for an instant in
// which it does not know yet, which is what fences are for.
func (h *Held) Context() context.Context { return h.ctx }

// Guard returns a context that ends with ctx, and as Context does: for work under the locks. cancel must be called.
func (h *Held) Guard(ctx context.Context) (guarded context.Context, cancel context.CancelFunc) {
	guarded, lose := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(h.ctx, func() { lose(context.Cause(h.ctx)) })
	return guarded, func() {
		unhook()
		lose(nil)
	}
}

// Owner is the name under which the locks are held.
func (h *Held) Owner() string { return h.owner }

// At is when the locks were taken, by the clock of the server (the last of them, where they were taken one by one).
func (h *Held) At() time.Time { return h.at }

// Fence is the number of the first structural lock by key, 0 if there are limiters only. It goes into what is written under the lock: who
// stores it refuses a number lower than one it saw. Numbers of one lock strictly rise, over releases, expiry and Break.
func (h *Held) Fence() uint64 {
	for _, s := range h.leases {
		if !s.spec.Limiter() {
			return s.fence
		}
	}
	return 0
}

// Fences are the numbers of all structural locks, by key.
func (h *Held) Fences() map[string]uint64 {
	all := make(map[string]uint64)
	for _, s := range h.leases {
		if !s.spec.Limiter() {
			all[s.key()] = s.fence
		}
	}
	return all
}

// living are the locks that expire and are not lost.
func (h *Held) living() []*taken {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.leases), func(s *taken) bool { return s.spec.kind == kindRate || h.lost[s] })
}

// forfeit marks a lock as lost, which ends the context. The rest is kept until the release, for the work may still be on its way out.
func (h *Held) forfeit(s *taken, why error) {
	h.mu.Lock()
	before := h.lost[s]
	if h.lost == nil {
		h.lost = make(map[*taken]bool)
	}
	h.lost[s] = true
	h.mu.Unlock()
	if !before {
		err := &LostError{Key: s.key(), Err: why}
		h.l.log.Warn("lock: lost", "key", s.key(), "owner", h.owner, "err", err)
		h.lose(err)
	}
}
