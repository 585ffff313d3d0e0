package testenv

import (
	"strings"
	"testing"
	"time"
)

// One quick round is enough; without one the least is named.
func TestOnceWithin(t *testing.T) {
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
