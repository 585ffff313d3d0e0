package lock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/lock"
)

// Who waits gets the lock in the order of coming, woken by the release and not by a poll.
func TestFirstComeFirstServed(t *testing.T) {
	e := newEnv(t)
	s := lock.Mutex(task("a"))
	have := e.try(lock.TryOptions{}, s)
	type turn struct {
		who  int
		held *lock.Held
	}
	turns := make(chan turn, 10)
	lockers := []*env{e.other(), e.other(), e.other()}
	for i := range 10 {
		go func() {
			h, err := lockers[i%3].Acquire(context.Background(), s)
			if err != nil {
				t.Error(err)
			}
			turns <- turn{i, h}
		}()
		testenv.Eventually(t, fmt.Sprint("place of waiter ", i), func() bool { return e.waiters(s) == i+1 })
	}
	if r := e.refused(lock.TryOptions{}, s); r.Ahead != 10 {
		t.Errorf("%d ahead", r.Ahead)
	}
	for i := range 10 {
		woken := e.release(have)
		if len(woken) != 1 {
			t.Fatalf("woken: %q", woken)
		}
		next := testenv.Take(t, "the next turn", turns)
		if next.who != i {
			t.Fatalf("turn %d was that of waiter %d", i, next.who)
		}
		have = next.held
	}
	if woken := e.release(have); len(woken) != 0 {
		t.Errorf("woken: %q", woken)
	}
	e.noLine(s)
}

func (e *env) waiters(s lock.Spec) int {
	return int(e.number("ZCARD", s.Key(e.prefix)+"::wait"))
}

func (e *env) noLine(s lock.Spec) {
	e.t.Helper()
	if keys := slices.DeleteFunc(e.keys(), func(k string) bool { return !strings.Contains(k, "::wait") && !strings.Contains(k, "::until") }); len(keys) > 0 {
		e.t.Errorf("left of the line: %q", keys)
	}
}

// A newcomer does not pass those who wait; the one whose turn it is has a second, then the next is called.
func TestTurn(t *testing.T) {
	long.Test(t, "waits for turns to pass")
	e := newEnv(t)
	for _, s := range []lock.Spec{lock.Mutex(task("m")), lock.Write(task("w")), lock.Slots(task("c"), 1)} {
		have := e.try(lock.TryOptions{}, s)
		for i, w := range []string{"dead", "second", "third"} {
			if r := e.refused(lock.TryOptions{Waiter: w}, s); r.Ahead != i || r.Owner != have.Owner() {
				t.Errorf("%v: %s: %+v", s, w, r)
			}
		}
		if r := e.refused(lock.TryOptions{Waiter: "second"}, s); r.Ahead != 1 {
			t.Errorf("%v: a second try lost its place: %d", s, r.Ahead)
		}
		if woken := e.release(have); !slices.Equal(woken, []string{"dead"}) {
			t.Errorf("%v: woken %q", s, woken)
		}
		r := e.refused(lock.TryOptions{}, s)
		if r.Owner != "" || r.Ahead != 3 || r.RetryAfter <= 0 || r.RetryAfter > time.Second || len(r.Woken) > 0 {
			t.Errorf("%v: the free lock was refused so: %+v", s, r)
		}
		var woken []string
		testenv.Eventually(t, "the call of the second", func() bool {
			r := e.refused(lock.TryOptions{}, s) // a stranger's tries move the line on
			woken = append(woken, r.Woken...)
			return len(woken) > 0
		})
		if !slices.Equal(woken, []string{"second"}) {
			t.Errorf("%v: woken %q", s, woken)
		}
		e.release(e.try(lock.TryOptions{Waiter: "second"}, s))
		if r := e.refused(lock.TryOptions{Waiter: "dead"}, s); r.Ahead != 1 {
			t.Errorf("%v: who did not come stands %d places behind", s, r.Ahead)
		}
		e.release(e.try(lock.TryOptions{Waiter: "third"}, s))
		e.release(e.try(lock.TryOptions{Waiter: "dead"}, s))
		e.noLine(s)
	}
}

