package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/lock"
)

// five are one of each kind.
func five() []lock.Spec {
	return []lock.Spec{
		lock.Quota(task("q"), 2, time.Minute, 1), lock.Slots(task("c"), 1), lock.Write(task("w")), lock.Read(task("r")), lock.Mutex(task("m")),
	}
}

// A list costs one round trip, whatever its length; so does its release, and its renewal.
func TestRoundTrips(t *testing.T) {
	e := newEnv(t)
	far, p := e.behind()
	ctx := context.Background()
	for _, specs := range [][]lock.Spec{five()[4:], five()} {
		warm := far.try(lock.TryOptions{}, specs...)
		testenv.Must(t, warm.Extend(ctx))
		if _, err := warm.Refund(ctx); err != nil {
			t.Fatal(err)
		}
		p.Reset()
		h := far.try(lock.TryOptions{}, specs...)
		if n := p.Trips(); n != 1 {
			t.Errorf("Try of %d: %d round trips", len(specs), n)
		}
		testenv.Must(t, h.Extend(ctx))
		if n := p.Trips(); n != 2 {
			t.Errorf("Extend of %d: %d round trips", len(specs), n-1)
		}
		p.Reset()
		far.refused(lock.TryOptions{Waiter: "w"}, specs...)
		if n := p.Trips(); n != 1 {
			t.Errorf("a refused Try of %d: %d round trips", len(specs), n)
		}
		p.Reset()
		far.release(h)
		if n := p.Trips(); n != 1 {
			t.Errorf("Release of %d: %d round trips", len(specs), n)
		}
		if _, err := far.Leave(ctx, "w", specs...); err != nil {
			t.Fatal(err)
		}
	}
	p.Reset()
	rate := far.try(lock.TryOptions{}, lock.Quota(task("only"), 1, time.Minute, 1))
	far.release(rate)
	if n := p.Trips(); n != 1 {
		t.Errorf("a rate: %d round trips", n)
	}
}

