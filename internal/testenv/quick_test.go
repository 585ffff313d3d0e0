package testenv

import (
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv/long"
)

// One quick round is enough; without one the least is named.
func TestOnceWithin(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	for name, c := range map[string]struct {
		quick int // the try that is; the others are slow
		want  int // rounds
		says  string
	}{
		"the first": {0, 1, ""},
		"the third": {2, 3, ""},
		"none":      {tries, tries, "took 2s at the least in 10 tries, want less than 1s"},
	} {
		r, rounds := &recorder{TB: t}, 0
		OnceWithin(r, time.Second, func(try int) time.Duration {
			rounds++
			if try == c.quick {
				return time.Millisecond
			}
			return time.Duration(tries-try+1) * time.Second
		})
		if rounds != c.want || strings.Join(r.errors, "\n") != c.says {
			t.Errorf("%s: %d rounds, errors %q", name, rounds, r.errors)
		}
	}
}

// A limit that is too short for the machine is doubled up to Patience; one of minutes is long enough for any, and a failure of the round needs no other one.
func TestLongEnough(t *testing.T) {
	most := time.Second
	for most*2 <= Patience {
		most *= 2
	}
	for name, c := range map[string]struct {
		enough time.Duration
		fails  bool
		want   time.Duration // of the last round
		says   string
	}{
		"the first":    {time.Second, false, time.Second, ""},
		"the third":    {3 * time.Second, false, 4 * time.Second, ""},
		"none":         {time.Hour, false, most, most.String() + " are not long enough"},
		"it is broken": {time.Hour, true, time.Second, "broken"},
	} {
		r, last := &recorder{TB: t}, time.Duration(0)
		LongEnough(r, time.Second, func(limit time.Duration) bool {
			if last = limit; c.fails {
				r.Errorf("broken")
			}
			return limit >= c.enough
		})
		if last != c.want || strings.Join(r.errors, "\n") != c.says {
			t.Errorf("%s: %v at last, errors %q", name, last, r.errors)
		}
	}
}
