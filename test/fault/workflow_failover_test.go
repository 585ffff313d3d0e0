package fault_test

import (
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/test/rig"
	"github.com/taktworks/takt/workflow"
)

// flowFailover runs a load of instances over the end of a master, that of instance probe. Nothing that was accepted is lost, for everything waits for replicas.
func (w *flowWorld) flowFailover(probe string, end, again func()) {
	w.t.Helper()
	n := scaled(60, 5000)
	workers := []*rig.Process{w.worker(flowConfig{}), w.worker(flowConfig{})}
	starter := w.starter(flowConfig{Name: "kept", Count: n, Every: 5 * time.Millisecond, Plan: everything})
	w.until(noteCheckpoint, n/2+w.rand.IntN(n))
	told := w.awaited("awaited", 12)
	begin := time.Now()
	end()
	startFlow(w.ctx(), w.hasty, w.ledger, probe, flowPlan{Activities: 1}) // no replica is there to acknowledge it
	if _, _, err := w.hasty.Await(w.ctx(), workflow.Instance{ID: probe, Execution: "x"}); err != nil {
		w.t.Fatal(err)
	}
	took := time.Since(begin)
	again()
	w.t.Logf("an instance is started and done again %v after the master was gone", took.Round(time.Millisecond))
	if took > time.Minute {
		w.t.Errorf("I6: it took %v until an instance was done again", took)
	}
	w.ended(starter)
	for id, err := range told() {
		if err != nil {
			w.t.Errorf("await %s: %v", id, err)
		}
	}
	w.verify()
	stillUp(w.t, workers...)
}

// shardOf is the shard of an instance.
func (w *flowWorld) shardOf(id string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never fails
	return int(h.Sum32() % uint32(w.options.Shards))
}

// awaited starts instances with a timer of some seconds and awaits their ends, from before the failover until after it.
func (w *flowWorld) awaited(name string, n int) (errs func() map[string]error) {
	w.t.Helper()
	type end struct {
		id  string
		err error
	}
	ends := make(chan end, n)
	for i := range n {
		id := fmt.Sprintf("%s-%d", name, i)
		startFlow(w.ctx(), w.flows, w.ledger, id, flowPlan{Activities: 1, Timer: 3 * time.Second})
		ctx := w.ctx()
		go func() {
			_, _, err := w.flows.Await(ctx, workflow.Instance{ID: id, Execution: "x"})
			ends <- end{id, err}
		}()
	}
	return func() map[string]error {
		all := make(map[string]error)
		for range n {
			e := <-ends
			all[e.id] = e.err
		}
		return all
	}
}

// Fault 8: Sentinel makes a replica the master, since the master is killed, or hangs and comes back.
func TestWorkflowFault8SentinelFailover(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(*testing.T, *testenv.Node) (again func()){"killed": killed, "hangs": hangs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testenv.StartSentinels(t)
			w := newFlowWorldOn(t, s.RedisServer, 1, len(s.Replicas))
			var again func()
			w.flowFailover("probe", func() { again = gone(t, s.Master) }, func() {
				s.AwaitFailover(t)
				again()
			})
		})
	}
}

// Fault 9: of three masters with instances, sub-workflows and gates on all of them one is killed, or hangs and comes back; its replica takes over.
func TestWorkflowFault9ClusterFailover(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(*testing.T, *testenv.Node) (again func()){"killed": killed, "hangs": hangs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testenv.StartCluster(t)
			w := newFlowWorldOn(t, c.RedisServer, 12, 1)
			owners := make(map[int]int)
			for n := range w.options.Shards {
				owners[c.Owner(t, fmt.Sprintf("{flows-%d}", n))]++
			}
			if len(owners) != 3 {
				t.Fatalf("shards by master: %v", owners)
			}
			victim := w.rand.IntN(3)
			probe := ""
			for i := 0; probe == "" || c.Owner(t, fmt.Sprintf("{flows-%d}", w.shardOf(probe))) != victim; i++ {
				probe = fmt.Sprint("probe-", i)
			}
			var again func()
			w.flowFailover(probe, func() { again = gone(t, c.Nodes[victim]) }, func() {
				c.Nodes[victim+3].AwaitRole(t, "master")
				again()
				c.Nodes[victim].AwaitRole(t, "slave") // else whoever asks any node may ask one that is not there
			})
		})
	}
}
