package testenv

import (
	"context"
	"slices"
	"sync"
	"testing"
)

// sharedZooKeeper is the one server that outlives its tests, for starting one takes a hundred times as long as a Redis.
var sharedZooKeeper shared

type shared struct {
	mu     sync.Mutex
	users  int
	server *ZooKeeperServer // nil until somebody needs it
}

// SharedZooKeeper is the server of this test program for tests that only store and watch, each below a Path of its own.
// It ends with the last test that uses it; WithShared in TestMain keeps it for those that follow. Who kills a server,
// restarts it or pauses it takes ZooKeeper instead.
func SharedZooKeeper(t testing.TB) *ZooKeeperServer {
	t.Helper()
	return sharedZooKeeper.use(t)
}

func (s *shared) use(t testing.TB) *ZooKeeperServer {
	t.Helper()
	s.join()
	t.Cleanup(func() {
		if err := s.leave(); err != nil {
			t.Error(err)
		}
	})
	z, err := s.start(Within(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { z.checkPaths(t) })
	return z
}

func (s *shared) join() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users++
}

func (s *shared) leave() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users > 0 || s.server == nil {
		return nil
	}
	z := s.server
	s.server = nil
	return z.end()
}

func (s *shared) start(ctx context.Context) (*ZooKeeperServer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.server == nil {
		s.server, err = startZooKeeper(ctx, nil)
	}
	return s.server, err
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

// WithShared keeps shared servers until all tests of a package have run:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.WithShared(m)) }
func WithShared(m Main) Main { return withShared{m} }

type withShared struct{ m Main }

func (w withShared) Run() int {
	sharedZooKeeper.join()
	code := w.m.Run()
	if err := sharedZooKeeper.leave(); err != nil && code == 0 {
		code = 1
	}
	return code
}
