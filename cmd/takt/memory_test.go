package main

import (
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
)

// A process that holds little lets its heap grow by more than that between two collections; one that holds much collects as the runtime does, or earlier. What it holds is
// looked at after each collection. GOGC and GOMEMLIMIT stand.
func TestCollectByNeed(t *testing.T) {
	read := func(name string) int64 {
		sample := []metrics.Sample{{Name: name}}
		metrics.Read(sample)
		return int64(sample[0].Value.Uint64())
	}
	percent := func() int64 { return read("/gc/gogc:percent") }
	limit := func() int64 { return read("/gc/gomemlimit:bytes") }
	usual, unlimited := percent(), limit()
	collected := func(what string, holds func() bool) {
		t.Helper()
		testenv.Eventually(t, what, func() bool { runtime.GC(); return holds() })
	}
	begin := func(gogc, gomemlimit string, intake int) (stop func()) {
		t.Setenv("GOGC", gogc)
		t.Setenv("GOMEMLIMIT", gomemlimit)
		return (&ServeConfig{IntakeBytes: intake}).collectByNeed()
	}

	for _, intake := range []int{1 << 20, 64 << 20} {
		stop := begin("", "", intake)
		collected("garbage may be 32 MiB", func() bool {
			live := read("/gc/heap/live:bytes")
			goal := read("/gc/heap/goal:bytes")
			return goal-live > leastGarbage*3/4 && goal-live < leastGarbage*5/4
		})
		much := make([]byte, 3*leastGarbage)
		collected("with much held a quarter is left, or more", func() bool {
			live := read("/gc/heap/live:bytes")
			return percent() == 100 && limit() > live*5/4 && limit() < live*5/4+64<<20
		})
		runtime.KeepAlive(much)
		much = nil
		collected("it is as before", func() bool { return percent() > 200 })
		stop()
		if percent() != usual || limit() != unlimited {
			t.Errorf("after the end: %d %%, limit %d", percent(), limit())
		}
	}

	stop := begin("50", "", 64<<20) // the runtime has read it when the process began
	if percent() != usual || limit() == unlimited {
		t.Errorf("GOGC is set: %d %%, limit %d", percent(), limit())
	}
	stop()
	stop = begin("", "1GiB", 64<<20)
	if percent() == usual || limit() != unlimited {
		t.Errorf("GOMEMLIMIT is set: %d %%, limit %d", percent(), limit())
	}
	stop()
}
