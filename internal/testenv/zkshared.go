package testenv

import (
	"slices"
	"sync"
	"testing"
)

// sharedZooKeeper is the one server that outlives its tests, for starting one takes a hundred times as long as a Redis.
var sharedZooKeeper struct {
	mu     sync.Mutex
	server *ZooKeeperServer // nil until somebody needs it
}

// SharedZooKeeper is the server of this test program for tests that only store and watch, each below a Path of its own.
// WithShared in TestMain ends it. Who kills a server, restarts it or pauses it takes ZooKeeper instead.
func SharedZooKeeper(t testing.TB) *ZooKeeperServer {
	t.Helper()
	s := &sharedZooKeeper
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		z, err := startZooKeeper(Within(t), nil)
		Must(t, err)
		s.server = z
	}
	z := s.server
	t.Cleanup(func() { z.checkPaths(t) })
	return z
}

func (z *ZooKeeperServer) checkPaths(t testing.TB) {
	t.Helper()
	names, _, err := z.Client.Children("/")
	if err != nil {
		t.Error(err)
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, name := range names {
		if name != "zookeeper" && !slices.Contains(z.paths, "/"+name) {
			t.Errorf("testenv: node /%s is outside the paths of the tests %q: make one with Path", name, z.paths)
		}
	}
}

// Main is a *testing.M, or one with something around it.
type Main interface{ Run() int }

// WithShared ends shared servers when all tests of a package have run:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.WithShared(m)) }
func WithShared(m Main) Main { return withShared{m} }

type withShared struct{ m Main }

func (w withShared) Run() int {
	code := w.m.Run()
	if z := sharedZooKeeper.server; z != nil {
		if err := z.end(); err != nil && code == 0 {
			code = 1
		}
	}
	return code
}
