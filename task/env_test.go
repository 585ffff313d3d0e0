package task_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerProcess) != "" { // a process that a test started to kill it
		os.Exit(runWorkerProcess())
	}
	goleak.VerifyTestMain(m, testenv.LibraryGoroutines()...)
}

type double struct{ N int }

var Double = task.Define[double, int]("test:Double", task.Positional())

var patience = testenv.Patience // only seen when something hangs

// env is one server with one prefix.
type env struct {
	t      testing.TB
	srv    *testenv.RedisServer
	prefix string
	client *task.Client
}

func newEnv(t testing.TB) *env { return newEnvOn(t, testenv.Redis(t)) }

func newEnvOn(t testing.TB, srv *testenv.RedisServer) *env {
	e := &env{t: t, srv: srv, prefix: srv.Prefix(t)}
	e.client = e.connect(task.Options{})
	return e
}

// connect is one more client of the same prefix.
func (e *env) connect(o task.Options) *task.Client {
	e.t.Helper()
	o.Prefix = cmp.Or(o.Prefix, e.prefix)
	o.LockPrefix = cmp.Or(o.LockPrefix, e.prefix+":")
	c, err := task.New(e.srv.Client, o)
	testenv.Must(e.t, err)
	e.t.Cleanup(c.Close)
	return c
}

// behind is a client as of another process, behind a proxy.
func (e *env) behind() (*task.Client, *testenv.Proxy) {
	e.t.Helper()
	proxy := testenv.CountingProxy(e.t, e.srv.URL)
	return e.reach(proxy.URL), proxy
}

// doomed is a client as of another process, behind what can cut it off at any of its commands.
func (e *env) doomed() (*task.Client, *testenv.Guillotine) {
	e.t.Helper()
	g := testenv.NewGuillotine(e.t, e.srv.Addr)
	return e.reach(g.URL), g
}

// reach is a client with a connection of its own to url.
func (e *env) reach(url string) *task.Client {
	e.t.Helper()
	rdb := e.srv.Connect(e.t, redis.Options{URL: url, DialTimeout: time.Second})
	c, err := task.New(rdb, task.Options{Prefix: e.prefix, LockPrefix: e.prefix + ":"})
	testenv.Must(e.t, err)
	e.t.Cleanup(c.Close)
	return c
}

// start runs a worker until the test ends, or stop is called.
func (e *env) start(o task.WorkerOptions, handlers ...task.Handler) (w *task.Worker, stop func()) {
	e.t.Helper()
	w, err := e.client.Worker(o, handlers...)
	testenv.Must(e.t, err)
	return w, e.run(w)
}

func (e *env) run(w *task.Worker) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- w.Run(ctx) }()
	stopped := false
	stop = func() {
		e.t.Helper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-end:
			if err != nil {
				e.t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			e.t.Error("the worker does not stop")
		}
	}
	e.t.Cleanup(stop)
	return stop
}

func (e *env) ctx() context.Context {
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	e.t.Cleanup(cancel)
	return ctx
}

// do runs any command on the server.
func (e *env) do(words ...string) rueidis.RedisResult {
	e.t.Helper()
	return e.srv.Do(e.t, words...)
}

func (e *env) must(words ...string) rueidis.RedisResult {
	e.t.Helper()
	return e.srv.Must(e.t, words...)
}

// number is the number that a command replies; nil is 0.
func (e *env) number(words ...string) int64 {
	e.t.Helper()
	reply := e.must(words...)
	if rueidis.IsRedisNil(reply.Error()) {
		return 0
	}
	n, err := reply.AsInt64()
	if err != nil {
		e.t.Fatalf("%q: %v", words, err)
	}
	return n
}

// counts fails the test unless a command replies this number; nil is 0.
func (e *env) counts(want int64, words ...string) {
	e.t.Helper()
	if n := e.number(words...); n != want {
		e.t.Errorf("%q: %d, want %d", words, n, want)
	}
}

// key is a key below the prefix.
func (e *env) key(rest string) string { return e.prefix + ":" + rest }

// queued is how many entries the streams hold together: waiting or running.
func (e *env) queued() (n int64) {
	for _, q := range task.Queues() {
		n += e.number("XLEN", e.key("tasks:"+string(q)))
	}
	return n
}

// eventually waits for a state of the server that tells nobody of its coming.
func (e *env) eventually(what string, ok func() bool) {
	e.t.Helper()
	testenv.Eventually(e.t, what, ok)
}

