package fault_test

import (
	"context"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
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

// failover runs a load of tasks over the end of a master and checks what is left of it. again brings that back when another is the master.
// Half of the submissions wait for all replicas: none of those may be lost, whichever takes over, and whether the master is dead or only thought to be. The others
// may, as far as they had not been copied.
func (w *taskWorld) failover(replicas int, aim time.Duration, end, again func()) {
	w.t.Helper()
	w.undone, w.anyRun = true, true
	tasks := scaled(400, 20_000)
	workers := []*rig.Process{w.worker(taskConfig{}), w.worker(taskConfig{})}
	load := taskConfig{Count: tasks, Every: 5 * time.Millisecond, Later: true, Work: taskWork{Takes: 5 * time.Millisecond}}
	load.Name = lossy
	w.produce(load)
	load.Name, load.Keyed, load.Replicas = "kept", true, replicas
	w.produce(load)
	w.until(noteEffect, tasks/4+w.rand.IntN(tasks/4))
	for _, p := range workers {
		w.fault(p)
	}
	begin := time.Now()
	end()
	took := w.probe("probe", begin)
	again()
	w.t.Logf("a task is submitted and done again %v after the master was gone", took.Round(time.Millisecond))
	if took > time.Minute {
		w.t.Errorf("I6: it took %v until a task was done again, the aim is %v", took, aim)
	}
	w.wait("everything submitted", func() bool {
		w.history.refresh(w.t)
		return len(w.accepted("kept")) == tasks && len(w.accepted(lossy))+w.history.tried(lossy) == tasks
	})
	w.verify()
	stillUp(w.t, workers...)
}

// probe submits a task and waits for its result, over all errors and again if a failover lost it, and says how long it took since begin. Where a master answers at
// begin it says nothing of a failover.
func (w *taskWorld) probe(name string, begin time.Time) time.Duration {
	w.t.Helper()
	w.wait("a task is done", func() bool {
		h, err := theWork.Submit(w.ctx(), w.client, taskWork{N: lossy + name}, task.Key(name))
		if err != nil {
			return false
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
		defer cancel()
		if _, err = h.Await(ctx); err != nil {
			return false
		}
		w.ledger.note(taskNote{Event: noteOK, Work: lossy + name, Task: h.ID})
		return true
	})
	return time.Since(begin)
}

// Fault 8, Sentinel makes a replica the master, since the master is killed, or hangs and comes back, or although it lives.
func TestTaskFault8SentinelFailover(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(*testing.T, *testenv.Sentinels) (again func()){
		"killed":   func(t *testing.T, s *testenv.Sentinels) func() { return killed(t, s.Master) },
		"hangs":    func(t *testing.T, s *testenv.Sentinels) func() { return hangs(t, s.Master) },
		"replaced": func(t *testing.T, s *testenv.Sentinels) func() { s.Replace(t); return func() {} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testenv.StartSentinels(t)
			w := newTaskWorldOn(t, s.RedisServer)
			var again func()
			w.failover(len(s.Replicas), (testenv.DownAfter+3000)*time.Millisecond, func() { again = gone(t, s) }, func() {
				s.AwaitFailover(t)
				again()
			})
		})
	}
}

// Fault 9, the master that has the queue is killed, or hangs and comes back; its replica takes over.
func TestTaskFault9ClusterFailover(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(*testing.T, *testenv.Node) (again func()){"killed": killed, "hangs": hangs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testenv.StartCluster(t)
			w := newTaskWorldOn(t, c.RedisServer)
			owner := c.Owner(t, w.prefix)
			var again func()
			w.failover(1, (testenv.NodeTimeout+4000)*time.Millisecond, func() { again = gone(t, c.Nodes[owner]) }, func() {
				c.Nodes[owner+3].AwaitRole(t, "master")
				again()
				c.Nodes[owner].AwaitRole(t, "slave") // else whoever asks any node may ask one that is not there
			})
		})
	}
}

func killed(t *testing.T, n *testenv.Node) (again func()) {
	n.Kill(t)
	return func() {
		testenv.Must(t, n.Server.Restart(testenv.Within(t))) // empty, and a replica
	}
}

func hangs(t *testing.T, n *testenv.Node) (again func()) {
	n.Pause(t)
	return func() { n.Continue(t) }
}
