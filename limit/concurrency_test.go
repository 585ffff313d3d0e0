package limit_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/limit"
	"github.com/taktworks/takt/lock"
)

// plus-4: never more than the limit have a slot, and all get one.
func TestConcurrency(t *testing.T) {
	e := newEnv(t)
	lockers := []*lock.Locker{e.Locker, e.other(redis.Options{}), e.other(redis.Options{RESP2: true})}
	s := limit.Concurrency(site("a"), 3)
	ctx, cancel := context.WithTimeout(context.Background(), 2*hang)
	defer cancel()
	var inside atomic.Int32
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			for range 5 {
				h, err := lockers[i%3].Acquire(ctx, s)
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n > 3 {
					t.Errorf("%d at a time", n)
				}
				inside.Add(-1)
				e.release(h)
			}
		})
	}
	all.Wait()
	for range 3 {
		defer e.release(e.try("", s))
	}
	e.refused(s)
}

// The key goes with the last slot.
func TestSlotsLeaveNothing(t *testing.T) {
	e := newEnv(t)
	s := limit.Concurrency(site("a"), 3)
	a, b := e.try("", s), e.try("", s)
	e.release(b)
	e.release(a)
	if n := e.number("EXISTS", s.Key(e.prefix)); n != 0 {
		t.Error("the key stays after the last release")
	}
}

// L4, plus-4: members of a peer whose clock is five minutes off count as long as their score says by the server's clock; ours never depend on
// a clock of a client, for no time is ever sent (TestNoTimeIsSent in package lock).
func TestServerClock(t *testing.T) {
	e := newEnv(t)
	s := limit.Concurrency(site("a"), 2)
	key := s.Key(e.prefix)
	member := func(owner string, until time.Duration) {
		e.number("ZADD", key, strconv.FormatInt(time.Now().Add(until).UnixMilli(), 10), owner)
	}
	member("ahead", 5*time.Minute)
	member("behind", -5*time.Minute)
	h := e.try("", s)
	e.refused(s)
	if n := e.number("ZCARD", key); n != 2 {
		t.Errorf("%d members, want the one ahead and ours", n)
	}
	e.release(h)
}

// plus-4, L11: extending tells the truth, before and after the slot is lost.
func TestExtendSlot(t *testing.T) {
	long.Test(t, "depends on the speed of the machine")
	e := newEnv(t)
	s := limit.Concurrency(site("a"), 1)
	key := s.Key(e.prefix)
	h := e.try("me", s)
	e.number("ZADD", key, strconv.FormatInt(time.Now().Add(5*time.Second).UnixMilli(), 10), "me") // nearly over
	if err := h.Extend(t.Context()); err != nil {
		t.Errorf("extended with %v", err)
	}
	if left := e.score(key, "me"); left < 25*time.Second {
		t.Errorf("%v left after extending", left)
	}
	e.number("ZADD", key, "1", "me") // over, and not cleared away yet
	var lost *lock.LostError
	if err := h.Extend(t.Context()); !errors.As(err, &lost) || lost.Key != key {
		t.Errorf("extended what was over: %v", err)
	}
	if _, err := h.Release(t.Context()); !errors.As(err, &lost) {
		t.Errorf("released what was over: %v", err)
	}
}

func (e *env) score(key, owner string) time.Duration {
	e.t.Helper()
	v, err := e.srv.Client.Do(context.Background(), e.srv.Client.B().Zscore().Key(key).Member(owner).Build()).AsFloat64()
	if err != nil {
		e.t.Fatal(err)
	}
	return time.Until(time.UnixMilli(int64(v)))
}

// plus-4: the slot of one that died is free after its time to live; its context has ended by then.
func TestDeadOwner(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	e := newEnv(t)
	p := testenv.CountingProxy(t, e.srv.URL)
	dying := e.other(redis.Options{URL: p.URL})
	s := limit.Concurrency(site("a"), 1, lock.TTL(300*time.Millisecond))
	testenv.OnceWithin(t, time.Nanosecond, func(int) time.Duration { // after the next one has it, else two have the one slot; a machine that stalls just then is later
		h, err := dying.Try(t.Context(), []lock.Spec{s}, lock.TryOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan time.Time, 1)
		context.AfterFunc(h.Context(), func() { ended <- time.Now() })
		p.Stall(true)
		next, err := e.Acquire(t.Context(), limit.Concurrency(site("a"), 1)) // for longer: it is not to lose it, too
		if err != nil {
			t.Fatal(err)
		}
		late := (<-ended).Sub(next.At())
		e.release(next)
		p.Stall(false)
		_, _ = h.Release(t.Context())
		return late
	})
}

// An owner that takes its slot again has one, for longer.
func TestSlotTakenAgain(t *testing.T) {
	e := newEnv(t)
	s := limit.Concurrency(site("a"), 1)
	first := e.try("me", limit.Concurrency(site("a"), 1, lock.TTL(10*time.Second)))
	second := e.try("me", s)
	if left := e.score(s.Key(e.prefix), "me"); left < 25*time.Second {
		t.Errorf("%v left after taking it again", left)
	}
	e.refused(s)
	e.release(second)
	var lost *lock.LostError
	if err := first.Extend(t.Context()); !errors.As(err, &lost) {
		t.Errorf("extended after the release: %v", err)
	}
}

// L14: the keys of limiters expire.
func TestLimiterKeysExpire(t *testing.T) {
	e := newEnv(t)
	conc, rate := limit.Concurrency(site("a"), 2, lock.TTL(time.Second)), limit.Rate(site("a"), 2, time.Minute)
	e.try("", conc, rate)
	e.try("", limit.Concurrency(site("a"), 2))
	if ttl := e.number("PTTL", conc.Key(e.prefix)); ttl < 25_000 || ttl > 3_630_000 {
		t.Errorf("slots live for %d ms, want till the last ends, and an hour", ttl)
	}
	if ttl := e.number("PTTL", rate.Key(e.prefix)); ttl < 50_000 || ttl > 60_002 {
		t.Errorf("a rate lives for %d ms, want its window", ttl)
	}
}
