package fault_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

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

// calls are how often Redis was asked for each command, and how long the slowest call of all took.
func (w *taskWorld) calls() map[string]int {
	w.t.Helper()
	text, err := w.must("INFO", "commandstats").ToString()
	if err != nil {
		w.t.Fatal(err)
	}
	calls := make(map[string]int)
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(rest, ",")
		if calls[name], err = strconv.Atoi(number); err != nil {
			w.t.Fatal(err)
		}
	}
	return calls
}

// slowest is the longest that one command took.
func (w *taskWorld) slowest() time.Duration {
	w.t.Helper()
	log, err := w.must("SLOWLOG", "GET", "-1").ToArray()
	if err != nil {
		w.t.Fatal(err)
	}
	var worst time.Duration
	for _, m := range log {
		entry, err := m.ToArray()
		if err != nil {
			w.t.Fatal(err)
		}
		us, err := entry[2].AsInt64()
		if err != nil {
			w.t.Fatal(err)
		}
		worst = max(worst, time.Duration(us)*time.Microsecond)
	}
	return worst
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

// Fault 21, W4: very many entries were held by a worker that is dead. They are taken over in small steps; how long the longest command took is in the log.
func TestTaskFault21ManyOrphans(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{Config: []string{"slowlog-log-slower-than 1000", "slowlog-max-len 10000"}})
	orphans := scaled(20_000, 1_000_000)
	w.backlog(orphans)
	w.must("XGROUP", "CREATE", w.workStream(), w.keys.TaskGroup(), "0")
	for held := 0; held < orphans; held += 1000 {
		w.must("XREADGROUP", "GROUP", w.keys.TaskGroup(), "dead", "COUNT", "1000", "STREAMS", w.workStream(), ">")
	}
	w.must("SLOWLOG", "RESET")
	w.must("CONFIG", "RESETSTAT")
	begin := time.Now()
	for range 2 {
		w.worker(taskConfig{Slots: 50, Idle: true})
	}
	w.done(orphans)
	took, calls := time.Since(begin), w.calls()
	asked := calls["evalsha"] + calls["eval"] + calls["xreadgroup"] + calls["xinfo|consumers"] + calls["get"]
	t.Logf("%d orphans run again in %v: %.2f scripts each, the longest command took %v", orphans, took.Round(time.Millisecond),
		float64(calls["evalsha"]+calls["eval"])/float64(orphans), w.slowest())
	if asked > 8*orphans {
		t.Errorf("%.1f commands for each orphan: %v", float64(asked)/float64(orphans), calls)
	}
}

// Fault 22, S7, plus-14: a large backlog, and many delayed tasks due in the same millisecond.
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
