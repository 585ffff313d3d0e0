package fault_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/task"
)

// backlog submits n tasks that do nothing, without noting them.
func (w *taskWorld) backlog(n int, opts ...task.SubmitOption) {
	w.t.Helper()
	const page = 10_000
	for ; n > 0; n -= page {
		if _, err := idle.SubmitMany(w.ctx(), w.client, make([]int, min(n, page)), opts...); err != nil {
			w.t.Fatal(err)
		}
	}
}

// idle does nothing and keeps nothing: its tasks are only counted.
var idle = task.Define[int, task.None]("fault:Idle", task.Small)

// slowest is the command that took longest, and how long.
func (w *taskWorld) slowest() string {
	w.t.Helper()
	return slowestOf(w.t, w.must("SLOWLOG", "GET", "-1"))
}

// slowestOf is the command of a SLOWLOG that took longest, and how long.
func slowestOf(t *testing.T, slowlog rueidis.RedisResult) string {
	t.Helper()
	log, err := slowlog.ToArray()
	if err != nil {
		t.Fatal(err)
	}
	var worst int64
	said := "less than a millisecond"
	for _, m := range log {
		entry, err := m.ToArray()
		if err != nil {
			t.Fatal(err)
		}
		us, err := entry[2].AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		words, err := entry[3].AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		if us > worst {
			worst, said = us, fmt.Sprintf("%v (%.80s)", time.Duration(us)*time.Microsecond, strings.Join(words, " "))
		}
	}
	return said
}

// done waits until n tasks of idle have ended, by the counters.
func (w *taskWorld) done(n int) {
	w.t.Helper()
	w.wait(strconv.Itoa(n)+" tasks done", func() bool {
		got, _ := w.do("HGET", w.keys.TaskCounters(), "done type "+idle.Name()).AsInt64()
		return int(got) >= n
	})
	w.quiet()
	w.verifyRest()
	if got := w.number("HGET", w.keys.TaskCounters(), "done type "+idle.Name()); got != n {
		w.t.Errorf("%d ends of %d tasks", got, n)
	}
}

// Fault 22, a large backlog, and many delayed tasks due in the same millisecond.
func TestTaskFault22Backlog(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{Config: []string{"slowlog-log-slower-than 1000", "slowlog-max-len 10000"}})
	waiting, delayed := scaled(100_000, 5_000_000), scaled(10_000, 100_000)
	w.backlog(waiting)
	sample, err := w.must("XRANGE", w.workStream(), "-", "+", "COUNT", "1").AsXRange()
	if err != nil || len(sample) != 1 {
		t.Fatal(sample, err)
	}
	message := len(sample[0].FieldValues["data"])
	each := float64(w.number("MEMORY", "USAGE", w.workStream(), "SAMPLES", "0")) / float64(waiting)
	t.Logf("a waiting task takes %.0f bytes, %d of them its message", each, message)
	if each > 150+float64(message) {
		t.Errorf("a waiting task takes %.0f bytes, want at most 150 and its message of %d", each, message)
	}
	now, err := w.client.Now(w.ctx())
	if err != nil {
		t.Fatal(err)
	}
	due := now.Add(2 * time.Second)
	w.backlog(delayed, task.At(due))
	w.must("SLOWLOG", "RESET")
	begin := time.Now()
	w.worker(taskConfig{Slots: 50, Idle: true})
	w.worker(taskConfig{Slots: 50, Idle: true})
	w.wait("nothing delayed", func() bool { return w.number("ZCARD", w.keys.TaskDelayed()) == 0 })
	moved, err := w.client.Now(w.ctx())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d tasks due at once were moved within %v of that", delayed, moved.Sub(due).Round(time.Millisecond))
	w.done(waiting + delayed)
	t.Logf("%d tasks in %v, the longest command took %v", waiting+delayed, time.Since(begin).Round(time.Millisecond), w.slowest())
}

// Fault 22: many deployments share one Redis, each with its own prefix, so with nine queues and a worker; some of them have a backlog. How long does a task wait where
// there is none?
func TestTaskFault22ManyPrefixes(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{})
	prefixes, behind, backlog, rounds := scaled(60, 1000), scaled(2, 10), scaled(2000, 5000), scaled(200, 2000)
	clients := make([]*task.Client, prefixes)
	for i := range clients {
		var err error
		if clients[i], err = task.New(w.srv.Client, task.Options{Prefix: manyPrefix(w.prefix, i)}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(clients[i].Close)
	}
	worker := w.start(taskConfig{Role: "many workers", ID: "w", Prefixes: prefixes, Lease: 20 * time.Second})
	worker.Await("up")
	run := func(c *task.Client) string {
		h, err := theWork.Submit(w.ctx(), c, taskWork{})
		if err == nil {
			_, err = h.Await(w.ctx())
		}
		if err != nil {
			t.Fatal(err)
		}
		return h.ID
	}
	for _, c := range clients {
		run(c) // it is at work
	}
	for _, c := range clients[:behind] {
		if _, err := idle.SubmitMany(w.ctx(), c, make([]int, backlog)); err != nil {
			t.Fatal(err)
		}
	}
	single := make(map[string]bool)
	for range rounds {
		single[run(clients[behind+w.rand.IntN(prefixes-behind)])] = true
	}
	w.until(noteEnd, prefixes+behind*backlog+rounds)
	var waits []time.Duration
	for _, n := range w.history.notes {
		if n.Event == noteEnd && single[n.Task] {
			d, err := time.ParseDuration(n.Says)
			if err != nil {
				t.Fatal(err)
			}
			waits = append(waits, d)
		}
	}
	slices.Sort(waits)
	if len(waits) != len(single) {
		t.Errorf("%d ends of %d tasks", len(waits), len(single))
	}
	p99 := waits[len(waits)-1-len(waits)/100]
	t.Logf("%d prefixes, %d of them with a backlog of %d: 99 of 100 tasks of the others wait for at most %v, half of them for %v", prefixes, behind, backlog,
		p99.Round(time.Millisecond), waits[len(waits)/2].Round(time.Millisecond))
	if p99 > busy {
		t.Errorf("I6: tasks wait for %v", p99)
	}
	worker.Stop()
	for _, c := range clients[:min(prefixes, 2*behind)] {
		if report, found, err := task.Audit(w.ctx(), c, 0); err != nil || found != nil || report.Unfinished() != 0 {
			t.Errorf("I5: %+v, %v, %v", report, found, err)
		}
	}
}
