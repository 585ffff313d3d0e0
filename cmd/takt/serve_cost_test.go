package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/mes"
)

// The memory of a process that serves does not grow with the orders that it has done, however large their results: Takt, the
// MES and equipment with results of 16 KiB in one process, whose heap after a collection is compared.
func TestServeMemoryStaysFlat(t *testing.T) {
	long.Test(t, "runs thousands of orders")
	const (
		warm, orders = 1000, 3000 // caches and buffers have their size after some hundred
		span         = 8000       // over so many orders the heap may grow by a tenth in all, and by less than perOrder bytes for each
		perOrder     = 1000
		step         = 500
		once         = 512 << 10 // a connection to Redis that is made later, and the orders that the state indexes still name: however many were done
	)
	withOrders(t, []byte(`{"text":"`+strings.Repeat("x", 16<<10)+`"}`), func(_ *testenv.RedisServer, run func(orders int)) {
		heap := func() int {
			runtime.GC()
			runtime.GC() // pools let go at the second
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int(m.HeapAlloc)
		}
		before := math.MaxInt // the least of some: what is just under way comes and goes
		for range warm / step {
			run(step)
			for range 4 {
				before = min(before, heap())
			}
		}
		for range orders / step {
			run(step)
		}
		after, grown := math.MaxInt, 0
		flat := func() bool {
			after = min(after, heap())
			grown = (after - before - once) * span / orders
			return grown <= before/10 && grown <= span*perOrder
		}
		// What follows from the last orders, events and retained topics, takes its time on a busy machine. What is lost stays.
		for end := time.Now().Add(testenv.Patience); !flat() && time.Now().Before(end); {
			runtime.Gosched()
		}
		t.Logf("heap %d kB after %d orders, %d kB after %d", before/1000, warm, after/1000, warm+orders)
		if !flat() {
			t.Errorf("%d orders make the heap of %d kB grow by %d kB", span, before/1000, grown/1000)
		}
	})
}

