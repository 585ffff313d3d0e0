package lock_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/lock"
)

// BenchmarkMutex takes and releases a mutex that nobody else wants: two round trips each.
func BenchmarkMutex(b *testing.B) {
	e := newEnv(b)
	b.Run("1", func(b *testing.B) {
		specs := []lock.Spec{lock.Mutex(task("a"))}
		b.ReportAllocs()
		for b.Loop() {
			takeAndGive(b, e, specs)
		}
	})
	b.Run("64 goroutines", func(b *testing.B) {
		var n atomic.Int64
		b.ReportAllocs()
		b.SetParallelism(max(64/runtime.GOMAXPROCS(0), 1))
		b.RunParallel(func(pb *testing.PB) {
			specs := []lock.Spec{lock.Mutex(task(fmt.Sprint(n.Add(1))))}
			for pb.Next() {
				takeAndGive(b, e, specs)
			}
		})
	})
	b.Run("list of 5", func(b *testing.B) {
		specs := append(leases("", 30*time.Second), lock.Mutex(task("z")))
		b.ReportAllocs()
		for b.Loop() {
			takeAndGive(b, e, specs)
		}
	})
}

func takeAndGive(b *testing.B, e *env, specs []lock.Spec) {
	h, err := e.Try(context.Background(), specs, lock.TryOptions{})
	if err != nil {
		b.Error(err)
		return
	}
	if _, err := h.Release(context.Background()); err != nil {
		b.Error(err)
	}
}
