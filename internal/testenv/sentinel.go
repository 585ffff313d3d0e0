package testenv

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/redis"
)

// DownAfter is after how many milliseconds sentinels take a silent master for dead. A busy machine keeps a living one silent for a second.
const DownAfter = 2000

// StartReplica starts a replica of the master at addr, and waits until it has what that has.
func StartReplica(t testing.TB, addr string) *Node {
	t.Helper()
	host, port, _ := strings.Cut(addr, ":")
	n := startNode(t, fmt.Sprintf("replicaof %s %s", host, port))
	n.AwaitRole(t, "slave")
	return n
}

// Sentinels are a master with two replicas, and three sentinels that watch them. Its URL names the sentinels, its Client follows the master.
type Sentinels struct {
	*RedisServer // without a Server: kill one of those below
	Master       *Node
	Replicas     []*Node
	Sentinels    []*Node
}

// StartSentinels starts a master, its replicas and three sentinels. It takes two seconds until they know each other.
func StartSentinels(t testing.TB) *Sentinels {
	t.Helper()
	s := &Sentinels{Master: startNode(t)}
	for range 2 {
		s.Replicas = append(s.Replicas, StartReplica(t, s.Master.Addr))
	}
	host, port, _ := strings.Cut(s.Master.Addr, ":")
	config := fmt.Sprintf("sentinel monitor plant %s %s 2\nsentinel down-after-milliseconds plant %d\nsentinel failover-timeout plant 5000\n", host, port, DownAfter)
	var addrs []string
	for range 3 {
		server, err := startSentinel(t, config)
		s.Sentinels = append(s.Sentinels, newNode(t, server, err))
		addrs = append(addrs, s.Sentinels[len(s.Sentinels)-1].Addr)
	}
	for _, one := range s.Sentinels {
		Eventually(t, one.Addr+" knows the others", func() bool {
			known, err := one.Do(t, "SENTINEL", "MASTER", "plant").AsStrMap()
			return err == nil && known["num-slaves"] == "2" && known["num-other-sentinels"] == "2" && known["flags"] == "master"
		})
	}
	s.RedisServer = &RedisServer{URL: "redis+sentinel://" + strings.Join(addrs, ",") + "/plant"}
	s.Client = s.Connect(t, redis.Options{})
	t.Cleanup(func() { s.checkKeys(t) })
	return s
}

// StartSentinel starts one sentinel with these lines of configuration, and returns its address.
func StartSentinel(t testing.TB, config string) (addr string) {
	t.Helper()
	server, err := startSentinel(t, config)
	Must(t, err)
	end(t, server)
	return strings.TrimPrefix(server.URL(), "redis://")
}

func startSentinel(t testing.TB, config string) (*embedded.Server, error) {
	t.Helper()
	path, _, err := embedded.Find("redis-server", "redis-server", "valkey-server")
	if err != nil {
		return nil, err
	}
	return embedded.Start(Within(t), embedded.Program{
		Kind: "sentinel", Path: path, Ready: "entinel ID is",
		Configure: func(_ string, port int) ([]string, string, error) {
			addr := fmt.Sprintf("127.0.0.1:%d", port)
			return []string{"bind 127.0.0.1", fmt.Sprintf("port %d", port), config}, "redis://" + addr, nil
		},
		Args: func(configFile string) []string { return []string{configFile, "--sentinel"} }, // it rewrites the file
	})
}

// Replace makes a replica the master although the master lives. Clients write to that, and the other replica acknowledges it, until they hear of it.
func (s *Sentinels) Replace(t testing.TB) {
	t.Helper()
	Eventually(t, "a sentinel begins a failover", func() bool { return s.Sentinels[0].Says(t, "OK", "SENTINEL", "FAILOVER", "plant") })
}

// AwaitFailover waits until one of the replicas is the master, the other follows it, and all sentinels name it. Before that, an old master that comes back is one
// still: to a sentinel that has not heard of the other, to the clients that ask this one, and, if it hung, to the replica that acknowledges what it writes.
func (s *Sentinels) AwaitFailover(t testing.TB) {
	t.Helper()
	Eventually(t, "a replica takes over", func() bool {
		return s.follows(t, s.Replicas[0], s.Replicas[1]) || s.follows(t, s.Replicas[1], s.Replicas[0])
	})
}

// follows says whether master is the master for everybody, and replica its replica.
func (s *Sentinels) follows(t testing.TB, replica, master *Node) bool {
	t.Helper()
	host, port, _ := strings.Cut(master.Addr, ":")
	if !master.is(t, "master") || !replica.is(t, "slave") || !replica.Says(t, "master_port:"+port+"\r", "INFO", "replication") {
		return false
	}
	for _, one := range s.Sentinels {
		if addr, err := one.Do(t, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "plant").AsStrSlice(); err != nil || !slices.Equal(addr, []string{host, port}) {
			return false
		}
	}
	return true
}
