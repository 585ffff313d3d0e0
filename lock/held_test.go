package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/lock"
)

// lost waits for the end of the context and wants a lost lock as its cause.
func lost(t testing.TB, h *lock.Held, key string) *lock.LostError {
	t.Helper()
	testenv.Take(t, "end of the context", h.Context().Done())
	var lost *lock.LostError
	if !errors.As(context.Cause(h.Context()), &lost) || lost.Key != key {
		t.Fatalf("the cause is %v, want a lost %s", context.Cause(h.Context()), key)
	}
	return lost
}

// leases are one of every kind that expires, on objects whose names begin so.
func leases(name string, ttl time.Duration) []lock.Spec {
	d := lock.TTL(ttl)
	return []lock.Spec{lock.Mutex(task(name+"m"), d), lock.Write(task(name+"w"), d), lock.Read(task(name+"r"), d), lock.Slots(task(name+"c"), 1, d)}
}

// Whoever takes a lock away, the work under it ends with the right cause, at the next renewal.
func TestLost(t *testing.T) {
	long.Test(t, "waits for a renewal")
	e := newEnv(t)
	type loss struct {
		spec    lock.Spec
		held    *lock.Held
		guarded context.Context
	}
	var losses []loss // all wait for one renewal together
	for name, lose := range map[string]func(t *testing.T, kind int, key string){
		"deleted": func(t *testing.T, _ int, key string) { e.do("DEL", key) },
		"broken": func(t *testing.T, _ int, key string) {
			if _, err := e.Break(t.Context(), key); err != nil {
				t.Error(err)
			}
		},
		"taken": func(t *testing.T, kind int, key string) {
			e.do("DEL", key)
			e.do([][]string{{"SET", key, "x"}, {"HSET", key, "writer_owner", "x"}, {"HSET", key, "readers", "1"}, {"ZADD", key, "9e15", "x"}}[kind]...)
		},
		"another type": func(t *testing.T, _ int, key string) {
			e.do("DEL", key)
			e.do("RPUSH", key, "x")
		},
	} {
		for kind, s := range leases(name+" ", 12*time.Second) { // its own clock is not to end it before a renewal on a busy machine
			h := e.try(lock.TryOptions{}, s, lock.Mutex(task(s.String())))
			ctx, cancel := h.Guard(t.Context())
			defer cancel()
			lose(t, kind, s.Key(e.prefix))
			losses = append(losses, loss{s, h, ctx})
		}
	}
	for _, l := range losses {
		t.Run(l.spec.String(), func(t *testing.T) {
			e, h, key := e.in(t), l.held, l.spec.Key(e.prefix)
			other := lock.Mutex(task(l.spec.String()))
			if err := lost(t, h, key); err.Err != nil {
				t.Errorf("%v, though Redis said so", err)
			}
			testenv.Take(t, "end of the guarded context", l.guarded.Done())
			if !errors.Is(context.Cause(l.guarded), context.Cause(h.Context())) {
				t.Errorf("the work ended with %v", context.Cause(l.guarded))
			}
			var gone *lock.LostError
			if err := h.Extend(t.Context()); !errors.As(err, &gone) {
				t.Errorf("extended with %v", err)
			}
			e.refused(lock.TryOptions{}, other) // what is not lost is kept until the release
			_, err := h.Release(t.Context())
			if !errors.As(err, &gone) || gone.Key != key {
				t.Errorf("released with %v", err)
			}
			e.release(e.try(lock.TryOptions{}, other))
		})
	}
}

// A lock is renewed every third of its time to live, also beside one with a longer, and lives as long as it is held.
func TestRenewal(t *testing.T) {
	long.Test(t, "waits for renewals")
	e := newEnv(t)
	specs := append(leases("", 6*time.Second), lock.Mutex(task("long")))
	h := e.try(lock.TryOptions{}, specs...)
	var left [5]int64
	for range 2 {
		for i, s := range specs {
			left[i] = e.left(s, h.Owner())
		}
		testenv.Eventually(t, "renewal of all", func() bool {
			renewed := true
			for i, s := range specs {
				now := e.left(s, h.Owner())
				renewed = renewed && now > left[i]
				left[i] = min(left[i], now)
			}
			return renewed
		})
	}
	if err := h.Context().Err(); err != nil {
		t.Errorf("lost: %v", context.Cause(h.Context()))
	}
	e.release(h)
	if err := context.Cause(h.Context()); !errors.Is(err, lock.ErrReleased) {
		t.Errorf("the cause after the release is %v", err)
	}
	if err := h.Extend(t.Context()); !errors.Is(err, lock.ErrReleased) {
		t.Errorf("extended after the release: %v", err)
	}
}

// left is in ms; for slots and readers, when they end; at most 0 if it is over.
func (e *env) left(s lock.Spec, owner string) int64 {
	e.t.Helper()
	key := s.Key(e.prefix)
	switch {
	case s.Limiter():
		v, err := e.do("ZSCORE", key, owner).AsFloat64()
		if err != nil && !rueidis.IsRedisNil(err) {
			e.t.Fatal(err)
		}
		return int64(v)
	case strings.Contains(s.String(), "read"):
		n, err := e.do("HGET", key, "r:"+owner).AsInt64()
		if err != nil && !rueidis.IsRedisNil(err) {
			e.t.Fatal(err)
		}
		return n
	}
	return e.number("PTTL", key)
}