// Several that died one behind the other cost a second each, and those behind are told when to look: they need not find out by themselves.
func TestDeadWaitersInARow(t *testing.T) {
	long.Test(t, "waits for turns to pass")
	e := newEnv(t)
	s := lock.Mutex(task("a"))
	messages := e.heard()
	have := e.try(lock.TryOptions{}, s)
	for _, w := range []string{"dead1", "dead2", "dead3"} {
		e.refused(lock.TryOptions{Waiter: w, WaitFor: time.Hour}, s)
	}
	got := acquiring(t, e.Locker, s)
	testenv.Eventually(t, "a place", func() bool { return e.waiters(s) == 4 })
	began := time.Now()
	e.release(have)
	first := strings.Split(testenv.Take(t, "the first call", messages), "\n")
	if want := []string{"!dead1", "?dead2", "?dead3"}; len(first) != 4 || !slices.Equal(first[:3], want) || first[3][0] != '?' {
		t.Errorf("told %q, want %q and the fourth", first, want)
	}
	h := testenv.Take(t, "the lock", got)
	if d := time.Since(began); d < 2900*time.Millisecond { // and their places were kept for an hour
		t.Errorf("three dead waiters held it up for %v", d)
	}
	e.release(h)
	e.noLine(s)
}

// Readers in a row are called together, and a writer behind them waits for all.
func TestReadersAreCalledTogether(t *testing.T) {
	e := newEnv(t)
	w := e.try(lock.TryOptions{}, writes)
	for _, name := range []string{"r1", "r2"} {
		e.refused(lock.TryOptions{Waiter: name}, reads)
	}
	e.refused(lock.TryOptions{Waiter: "w1"}, writes)
	e.refused(lock.TryOptions{Waiter: "r3"}, reads)
	e.wakes(w, "r1", "r2")
	if r := e.refused(lock.TryOptions{Waiter: "r3"}, reads); r.Ahead != 3 {
		t.Errorf("r3: %+v", r)
	}
	r2 := e.try(lock.TryOptions{Waiter: "r2"}, reads) // before r1
	r1 := e.try(lock.TryOptions{Waiter: "r1"}, reads)
	e.wakes(r2)
	e.refused(lock.TryOptions{Waiter: "r3"}, reads) // the writer is first
	e.wakes(r1, "w1")
	w1 := e.try(lock.TryOptions{Waiter: "w1"}, writes)
	e.wakes(w1, "r3")
	e.release(e.try(lock.TryOptions{Waiter: "r3"}, reads))
	e.noLine(reads)
}

// As many are called as there are slots.
func TestSlotsAreCalled(t *testing.T) {
	e := newEnv(t)
	s := lock.Slots(task("a"), 2)
	a, b := e.try(lock.TryOptions{}, s), e.try(lock.TryOptions{}, s)
	for _, name := range []string{"1", "2", "3"} {
		e.refused(lock.TryOptions{Waiter: name}, s)
	}
	e.wakes(a, "1")
	e.wakes(b, "2")
	e.refused(lock.TryOptions{}, s)
	b = e.try(lock.TryOptions{Waiter: "2"}, s)
	e.refused(lock.TryOptions{}, s)
	a = e.try(lock.TryOptions{Waiter: "1"}, s)
	e.refused(lock.TryOptions{Waiter: "3"}, s)
	e.release(a)
	e.release(e.try(lock.TryOptions{Waiter: "3"}, s))
	e.release(b)
	e.noLine(s)
}

// A waiter for several locks stands in one line only, and blocks no lock that it cannot use.
func TestOneLine(t *testing.T) {
	e := newEnv(t)
	a, b := lock.Mutex(task("a")), lock.Mutex(task("b"))
	haveA, haveB := e.try(lock.TryOptions{}, a), e.try(lock.TryOptions{}, b)
	e.refused(lock.TryOptions{Waiter: "both"}, b, a)
	e.refused(lock.TryOptions{Waiter: "a"}, a)
	if e.waiters(a) != 2 || e.waiters(b) != 0 {
		t.Errorf("%d and %d wait", e.waiters(a), e.waiters(b))
	}
	e.wakes(haveA, "both")
	r := e.refused(lock.TryOptions{Waiter: "both"}, a, b)
	if r.Key != b.Key(e.prefix) || !slices.Equal(r.Woken, []string{"a"}) || e.waiters(b) != 1 {
		t.Errorf("refused: %+v", r)
	}
	e.release(e.try(lock.TryOptions{Waiter: "a"}, a))
	e.wakes(haveB, "both")
	e.release(e.try(lock.TryOptions{Waiter: "both"}, a, b))
	e.noLine(a)
}