// idle waits until no task waits, runs or is delayed.
func (e *env) idle() {
	e.t.Helper()
	e.eventually("no task left", func() bool { return e.left() == 0 })
}

// wait is testenv.Take.
func wait[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	return testenv.Take(t, what, c)
}

// send submits one task and fails the test if that fails.
func send[T, R any](e *env, typ *task.Type[T, R], args T, opts ...task.SubmitOption) *task.Handle[R] {
	e.t.Helper()
	h, err := typ.Submit(e.ctx(), e.client, args, opts...)
	testenv.Must(e.t, err)
	return h
}

// sendMany submits tasks and fails the test if that fails.
func sendMany[T, R any](e *env, typ *task.Type[T, R], args []T, opts ...task.SubmitOption) []*task.Handle[R] {
	e.t.Helper()
	handles, err := typ.SubmitMany(e.ctx(), e.client, args, opts...)
	e.ok(err)
	return handles
}

// returned waits until a task has ended, and fails the test unless it is done and returned want.
func returned[R comparable](e *env, h *task.Handle[R], want R) {
	e.t.Helper()
	if got, err := h.Await(e.ctx()); err != nil || got != want {
		e.t.Errorf("%s: %v, %v, want %v", h.ID, got, err, want)
	}
}

// done waits until a task has ended, and fails the test at once unless it is done.
func done[R any](e *env, h *task.Handle[R]) {
	e.t.Helper()
	_, err := h.Await(e.ctx())
	e.ok(err)
}

// failed waits until a task has ended, and fails the test unless it ended with an error of this type.
func failed[R any](e *env, h *task.Handle[R], kind string) {
	e.t.Helper()
	var failed *task.Error
	if _, err := h.Await(e.ctx()); !errors.As(err, &failed) || failed.Type != kind {
		e.t.Errorf("%s: %v, want an error of type %s", h.ID, err, kind)
	}
}

// says fails the test unless err is an error that says want. of is what it is the error of, "" where want tells.
func says(t testing.TB, of any, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v: %v, want an error that says %q", of, err, want)
	}
}

// fails fails the test unless err is want.
func fails(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
}

// refused fails the test with this text unless err is an error.
func refused(t testing.TB, text string, err error) {
	t.Helper()
	if err == nil {
		t.Error(text)
	}
}

// same fails the test unless got is want.
func same[T comparable](t testing.TB, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// equal fails the test unless two lists have the same elements.
func equal[T comparable](t testing.TB, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// panics fails the test unless f panics with what says want.
func panics(t testing.TB, want string, f func()) {
	t.Helper()
	defer func() {
		if v := recover(); !strings.Contains(fmt.Sprint(v), want) {
			t.Errorf("panic %v, want one that says %q", v, want)
		}
	}()
	f()
}

// errOf is the error of a function that returns a value, too.
func errOf[T any](_ T, err error) error { return err }

// onBoth runs a test on Redis and on what demo and dev fall back on.
func onBoth(t *testing.T, test func(*testing.T, *env)) {
	t.Run("redis", func(t *testing.T) { test(t, newEnv(t)) })
	t.Run("miniredis", func(t *testing.T) { test(t, newEnvOn(t, testenv.Miniredis(t))) })
}

// ok fails the test at once if err is an error.
func (e *env) ok(err error) {
	e.t.Helper()
	testenv.Must(e.t, err)
}

// clock is the server's time.
func (e *env) clock() time.Time {
	e.t.Helper()
	now, err := e.client.Now(e.ctx())
	e.ok(err)
	return now
}

func (e *env) text(args ...string) string {
	e.t.Helper()
	s, err := e.do(args...).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		e.t.Fatalf("%q: %v", args, err)
	}
	return s
}

// left is how many tasks wait, run or are delayed.
func (e *env) left() int64 {
	e.t.Helper()
	return e.queued() + e.number("ZCARD", e.key("tasks:delayed"))
}

func (e *env) counter(kind task.Outcome, name string) int64 {
	return e.number("HGET", e.key("tasks:counters"), string(kind)+" type "+name)
}

// mark asks for the end of a task.
func (e *env) mark(id string) {
	e.do("ZADD", e.key("tasks:cancelled"), strconv.FormatInt(time.Now().UnixMilli(), 10), id)
	e.do("PUBLISH", e.key("tasks:control"), "")
}
