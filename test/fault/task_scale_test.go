package fault_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/test/rig"
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

// slowestOf is the command of a SLOWLOG that took longest, and how long.
func slowestOf(t *testing.T, slowlog rueidis.RedisResult) string {
	t.Helper()
	log, err := slowlog.ToArray()
	testenv.Must(t, err)
	var worst int64
	said := "less than a millisecond"
	for _, m := range log {
		entry, err := m.ToArray()
		testenv.Must(t, err)
		us, err := entry[2].AsInt64()
		testenv.Must(t, err)
		words, err := entry[3].AsStrSlice()
		testenv.Must(t, err)
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
	testenv.Must(t, err)
	due := now.Add(2 * time.Second)
	w.backlog(delayed, task.At(due))
	w.must("SLOWLOG", "RESET")
	begin := time.Now()
	w.worker(taskConfig{Slots: 50, Idle: true})
	w.worker(taskConfig{Slots: 50, Idle: true})
	w.wait("nothing delayed", func() bool { return w.number("ZCARD", w.keys.TaskDelayed()) == 0 })
	moved, err := w.client.Now(w.ctx())
	testenv.Must(t, err)
	t.Logf("%d tasks due at once were moved within %v of that", delayed, moved.Sub(due).Round(time.Millisecond))
	w.done(waiting + delayed)
	t.Logf("%d tasks in %v, the longest command took %v", waiting+delayed, time.Since(begin).Round(time.Millisecond), slowestOf(t, w.must("SLOWLOG", "GET", "-1")))
}

// soak is how long the mix of faults goes on: ten seconds, or TAKT_TEST_SOAK.
func soak(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("TAKT_TEST_SOAK")
	if text == "" {
		return 10 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("TAKT_TEST_SOAK %q: want a duration like 10m", text)
	}
	return d
}

// mixWorker is a worker of the mix, and the connection it has.
type mixWorker struct {
	p     *rig.Process
	proxy *testenv.Proxy
	c     taskConfig
}

// Fault 27: faults of many kinds in turn, by a seed, for as long as TAKT_TEST_SOAK says, under load. At the end all is as ever, and a worker that lived through all of it, but
// was never killed, has not grown: in goroutines, files and memory.
func TestTaskFault27Mix(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{Persist: true, Config: []string{"appendfsync always", "enable-debug-command yes"}})
	begin := func() mixWorker {
		proxy := w.through()
		c := taskConfig{URL: proxy.URL, ID: fmt.Sprintf("w%d", w.workers+1), Gauge: true}
		return mixWorker{w.worker(c), proxy, c}
	}
	survivor, victims := begin(), []mixWorker{begin(), begin()}
	all := func() []mixWorker { return append([]mixWorker{survivor}, victims...) }
	for _, m := range all() {
		w.fault(m.p) // sooner or later
	}
	one := func() mixWorker { return all()[w.rand.IntN(1+len(victims))] }
	replace := func(id bool) {
		i := w.rand.IntN(len(victims))
		old := victims[i]
		old.p.Kill()
		if id { // under its name
			victims[i].p = w.worker(old.c)
		} else {
			victims[i] = begin()
		}
		w.fault(victims[i].p)
	}
	faults := []struct {
		name string
		do   func()
	}{
		{"kill", func() { replace(false) }},
		{"kill and start again", func() { replace(true) }},
		{"stop", func() {
			i := w.rand.IntN(len(victims))
			victims[i].p.Stop()
			victims[i] = begin()
			w.fault(victims[i].p)
		}},
		{"pause", func() {
			m := one()
			m.p.Pause()
			<-time.After(time.Duration(w.rand.Int64N(int64(2 * taskLease)))) // shorter than its lease, or longer
			m.p.Continue()
		}},
		{"cut", func() { one().proxy.Cut() }},
		{"lose replies", func() { one().proxy.LoseReplies(1 + w.rand.IntN(3)) }},
		{"deaf", func() {
			m := one()
			m.proxy.DropReplies(true)
			<-time.After(taskLease / 2)
			m.proxy.DropReplies(false)
		}},
		{"slow", func() {
			m := one()
			m.proxy.Delay(50 * time.Millisecond)
			<-time.After(taskLease / 2)
			m.proxy.Delay(0)
		}},
		{"CLIENT PAUSE", func() { w.must("CLIENT", "PAUSE", strconv.Itoa(w.rand.IntN(1500))) }},
		{"SCRIPT FLUSH", func() { w.must("SCRIPT", "FLUSH") }},
		{"a slow command", func() { w.must("DEBUG", "SLEEP", "0.3") }},
		{"Redis killed", func() { w.srv.Kill(t); w.restartRedis() }},
		{"memory full", func() {
			w.must("CONFIG", "SET", "maxmemory", "1")
			<-time.After(taskLease / 2)
			w.must("CONFIG", "SET", "maxmemory", "0")
		}},
	}
	var producers []*rig.Process
	load := func(n int) {
		name := strconv.Itoa(n)
		work := taskWork{Takes: 10 * time.Millisecond}
		producers = append(producers,
			w.produce(taskConfig{Name: "plain" + name, Count: 200, Every: 5 * time.Millisecond, Later: true, Work: work}),
			w.produce(taskConfig{Name: "keyed" + name, Count: 200, Every: 5 * time.Millisecond, Later: true, Keyed: true, Work: work}))
	}
	load(0)
	w.until(noteEffect, 100)
	early, count := w.gauge(survivor.p), make(map[string]int)
	for end := time.Now().Add(soak(t)); time.Now().Before(end); {
		if ended := producers[len(producers)-1].Gone() && producers[len(producers)-2].Gone(); ended {
			load(len(producers))
		}
		f := faults[w.rand.IntN(len(faults))]
		count[f.name]++
		f.do()
		<-time.After(time.Duration(w.rand.IntN(300)) * time.Millisecond) // between two faults, or hardly
	}
	w.ended(producers...)
	w.verify()
	var late gauge
	w.wait("I7: a worker that has grown has shrunk again", func() bool { // what the last fault broke is closed a little later
		late = w.gauge(survivor.p)
		return !late.above(early)
	})
	t.Logf("faults: %v; a worker had %v, and has %v", count, early, late)
	stillUp(t, survivor.p)
}

