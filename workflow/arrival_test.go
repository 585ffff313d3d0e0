package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
)

// A child is there for its parent as soon as the parent's task is recorded, also while its start is on its way to another shard: a signal waits for it.
func TestSignalBeforeStartArrives(t *testing.T) {
	t.Parallel()
	e := newEnv(t, shards(2))
	g := testenv.NewGuillotine(t, e.srv.Addr)
	dying, _ := on(t, e.srv, e.srv.Connect(t, redis.Options{URL: g.URL}), e.opts).worker(workflow.WorkerOptions{Name: "dying", Lease: mortalLease})
	e.begin("parent")
	task := e.task(dying)
	g.Only(func(words []string) bool { // what carries a start
		return strings.HasPrefix(words[0], "EVAL") && words[2] == "1" && strings.Contains(words[3], ":run:child")
	})
	g.Arm(1, false, func() {})
	const n = 8
	cp := checkpoint(task)
	for k := range n {
		child(task, starting(fmt.Sprint("child", k)), int64(k+1))(&cp)
	}
	if err := task.Complete(e.ctx(), cp); err != nil {
		t.Log(err) // it is recorded, but the start may have been on its way before that was known
	}
	<-g.Fell
	e.expire("dying")
	e.is(e.Signal(e.ctx(), "nobody", event("Signal", 0)), workflow.ErrNotFound)
	signaled := make(chan error)
	for k := range n {
		go func() { signaled <- e.Signal(e.ctx(), fmt.Sprint("child", k), event("Signal", 0)) }()
	}
	w, _ := e.worker(workflow.WorkerOptions{})
	for range n {
		e.ok(<-signaled)
	}
	for ended := 0; ended < n; {
		task := e.task(w)
		if !strings.HasSuffix(types(task.Events), "Signal") {
			e.step(task)
			continue
		}
		e.step(task, finished)
		ended++
	}
	e.ok(e.Terminate(e.ctx(), workflow.Instance{ID: "parent"}, ""))
}

// A start that is on its way is found behind many other messages.
func TestSignalForStartFarBehind(t *testing.T) {
	t.Parallel()
	e := newEnv(t, shards(3))
	id := e.onShard(1, "late")
	outbox := shardPrefix(e.opts.Prefix, 2) + ":workflow:out"
	for k := range 2500 {
		e.ok(e.do("XADD", outbox, "*", "s", "1", "1", "event", "2", fmt.Sprint("other", k), "3", "x", "4", "{}", "5", "0").Error())
	}
	e.ok(e.do("XADD", outbox, "*", "s", "1", "1", "start", "2", id).Error())
	ctx, cancel := context.WithTimeout(e.ctx(), time.Second)
	defer cancel()
	if err := e.Signal(ctx, id, event("S", 0)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v: it did not wait for the start", err)
	}
	e.ok(e.do("DEL", outbox).Error())
	e.is(e.Signal(e.ctx(), id, event("S", 0)), workflow.ErrNotFound)
}
