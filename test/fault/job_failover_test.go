package fault_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/test/rig"
)

// detached cuts both replicas off for half a second, which Sentinel does not mend so soon, and kills the master then: what it took meanwhile only it had.
func detached(t *testing.T, s *testenv.Sentinels) (again func()) {
	t.Helper()
	for _, r := range s.Replicas {
		testenv.Must(t, r.Do(t, "REPLICAOF", "127.0.0.1", "1").Error())
	}
	select {
	case <-time.After(500 * time.Millisecond): // the length is the fault
	case <-t.Context().Done():
	}
	return killed(t, s.Master)
}

// failover is what a test of job orders knows of the end of a master.
type failover struct {
	*rig.World
	t      *testing.T
	m      *rig.MES
	serves []*rig.Process
	sent   sync.WaitGroup
	orders []*isa95.JobOrder
}

// beginFailover starts two instances on the store, which forgets what it took or not, and sends so many orders. It returns when some are under way.
func beginFailover(t *testing.T, store *testenv.RedisServer, orders int, forgets bool, flags ...string) *failover {
	t.Helper()
	w := rig.New(t, rig.Options{Store: store, WorkerTTL: 10 * time.Second, Takes: "5ms..20ms", Commands: forgets, Plain: true})
	w.Forgets = forgets
	f := &failover{World: w, t: t}
	for _, instance := range []string{"a", "b"} {
		f.serves = append(f.serves, w.Serve(instance, flags...))
	}
	f.m = w.MES()
	f.orders = rig.Orders("JO", orders)
	all := f.orders // more are added
	f.sent.Go(func() { f.m.OrderSteadily(all, 40) })
	f.m.Until("some orders are taken, and more are on their way", func(l rig.Ledger) bool { return len(l.Accepted) >= orders/4 })
	w.UntilExecuted(1 + w.Rand.IntN(orders/4))
	return f
}

// back measures how long after begin an order of this name is taken, and judges it by a limit that only a hang exceeds.
func (f *failover) back(name string, begin time.Time, aim time.Duration) {
	f.t.Helper()
	probe := rig.Orders(name, 1)
	f.m.Order(probe)
	f.orders = append(slices.Clip(f.orders), probe...)
	took := time.Since(begin)
	f.t.Logf("an order is taken %v after the fault, the aim is %v", took.Round(10*time.Millisecond), aim)
	if took > time.Minute {
		f.t.Errorf("I6: it took %v until an order was taken again, the aim is %v", took, aim)
	}
}

// done says that each order has its one result, and that nothing was aborted or done twice. Where Redis forgets, the MES hears of each order that was lost and orders
// it again; else none is lost.
func (f *failover) done() {
	f.t.Helper()
	f.sent.Wait()
	f.m.UntilDone(len(f.orders))
	lost := f.m.Ledger().Lost
	f.t.Logf("%d of %d orders were lost, and ordered again", len(lost), len(f.orders))
	if len(lost) > 0 && !f.Forgets {
		f.t.Errorf("I1: reported as lost: %v", lost)
	}
	f.Verify(f.m)
	stillUp(f.t, append(f.serves, f.Station())...)
}

// Fault 8: Sentinel makes a replica the master, since the master is killed, or hangs and comes back, or is killed when both replicas have lagged for half a second.
// With a wait for one replica no order is lost; without, each order that was lost is reported, and is done when it is sent again.
func TestFault8SentinelFailover(t *testing.T) {
	t.Parallel()
	kill := func(t *testing.T, s *testenv.Sentinels) func() { return killed(t, s.Master) }
	for name, c := range map[string]struct {
		orders int
		wait   int // for so many replicas
		gone   func(*testing.T, *testenv.Sentinels) (again func())
	}{
		"killed":                 {400, 1, kill},
		"hangs":                  {120, 1, func(t *testing.T, s *testenv.Sentinels) func() { return hangs(t, s.Master) }},
		"replicas lag":           {400, 1, detached},
		"replicas lag, no waits": {400, 0, detached},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testenv.StartSentinels(t)
			f := beginFailover(t, s.RedisServer, c.orders, c.wait == 0, "--redis-wait", fmt.Sprint(c.wait))
			begin := time.Now()
			again := c.gone(t, s)
			f.back("PROBE", begin, (testenv.DownAfter+3000)*time.Millisecond)
			s.AwaitFailover(t)
			again()
			f.done()
		})
	}
}

// Fault 9: the master that has the job orders is killed, and its replica takes over.
func TestFault9ClusterFailover(t *testing.T) {
	t.Parallel()
	c := testenv.StartCluster(t)
	if r := rig.Run(t, "serve", "--redis", c.URL, "--mqtt", "mqtt://127.0.0.1:1", "--prefix", "plant", "--data", t.TempDir()); r.Code == 0 || !strings.Contains(r.Stderr, "--prefix {plant}") {
		t.Errorf("a prefix without a tag: exit status %d\n%s", r.Code, r.Stderr)
	}
	f := beginFailover(t, c.RedisServer, 120, false, "--redis-wait", "1")
	owner := c.Owner(t, f.Prefix)
	begin := time.Now()
	again := killed(t, c.Nodes[owner])
	c.Nodes[owner+3].AwaitRole(t, "master")
	again() // else there is no replica to wait for
	f.back("PROBE", begin, (testenv.NodeTimeout+4000)*time.Millisecond)
	c.Nodes[owner].AwaitRole(t, "slave")
	f.done()
}

// Fault 9: the slot with all keys of Takt moves to another master three times under load, key by key.
func TestFault9SlotMigration(t *testing.T) {
	t.Parallel()
	c := testenv.StartCluster(t)
	f := beginFailover(t, c.RedisServer, 120, false)
	slot, at := c.Slot(t, f.Prefix), c.Owner(t, f.Prefix)
	for n := range 3 {
		next := (at + 1 + f.Rand.IntN(2)) % 3
		c.Move(t, slot, c.Nodes[at], c.Nodes[next])
		at = next
		f.back(fmt.Sprint("MOVED-", n), time.Now(), (testenv.NodeTimeout+4000)*time.Millisecond)
	}
	f.done()
}
