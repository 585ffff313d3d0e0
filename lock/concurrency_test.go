package lock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/limit"
	"github.com/taktworks/takt/lock"
)

// Never more than the limit have a slot, and all get one.
func TestConcurrency(t *testing.T) {
	e := newEnv(t)
	lockers := []*lock.Locker{e.Locker, e.other().Locker, on(t, e.srv, e.srv.Connect(t, redis.Options{RESP2: true}), e.prefix).Locker}
	s := limit.Concurrency(job("a"), 3)
	ctx, cancel := context.WithTimeout(context.Background(), 2*hang)
	defer cancel()
	var inside atomic.Int32
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			for range 5 {
				h, err := lockers[i%3].Acquire(ctx, s)
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n > 3 {
					t.Errorf("%d at a time", n)
				}
				inside.Add(-1)
				e.release(h)
			}
		})
	}
	all.Wait()
	for range 3 {
		defer e.release(e.try(lock.TryOptions{}, s))
	}
	e.refused(lock.TryOptions{}, s)
}
