package fault_test

import (
	"fmt"
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
