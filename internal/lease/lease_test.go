package lease_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/taktworks/takt/internal/lease"
)

// What a lease is trusted for is arithmetic: from before the request, nine tenths of the time to live.
func TestUntil(t *testing.T) {
	sent := time.Date(2026, 11, 1, 6, 0, 0, 0, time.UTC)
	for ttl, want := range map[time.Duration]time.Duration{
		10 * time.Second:      9 * time.Second,
		3 * time.Second:       2700 * time.Millisecond,
		time.Millisecond:      900 * time.Microsecond,
		time.Nanosecond:       time.Nanosecond,
		24 * 3600 * time.Hour: 24 * 3240 * time.Hour,
	} {
		if got := lease.Until(sent, ttl).Sub(sent); got != want {
			t.Errorf("a lease of %v is trusted for %v, not %v", ttl, got, want)
		}
	}
}

// No answer that comes late, and no order of answers, makes the trust reach into the last tenth of what the store gave last.
func TestTrust(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Now()
		ttl := func(label string) time.Duration {
			return time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, label))
		}
		last, given := now, ttl("ttl")
		l := lease.New(now, given)
		for range rapid.IntRange(0, 5).Draw(t, "answers") {
			sent, d := now.Add(time.Duration(rapid.Int64Range(-int64(time.Hour), 0).Draw(t, "sent"))), ttl("again")
			l.Given(sent, d)
			if !sent.Before(last) {
				last, given = sent, d
			}
		}
		if l.TTL() != given {
			t.Fatalf("it has %v, the request sent last gave %v", l.TTL(), given)
		}
		if want := time.Now().Before(lease.Until(last, given)); l.Valid() != want && time.Since(now) < time.Millisecond && given > time.Second {
			t.Fatalf("valid: %v", l.Valid())
		}
	})
}

// The trust ends to the nanosecond, whether Keep runs or not: 3 ms past it would be wrong.
func TestValid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lease.New(time.Now(), 10*time.Second)
		time.Sleep(9*time.Second - 1)
		if !l.Valid() {
			t.Error("not trusted before the end")
		}
		time.Sleep(time.Nanosecond)
		if l.Valid() {
			t.Error("trusted at the end")
		}
		l.Given(time.Now().Add(-time.Second), 3*time.Second)
		time.Sleep(1700*time.Millisecond - 1)
		if !l.Valid() {
			t.Error("not trusted before its second end")
		}
		time.Sleep(time.Nanosecond)
		if l.Valid() {
			t.Error("trusted past its second end")
		}
		if l = lease.New(time.Now(), 0); !l.Valid() {
			t.Error("one without an end has ended")
		}
	})
}

// question is what the store is asked and answers.
type question struct {
	after   time.Duration // when it is asked for, since the request that gave the lease
	again   bool
	takes   time.Duration
	answers error
}

var errAway = errors.New("no connection")

// never is longer than any lease of the table.
const never = time.Hour

