package redisboard_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/board/redisboard"
	"github.com/taktworks/takt/internal/msgpack/oslo"
	"github.com/taktworks/takt/internal/testenv"
)

var patience = testenv.Patience

// bench is one namespace on a server, with a board behind a proxy.
type bench struct {
	*testing.T
	*testenv.RedisServer
	ctx       context.Context
	namespace string
	b         *board.Board
	proxy     *testenv.Proxy
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return benchOn(t, testenv.Redis(t), "")
}

// benchOn works on a server that is there; namespace "" is a new one.
func benchOn(t *testing.T, server *testenv.RedisServer, namespace string) *bench {
	t.Helper()
	if namespace == "" {
		namespace = server.Prefix(t)
	}
	w := &bench{T: t, RedisServer: server, ctx: t.Context(), namespace: namespace}
	w.b, w.proxy = w.open()
	return w
}

// open opens the board once more, through a proxy of its own.
func (w *bench) open() (*board.Board, *testenv.Proxy) {
	w.Helper()
	p := testenv.CountingProxy(w.T, w.Addr)
	b, err := board.Open(w.ctx, "redis://"+p.Addr+"?namespace="+w.namespace)
	w.must(err)
	w.closing(b)
	return b, p
}

// store opens the board as a driver.
func (w *bench) store() *redisboard.Store {
	w.Helper()
	s, err := redisboard.Open(w.ctx, driver.Connect{URL: w.URL + "?namespace=" + w.namespace, Log: slog.New(slog.DiscardHandler)})
	w.must(err)
	w.Cleanup(func() { s.Close() })
	return s
}

func (w *bench) closing(b *board.Board) {
	w.Cleanup(func() {
		if err := b.Close(); err != nil {
			w.Errorf("close: %v", err)
		}
	})
}

func (w *bench) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *bench) is(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Fatalf("error is %v, want %v", err, want)
	}
}

func as[E error](w *bench, err error) E {
	w.Helper()
	var e E
	if !errors.As(err, &e) {
		w.Fatalf("error is %v (%T), want a %T", err, err, e)
	}
	return e
}

// key is a key of the namespace.
func (w *bench) key(name string) string { return w.namespace + ":" + name }

// do sends a command past the board, as TaskFlow does.
func (w *bench) do(args ...string) string {
	w.Helper()
	m, err := w.Client.Do(w.ctx, w.Client.B().Arbitrary(args...).Build()).ToMessage()
	if err != nil {
		w.Fatalf("%q: %v", args, err)
	}
	if n, err := m.ToInt64(); err == nil {
		return strconv.FormatInt(n, 10)
	}
	s, _ := m.ToString()
	return s
}

// post posts one by its name.
func (w *bench) post(name string) *board.Posting {
	w.Helper()
	p, err := w.b.Post(w.ctx, board.Draft{Name: name})
	w.must(err)
	return p
}

func (w *bench) claim(b *board.Board, p *board.Posting, o board.ClaimOptions) *board.Claim {
	w.Helper()
	c, err := b.Claim(w.ctx, p, "w", o)
	w.must(err)
	return c
}

func (w *bench) find(p *board.Posting) board.Row {
	w.Helper()
	r, err := w.b.Find(w.ctx, p.Ref)
	w.must(err)
	return r
}

func (w *bench) count() int {
	w.Helper()
	n, err := w.b.Count(w.ctx)
	w.must(err)
	return n
}

// within is a context for what must not take longer.
func (w *bench) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(w.ctx, d)
	w.Cleanup(cancel)
	return ctx
}

func (w *bench) done(ctx context.Context, what string) {
	w.Helper()
	testenv.Take(w, what, ctx.Done())
}

// soon waits until ok, which asks what tells nobody.
func (w *bench) soon(what string, ok func() bool) {
	w.Helper()
	testenv.Eventually(w, what, ok)
}

// foreign puts a posting on the board as TaskFlow does: two commands, and nobody is told.
func (w *bench) foreign(uuid string, sequence int64) {
	w.Helper()
	raw, err := oslo.Append(nil, oslo.Map{
		{Key: "uuid", Value: uuid}, {Key: "name", Value: "foreign"}, {Key: "priority", Value: "NORMAL"}, {Key: "created_on", Value: time.Now()},
		{Key: "details", Value: oslo.Map{}}, {Key: "sequence", Value: sequence},
	})
	w.must(err)
	w.do("HSET", w.key("listings"), uuid, string(raw))
}
