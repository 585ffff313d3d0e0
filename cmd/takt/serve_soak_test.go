package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

// A process that serves whole orders of four actions for TAKT_TEST_SOAK, ten minutes at most, stays below 120 MB, and its last minute is within a tenth of its third. A binary that
// TAKT_TEST_BASE names does the same before: this one needs at most 0.8 of its memory.
func TestServeMemoryAtARate(t *testing.T) {
	long.Test(t, "serves for ten minutes")
	limit, err := time.ParseDuration(cmp.Or(os.Getenv("TAKT_TEST_SOAK"), "20s"))
	if err != nil {
		t.Fatal(err)
	}
	limit = min(limit, 10*time.Minute)
	binary := filepath.Join(t.TempDir(), "takt")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	base := 0
	if other := os.Getenv("TAKT_TEST_BASE"); other != "" {
		base = slices.Max(residentAtARate(t, other, limit))
		t.Logf("%s: %d MB at most", other, base>>20)
	}
	of := residentAtARate(t, binary, limit)
	most := slices.Max(of)
	t.Logf("%d MB at most; by minute: %v", most>>20, of)
	if most > 120<<20 || base > 0 && 10*most > 8*base {
		t.Errorf("%d MB, want 120 at most, and 0.8 of %d", most>>20, base>>20)
	}
	if len(of) > 3 {
		if third, last := of[2], of[len(of)-1]; 10*last > 11*third {
			t.Errorf("%d MB in the third minute, %d in the last", third>>20, last>>20)
		}
	}
}

// residentAtARate runs orders on a process of a binary, and returns the highest resident memory of each minute.
func residentAtARate(t *testing.T, binary string, limit time.Duration) (byMinute []int) {
	redis, broker := testenv.Redis(t), testenv.Mosquitto(t)
	prefix := redis.Prefix(t)
	serve := exec.CommandContext(t.Context(), binary, "serve", "--redis", redis.URL, "--mqtt", broker.URL, "--prefix", prefix, "--data", t.TempDir(), "--end-state-retention", "1m")
	serve.Cancel = func() error { return serve.Process.Signal(syscall.SIGTERM) }
	log := &testenv.Log{}
	serve.Stderr = log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	orders := 0
	defer func() {
		_ = serve.Process.Signal(syscall.SIGTERM)
		if err := serve.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", binary, err, log)
		}
		cpu := serve.ProcessState.UserTime() + serve.ProcessState.SystemTime()
		t.Logf("%v of the processor per order", (cpu / time.Duration(max(orders, 1))).Round(time.Microsecond))
	}()
	testenv.Eventually(t, "it serves", func() bool { return log.Count("ready: commands are taken") > 0 })
	began, stop := time.Now(), make(chan struct{})
	var sampler sync.WaitGroup
	sampler.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			minute := int(time.Since(began) / time.Minute)
			for len(byMinute) <= minute {
				byMinute = append(byMinute, 0)
			}
			byMinute[minute] = max(byMinute[minute], resident(serve.Process.Pid))
		}
	})
	withOrdersOn(t, redis, broker, prefix, []byte(`{"ok":true}`), func(_ *testenv.RedisServer, run func(orders int)) {
		for time.Since(began) < limit {
			run(500)
			orders += 500
		}
	})
	took := time.Since(began)
	close(stop)
	sampler.Wait()
	t.Logf("%s: %d orders in %v, %.0f per second", binary, orders, took.Round(time.Second), float64(orders)/took.Seconds())
	if took > time.Minute && float64(orders)/took.Seconds() < 100 {
		t.Error("the machine is too slow, or busy: 100 orders per second are wanted")
	}
	return byMinute
}

// resident is the resident memory of a process in bytes, 0 if it cannot be told.
func resident(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.Atoi(string(fields[1]))
	return pages * os.Getpagesize()
}