// What is said on the channel: whose turn it is, and who may look if that one does not come.
func TestWakes(t *testing.T) {
	e := newEnv(t)
	s := lock.Mutex(task("a"))
	have := e.try(lock.TryOptions{}, s)
	for _, name := range []string{"1", "2", "3"} {
		e.refused(lock.TryOptions{Waiter: name}, s)
	}
	heard := e.heard()
	e.release(have)
	if m := testenv.Take(t, "a message", heard); m != "!1\n?2\n?3" {
		t.Errorf("heard %q", m)
	}
	e.release(e.try(lock.TryOptions{Waiter: "1"}, s))
	if m := testenv.Take(t, "a message", heard); m != "!2\n?3" {
		t.Errorf("heard %q", m)
	}
}

// Who gives up leaves the line, and the next is called if it was the turn of the one who left.
func TestLeave(t *testing.T) {
	e := newEnv(t)
	s := lock.Mutex(task("a"))
	have := e.try(lock.TryOptions{}, s)
	ctx, stop := context.WithCancelCause(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := e.other().Acquire(ctx, s)
		ended <- err
	}()
	testenv.Eventually(t, "a place", func() bool { return e.waiters(s) == 1 })
	testenv.Eventually(t, "that it was told so", func() bool { return e.listeners() == 1 })
	tired := errors.New("tired of waiting")
	stop(tired)
	err := testenv.Take(t, "end of the waiting", ended)
	var refused *lock.HeldError
	if !errors.Is(err, tired) || !errors.As(err, &refused) || refused.Owner != have.Owner() {
		t.Errorf("the end of the waiting: %v", err)
	}
	e.noLine(s)

	e.refused(lock.TryOptions{Waiter: "first"}, s)
	e.refused(lock.TryOptions{Waiter: "second"}, s)
	e.release(have)
	woken, err := e.Leave(t.Context(), "first", s)
	if err != nil || !slices.Equal(woken, []string{"second"}) {
		t.Errorf("woken %q, %v", woken, err)
	}
	if woken, err := e.Leave(t.Context(), "nobody", s); err != nil || len(woken) != 0 {
		t.Errorf("woken %q, %v", woken, err)
	}
	e.release(e.try(lock.TryOptions{Waiter: "second"}, s))
	e.noLine(s)
}

// Who gives up before the answer to the first try has got a place in the line, too.
func TestLeaveUnanswered(t *testing.T) {
	long.Test(t, "delays a link")
	e := newEnv(t)
	s := lock.Mutex(task("a"))
	e.try(lock.TryOptions{}, s)
	behind, p := e.behind()
	behind.refused(lock.TryOptions{}, s) // the connection and the scripts are there
	p.Delay(300 * time.Millisecond)
	ctx, stop := context.WithCancelCause(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := behind.Acquire(ctx, s)
		ended <- err
	}()
	testenv.Eventually(t, "a place", func() bool { return e.waiters(s) == 1 })
	tired := errors.New("tired of waiting")
	stop(tired) // most likely before the answer is here
	if err := testenv.Take(t, "end of the waiting", ended); !errors.Is(err, tired) {
		t.Errorf("the end of the waiting: %v", err)
	}
	e.noLine(s)
}

