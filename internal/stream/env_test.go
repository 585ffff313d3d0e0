package stream

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, testenv.LibraryGoroutines()...) }

var patience = testenv.Patience // only seen when something hangs

const (
	victimTTL   = 300 * time.Millisecond // of workers that are to be declared dead
	survivorTTL = 6 * time.Second        // of workers that are not, also on a busy machine; they sweep every two seconds
)

// env is one server with one stream.
type env struct {
	t      *testing.T
	srv    *testenv.RedisServer
	keys   keys.Keys
	stream string
}

func newEnv(t *testing.T, srv *testenv.RedisServer) *env {
	k := keys.New(srv.Prefix(t))
	return &env{t: t, srv: srv, keys: k, stream: k.SfcWork()}
}

// member is one worker with one group, as in a process of its own.
type member struct {
	e      *env
	rdb    rueidis.Client
	proxy  *testenv.Proxy
	worker *Worker

	stopGroup, stopWorker context.CancelFunc
	groupEnd, workerEnd   chan error
}

// join starts a worker with its own connection through its own proxy. g gets its stream, if it has none, name and worker.
func (e *env) join(id string, g Group) *member {
	e.t.Helper()
	return e.joinTTL(id, survivorTTL, g)
}

func (e *env) joinTTL(id string, ttl time.Duration, g Group) *member {
	e.t.Helper()
	return e.joinGroup(id, ttl, &g)
}

// joinGroup is for those who need the group while it runs.
func (e *env) joinGroup(id string, ttl time.Duration, g *Group) *member {
	e.t.Helper()
	m := &member{e: e, proxy: testenv.CountingProxy(e.t, e.srv.URL), groupEnd: make(chan error, 1), workerEnd: make(chan error, 1)}
	m.rdb = e.srv.Connect(e.t, redis.Options{URL: m.proxy.URL, DialTimeout: time.Second})
	m.worker = NewWorker(m.rdb, e.keys, id, ttl, testLog(e.t))
	if g.Streams == nil {
		g.Streams = []string{e.stream}
	}
	g.Name, g.Worker = "g", m.worker
	if g.Log == nil {
		g.Log = testLog(e.t)
	}
	workerCtx, stopWorker := context.WithCancel(context.Background())
	groupCtx, stopGroup := context.WithCancel(context.Background())
	m.stopGroup, m.stopWorker = stopGroup, stopWorker
	go func() { m.workerEnd <- m.worker.Run(workerCtx) }()
	go func() { m.groupEnd <- g.Run(groupCtx) }()
	e.t.Cleanup(m.leave)
	return m
}

// leave stops cleanly: the group first, then the heartbeat. A second call does nothing.
func (m *member) leave() {
	m.e.t.Helper()
	if m.stopGroup == nil {
		return
	}
	m.stopGroup()
	m.end(m.groupEnd)
	m.stopWorker()
	m.end(m.workerEnd)
	m.stopGroup = nil
}

func (m *member) end(c chan error) {
	m.e.t.Helper()
	select {
	case err := <-c:
		if err != nil {
			m.e.t.Error(err)
		}
	case <-time.After(patience):
		m.e.t.Fatal("Run does not end")
	}
}

// kill cuts the worker off for good: nothing it does reaches Redis from now on. Its goroutines are wound up at the end of the test.
func (m *member) kill() {
	m.proxy.Refuse(true)
	m.proxy.Cut()
}

// die is kill, and ends the heartbeat: others need not wait until it would end by itself, and so it may be that of a survivor.
func (m *member) die() {
	m.e.t.Helper()
	m.kill()
	m.e.srv.Expire(m.e.t, m.e.keys.Worker(m.worker.ID()))
}

func (e *env) do(words ...string) rueidis.RedisResult {
	e.t.Helper()
	return e.srv.Do(e.t, words...)
}

func (e *env) must(words ...string) rueidis.RedisResult {
	e.t.Helper()
	return e.srv.Must(e.t, words...)
}

func (e *env) add(values ...string) (ids []string) {
	e.t.Helper()
	for _, v := range values {
		id, err := e.must("XADD", e.stream, "*", "v", v).ToString()
		testenv.Must(e.t, err)
		ids = append(ids, id)
	}
	return ids
}

func (e *env) number(words ...string) int64 {
	e.t.Helper()
	return e.srv.Number(e.t, words...)
}

// running runs a worker and a group, with a connection of the caller's, until stop is called: the group ends first.
func (e *env) running(w *Worker, g *Group) (stop func()) {
	e.t.Helper()
	worker := testenv.Run(e.t, w.Run)
	group := testenv.Run(e.t, g.Run)
	return func() { group(); worker() }
}

// tell is a handler that sends the value of each entry to a channel.
func tell(values chan<- string) func(context.Context, *Entry) (Result, error) {
	return func(_ context.Context, en *Entry) (Result, error) {
		values <- en.Fields["v"]
		return Ack, nil
	}
}

// acks is a handler that does nothing.
func acks(context.Context, *Entry) (Result, error) { return Ack, nil }

// ofTheDead adds entries that a worker which is dead has been given, each delivered so often.
func (e *env) ofTheDead(deliveries int, values ...string) (ids []string) {
	e.t.Helper()
	e.must("XGROUP", "CREATE", e.stream, "g", "0", "MKSTREAM")
	ids = e.add(values...)
	e.must("XREADGROUP", "GROUP", "g", "dead", "STREAMS", e.stream, ">")
	e.must(append(append([]string{"XCLAIM", e.stream, "g", "dead", "0"}, ids...), "RETRYCOUNT", strconv.Itoa(deliveries), "JUSTID")...)
	return ids
}

// pending is the number of pending entries of the group; 0 if there is no group.
func (e *env) pending() int64 {
	e.t.Helper()
	return e.pendingOf(e.stream)
}

func (e *env) pendingOf(stream string) int64 {
	e.t.Helper()
	r, err := e.do("XPENDING", stream, "g").ToArray()
	if err != nil {
		return 0
	}
	n, err := r[0].AsInt64()
	testenv.Must(e.t, err)
	return n
}

func (e *env) consumerNames() (names []string) {
	e.t.Helper()
	list, err := e.must("XINFO", "CONSUMERS", e.stream, "g").ToArray()
	testenv.Must(e.t, err)
	for _, m := range list {
		info, err := m.AsMap()
		testenv.Must(e.t, err)
		n := info["name"]
		name, err := n.ToString()
		testenv.Must(e.t, err)
		names = append(names, name)
	}
	return names
}

// empty waits until nothing is in the stream nor pending.
func (e *env) empty() {
	e.t.Helper()
	e.eventually("stream empty", func() bool { return e.number("XLEN", e.stream) == 0 && e.pending() == 0 })
}

// eventually waits for a state of the server that tells nobody of its coming.
func (e *env) eventually(what string, ok func() bool) {
	e.t.Helper()
	end := time.After(patience)
	tick := time.Tick(2 * time.Millisecond)
	for !ok() {
		select {
		case <-end:
			e.t.Fatalf("never: %s (XLEN %v, pending %d)", what, e.do("XLEN", e.stream), e.pending())
		case <-tick:
		}
	}
}

// logs of the loop go to the test's log, and are dropped after its end.
func testLog(t *testing.T) *slog.Logger {
	if !testenv.Logs() {
		return nil
	}
	return slog.New(slog.NewTextHandler(&tLog{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type tLog struct{ t *testing.T }

func (l *tLog) Write(p []byte) (int, error) {
	if l.t.Context().Err() == nil {
		fmt.Fprintln(l.t.Output(), strings.TrimSpace(string(p)))
	}
	return len(p), nil
}
