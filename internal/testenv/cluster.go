package testenv

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/taktworks/takt/internal/redis"
)

// NodeTimeout is after how many milliseconds the nodes of a Cluster take a silent one for dead. A busy machine keeps a living one silent for a second, and now and then for longer.
const NodeTimeout = 2000

const (
	calmTimeout  = 60_000 // where no node dies
	clusterSlots = 16384
	masters      = 3
)

// Cluster is a cluster of one test. Its URL names all nodes and its Client finds the right one; prefixes of it are tagged.
type Cluster struct {
	*RedisServer         // without a Server: kill one of the nodes
	Nodes        []*Node // three masters with a third of the slots each; then the replica of each, in the same order
}

// RedisCluster starts a cluster of three masters. It takes two seconds to get ready.
func RedisCluster(t testing.TB) *RedisServer {
	t.Helper()
	c := startCluster(t, masters)
	c.nodeTimeout(t, calmTimeout)
	return c.RedisServer
}

// StartCluster starts a cluster of three masters with a replica each, for tests that kill some. It takes three to five seconds to get ready.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	return startCluster(t, 2*masters)
}

func startCluster(t testing.TB, n int) *Cluster {
	t.Helper()
	c := &Cluster{Nodes: make([]*Node, n)}
	var addrs []string
	for i := range c.Nodes {
		c.Nodes[i] = startNode(t, "cluster-enabled yes", fmt.Sprintf("cluster-node-timeout %d", NodeTimeout), "cluster-replica-validity-factor 0")
		addrs = append(addrs, c.Nodes[i].Addr)
	}
	for i, node := range c.Nodes {
		node.must(t, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i < masters {
			node.must(t, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*clusterSlots/masters), strconv.Itoa((i+1)*clusterSlots/masters-1))
		}
		if i > 0 {
			host, port, _ := strings.Cut(node.Addr, ":")
			c.Nodes[0].must(t, "CLUSTER", "MEET", host, port)
		}
	}
	c.agree(t, func(node *Node) bool {
		return node.Says(t, fmt.Sprintf("cluster_known_nodes:%d\r", n), "CLUSTER", "INFO")
	})
	for i, node := range c.Nodes[masters:] {
		node.must(t, "CLUSTER", "REPLICATE", c.Nodes[i].ID(t))
	}
	for _, node := range c.Nodes[masters:] {
		node.AwaitRole(t, "slave")
	}
	c.agree(t, func(node *Node) bool {
		return node.Says(t, "cluster_state:ok", "CLUSTER", "INFO") &&
			strings.Count(node.must(t, "CLUSTER", "NODES"), "slave") == n-masters
	})
	c.RedisServer = &RedisServer{URL: "redis://" + strings.Join(addrs, ","), cluster: true}
	c.Client = c.Connect(t, redis.Options{})
	t.Cleanup(func() { c.checkKeys(t) })
	return c
}

// nodeTimeout changes the time from NodeTimeout, with which the nodes have found each other soon.
func (c *Cluster) nodeTimeout(t testing.TB, milliseconds int) {
	t.Helper()
	for _, node := range c.Nodes {
		node.must(t, "CONFIG", "SET", "cluster-node-timeout", strconv.Itoa(milliseconds))
	}
}

// agree waits until ok holds on every node.
func (c *Cluster) agree(t testing.TB, ok func(*Node) bool) {
	t.Helper()
	for _, node := range c.Nodes {
		Eventually(t, node.Addr+" knows the others", func() bool { return ok(node) })
	}
}

// ID is the node's name within its cluster.
func (n *Node) ID(t testing.TB) string {
	t.Helper()
	return n.must(t, "CLUSTER", "MYID")
}

// Slot is the slot of a key.
func (c *Cluster) Slot(t testing.TB, key string) int {
	t.Helper()
	slot, err := c.Nodes[0].Do(t, "CLUSTER", "KEYSLOT", key).AsInt64()
	Must(t, err)
	return int(slot)
}

// Owner is the master of a key by the slots that it started with: node i; its replica is node i+3.
func (c *Cluster) Owner(t testing.TB, key string) int {
	t.Helper()
	return (c.Slot(t, key)*masters + masters - 1) / clusterSlots
}

// Move moves a slot from one master to another as redis-cli does, while clients use it: a few keys at a time. All nodes must live; when Move
// returns they know of it, so that a replica of the new owner that takes over at once takes the slot, too.
func (c *Cluster) Move(t testing.TB, slot int, from, to *Node) {
	t.Helper()
	number, source, target := strconv.Itoa(slot), from.ID(t), to.ID(t)
	host, port, _ := strings.Cut(to.Addr, ":")
	to.must(t, "CLUSTER", "SETSLOT", number, "IMPORTING", source)
	from.must(t, "CLUSTER", "SETSLOT", number, "MIGRATING", target)
	for {
		keys, err := from.Do(t, "CLUSTER", "GETKEYSINSLOT", number, "3").AsStrSlice()
		Must(t, err)
		if len(keys) == 0 {
			break
		}
		from.must(t, append([]string{"MIGRATE", host, port, "", "0", strconv.Itoa(calmTimeout), "KEYS"}, keys...)...)
	}
	for _, node := range []*Node{to, from} { // the others hear of it
		node.must(t, "CLUSTER", "SETSLOT", number, "NODE", target)
	}
	c.agree(t, func(node *Node) bool { return node.knowsOwner(t, slot, target) })
}

// knowsOwner reports whether n takes the node with this name for the owner of a slot.
func (n *Node) knowsOwner(t testing.TB, slot int, name string) bool {
	t.Helper()
	for line := range strings.Lines(strings.TrimPrefix(n.must(t, "CLUSTER", "NODES"), "txt:")) { // which is what a verbatim text begins with
		fields := strings.Fields(line)
		if fields[0] != name {
			continue
		}
		return slices.ContainsFunc(fields[8:], func(served string) bool { // after what is known of the node: 0-5460 7000 [7001-<-...
			first, last, isRange := strings.Cut(served, "-")
			low, err := strconv.Atoi(first)
			if !isRange {
				return err == nil && low == slot
			}
			high, err2 := strconv.Atoi(last)
			return err == nil && err2 == nil && low <= slot && slot <= high
		})
	}
	return false
}

// LibraryGoroutines are those that the Redis library leaves behind for five seconds when the nodes of a cluster have changed, for goleak.
func LibraryGoroutines() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"), // asks for the slots again in a moment
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
	}
}
