package lock_test

import (
	"sync/atomic"
	"testing"

	"github.com/taktworks/takt/limit"
	"github.com/taktworks/takt/lock"
)

// Never more than the limit have a slot, and all get one.
func TestConcurrency(t *testing.T) {
	e := newEnv(t)
	s := limit.Concurrency(job("a"), 3)
	var inside atomic.Int32
	e.contend(20, 5, func(int) []lock.Spec { return []lock.Spec{s} }, func(int, *lock.Held) {
		if n := inside.Add(1); n > 3 {
			t.Errorf("%d at a time", n)
		}
		inside.Add(-1)
	})
	for range 3 {
		defer e.release(e.try(lock.TryOptions{}, s))
	}
	e.refused(lock.TryOptions{}, s)
}