// The line goes with the last place in it.
func TestLineExpires(t *testing.T) {
	e := newEnv(t)
	s := lock.Mutex(task("a"))
	h := e.try(lock.TryOptions{}, s)
	e.refused(lock.TryOptions{Waiter: "w"}, s)
	e.refused(lock.TryOptions{Waiter: "v", WaitFor: 10 * time.Second}, s)
	for _, suffix := range []string{"::wait", "::until"} {
		if ttl := e.number("PTTL", s.Key(e.prefix)+suffix); ttl < 25000 || ttl > 30001 {
			t.Errorf("%s lives for %d ms", suffix, ttl)
		}
	}
	e.do("DEL", s.Key(e.prefix)+"::until") // half a line is none
	if r := e.refused(lock.TryOptions{}, s); r.Ahead != 0 {
		t.Errorf("%d ahead", r.Ahead)
	}
	e.release(h)
	e.release(e.try(lock.TryOptions{}, s))
	e.noLine(s)
}

// Who comes after the server's clock was set back stands behind those who came before.
func TestLineAfterClockSetBack(t *testing.T) {
	e := newEnv(t)
	s := lock.Mutex(task("a"))
	h := e.try(lock.TryOptions{}, s)
	e.refused(lock.TryOptions{Waiter: "before"}, s)
	e.number("ZADD", s.Key(e.prefix)+"::wait", "8000000000000000", "wbefore")
	for i, name := range []string{"after", "last"} {
		if r := e.refused(lock.TryOptions{Waiter: name}, s); r.Ahead != i+1 {
			t.Errorf("%s: %d ahead", name, r.Ahead)
		}
	}
	e.release(h)
}

// Who waits hears of a release also after the connection was cut.
func TestWakeAfterCut(t *testing.T) {
	long.Test(t, "breaks a link")
	e := newEnv(t)
	s := lock.Mutex(task("a"))
	far, p := e.behind()
	for range 3 {
		have := e.try(lock.TryOptions{}, s)
		refused := make(chan struct{}, 100)
		p.Tap(func(fromClient bool, data []byte) {
			if !fromClient && bytes.Contains(data, []byte(have.Owner())) {
				refused <- struct{}{}
			}
		})
		got := acquiring(t, far.Locker, s)
		testenv.Take(t, "a refusal", refused)
		testenv.Take(t, "another: it has got the first, which is not waited out if it is lost", refused)
		p.Cut()
		e.release(have)
		h := testenv.Take(t, "the lock", got)
		if h == nil {
			return
		}
		testenv.Eventually(t, "the release", func() bool { _, err := h.Release(context.Background()); return err == nil })
	}
}

// A reply that gets lost does not lock the waiter out of its own lock, not even if it cannot be given back at once.
func TestReplyLost(t *testing.T) {
	long.Test(t, "breaks a link")
	e := newEnv(t)
	s := lock.Mutex(task("a"), lock.TTL(time.Hour)) // so long it would be locked out
	p := testenv.CountingProxy(t, e.srv.URL)
	log := &waitLog{said: make(chan struct{}, 100)}
	far, err := lock.New(e.srv.Connect(t, redis.Options{URL: p.URL}), lock.Options{Prefix: e.prefix, Log: slog.New(log)})
	testenv.Must(t, err)
	have := e.try(lock.TryOptions{}, s)
	refused := make(chan struct{})
	told := sync.OnceFunc(func() { close(refused) })
	p.Tap(func(fromClient bool, data []byte) {
		if !fromClient && bytes.Contains(data, []byte(have.Owner())) {
			told()
		}
	})
	got := acquiring(t, far, s)
	testenv.Take(t, "the refusal", refused) // it is on its way: it is not the one that gets lost
	p.Tap(nil)
	p.DropReplies(true)
	e.release(have)
	testenv.Eventually(t, "the lock to be taken unheard", func() bool { return e.number("EXISTS", s.Key(e.prefix)) == 1 })
	p.Refuse(true)
	p.Cut()
	testenv.Take(t, "the attempt to give it back", log.said)
	p.Refuse(false)
	p.DropReplies(false)
	h := testenv.Take(t, "the lock", got)
	e.release(h)
}

// waitLog tells of each warning.
type waitLog struct{ said chan struct{} }

func (l *waitLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (l *waitLog) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *waitLog) WithGroup(string) slog.Handler                    { return l }
func (l *waitLog) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "cannot give back") {
		l.said <- struct{}{}
	}
	return nil
}