// What is sent holds no time of the caller, so that its clock does not matter.
func TestNoTimeIsSent(t *testing.T) {
	e := newEnv(t)
	far, p := e.behind()
	for _, listening := range []bool{false, true} { // the first round makes the scripts known
		var sent strings.Builder
		p.Tap(func(fromClient bool, data []byte) {
			if fromClient {
				sent.Write(data)
			}
		})
		h := far.try(lock.TryOptions{Owner: "me"}, five()...)
		testenv.Must(t, h.Extend(t.Context()))
		far.refused(lock.TryOptions{Waiter: "w"}, five()...)
		p.Tap(nil)
		said := sent.String()
		if listening && strings.Count(said, "EVALSHA") != 3 {
			t.Fatalf("heard: %q", said)
		}
		now := fmt.Sprint(time.Now().Unix())[:6] // the same for hours
		for word := range strings.FieldsSeq(said) {
			if listening && strings.HasPrefix(word, now) {
				t.Errorf("a time was sent: %s", word)
			}
		}
		if _, err := h.Refund(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := far.Leave(t.Context(), "w", five()...); err != nil {
			t.Error(err)
		}
	}
}

// A list that is refused costs no quota; neither does work that did not begin.
func TestQuotaOfRefused(t *testing.T) {
	e := newEnv(t)
	specs := five()
	busy := e.try(lock.TryOptions{}, specs[1])
	for range 5 {
		if r := e.refused(lock.TryOptions{}, specs...); r.Spec != specs[1] {
			t.Errorf("refused by %v", r.Spec)
		}
	}
	e.release(busy)
	for range 5 {
		h := e.try(lock.TryOptions{}, specs...)
		if _, err := h.Refund(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		e.release(e.try(lock.TryOptions{}, specs...))
	}
	r := e.refused(lock.TryOptions{}, specs...)
	if r.Spec != specs[0] || r.RetryAfter < 50*time.Second || r.RetryAfter > time.Minute || !r.Until.IsZero() {
		t.Errorf("refused: %+v", r)
	}
	busy = e.try(lock.TryOptions{}, specs[4])
	if r := e.refused(lock.TryOptions{}, specs...); r.Spec != specs[4] { // rates are asked last
		t.Errorf("refused by %v", r.Spec)
	}
	e.release(busy)
	if n := e.number("EXISTS", specs[4].Key(e.prefix), specs[3].Key(e.prefix), specs[2].Key(e.prefix), specs[1].Key(e.prefix)); n != 0 {
		t.Errorf("%d locks of a refused list were taken", n)
	}
}

// Lists that make no sense are refused, and cost nothing.
func TestBadLists(t *testing.T) {
	e := newEnv(t)
	a := lock.Mutex(task("a"))
	for _, c := range []struct {
		specs []lock.Spec
		o     lock.TryOptions
		want  string
	}{
		{nil, lock.TryOptions{}, "specs 0 locks: must be 1 to 64"},
		{slices.Repeat([]lock.Spec{a}, 65), lock.TryOptions{}, "specs 65 locks: must be 1 to 64"},
		{[]lock.Spec{a, lock.Mutex(task("b")), a}, lock.TryOptions{}, "lock:mutex:task:a: must be named once"},
		{[]lock.Spec{reads, writes}, lock.TryOptions{}, "lock:rw:task:doc: must be named once"},
		{[]lock.Spec{a, {}}, lock.TryOptions{}, "zero Spec"},
		{[]lock.Spec{a, lock.Quota(task("a"), 1, time.Second, 2)}, lock.TryOptions{}, "items 2: must be at most the limit 1: it could never be granted (lock 2 of the list)"},
		{[]lock.Spec{a}, lock.TryOptions{Owner: "a\n"}, "TryOptions.Owner"},
		{[]lock.Spec{a}, lock.TryOptions{Waiter: strings.Repeat("w", 129)}, "TryOptions.Waiter"},
		{[]lock.Spec{a}, lock.TryOptions{WaitFor: time.Second}, "TryOptions.WaitFor 1s: must be 0 (the default) or at least 2s"},
	} {
		if _, err := e.Try(t.Context(), c.specs, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	if keys := e.keys(); len(keys) != 0 {
		t.Errorf("left: %q", keys)
	}
	if _, err := lock.New(nil, lock.Options{}); err == nil {
		t.Error("a Locker without a client")
	}
	for _, o := range []lock.Options{{Prefix: "a\n"}, {Prefix: strings.Repeat("x", 257)}, {ForeignGrace: -1}} {
		if _, err := lock.New(e.rdb, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// Limiters without a limit are always granted and leave no trace.
func TestNoLimit(t *testing.T) {
	e := newEnv(t)
	for range 3 {
		h := e.try(lock.TryOptions{}, lock.Slots(task("a"), 0), lock.Quota(task("a"), 0, time.Second, 1), lock.Quota(task("b"), 1, 0, 1))
		if h.Fence() != 0 || len(h.Fences()) != 0 || h.Owner() == "" {
			t.Errorf("held: %d %v", h.Fence(), h.Fences())
		}
		if err := h.Extend(t.Context()); err != nil {
			t.Error(err)
		}
		e.release(h)
	}
	if keys := e.keys(); len(keys) != 0 {
		t.Errorf("left: %q", keys)
	}
}

// A key that holds something else is named, stays as it is, and nothing else is taken.
func TestWrongType(t *testing.T) {
	e := newEnv(t)
	other := lock.Mutex(task("0"))
	for _, s := range five() {
		key := s.Key(e.prefix)
		for _, k := range []string{key, key + "::wait", key + "::until", key + "::fence"} {
			if s.Limiter() && strings.HasSuffix(k, "fence") {
				continue
			}
			e.do("RPUSH", k, "x")
			_, err := e.Try(t.Context(), []lock.Spec{other, s}, lock.TryOptions{Waiter: "w"})
			var wrong *lock.TypeError
			if !errors.As(err, &wrong) || wrong.Key != k || wrong.Have != "list" || !strings.Contains(err.Error(), "WRONGTYPE") {
				t.Errorf("%s: %v", k, err)
			}
			if keys := e.keys(); !slices.Equal(keys, []string{strings.TrimPrefix(k, e.prefix)}) {
				t.Errorf("%s: left: %q", k, keys)
			}
			if _, err := e.Leave(t.Context(), "w", s); err != nil {
				t.Errorf("%s: leave: %v", k, err)
			}
			if _, err := e.List(t.Context(), "", 0); err != nil {
				t.Errorf("%s: list: %v", k, err)
			}
			if _, err := e.Break(t.Context(), key); err != nil {
				t.Errorf("%s: break: %v", k, err)
			}
			e.release(e.try(lock.TryOptions{}, s))
			e.do("FLUSHALL")
		}
	}
}

// The same on every protocol, on the in-process look-alike, and when the server has forgotten the scripts.
func TestServers(t *testing.T) {
	real, mini := testenv.Redis(t), testenv.Miniredis(t)
	for name, e := range map[string]*env{
		"RESP3":     on(t, real, real.Client, real.Prefix(t)+":"),
		"RESP2":     on(t, real, real.Connect(t, redis.Options{RESP2: true}), real.Prefix(t)+":"),
		"miniredis": on(t, mini, mini.Client, mini.Prefix(t)+":"),
	} {
		t.Run(name, func(t *testing.T) {
			e.t = t
			for range 2 {
				specs := five()
				h := e.try(lock.TryOptions{}, specs...)
				e.do("SCRIPT", "FLUSH")
				if err := h.Extend(t.Context()); err != nil {
					t.Error(err)
				}
				for i, s := range specs[1:] {
					if r, reader := (*lock.HeldError)(nil), i == 2; !reader {
						if r = e.refused(lock.TryOptions{}, s); r.Owner != h.Owner() {
							t.Errorf("%v is held by %q", s, r.Owner)
						}
					}
				}
				if infos, err := e.List(t.Context(), "", 0); err != nil || len(infos) != 5 {
					t.Errorf("%d locks listed: %v", len(infos), err)
				}
				got := acquiring(t, e.Locker, specs[4])
				testenv.Eventually(t, "a place", func() bool { return e.waiters(specs[4]) == 1 })
				e.do("SCRIPT", "FLUSH")
				if woken, err := h.Refund(t.Context()); err != nil || len(woken) != 1 {
					t.Errorf("woken %q, %v", woken, err)
				}
				next := testenv.Take(t, "the lock", got)
				if _, err := e.Break(t.Context(), specs[4].Key(e.prefix)); err != nil {
					t.Error(err)
				}
				var gone *lock.LostError
				if _, err := next.Release(t.Context()); !errors.As(err, &gone) {
					t.Errorf("a broken lock was released: %v", err)
				}
			}
		})
	}
}

// On a cluster the locks of a list are taken one by one: all or none, quota given back, the same order for everybody.
func TestCluster(t *testing.T) {
	long.Test(t, "runs a cluster")
	srv := testenv.RedisCluster(t)
	e := on(t, srv, srv.Client, "")
	ctx := context.Background()
	defer func() { // the keys have no prefix, as on the peers' page
		for _, node := range srv.Client.Nodes() {
			if err := node.Do(ctx, node.B().Flushall().Build()).Error(); err != nil {
				t.Error(err)
			}
		}
	}()
	specs := five()
	for range 3 { // the rate of 2 a minute would not last
		h := e.try(lock.TryOptions{}, specs...)
		if len(h.Fences()) != 3 {
			t.Errorf("fences %v", h.Fences())
		}
		if err := h.Extend(ctx); err != nil {
			t.Error(err)
		}
		r := e.refused(lock.TryOptions{}, specs[:2]...)
		if r.Spec != specs[1] {
			t.Errorf("refused by %v", r.Spec)
		}
		if _, err := h.Refund(ctx); err != nil {
			t.Error(err)
		}
	}
	busy := e.try(lock.TryOptions{}, specs[0], lock.Quota(task("full"), 1, time.Minute, 1))
	for range 3 { // rates are last: all others have been taken by then, and are given back
		e.refused(lock.TryOptions{}, append(five(), lock.Quota(task("full"), 1, time.Minute, 1))...)
	}
	e.release(busy)
	if n := e.number("HGET", "limiter:rate:task:q", "used"); n != 1 {
		t.Errorf("%d items of the rate are used, want 1: L6", n)
	}
	all, err := srv.AllKeys(ctx)
	testenv.Must(t, err)
	for _, k := range all {
		if !strings.HasSuffix(k, "::fence") && !strings.HasPrefix(k, "limiter:rate") {
			t.Errorf("left behind: %s", k)
		}
	}

	h := e.try(lock.TryOptions{}, specs[3], specs[4])
	got := acquiring(t, e.other().Locker, specs[4], specs[2])
	testenv.Eventually(t, "a place", func() bool { return e.number("ZCARD", "{lock:mutex:task:m}::wait") == 1 })
	infos, err := e.List(ctx, "", 0)
	if err != nil || len(infos) != 4 { // and the two rates
		t.Errorf("listed: %+v, %v", infos, err)
	}
	if woken := e.release(h); len(woken) != 1 {
		t.Errorf("woken %q", woken)
	}
	next := testenv.Take(t, "the locks", got)
	if _, err := e.Break(ctx, specs[2].Key("")); err != nil {
		t.Error(err)
	}
	var gone *lock.LostError
	if err := next.Extend(ctx); !errors.As(err, &gone) || gone.Key != specs[2].Key("") {
		t.Errorf("extended: %v", err)
	}
	_, _ = next.Release(ctx)

	if _, err := lock.New(srv.Client, lock.Options{Prefix: "untagged:"}); err == nil {
		t.Error("an untagged prefix is taken on a cluster")
	}
	if _, err := e.Try(ctx, []lock.Spec{lock.Mutex(task("a}b"))}, lock.TryOptions{}); err == nil || !strings.Contains(err.Error(), "braces") {
		t.Errorf("a key that falls apart: %v", err)
	}
	p := srv.TaggedPrefix(t)
	tagged := on(t, srv, srv.Client, p+":")
	tagged.release(tagged.try(lock.TryOptions{}, five()...))
	if n := tagged.number("EXISTS", p+":lock:mutex:task:m::fence"); n != 1 {
		t.Error("with a tag, the keys are the plain ones")
	}
}