// A job order of four actions, from StoreAndStart to Clear, costs Redis at most 150 commands and one for each of its seven commits for the history, those inside scripts included.
// Reading, acknowledging and publishing are shared by what waits together: 15 an order with 256 orders under way,
// more when the machine is busy, so they are not in the count here.
func TestCommandsPerOrder(t *testing.T) {
	long.Test(t, "runs hundreds of orders")
	const (
		orders  = 600
		atMost  = 150 + 7 - 15
		batched = "xread xreadgroup xack xdel evalsha eval hmget hgetall xinfo|consumers zrangebyscore time xrange ping info"
	)
	withOrders(t, []byte(`{"ok":true}`), func(redis *testenv.RedisServer, run func(orders int)) {
		run(50) // scripts are loaded, the recipe is compiled
		rdb := redis.Client
		if err := rdb.Do(t.Context(), rdb.B().ConfigResetstat().Build()).Error(); err != nil {
			t.Fatal(err)
		}
		run(orders)
		text, err := rdb.Do(t.Context(), rdb.B().Info().Section("commandstats").Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		total := 0.0
		perOrder := make(map[string]float64)
		for _, m := range regexp.MustCompile(`cmdstat_(\S+):calls=(\d+)`).FindAllStringSubmatch(text, -1) {
			if !slices.Contains(strings.Fields(batched), m[1]) {
				calls, _ := strconv.Atoi(m[2])
				perOrder[m[1]] = float64(calls) / orders
				total += perOrder[m[1]]
			}
		}
		t.Logf("%.1f commands an order: %v", total, perOrder)
		if total > atMost {
			t.Errorf("%.1f commands an order, want at most %d", total, atMost)
		}
	})
}

// What a cleared job order of four actions leaves in Redis until --reply-retention, --end-state-retention and the routes' 24 h
// have passed, by kind of key: the table of docs/operations/run.md.
func TestRedisMemoryPerOrder(t *testing.T) {
	long.Test(t, "runs thousands of orders")
	const (
		orders = 500
		atMost = 10_700 // bytes, as MEMORY USAGE counts them; Redis 7.0 has 9,000, 2,700 of them history
	)
	withOrders(t, []byte(`{"ok":true}`), func(redis *testenv.RedisServer, run func(orders int)) {
		before := memoryByKind(t, redis)
		run(orders)
		var table strings.Builder
		total := 0
		after := memoryByKind(t, redis)
		for _, kind := range slices.Sorted(maps.Keys(after)) {
			each := (after[kind].bytes - before[kind].bytes) / orders
			total += each
			if each > 10 { // what all orders share is not of interest
				fmt.Fprintf(&table, "| `%s` | %.1f | %d |\n", kind, float64(after[kind].keys-before[kind].keys)/orders, each)
			}
		}
		t.Logf("%d bytes an order\n%s", total, table.String())
		if total > atMost {
			t.Errorf("a cleared order keeps %d bytes, want at most %d", total, atMost)
		}
	})
}

type memory struct{ keys, bytes int }

// memoryByKind sums MEMORY USAGE over all keys of the server by the words that their names begin with; the first element with a digit is an id.
func memoryByKind(t *testing.T, redis *testenv.RedisServer) map[string]memory {
	t.Helper()
	ctx, rdb, kinds := t.Context(), redis.Client, make(map[string]memory)
	id := regexp.MustCompile(`:[^:]*[0-9].*`)
	prefix := regexp.MustCompile(`^[^:]*:`)
	for cursor := uint64(0); ; {
		page, err := rdb.Do(ctx, rdb.B().Scan().Cursor(cursor).Count(1000).Build()).AsScanEntry()
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range page.Elements {
			bytes, err := rdb.Do(ctx, rdb.B().MemoryUsage().Key(key).Build()).AsInt64()
			if err != nil {
				continue // expired meanwhile
			}
			kind := id.ReplaceAllString(prefix.ReplaceAllString(key, ""), ":{...}")
			m := kinds[kind]
			kinds[kind] = memory{m.keys + 1, m.bytes + int(bytes)}
		}
		if cursor = page.Cursor; cursor == 0 {
			return kinds
		}
	}
}

// replaced is a memory of an MES that a test replaces, so that it does not grow with the orders.
type replaced struct{ mes.Memory }

// withOrders runs Takt, an MES and equipment that gives result at once in this process, and do, with a function that runs
// orders from StoreAndStart to Clear.
func withOrders(t *testing.T, result []byte, do func(redis *testenv.RedisServer, run func(orders int))) {
	t.Helper()
	testenv.Measures(t, "memory and commands")
	withOrdersOn(t, testenv.Redis(t), testenv.Mosquitto(t), "", result, do)
}

// withOrdersOn is withOrders on a store and a broker; with a prefix another process serves.
func withOrdersOn(t *testing.T, redis *testenv.RedisServer, broker *testenv.Broker, prefix string, result []byte, do func(redis *testenv.RedisServer, run func(orders int))) {
	t.Helper()
	var out bytes.Buffer
	var errOut testenv.Log
	args := []string{"bench", "jobs", "--redis", redis.URL, "--mqtt", broker.URL, "--data", t.TempDir(), "--in-flight", "256"}
	err := execute(args, nil, &out, &errOut, func(c *cli, a *app) error {
		b := jobsRun{benchJobsCmd: &c.Bench.Jobs, app: a, cfg: a.Config, progress: newProgress(a.err), result: result, done: make(chan string, 256)}
		defer setGC()()
		memory := &replaced{}
		b.memory = memory
		b.SessionExpiry = 0
		b.log = newLog(a.err, "warn", "text")
		b.served = prefix != ""
		a.Prefix = cmp.Or(prefix, redis.Prefix(t))
		store, err := b.openStore(t.Context())
		if err != nil {
			return err
		}
		defer store.Close()
		parts := newGroup(t.Context())
		defer func() { _ = parts.stop() }() // an error of a part is returned where it is met
		if err := errors.Join(b.start(parts), b.configure(parts.ctx)); err != nil {
			return err
		}
		do(redis, func(orders int) {
			memory.Memory = mes.NewMemory()
			b.N = orders
			if err := b.wholeOrders(parts.ctx); err != nil {
				t.Fatal(err, parts.failed())
			}
			b.first += orders
		})
		return nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, errOut.String())
	}
}
