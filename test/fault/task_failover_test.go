package fault_test

import (
	"context"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/test/rig"
)

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
		if err := n.Server.Restart(rig.Context(t)); err != nil { // empty, and a replica
			t.Fatal(err)
		}
	}
}

func hangs(t *testing.T, n *testenv.Node) (again func()) {
	n.Pause(t)
	return func() { n.Continue(t) }
}
