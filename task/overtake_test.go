package task_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/lock"
	"github.com/taktworks/takt/task"
)

// A reply that fills the shared connection for longer than all leases live ends none of them: heartbeat, lock and leadership are renewed beside it.
func TestLeasesOutliveALargeReply(t *testing.T) {
	long.Test(t, "waits for leases to be renewed")
	e := newEnv(t)
	proxy := testenv.CountingProxy(t, e.srv.URL)
	rdb := e.srv.Connect(t, redis.Options{URL: proxy.URL})
	c, err := task.New(rdb, task.Options{Prefix: e.prefix, LockPrefix: e.prefix + ":"})
	e.ok(err)
	t.Cleanup(c.Close)
	const ttl = 3 * time.Second
	typ := task.Define[int, task.None]("probe", task.Small)
	w, err := c.Worker(task.WorkerOptions{ID: "w", Lease: ttl}, typ.Handle(func(context.Context, *task.Job[int]) (task.None, error) { return task.None{}, nil }))
	e.ok(err)
	e.run(w)
	e.schedulesOn(c, task.SchedulerOptions{ID: "s", Lease: ttl})
	leader := func() (string, int64) { id, term, _ := e.client.SchedulerLeader(e.ctx()); return id, term }
	token := func() string { s, _ := e.must("GET", e.key("worker:w")).ToString(); return s }
	e.eventually("it leads", func() bool { id, _ := leader(); return id == "s" })
	e.eventually("it lives", func() bool { return token() != "" })
	held, err := c.Locker().Try(e.ctx(), []lock.Spec{lock.Mutex(lock.Object{Type: lock.Task, Key: "x"}, lock.TTL(ttl))}, lock.TryOptions{})
	e.ok(err)
	defer func() { _, _ = held.Release(e.ctx()) }()
	e.must("SET", e.key("big"), strings.Repeat("x", 8<<20))
	_, term := leader()
	before := token()
	begun := time.Now()
	proxy.Throttle(1 << 20)
	err = rdb.Do(e.ctx(), rdb.B().Get().Key(e.key("big")).Build()).Error()
	proxy.Throttle(0)
	if took := time.Since(begun); err != nil || took < ttl {
		t.Fatalf("the reply took %v, less than the leases live (%v)", took, err)
	}
	if held.Context().Err() != nil {
		t.Errorf("the lock is lost: %v", context.Cause(held.Context()))
	}
	if id, now := leader(); id != "s" || now != term {
		t.Errorf("%q leads in term %d, before in %d", id, now, term)
	}
	if now := token(); now != before {
		t.Errorf("the heartbeat is %q, before %q", now, before)
	}
}
