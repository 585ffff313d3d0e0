package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/limit"
	"github.com/taktworks/takt/lock"
)

// grant is one that was let through, at a time of the server.
type grant struct {
	at    time.Time
	items int
}

// tooMany is the first window in which more than limit items were let through, "" if none.
func tooMany(grants []grant, most int, window time.Duration) string {
	slices.SortFunc(grants, func(a, b grant) int { return a.at.Compare(b.at) })
	sum, first := 0, 0
	for _, g := range grants {
		sum += g.items
		for g.at.Sub(grants[first].at) >= window {
			sum -= grants[first].items
			first++
		}
		if sum > most {
			return fmt.Sprintf("%d items in the %v from %v on, the limit is %d", sum, window, grants[first].at, most)
		}
	}
	return ""
}

func TestTooMany(t *testing.T) {
	at := func(ms int, items int) grant { return grant{time.UnixMilli(int64(ms)), items} }
	if bad := tooMany([]grant{at(0, 1), at(200, 1), at(100, 1)}, 2, 200*time.Millisecond); bad != "" {
		t.Error(bad)
	}
	if tooMany([]grant{at(0, 1), at(199, 1), at(100, 1)}, 2, 200*time.Millisecond) == "" {
		t.Error("three in less than the window pass")
	}
}

// Never more than the limit in any window, wherever it begins; and the limit is reached.
func TestRate(t *testing.T) {
	e := newEnv(t)
	const window = 50 * time.Millisecond
	round := 0
	rapid.Check(t, func(r *rapid.T) {
		round++
		most := rapid.OneOf(rapid.IntRange(1, 20), rapid.SampledFrom([]int{1024, 1025, 5000})).Draw(r, "limit")
		largest := rapid.IntRange(1, most).Draw(r, "largest")
		pauses := rapid.SliceOfN(rapid.SampledFrom([]time.Duration{0, 0, 0, time.Millisecond, 5 * time.Millisecond, 40 * time.Millisecond}), 12, 12).Draw(r, "pauses")
		var mu sync.Mutex
		var grants []grant
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				for _, pause := range pauses {
					passes(pause)
					n := 1 + rand.N(largest)
					h, err := e.Try(context.Background(), []lock.Spec{limit.Rate(job(fmt.Sprint(round)), most, window, limit.Items(n))}, lock.TryOptions{})
					if refused, ok := errors.AsType[*lock.HeldError](err); ok {
						if refused.RetryAfter <= 0 || refused.RetryAfter > window+window/1000+time.Millisecond {
							r.Errorf("again in %v", refused.RetryAfter)
						}
						passes(refused.RetryAfter / 2)
						continue
					}
					if err != nil {
						r.Error(err)
						return
					}
					mu.Lock()
					grants = append(grants, grant{h.At(), n})
					mu.Unlock()
					_, _ = h.Release(context.Background())
				}
			})
		}
		all.Wait()
		if bad := tooMany(grants, most, window); bad != "" {
			r.Error(bad)
		}
		if len(grants) == 0 {
			r.Error("nothing was let through")
		}
	})
}

// Where a fixed window lets twice the limit through in a moment, here it is the limit; a burst of it passes at once.
func TestRateAcrossBoundary(t *testing.T) {
	e := newEnv(t)
	s := limit.Rate(job("a"), 10, 500*time.Millisecond)
	var grants []grant
	testenv.Eventually(t, "three bursts", func() bool {
		h, err := e.Try(t.Context(), []lock.Spec{s}, lock.TryOptions{})
		if err == nil {
			grants = append(grants, grant{h.At(), 1})
			e.release(h)
		}
		return len(grants) == 30
	})
	if bad := tooMany(grants, 10, 500*time.Millisecond); bad != "" {
		t.Error(bad)
	}
	for i := 10; i < 30; i++ {
		if late := grants[i].at.Sub(grants[i-10].at) - 500*time.Millisecond; late > hang {
			t.Errorf("grant %d came %v after its quota was back", i, late)
		}
	}
}

// A refusal names the very moment: not before it, and then for certain.
func TestRetryAfter(t *testing.T) {
	long.Test(t, "waits for quota to come back")
	e := newEnv(t)
	const window = 2 * time.Second // a busy machine must ask again within it
	one, three := limit.Rate(job("a"), 3, window), limit.Rate(job("a"), 3, window, limit.Items(3))
	first := e.try(lock.TryOptions{}, one)
	second := e.try(lock.TryOptions{}, one)
	wait := func(s lock.Spec, since time.Time) {
		t.Helper()
		r := e.refused(lock.TryOptions{}, s)
		h, err := (*lock.Held)(nil), error(r)
		testenv.Eventually(t, "the moment", func() bool {
			var again *lock.HeldError
			if !errors.As(err, &again) {
				return true
			}
			passes(again.RetryAfter)
			h, err = e.Try(t.Context(), []lock.Spec{s}, lock.TryOptions{})
			return false
		})
		testenv.Must(t, err)
		if late := h.At().Sub(since) - window; late < 0 || late > 5*time.Second {
			t.Errorf("%v was granted %v after the quota came back", s, late)
		}
	}
	wait(three, second.At())
	e.release(first)
	e.refused(lock.TryOptions{}, one)
}