// gauge is what a process has of what it must not have without end.
type gauge struct {
	goroutines, files int
	memory            int // bytes, resident
}

// above says of a process that it has more than it needs after faults, if it had early before them.
func (g gauge) above(early gauge) bool {
	return g.goroutines > 2*early.goroutines+20 || g.files > early.files+10 || g.memory > 2*early.memory+64<<20
}

func (g gauge) String() string {
	return fmt.Sprintf("%d goroutines, %d files, %d MB", g.goroutines, g.files, g.memory>>20)
}

// gauge waits for a worker to say how many goroutines it has, and looks at the rest.
func (w *taskWorld) gauge(p *rig.Process) gauge {
	w.t.Helper()
	goroutines, since := 0, time.Now()
	w.wait("a worker counts its goroutines", func() bool {
		w.history.refresh(w.t)
		for _, n := range w.history.notes {
			if n.Event == noteGauge && n.PID == p.PID() && n.time().After(since) {
				goroutines = n.Try
				return true
			}
		}
		return false
	})
	g := gaugeOf(w.t, p)
	g.goroutines = goroutines
	return g
}

// gaugeOf looks at what the system knows of a process: not its goroutines.
func gaugeOf(t *testing.T, p *rig.Process) (g gauge) {
	t.Helper()
	files, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(p.PID()), "fd"))
	testenv.Must(t, err)
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID()), "statm"))
	testenv.Must(t, err)
	var pages, resident int
	if _, err := fmt.Fscan(bytes.NewReader(text), &pages, &resident); err != nil {
		t.Fatal(err)
	}
	g.files, g.memory = len(files), resident*os.Getpagesize()
	return g
}
