//go:build interop

package zkboard_test

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/board/boardtest"
	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/board/zkboard"
	"github.com/taktworks/takt/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.WithShared(m)) }

// long is a session that is not lost on a busy machine.
const long = 30 * time.Second

// env is a server, with a proxy for each board on it.
type env struct {
	*testenv.ZooKeeperServer
	mu      sync.Mutex
	proxies map[*board.Board]*testenv.Proxy
	stores  map[*board.Board]*zkboard.Store
}

func shared(t *testing.T) *env { return newEnv(testenv.SharedZooKeeper(t)) }

func newEnv(z *testenv.ZooKeeperServer) *env {
	return &env{ZooKeeperServer: z, proxies: map[*board.Board]*testenv.Proxy{}, stores: map[*board.Board]*zkboard.Store{}}
}

// open opens the board in the folder path.
func (e *env) open(t *testing.T, path string, session time.Duration) *board.Board {
	t.Helper()
	p := testenv.CountingProxy(t, e.Addr)
	s := openStore(t, "zookeeper://"+p.Addr+path, session)
	b := board.New(s, nil)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.proxies[b], e.stores[b] = p, s
	return b
}

// board opens a board that the test closes.
func (e *env) board(t *testing.T, path string, session time.Duration) *board.Board {
	t.Helper()
	b := e.open(t, path, session)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func openStore(t *testing.T, url string, session time.Duration) *zkboard.Store {
	t.Helper()
	s, err := zkboard.Open(t.Context(), driver.Connect{URL: url, Session: session, Log: slog.New(slog.DiscardHandler)})
	testenv.Must(t, err)
	return s
}

func (e *env) proxy(b *board.Board) *testenv.Proxy {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.proxies[b]
}

func (e *env) store(b *board.Board) *zkboard.Store {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stores[b]
}

// expire ends the session of a board; the board cannot come back before it has.
func (e *env) expire(t *testing.T, b *board.Board) {
	t.Helper()
	p := e.proxy(b)
	p.Refuse(true)
	p.Cut()
	e.ExpireSession(t, e.store(b).Session())
	p.Refuse(false)
}

// create makes a node, as somebody else would.
func (e *env) create(t *testing.T, path, data string, flags int32) string {
	t.Helper()
	name, err := e.Client.Create(path, []byte(data), flags, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return name
}

// data reads a node.
func (e *env) data(t *testing.T, path string) (string, *zk.Stat) {
	t.Helper()
	data, stat, err := e.Client.Get(path)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return string(data), stat
}

// The contract of boards, on ZooKeeper.
func TestBoard(t *testing.T) {
	t.Parallel()
	e := shared(t)
	boardtest.Run(t, boardtest.Kind{
		New: func(t *testing.T) func() *board.Board {
			path := e.Path(t) + "/jobs"
			return func() *board.Board { return e.open(t, path, long) }
		},
		Lose: e.expire,
		Spoil: func(t *testing.T, b *board.Board) string {
			name := e.create(t, e.store(b).Path()+"/job", `{"uuid": `, zk.FlagSequence)
			return strings.TrimPrefix(name, e.store(b).Path()+"/")
		},
	})
}
