package lock_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/lock"
)

// Of 50 contenders for two locks, named in opposite orders, one has them at a time; all get them; fences rise.
func TestContenders(t *testing.T) {
	e := newEnv(t)
	a, b := lock.Mutex(task("a")), lock.Mutex(task("b"))
	var inside atomic.Int32
	var mu sync.Mutex
	var fences []uint64
	e.contend(50, 3, func(i int) []lock.Spec {
		if i%2 == 1 {
			return []lock.Spec{b, a}
		}
		return []lock.Spec{a, b}
	}, func(_ int, h *lock.Held) {
		if n := inside.Add(1); n != 1 {
			t.Errorf("%d have the lock", n)
		}
		mu.Lock()
		fences = append(fences, h.Fence())
		mu.Unlock()
		inside.Add(-1)
	})
	if len(fences) != 150 {
		t.Errorf("%d turns, want 150", len(fences))
	}
	for i := 1; i < len(fences); i++ {
		if fences[i] <= fences[i-1] {
			t.Fatalf("fence %d after %d", fences[i], fences[i-1])
		}
	}
	for _, k := range e.keys() {
		if k != "lock:mutex:task:a::fence" && k != "lock:mutex:task:b::fence" {
			t.Errorf("left behind: %s", k)
		}
	}
}

// A lock whose holder is gone is free after its time to live, and the fence goes up.
func TestExpiry(t *testing.T) {
	long.Test(t, "waits for a lease to end")
	e := newEnv(t)
	dead, p := e.behind()
	short := lock.TTL(300 * time.Millisecond)
	for s, long := range map[lock.Spec]lock.Spec{lock.Mutex(task("a"), short): lock.Mutex(task("a")), lock.Write(task("b"), short): lock.Write(task("b"))} {
		testenv.OnceWithin(t, noLater, func(int) time.Duration { // else two have it
			p.Stall(false)
			h := dead.try(lock.TryOptions{}, s)
			p.Stall(true)
			next, late := e.succeed(t, h, long) // the living one is not to lose it, too
			if next.Fence() <= h.Fence() {
				t.Errorf("%v: fence %d after %d", s, next.Fence(), h.Fence())
			}
			e.release(next)
			return late
		})
	}
	p.Stall(false)
}

// Fences rise also when the clock went back, and when the counter is gone.
func TestFenceRises(t *testing.T) {
	e := newEnv(t)
	s := lock.Mutex(task("a"))
	fence := func() uint64 {
		h := e.try(lock.TryOptions{}, s)
		defer e.release(h)
		if h.Fences()[s.Key(e.prefix)] != h.Fence() {
			t.Errorf("fences %v, fence %d", h.Fences(), h.Fence())
		}
		return h.Fence()
	}
	key := s.Key(e.prefix) + "::fence"
	first := fence()
	e.do("DEL", key)
	second := fence()
	e.do("SET", key, "7000000000000000") // a clock that runs ahead by a century, then is set right
	third, fourth := fence(), fence()
	if second <= first || third != 7000000000000001 || fourth != 7000000000000002 {
		t.Errorf("fences %d, %d, %d, %d", first, second, third, fourth)
	}
	if ttl := e.number("PTTL", key); ttl <= 0 || ttl > 600000 {
		t.Errorf("the counter lives for %d ms", ttl)
	}
}

// A refusal says who has the lock, under which key, until when, and when to try again.
func TestRefusal(t *testing.T) {
	e := newEnv(t)
	s := lock.Mutex(task("a"), lock.TTL(10*time.Second))
	h := e.try(lock.TryOptions{Owner: "somebody"}, lock.Mutex(task("b")), s)
	r := e.refused(lock.TryOptions{}, lock.Mutex(task("0")), s)
	if r.Owner != "somebody" || r.Key != s.Key(e.prefix) || r.Spec != s || r.Ahead != 0 || len(r.Woken) != 0 {
		t.Errorf("refused: %+v", r)
	}
	if left := time.Until(r.Until); left < 8*time.Second || left > 10*time.Second || r.RetryAfter < 8*time.Second || r.RetryAfter > 10*time.Second {
		t.Errorf("until %v, again in %v", left, r.RetryAfter)
	}
	if n := e.number("EXISTS", lock.Mutex(task("0")).Key(e.prefix)); n != 0 {
		t.Error("a part of a refused list was taken")
	}
	e.release(h)

	e.do("SET", s.Key(e.prefix), "peer") // without a time to live
	if r := e.refused(lock.TryOptions{}, s); !r.Until.IsZero() || r.RetryAfter != 0 || r.Owner != "peer" {
		t.Errorf("held for ever: %+v", r)
	}
}

// A second release is harmless, also at once and after another took the lock.
func TestDoubleRelease(t *testing.T) {
	e := newEnv(t)
	for _, s := range []lock.Spec{lock.Mutex(task("m")), lock.Write(task("w")), lock.Read(task("r")), lock.Slots(task("c"), 1)} {
		h := e.try(lock.TryOptions{}, s)
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { e.release(h) })
		}
		both.Wait()
		next := e.try(lock.TryOptions{}, s)
		e.release(h)
		if err := next.Extend(t.Context()); err != nil {
			t.Errorf("%v: %v", s, err)
		}
		e.release(next)
	}
}