// Where nothing is heard of Redis any more, as when the process or the network stalls, the context ends before the lease does there:
// trust counts from before the request.
func TestStall(t *testing.T) {
	long.Test(t, "waits for leases to end")
	e := newEnv(t)
	const ttl = 4 * time.Second
	for _, s := range leases("", ttl) {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			e := e.in(t)
			far, p := e.behind()
			testenv.OnceWithin(t, ttl, func(int) time.Duration { // a busy machine ends the context late, and looks later still
				p.Delay(10 * time.Millisecond)
				sent := time.Now()
				h := far.try(lock.TryOptions{Owner: "me"}, s)
				p.Delay(0)
				p.Stall(true)
				if err := lost(t, h, s.Key(e.prefix)); err.Err == nil {
					t.Errorf("%v, though nobody said so", err)
				}
				left := e.left(s, "me")
				took := time.Since(sent)
				if took < ttl && (left <= 0 || left > 1e12 && left <= time.Now().UnixMilli()) {
					t.Errorf("the lease ended %v after it was asked for, and before the context: %d", took, left)
				}
				p.Stall(false)
				_, _ = h.Release(t.Context())
				e.do("DEL", s.Key(e.prefix))
				return took
			})
		})
	}
}

// A short interruption loses nothing.
func TestShortInterruption(t *testing.T) {
	long.Test(t, "breaks a link")
	e := newEnv(t)
	far, p := e.behind()
	s := lock.Mutex(task("a"), lock.TTL(30*time.Second))
	h := far.try(lock.TryOptions{}, s)
	for range 3 {
		p.Cut()
		if err := h.Extend(t.Context()); err == nil {
			break
		}
	}
	testenv.Eventually(t, "an extension", func() bool { return h.Extend(t.Context()) == nil })
	if h.Context().Err() != nil {
		t.Errorf("lost: %v", context.Cause(h.Context()))
	}
	e.release(h)
}

// When Redis dies the context ends in time; when it comes back empty, at the next renewal. Either way the lock can be had again.
func TestRedisDies(t *testing.T) {
	long.Test(t, "kills Redis")
	srv := testenv.StartRedis(t, embedded.RedisOptions{})
	e := on(t, srv, srv.Client, srv.Prefix(t)+":")
	s := lock.Mutex(task("a"), lock.TTL(3*time.Second))
	h := e.try(lock.TryOptions{}, s)
	testenv.Must(t, srv.Server.Kill())
	if err := lost(t, h, s.Key(e.prefix)); err.Err == nil {
		t.Errorf("%v, though Redis could not say so", err)
	}
	if _, err := h.Release(t.Context()); err == nil {
		t.Error("released on a dead server")
	}
	waited := make(chan error, 1)
	testenv.Must(t, srv.Server.Restart(t.Context()))
	testenv.Eventually(t, "the server", func() bool { return e.do("PING").Error() == nil })
	h = e.try(lock.TryOptions{}, lock.Mutex(task("a"), lock.TTL(6*time.Second)))
	go func() {
		next, err := e.Acquire(context.Background(), s)
		if err == nil {
			_, err = next.Release(context.Background())
		}
		waited <- err
	}()
	testenv.Eventually(t, "a place", func() bool { return e.waiters(s) == 1 })
	testenv.Must(t, srv.Server.Kill())
	testenv.Must(t, srv.Server.Restart(t.Context())) // without what it knew
	if err := testenv.Take(t, "the lock after the restart", waited); err != nil {
		t.Error(err)
	}
	lost(t, h, s.Key(e.prefix))
	var gone *lock.LostError
	if _, err := h.Release(t.Context()); !errors.As(err, &gone) {
		t.Error(err)
	}
}

// What ends the work does not hinder the release.
func TestReleaseAfterTheEnd(t *testing.T) {
	e := newEnv(t)
	ctx, cancel := context.WithCancel(context.Background())
	h, err := e.Try(ctx, []lock.Spec{lock.Mutex(task("a"))}, lock.TryOptions{})
	testenv.Must(t, err)
	cancel()
	if err := h.Context().Err(); err != nil {
		t.Errorf("the lock ended with the context of the asking: %v", err)
	}
	if _, err := h.Release(ctx); err != nil {
		t.Errorf("released with %v", err)
	}
	e.release(e.try(lock.TryOptions{}, lock.Mutex(task("a"))))
}

// One lock that cannot be given back hinders none of the others.
func TestReleasesAreIndependent(t *testing.T) {
	e := newEnv(t)
	specs := leases("", 30*time.Second)
	for _, broken := range specs {
		h := e.try(lock.TryOptions{}, specs...)
		e.do("DEL", broken.Key(e.prefix))
		e.do("RPUSH", broken.Key(e.prefix), "x")
		var gone *lock.LostError
		if _, err := h.Release(t.Context()); !errors.As(err, &gone) || gone.Key != broken.Key(e.prefix) {
			t.Errorf("%v: released with %v", broken, err)
		}
		e.do("DEL", broken.Key(e.prefix))
		e.release(e.try(lock.TryOptions{}, specs...))
	}
}