// A lease of 60 s is trusted for 54 s, asked for after 20 s, after an error 3 s later, and beside an open question 10 s later.
func TestKeep(t *testing.T) {
	const ttl = time.Minute
	at := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	for name, c := range map[string]struct {
		asked []question
		ends  time.Duration // 0 = when ctx ends, after 99 s
		err   error
	}{
		"every third": {asked: []question{{after: at(20)}, {after: at(40)}, {after: at(60)}, {after: at(80)}}},
		"counted from the question": {asked: []question{
			{after: at(20), takes: at(5)}, {after: at(40), takes: at(9)}, {after: at(60)}, {after: at(80)}}},
		"gone": {asked: []question{{after: at(20)}, {after: at(40), takes: at(1), answers: fmt.Errorf("lock: %w", lease.ErrGone)}}, ends: at(41), err: lease.ErrGone},
		"errors": {asked: []question{
			{after: at(20), answers: errAway}, {after: at(23), again: true, answers: errAway}, {after: at(26), again: true}, {after: at(46)}, {after: at(66)}, {after: at(86)}}},
		"an open question": {asked: []question{
			{after: at(20), takes: never}, {after: at(30), again: true, takes: at(2)}, {after: at(50)}, {after: at(70)}, {after: at(90)}}},
		"a late answer counts, from its question": {asked: []question{
			{after: at(20), takes: at(15)}, {after: at(30), again: true, takes: never}, {after: at(40), again: true, takes: at(1)},
			{after: at(60)}, {after: at(80)}}},
		"silence": {asked: []question{
			{after: at(20), takes: never}, {after: at(30), again: true, takes: never}, {after: at(40), again: true, takes: never}, {after: at(50), again: true, takes: never}},
			ends: at(54), err: lease.ErrExpired},
		"an error of an earlier question": {asked: []question{
			{after: at(20), takes: at(25), answers: errAway}, {after: at(30), again: true}, {after: at(50)}, {after: at(70)}, {after: at(90)}}},
		"an error of the last question": {asked: []question{
			{after: at(20), takes: at(15)}, {after: at(30), again: true, answers: errAway}, {after: at(33), again: true, takes: never}, {after: at(43), again: true}, {after: at(63)}, {after: at(83)}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 99*time.Second)
				defer cancel()
				begun := time.Now()
				asked := 0
				err := lease.New(begun, ttl).Keep(ctx, func(ctx context.Context, d time.Duration, again bool) error {
					i := asked
					asked++
					if i >= len(c.asked) {
						t.Errorf("question %d after %v", i, time.Since(begun))
						return nil
					}
					q := c.asked[i]
					if after := time.Since(begun); after != q.after || again != q.again || d != ttl {
						t.Errorf("question %d after %v (again %v) for %v; want after %v (again %v)", i, after, again, d, q.after, q.again)
					}
					select {
					case <-time.After(q.takes):
						return q.answers
					case <-ctx.Done():
						return ctx.Err()
					}
				})
				ends := c.ends
				if ends == 0 {
					ends = 99 * time.Second
				}
				if after := time.Since(begun); !errors.Is(err, c.err) || after != ends || asked != len(c.asked) {
					t.Errorf("%v after %v and %d questions; want %v after %v and %d", err, after, asked, c.err, ends, len(c.asked))
				}
				synctest.Wait()
			})
		})
	}
}

// The error says why no answer gave the lease.
func TestKeepNamesTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := lease.New(time.Now(), time.Minute).Keep(t.Context(), func(context.Context, time.Duration, bool) error { return errAway })
		if !errors.Is(err, lease.ErrExpired) || !errors.Is(err, errAway) {
			t.Error(err)
		}
	})
}

// Without a question the trust ends as the lease does; a later request moves its end.
func TestNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		l := lease.New(begun, 10*time.Second)
		time.AfterFunc(5*time.Second, func() { l.Given(time.Now(), 20*time.Second) })
		if err := l.Keep(t.Context(), nil); !errors.Is(err, lease.ErrExpired) || time.Since(begun) != 23*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		l = lease.New(time.Now(), 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := l.Keep(ctx, nil); err != nil || !l.Valid() {
			t.Errorf("one without an end: %v", err)
		}
	})
}

// A doubt asks at once; while a question is open it waits for the answer.
func TestDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		l := lease.New(begun, time.Minute)
		var asked []time.Duration
		for _, s := range []time.Duration{2, 3} {
			time.AfterFunc(s*time.Second, l.Doubt)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := l.Keep(ctx, func(context.Context, time.Duration, bool) error {
			asked = append(asked, time.Since(begun))
			time.Sleep(4 * time.Second)
			return nil
		})
		if want := []time.Duration{2 * time.Second, 6 * time.Second}; err != nil || fmt.Sprint(asked) != fmt.Sprint(want) {
			t.Errorf("%v: asked after %v, want %v", err, asked, want)
		}
	})
}
