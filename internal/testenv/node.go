package testenv

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/embedded"
)

// Node is one of several servers that belong together.
type Node struct {
	process
	Addr   string         // host:port
	Client rueidis.Client // to this server alone, whatever it says of the others; closed when the test ends
}

// startNode starts a server with these configuration lines in a directory of the test.
func startNode(t testing.TB, config ...string) *Node {
	t.Helper()
	choose(t)
	o := embedded.RedisOptions{Dir: t.TempDir(), Config: append([]string{"repl-diskless-sync-delay 0", "repl-ping-replica-period 1"}, config...)}
	if Logs() {
		o.Stdout = &testLog{t: t, name: "redis"}
	}
	s, err := embedded.StartRedis(Within(t), o)
	return newNode(t, s, err)
}

func newNode(t testing.TB, s *embedded.Server, err error) *Node {
	t.Helper()
	Must(t, err)
	end(t, s)
	n := &Node{process: process{s}, Addr: strings.TrimPrefix(s.URL(), "redis://")}
	n.Client, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{n.Addr}, DisableCache: true, ForceSingleClient: true, DisableRetry: true})
	Must(t, err)
	t.Cleanup(n.Client.Close)
	return n
}

// end kills and clears away s when the test ends.
func end(t testing.TB, s *embedded.Server) {
	t.Cleanup(func() {
		if err := s.Kill(); err != nil { // in memory or in the test's own directory: nothing to save
			t.Error(err)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// process is a server that a test may end and stop.
type process struct{ Server *embedded.Server }

// Kill ends the server at once, as kill -9 does.
func (p process) Kill(t testing.TB) {
	t.Helper()
	Must(t, p.Server.Kill())
}

// Pause stops the process of the server without ending it, until Continue. Connections stay open, and what is sent meanwhile is executed afterwards.
func (p process) Pause(t testing.TB) { p.signal(t, syscall.SIGSTOP) }

// Continue undoes Pause.
func (p process) Continue(t testing.TB) { p.signal(t, syscall.SIGCONT) }

func (p process) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	Must(t, syscall.Kill(p.Server.PID(), sig))
}

// Do runs a command on this server. The reply to a question that the server does not answer within Patience is an error.
func (n *Node) Do(t testing.TB, args ...string) rueidis.RedisResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	return n.Client.Do(ctx, n.Client.B().Arbitrary(args...).Build())
}

// must is Do with the reply as text.
func (n *Node) must(t testing.TB, args ...string) string {
	t.Helper()
	r := n.Do(t, args...)
	if err := r.Error(); err != nil {
		t.Fatalf("%s: %q: %v", n.Addr, args, err)
	}
	text, _ := r.ToString() // "" for what is no text
	return text
}

// Says reports whether the reply to a command holds text; without a reply it does not.
func (n *Node) Says(t testing.TB, text string, args ...string) bool {
	t.Helper()
	reply, err := n.Do(t, args...).ToString()
	return err == nil && strings.Contains(reply, text)
}

// AwaitRole waits until n is a "master", or a "slave" that has what its master has.
func (n *Node) AwaitRole(t testing.TB, role string) {
	t.Helper()
	Eventually(t, n.Addr+" is a "+role, func() bool { return n.is(t, role) })
}

func (n *Node) is(t testing.TB, role string) bool {
	t.Helper()
	return n.Says(t, "role:"+role, "INFO", "replication") && (role == "master" || n.Says(t, "master_link_status:up", "INFO", "replication"))
}
