package main

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
)

// The memory of a process that serves does not grow with the orders that it has done, however large their results: Takt, the
// MES and equipment with results of 16 KiB in one process, whose heap after a collection is compared (find-O11).
func TestServeMemoryStaysFlat(t *testing.T) {
	const (
		warm, orders = 300, 600
		perOrder     = 1000 // bytes; a document of these orders has more than 16,000
	)
	redis, broker := testenv.Redis(t), testenv.Mosquitto(t)
	var out, errOut bytes.Buffer
	args := []string{"bench", "jobs", "--redis", redis.URL, "--mqtt", broker.URL, "--data", t.TempDir(), "--in-flight", "16"}
	err := execute(args, nil, &out, &errOut, func(c *cli, a *app) error {
		b := jobsRun{benchJobsCmd: &c.Bench.Jobs, app: a, cfg: a.Config, progress: newProgress(a.err), done: make(chan string, 16)}
		b.result = []byte(`{"text":"` + strings.Repeat("x", 16<<10) + `"}`)
		b.SessionExpiry = 0
		b.log = newLog(a.err, "warn", "text")
		a.Prefix = redis.Prefix(t)
		store, err := b.openStore(t.Context())
		if err != nil {
			return err
		}
		defer store.Close()
		parts := newGroup(t.Context())
		defer func() { _ = parts.stop() }()
		if err := b.start(parts); err != nil {
			return err
		}
		if err := b.configure(parts.ctx); err != nil {
			return err
		}
		heapAfter := func(orders int) int {
			b.N = orders
			if err := b.wholeOrders(parts.ctx); err != nil {
				t.Fatal(err, parts.failed())
			}
			b.first += orders
			runtime.GC()
			runtime.GC() // twice: the first only ages what pools hold
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int(m.HeapAlloc)
		}
		before := heapAfter(warm)
		after := heapAfter(orders)
		t.Logf("heap %d kB after %d orders, %d kB after %d", before/1000, warm, after/1000, warm+orders)
		if grown := after - before; grown > orders*perOrder {
			t.Errorf("%d orders left %d bytes each", orders, grown/orders)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, errOut.String())
	}
}
