package workflow_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, testenv.LibraryGoroutines()...) }

var hang = testenv.Patience // only seen when something hangs

const (
	grace = time.Hour // what Check takes for work in hand: all that a test leaves in the queues, however long it takes
)

// env is a Client on a server of one test, and who works for it.
type env struct {
	*workflow.Client
	t    testing.TB
	srv  *testenv.RedisServer
	opts workflow.Options

	broken bool // by the test: it does not end with check
}

// newEnv ends with Check: nothing may be lost or left over, whatever the test did.
func newEnv(t testing.TB, change ...func(*workflow.Options)) *env {
	t.Helper()
	srv := testenv.Redis(t)
	o := workflow.Options{Prefix: srv.Prefix(t)}
	for _, f := range change {
		f(&o)
	}
	for i := range o.Shards {
		srv.Own(shardPrefix(o.Prefix, i))
	}
	e := on(t, srv, srv.Client, o)
	t.Cleanup(func() {
		if !e.broken {
			e.check()
		}
	})
	return e
}

func shards(n int) func(*workflow.Options) { return func(o *workflow.Options) { o.Shards = n } }

func shardPrefix(prefix string, n int) string { return fmt.Sprintf("{%s-%d}", prefix, n) }

// check wants all invariants to hold.
func (e *env) check() {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	found, err := e.Check(ctx, grace)
	if err != nil {
		e.t.Error(err)
	}
	for _, v := range found {
		e.t.Error(v)
	}
}

// until waits for something that nobody tells.
func (e *env) until(what string, ok func() bool) {
	e.t.Helper()
	testenv.Eventually(e.t, what, ok)
}

// do runs a command.
func (e *env) do(words ...string) rueidis.RedisResult {
	e.t.Helper()
	return e.srv.Do(e.t, words...)
}

func (e *env) int(words ...string) int64 {
	e.t.Helper()
	return e.srv.Number(e.t, words...)
}

// key is one of the test.
func (e *env) key(rest string) string { return e.opts.Prefix + ":workflow:" + rest }

// idle wants queues without entries and without anything pending.
func (e *env) idle(queues ...string) {
	e.t.Helper()
	for _, q := range queues {
		for _, kind := range []string{"tasks:", "activities:"} {
			key := e.key(kind + q)
			if e.int("EXISTS", key) == 0 {
				continue
			}
			if n := e.int("XLEN", key); n != 0 {
				e.t.Errorf("%s has %d entries", key, n)
			}
			pending, err := e.do("XPENDING", key, "workers").ToArray()
			if refused, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(refused.Error(), "NOGROUP") { // nobody has read it yet
				continue
			}
			if err != nil {
				e.t.Fatal(key, err)
			}
			if n, err := pending[0].AsInt64(); err != nil || n != 0 {
				e.t.Errorf("%s: %d are pending (%v)", key, n, err)
			}
		}
	}
}

// dump is all keys with what they hold, without heartbeats.
func (e *env) dump() map[string]string {
	e.t.Helper()
	all := make(map[string]string)
	for _, k := range e.keys() {
		if strings.HasPrefix(k, e.opts.Prefix+":worker:") {
			continue
		}
		text, err := e.do("DUMP", e.key(k)).ToString()
		if err != nil {
			e.t.Fatal(k, err)
		}
		all[k] = text
	}
	return all
}

// info is the document of an execution.
func (e *env) info(i workflow.Instance) workflow.Info {
	e.t.Helper()
	info, err := e.Info(e.ctx(), i)
	e.ok(err)
	return info
}

func (e *env) history(i workflow.Instance) string {
	e.t.Helper()
	h, err := e.History(e.ctx(), i, 0)
	e.ok(err)
	return types(h)
}

func (e *env) stats() workflow.Stats {
	e.t.Helper()
	st, err := e.Stats(e.ctx())
	e.ok(err)
	return st
}

// ended waits for the end of an execution.
func (e *env) ended(i workflow.Instance) (workflow.Info, workflow.Event) {
	e.t.Helper()
	info, last, err := e.Await(e.ctx(), i)
	e.ok(err)
	return info, last
}

