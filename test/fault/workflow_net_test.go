package fault_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/test/rig"
)

// Fault 10: workers and starters have bad connections, each through a proxy of its own, while there is work. Nothing is lost, and nothing is there twice, however often an answer got
// lost.
func TestWorkflowFault10BadConnections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begin    func(p *testenv.Proxy) // at the start
		trouble  func(p *testenv.Proxy) // again and again
		harmless bool                   // no worker may lose its lease by it
		count    int                    // 0 = 30
	}{
		"cut":            {trouble: func(p *testenv.Proxy) { p.Cut() }, harmless: true},
		"replies lost":   {trouble: func(p *testenv.Proxy) { p.LoseReplies(1) }, harmless: true},
		"half open":      {trouble: func(p *testenv.Proxy) { p.Stall(true); <-time.After(taskLease * 3 / 2); p.Stall(false); p.Cut() }},
		"deaf":           {trouble: func(p *testenv.Proxy) { p.DropReplies(true); <-time.After(taskLease / 2); p.DropReplies(false) }},
		"refused":        {trouble: func(p *testenv.Proxy) { p.Refuse(true); p.Cut(); <-time.After(taskLease / 2); p.Refuse(false) }},
		"pieces":         {begin: func(p *testenv.Proxy) { p.Fragment(1) }, harmless: true},
		"narrow and cut": {begin: func(p *testenv.Proxy) { p.Throttle(100_000) }, trouble: func(p *testenv.Proxy) { p.Cut() }, count: 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFlowWorld(t, embedded.RedisOptions{})
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
			workers := []*rig.Process{w.worker(flowConfig{URL: url(), Lease: lease}), w.worker(flowConfig{URL: url(), Lease: lease})}
			starter := w.starter(flowConfig{Name: "load", URL: url(), Count: scaled(cmp.Or(c.count, 30), 3000), Every: 20 * time.Millisecond, Plan: everything})
			for c.trouble != nil && (!starter.Gone() || w.flowsActive() > 0) {
				c.trouble(proxies[w.rand.IntN(len(proxies))])
				<-time.After(time.Duration(20+w.rand.IntN(60)) * time.Millisecond) // trouble comes in bursts
			}
			w.ended(starter)
			w.verify()
			stillUp(t, workers...)
		})
	}
}

// Fault 11: Redis is slow to answer. As long as an answer takes less than a third of the lease, no lease is lost and nothing runs twice.
func TestWorkflowFault11SlowRedis(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lease time.Duration
		slow  func(w *flowWorld, workers []*testenv.Proxy)
	}{
		"50 ms more each way":  {6 * time.Second, slowed(50 * time.Millisecond)},
		"200 ms more each way": {6 * time.Second, slowed(200 * time.Millisecond)},
		"CLIENT PAUSE":         {12 * time.Second, func(w *flowWorld, _ []*testenv.Proxy) { w.must("CLIENT", "PAUSE", "3000") }},
		"a slow command":       {10 * time.Second, func(w *flowWorld, _ []*testenv.Proxy) { w.must("DEBUG", "SLEEP", "2") }},
		"a slow script": {10 * time.Second, func(w *flowWorld, _ []*testenv.Proxy) {
			for range 3 {
				w.must("EVAL", "for i = 1, 3e7 do end return 1", "0")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFlowWorld(t, embedded.RedisOptions{Config: []string{"enable-debug-command yes"}})
			var workers []*rig.Process
			var proxies []*testenv.Proxy
			for range 2 {
				p := w.through()
				proxies = append(proxies, p)
				workers = append(workers, w.worker(flowConfig{URL: p.URL, Lease: c.lease}))
			}
			n := scaled(8, 1000)
			starter := w.starter(flowConfig{Name: "load", Count: n, Every: 5 * time.Millisecond, Plan: flowPlan{Activities: 2, Timer: 20 * time.Millisecond}})
			w.until(noteCheckpoint, n/2)
			c.slow(w, proxies)
			w.ended(starter)
			w.quiet()
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

func slowed(d time.Duration) func(*flowWorld, []*testenv.Proxy) {
	return func(w *flowWorld, workers []*testenv.Proxy) { delayed(d)(w.taskWorld, workers) }
}

// Fault 19: the answer that gives a worker a task is lost on its way, again and again. The worker finds it among what it holds; nobody else has to.
func TestWorkflowFault19ReadCutOff(t *testing.T) {
	t.Parallel()
	w := newFlowWorld(t, embedded.RedisOptions{})
	p := w.through()
	worker := w.worker(flowConfig{URL: p.URL, Lease: 6 * time.Second})
	rounds, lost := scaled(15, 500), 0
	var slowest time.Duration
	for i := range rounds {
		dials := p.Dials()
		p.LoseReplies(1) // the worker waits: what comes next is, mostly, the task
		begin := time.Now()
		w.beginAndEnd("ghost", i)
		slowest = max(slowest, time.Since(begin))
		lost += min(p.Dials()-dials, 1)
		p.LoseReplies(0)
	}
	t.Logf("%d of %d times a connection was lost with the answer, an instance took up to %v", lost, rounds, slowest.Round(time.Millisecond))
	if lost == 0 {
		t.Error("no answer was lost")
	}
	if slowest > time.Minute {
		t.Errorf("I6: %v", slowest)
	}
	w.verify()
	stillUp(t, worker)
}