// The memory of a rate is bounded by its cells, whatever the limit and the load.
func TestRateMemory(t *testing.T) {
	e := newEnv(t)
	for _, c := range []struct{ most, tries int }{{7, 100}, {100_000, 5000}} {
		s := limit.Rate(job(fmt.Sprint(c.most)), c.most, 500*time.Millisecond)
		for range c.tries {
			if h, err := e.Try(t.Context(), []lock.Spec{s}, lock.TryOptions{}); err == nil {
				e.release(h)
			}
		}
		if cells := e.number("HLEN", s.Key(e.prefix)) - 5; cells > int64(min(c.most, 1024)+1) {
			t.Errorf("limit %d: %d cells", c.most, cells)
		}
	}
}

// Above 1024 items a grant counts as made later than it was, by less than a 1024th of the window, and never earlier.
func TestRateCells(t *testing.T) {
	e := newEnv(t)
	for _, most := range []int{1024, 1025} {
		s := limit.Rate(job(fmt.Sprint(most)), most, 17*time.Minute)
		for i := range 3 {
			h := e.try(lock.TryOptions{}, s)
			testenv.Eventually(t, "another microsecond", func() bool { return time.Since(h.At()) > 2*time.Millisecond })
			// The newest cell has it: its own up to a limit of 1024, else the one of nearly a second that is under way.
			cells, err := e.srv.Client.Do(t.Context(), e.srv.Client.B().Hgetall().Key(s.Key(e.prefix)).Build()).AsStrMap()
			newest := -1
			for name := range cells {
				if c, scan := strconv.Atoi(name); scan == nil {
					newest = max(newest, c)
				}
			}
			v := cells[strconv.Itoa(newest)]
			var at, n int64
			if _, scan := fmt.Sscanf(v, "%d %d", &at, &n); err != nil || scan != nil {
				t.Fatalf("%q, %v, %v", v, err, scan)
			}
			late := time.UnixMicro(at).Sub(h.At())
			if late < 0 || late >= 17*time.Minute/1024 || most == 1024 && (newest != i || late != 0 || n != 1) {
				t.Errorf("limit %d: grant %d counts as %v late, in a cell of %d", most, i, late, n)
			}
		}
	}
}

// Quota of the past does not come back when the clock is set back a little, and is forgotten when it is set back by more than a window.
func TestRateClockSetBack(t *testing.T) {
	e := newEnv(t)
	for _, c := range []struct {
		back    time.Duration
		allowed bool
	}{{30 * time.Second, false}, {2 * time.Minute, true}} {
		s := limit.Rate(job(c.back.String()), 1, time.Minute)
		ahead := time.Now().Add(c.back).UnixMicro() // as granted before the clock was set back
		e.number("HSET", s.Key(e.prefix), "first", "0", "next", "1", "used", "1", "0", fmt.Sprint(ahead, " 1"))
		_, err := e.Try(t.Context(), []lock.Spec{s}, lock.TryOptions{})
		if (err == nil) != c.allowed {
			t.Errorf("set back by %v: %v", c.back, err)
		}
	}
}

// Those who wait for quota get it in the order of coming, each at its time.
func TestRateLine(t *testing.T) {
	long.Test(t, "waits for quota to come back")
	e := newEnv(t)
	s := limit.Rate(job("a"), 1, 150*time.Millisecond)
	h := e.try(lock.TryOptions{}, s)
	type turn struct {
		who int
		at  time.Time
	}
	turns := make(chan turn, 4)
	for i := range 4 {
		go func() {
			h, err := e.Acquire(context.Background(), s)
			if err != nil {
				t.Error(err)
				return
			}
			turns <- turn{i, h.At()}
			_, _ = h.Release(context.Background())
		}()
		testenv.Eventually(t, "a place", func() bool { return e.number("ZCARD", s.Key(e.prefix)+"::wait")+int64(len(turns)) >= int64(i+1) })
	}
	last := h.At()
	for i := range 4 {
		select {
		case got := <-turns:
			if d := got.at.Sub(last); got.who != i || d < 150*time.Millisecond || d > 5*time.Second {
				t.Errorf("turn %d was that of %d, after %v", i, got.who, d)
			}
			last = got.at
		case <-time.After(hang):
			t.Fatal("nobody came")
		}
	}
}
