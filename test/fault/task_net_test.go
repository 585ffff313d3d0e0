package fault_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/test/rig"
)

// Fault 10: workers and producers have bad connections, each through a proxy of its own, while there is work. Nothing is lost, and what was submitted under a
// key is one task, however often its answer got lost.
func TestTaskFault10BadConnections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begin    func(p *testenv.Proxy) // at the start
		trouble  func(p *testenv.Proxy) // again and again
		harmless bool                   // no worker may lose its lease by it
	}{
		"cut":            {trouble: func(p *testenv.Proxy) { p.Cut() }, harmless: true},
		"replies lost":   {trouble: func(p *testenv.Proxy) { p.LoseReplies(1) }, harmless: true},
		"half open":      {trouble: func(p *testenv.Proxy) { p.Stall(true); <-time.After(taskLease * 3 / 2); p.Stall(false); p.Cut() }},
		"deaf":           {trouble: func(p *testenv.Proxy) { p.DropReplies(true); <-time.After(taskLease / 2); p.DropReplies(false) }},
		"refused":        {trouble: func(p *testenv.Proxy) { p.Refuse(true); p.Cut(); <-time.After(taskLease / 2); p.Refuse(false) }},
		"pieces":         {begin: func(p *testenv.Proxy) { p.Fragment(1) }, harmless: true},
		"narrow":         {begin: func(p *testenv.Proxy) { p.Throttle(100_000) }},
		"narrow and cut": {begin: func(p *testenv.Proxy) { p.Throttle(100_000) }, trouble: func(p *testenv.Proxy) { p.Cut() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTaskWorld(t, embedded.RedisOptions{})
			tasks := scaled(200, 10_000)
			var proxies []*testenv.Proxy
			url := func() string {
				p := w.through()
				if c.begin != nil {
					c.begin(p)
				}
				proxies = append(proxies, p)
				return p.URL
			}
			lease := taskLease
			if c.harmless {
				lease = 6 * time.Second // so that reconnecting, on a busy machine, is well within it
			}
			workers := []*rig.Process{w.worker(taskConfig{URL: url(), Lease: lease}), w.worker(taskConfig{URL: url(), Lease: lease})}
			if !c.harmless {
				w.fault(workers[0])
				w.fault(workers[1])
			}
			w.produce(taskConfig{Name: "plain", URL: url(), Count: tasks / 2, Every: 8 * time.Millisecond, Later: true})
			w.produce(taskConfig{Name: "keyed", URL: url(), Count: tasks / 2, Every: 8 * time.Millisecond, Later: true, Keyed: true})
			w.until(noteStart, 1)
			for c.trouble != nil && (len(w.accepted("keyed")) < tasks/2 || w.unfinished() > 0) {
				c.trouble(proxies[w.rand.IntN(len(proxies))])
				<-time.After(time.Duration(20+w.rand.IntN(60)) * time.Millisecond) // trouble comes in bursts
			}
			w.wait("everything submitted", func() bool {
				return len(w.accepted("keyed")) == tasks/2 && len(w.accepted("plain"))+w.history.count[noteUnknown] >= tasks/2
			})
			w.verify()
			stillUp(t, workers...)
		})
	}
}

// Fault 11: Redis is slow to answer. As long as an answer takes less than a third of the lease, no lease is lost and no task runs twice.
func TestTaskFault11SlowRedis(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lease time.Duration
		slow  func(w *taskWorld, workers []*testenv.Proxy)
	}{
		"50 ms more each way":  {6 * time.Second, delayed(50 * time.Millisecond)},
		"500 ms more each way": {6 * time.Second, delayed(500 * time.Millisecond)},
		"CLIENT PAUSE":         {16 * time.Second, func(w *taskWorld, _ []*testenv.Proxy) { w.must("CLIENT", "PAUSE", "5000") }},
		"a slow command":       {10 * time.Second, func(w *taskWorld, _ []*testenv.Proxy) { w.must("DEBUG", "SLEEP", "3") }},
		"a slow script": {10 * time.Second, func(w *taskWorld, _ []*testenv.Proxy) {
			for range 3 {
				w.must("EVAL", "for i = 1, 6e7 do end return 1", "0")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTaskWorld(t, embedded.RedisOptions{Config: []string{"enable-debug-command yes"}})
			tasks := scaled(120, 5000)
			var workers []*rig.Process
			var proxies []*testenv.Proxy
			for range 2 {
				p := w.through()
				proxies = append(proxies, p)
				workers = append(workers, w.worker(taskConfig{URL: p.URL, Lease: c.lease, Slots: 20}))
			}
			w.submit("work", tasks, taskWork{Takes: 40 * time.Millisecond})
			w.until(noteStart, 20)
			c.slow(w, proxies)
			w.until(noteEffect, tasks)
			for _, p := range proxies {
				p.Delay(0)
			}
			if v := w.verify(); v.repeats != 0 {
				t.Errorf("%d repetitions: a lease was lost without need", v.repeats)
			}
			stillUp(t, workers...)
		})
	}
}

