package redisboard_test

import (
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/board/boardtest"
	"github.com/taktworks/takt/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, testenv.LibraryGoroutines()...) }

// env is one server, on which each test has a namespace. Every board has a proxy of its own.
type env struct {
	*testenv.RedisServer
	mu      sync.Mutex
	proxies map[*board.Board]*testenv.Proxy
	spaces  map[*board.Board]string
}

func newEnv(t *testing.T) *env {
	return &env{RedisServer: testenv.Redis(t), proxies: map[*board.Board]*testenv.Proxy{}, spaces: map[*board.Board]string{}}
}

// open opens a board of a namespace.
func (e *env) open(t *testing.T, namespace string) *board.Board {
	t.Helper()
	p := testenv.CountingProxy(t, e.Addr)
	b, err := board.Open(t.Context(), strings.Replace(e.URL, e.Addr, p.Addr, 1)+"?namespace="+namespace)
	testenv.Must(t, err)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.proxies[b], e.spaces[b] = p, namespace
	return b
}

func (e *env) proxy(b *board.Board) *testenv.Proxy {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.proxies[b]
}

func (e *env) space(b *board.Board) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.spaces[b]
}

// The contract of boards, on Redis.
func TestBoard(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	boardtest.Run(t, boardtest.Kind{
		New: func(t *testing.T) func() *board.Board {
			namespace := e.Prefix(t)
			return func() *board.Board { return e.open(t, namespace) }
		},
		Expires:  true,
		Entities: true,
		Lose: func(_ *testing.T, b *board.Board) {
			e.proxy(b).Refuse(true)
			e.proxy(b).Cut()
		},
		Spoil: func(t *testing.T, b *board.Board) string {
			const field = "poison"
			c := e.Client
			testenv.Must(t, c.Do(t.Context(), c.B().Hset().Key(e.space(b)+":listings").FieldValue().FieldValue(field, "\x81\x01\x02").Build()).Error())
			return field
		},
	})
}
