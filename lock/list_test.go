package lock_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/lock"
)

func TestList(t *testing.T) {
	e := newEnv(t)
	if infos, err := e.List(t.Context(), "", 0); err != nil || len(infos) != 0 {
		t.Errorf("listed of nothing: %v, %v", infos, err)
	}
	h := e.try(lock.TryOptions{Owner: "me"}, five()...)
	e.try(lock.TryOptions{Owner: "you"}, lock.Read(task("r")))
	e.refused(lock.TryOptions{Waiter: "w1"}, lock.Mutex(task("m")))
	e.refused(lock.TryOptions{Waiter: "w2"}, lock.Mutex(task("m")))
	free := e.try(lock.TryOptions{}, lock.Mutex(task("free")))
	e.refused(lock.TryOptions{Waiter: "w3"}, lock.Mutex(task("free")))
	e.release(free)
	e.do("SET", e.prefix+"lock:other:task:x", "not ours")
	got, err := e.List(t.Context(), "", 0)
	testenv.Must(t, err)
	me := []lock.Owner{{Name: "me", ExpiresIn: 30 * time.Second}}
	want := []lock.Info{
		{Kind: "concurrency", Key: "limiter:conc:task:c", Owners: me, ExpiresIn: 30 * time.Second, Used: 1},
		{Kind: "rate", Key: "limiter:rate:task:q", ExpiresIn: time.Minute, Used: 1, Limit: 2, Window: time.Minute},
		{Kind: "mutex", Key: "lock:mutex:task:free", Fence: free.Fence(), Waiters: 1},
		{Kind: "mutex", Key: "lock:mutex:task:m", Owners: me, ExpiresIn: 30 * time.Second, Waiters: 2},
		{Kind: "rw", Key: "lock:rw:task:r", Owners: append(me, lock.Owner{Name: "you", ExpiresIn: 30 * time.Second}), ExpiresIn: 30 * time.Second, Readers: 2},
		{Kind: "rw", Key: "lock:rw:task:w", Owners: []lock.Owner{{Name: "me", ExpiresIn: 30 * time.Second, Writes: true}}, ExpiresIn: 30 * time.Second},
	}
	for i := range want {
		want[i].Key = e.prefix + want[i].Key
		if f, ok := h.Fences()[want[i].Key]; ok {
			want[i].Fence = f
		}
	}
	want[4].Fence = got[4].Fence // the other reader's
	near := cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() < 10*time.Second })
	if diff := cmp.Diff(want, got, near, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	page, next, err := e.ListPage(t.Context(), "", "", 100)
	if diff := cmp.Diff(got, page, near, cmpopts.EquateEmpty()); diff != "" || next != "" || err != nil {
		t.Errorf("page, next %q, %v:\n%s", next, err, diff)
	}
	if _, _, err := e.ListPage(t.Context(), "", "there", 100); err == nil {
		t.Error("a cursor that is none is taken")
	}
	if some, err := e.List(t.Context(), "lock:mutex:*", 1); err != nil || len(some) != 1 || some[0].Key != e.prefix+"lock:mutex:task:free" {
		t.Errorf("listed: %+v, %v", some, err)
	}
	if one, err := e.List(t.Context(), "lock:mutex:task:m", 0); err != nil || len(one) != 1 {
		t.Errorf("listed: %+v, %v", one, err)
	}
}

// A prefix is no pattern, and more locks than fit into one script are listed whole.
func TestListMany(t *testing.T) {
	e := newEnv(t)
	odd := on(t, e.srv, e.rdb, e.prefix+`[a]*?\:`)
	for i := range 250 {
		odd.do("SET", lock.Mutex(task(fmt.Sprint(i))).Key(odd.prefix), "x", "PX", "30000")
	}
	e.try(lock.TryOptions{}, lock.Mutex(task("a")))
	if infos, err := odd.List(t.Context(), "", 0); err != nil || len(infos) != 250 {
		t.Errorf("%d listed, %v", len(infos), err)
	}
	if infos, err := odd.List(t.Context(), "", 120); err != nil || len(infos) != 120 {
		t.Errorf("%d listed, %v", len(infos), err)
	}
}

// An operator's Break frees a lock whoever has it, calls who waits, and the fence goes up.
func TestBreak(t *testing.T) {
	e := newEnv(t)
	for i, s := range five() {
		key := s.Key(e.prefix)
		if _, err := e.Break(t.Context(), key); !errors.Is(err, lock.ErrNoLock) {
			t.Errorf("%v: broke nothing: %v", s, err)
		}
		h := e.try(lock.TryOptions{Owner: "me"}, s)
		if i == 0 {
			e.try(lock.TryOptions{}, s)
		}
		waits := s
		if i == 3 {
			waits = lock.Write(task("r"))
		}
		e.refused(lock.TryOptions{Waiter: "w"}, waits)
		info, err := e.Break(t.Context(), key)
		if err != nil || info.Key != key || info.Waiters != 1 || i > 0 && (len(info.Owners) != 1 || info.Owners[0].Name != "me") {
			t.Errorf("%v: broken: %+v, %v", s, info, err)
		}
		if i > 0 {
			if till := e.placeLeft(key); till > time.Second {
				t.Errorf("%v: the waiter was not called: its place is kept for %v", s, till)
			}
		}
		next := e.try(lock.TryOptions{Waiter: "w"}, waits)
		if next.Fence() < h.Fence() || !s.Limiter() && next.Fence() == h.Fence() {
			t.Errorf("%v: fence %d after %d", s, next.Fence(), h.Fence())
		}
		e.release(next)
	}
	for _, key := range []string{"", "x", e.prefix + "lock:mutex:", e.prefix + "lock:mutex:task:m::fence", "lock:mutex:task:m"} {
		if _, err := e.Break(t.Context(), key); !errors.Is(err, lock.ErrNoLock) {
			t.Errorf("broke %q: %v", key, err)
		}
	}
}

// placeLeft is for how long the place of waiter w is kept.
func (e *env) placeLeft(key string) time.Duration {
	e.t.Helper()
	score, err := e.do("ZRANGE", key+"::until", "0", "0", "WITHSCORES").AsZScores()
	if err != nil || len(score) != 1 {
		e.t.Fatalf("%v, %v", score, err)
	}
	return time.Until(time.UnixMilli(int64(score[0].Score)))
}