// Fault 11: Redis answers nobody for two seconds, under load. How long after that do tasks take as long as before?
func TestTaskFault11QuickAgain(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{})
	worker := w.worker(taskConfig{Lease: 16 * time.Second, Slots: 20})
	n := scaled(50, 500)
	w.roundTrips(n) // connections, scripts
	before := w.roundTrips(4 * n)
	producer := w.produce(taskConfig{Count: scaled(1000, 10_000), Every: 4 * time.Millisecond})
	w.until(noteEffect, w.seen(noteEffect)+20)
	w.must("CLIENT", "PAUSE", "2000")
	w.must("PING") // answered when the pause is over
	again := time.Now()
	quick := max(2*before, 50*time.Millisecond) // of a machine that others use, too
	var now time.Duration
	for rounds := 1; ; rounds++ {
		if now = w.roundTrips(n); now <= quick {
			break
		}
		if time.Since(again) > 2*busy {
			t.Fatalf("I6: two minutes after the pause the slowest of %d tasks takes %v, before it was %v", n, now, before)
		}
	}
	t.Logf("the slowest of %d tasks took %v before the pause, and %v within %v after it", n, before.Round(time.Millisecond), now.Round(time.Millisecond),
		time.Since(again).Round(time.Millisecond))
	w.ended(producer)
	if v := w.verify(); v.repeats != 0 {
		t.Errorf("%d repetitions", v.repeats)
	}
	stillUp(t, worker)
}

// roundTrips submits n tasks, one after the other, and returns how long the slowest took until its result was here, but for one in a hundred.
func (w *taskWorld) roundTrips(n int) time.Duration {
	w.t.Helper()
	took := make([]time.Duration, n)
	for i := range took {
		begin := time.Now()
		if _, err := w.submit(fmt.Sprintf("trip-%d", begin.UnixNano()), 1, taskWork{})[0].Await(w.ctx()); err != nil {
			w.t.Fatal(err)
		}
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	return took[n-1-n/100]
}

func delayed(d time.Duration) func(*taskWorld, []*testenv.Proxy) {
	return func(_ *taskWorld, workers []*testenv.Proxy) {
		for _, p := range workers {
			p.Delay(d)
		}
	}
}

// Fault 19: the answer that gives a worker a task is lost on its way, again and again. The worker finds it among what it holds; nobody else has to.
func TestTaskFault19ReadCutOff(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{})
	p := w.through()
	worker := w.worker(taskConfig{URL: p.URL, Lease: 6 * time.Second, Slots: 2})
	var lost atomic.Int64
	rounds := scaled(20, 500)
	var slowest time.Duration
	for range rounds {
		dials := p.Dials()
		p.LoseReplies(1) // the worker waits: what comes next is, mostly, the task
		begin := time.Now()
		h := w.submit("ghost", 1, taskWork{N: ""})[0]
		if _, err := h.Await(w.ctx()); err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, time.Since(begin))
		lost.Add(int64(min(p.Dials()-dials, 1)))
		p.LoseReplies(0)
	}
	t.Logf("%d of %d times a connection was lost with the answer, a task took up to %v", lost.Load(), rounds, slowest.Round(time.Millisecond))
	if lost.Load() == 0 {
		t.Error("no answer was lost")
	}
	if slowest > time.Minute {
		t.Errorf("I6: %v", slowest)
	}
	w.quiet()
	w.verifyRest()
	stillUp(t, worker)
}
