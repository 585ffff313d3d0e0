package fault_test

import (
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

func delayed(d time.Duration) func(*taskWorld, []*testenv.Proxy) {
	return func(_ *taskWorld, workers []*testenv.Proxy) {
		for _, p := range workers {
			p.Delay(d)
		}
	}
}