// poll completes what comes with what f says, until the returned function is called.
func (e *env) poll(w *workflow.Worker, pollers int, f func(*workflow.WorkflowTask) workflow.Checkpoint, queues ...string) (stop func()) {
	e.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range pollers {
		all.Go(func() {
			for {
				t, err := w.WorkflowTask(ctx, queuesOr(queues))
				if err != nil {
					return
				}
				if err := t.Complete(context.Background(), f(t)); err != nil && !errors.Is(err, workflow.ErrLost) {
					e.t.Error(err)
				}
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); all.Wait() })
	e.t.Cleanup(stop)
	return stop
}

// act completes activities.
func (e *env) act(w *workflow.Worker, pollers int, queues ...string) (stop func()) {
	e.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range pollers {
		all.Go(func() {
			for {
				a, err := w.ActivityTask(ctx, queuesOr(queues))
				if err != nil {
					return
				}
				if err := a.Complete(context.Background(), event("ActivityCompleted", a.Event.Ref)); err != nil && !errors.Is(err, workflow.ErrLost) {
					e.t.Error(err)
				}
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); all.Wait() })
	e.t.Cleanup(stop)
	return stop
}

func on(t testing.TB, srv *testenv.RedisServer, rdb rueidis.Client, o workflow.Options) *env {
	t.Helper()
	c, err := workflow.New(rdb, o)
	testenv.Must(t, err)
	t.Cleanup(c.Close)
	return &env{Client: c, t: t, srv: srv, opts: o}
}

// other is the same as from another process.
func (e *env) other() *env {
	e.t.Helper()
	return on(e.t, e.srv, e.srv.Connect(e.t, redis.Options{}), e.opts)
}

// worker starts one; stop ends it and waits. What it has then is soon another's, unless o says otherwise.
func (e *env) worker(o workflow.WorkerOptions) (w *workflow.Worker, stop func()) {
	e.t.Helper()
	o.Drain = cmp.Or(o.Drain, 200*time.Millisecond)
	o.Lease = cmp.Or(o.Lease, time.Minute)
	w, err := e.NewWorker(o)
	testenv.Must(e.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		select {
		case err := <-done:
			if err != nil {
				e.t.Error(err)
			}
		case <-time.After(hang):
			e.t.Error("the worker does not end")
		}
	}
	e.t.Cleanup(stop)
	return w, stop
}

func (e *env) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	e.t.Cleanup(cancel)
	return ctx
}

// task is the next workflow task.
func (e *env) task(w *workflow.Worker, queues ...string) *workflow.WorkflowTask {
	e.t.Helper()
	t, err := w.WorkflowTask(e.ctx(), queuesOr(queues))
	testenv.Must(e.t, err)
	return t
}

func (e *env) activity(w *workflow.Worker, queues ...string) *workflow.ActivityTask {
	e.t.Helper()
	t, err := w.ActivityTask(e.ctx(), queuesOr(queues))
	testenv.Must(e.t, err)
	return t
}

func queuesOr(queues []string) []string {
	if len(queues) == 0 {
		return []string{"q"}
	}
	return queues
}

// none wants no task within a moment in which others would have come.
func (e *env) none(w *workflow.Worker, queues ...string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if t, err := w.WorkflowTask(ctx, queuesOr(queues)); err == nil {
		e.t.Errorf("a task of %s with %d events", t.Instance, len(t.Events))
	}
}

func (e *env) ok(err error) {
	e.t.Helper()
	testenv.Must(e.t, err)
}

func (e *env) is(err, want error) {
	e.t.Helper()
	if !errors.Is(err, want) {
		e.t.Fatalf("error %v, want %v", err, want)
	}
}

// says wants a part of an error's text.
func (e *env) says(err error, part string) {
	e.t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		e.t.Errorf("error %v, want %q in it", err, part)
	}
}

// keys are those of the test, without its prefix.
func (e *env) keys() []string {
	e.t.Helper()
	all, err := e.srv.AllKeys(context.Background())
	testenv.Must(e.t, err)
	for i, k := range all {
		all[i] = strings.TrimPrefix(k, e.opts.Prefix+":workflow:")
	}
	return all
}
