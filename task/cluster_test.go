package task_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/limit"
	"github.com/taktworks/takt/lock"
	"github.com/taktworks/takt/task"
)

// onCluster is a table of what is done on a cluster of three nodes, each under a prefix of its own and so on one node or the other. What other tests do
// on a cluster, too, is not repeated: TestDone, TestStats, TestPeriodic, TestWatch, TestFind, TestRunAll, TestGroupOnACluster, TestAggregateOnACluster,
// TestCheckOnCluster, TestBlockedElsewhere and, in package lock, TestCluster.
var onCluster = map[string]func(t *testing.T, e *env){
	"submissions": func(t *testing.T, e *env) {
		e.start(task.WorkerOptions{}, echoing())
		var hs []*task.Handle[string]
		for _, opts := range [][]task.SubmitOption{nil, {task.In(20 * time.Millisecond)}, {task.Key("k")}, {task.Key("k")}, {task.ID("own")}, {task.Realtime, task.Small}} {
			hs = append(hs, send(e, echo, "a", opts...))
		}
		many, err := echo.SubmitMany(e.ctx(), e.client, slices.Repeat([]string{"a"}, 600))
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range append(hs, many...) {
			if v, err := h.Await(e.ctx()); err != nil || v != "a" {
				t.Fatalf("%s: %q, %v", h, v, err)
			}
		}
		if !hs[3].Existing || hs[3].ID != hs[2].ID {
			t.Errorf("%s and %s under one key", hs[2], hs[3])
		}
	},
	"retries, dead letters": func(t *testing.T, e *env) {
		typ := task.Define[int, int]("cluster:Fails", task.Retry(task.Backoff{Base: time.Millisecond, Retries: 2}))
		well := false
		e.start(task.WorkerOptions{}, typ.Handle(func(_ context.Context, j *task.Job[int]) (int, error) {
			if j.Attempt <= j.Args || j.Args > 2 && !well {
				return 0, errors.New("no")
			}
			return j.Attempt, nil
		}))
		if v, err := send(e, typ, 1).Await(e.ctx()); err != nil || v != 2 {
			t.Errorf("the second attempt: %d, %v", v, err)
		}
		h := send(e, typ, 3)
		if _, err := h.Await(e.ctx()); err == nil {
			t.Error("three failures, and it is done")
		}
		page, err := e.client.DeadLetters().List(e.ctx(), task.DeadFilter{})
		if err != nil || len(page.Letters) != 1 || page.Letters[0].ID != h.ID {
			t.Fatalf("dead letters %+v, %v", page, err)
		}
		h2 := send(e, typ, 3)
		if _, err := h2.Await(e.ctx()); err == nil {
			t.Error("three failures, and it is done")
		}
		if n, err := e.client.DeadLetters().Delete(e.ctx(), h2.ID); err != nil || n != 1 {
			t.Errorf("%d deleted, %v", n, err)
		}
		if n, err := e.client.DeadLetters().Requeue(e.ctx(), h.ID); err != nil || n != 1 {
			t.Errorf("%d requeued, %v", n, err)
		}
		e.eventually("it is dead again", func() bool {
			one, err := e.client.Find(e.ctx(), task.Ref{ID: h.ID})
			return err == nil && one.State == task.StateDead && len(one.History) > 3
		})
	},
	"unique": func(t *testing.T, e *env) {
		typ := task.Define[int, int]("cluster:Unique", task.Unique(0))
		h := send(e, typ, 1)
		var d *task.DuplicateError
		if _, err := typ.Submit(e.ctx(), e.client, 1); !errors.As(err, &d) || d.ID != h.ID {
			t.Errorf("twice: %v", err)
		}
		e.start(task.WorkerOptions{}, typ.Handle(func(context.Context, *task.Job[int]) (int, error) { return 0, nil }))
		if _, err := h.Await(e.ctx()); err != nil {
			t.Error(err)
		}
		send(e, typ, 1)
	},
	"nested groups": func(t *testing.T, e *env) {
		outer, inner := task.Define[int, int]("cluster:Outer"), task.Define[int, int]("cluster:Inner")
		sum, end := task.Define[int, int]("cluster:Sum"), task.Define[int, int]("cluster:End")
		add := func(ctx context.Context, _ *task.Job[int]) (n int, err error) {
			results, err := task.GroupResults[int](ctx)
			for _, r := range results {
				n += r.Value
			}
			return n, err
		}
		e.start(task.WorkerOptions{},
			outer.Handle(func(ctx context.Context, j *task.Job[int]) (int, error) {
				_, err := task.Spawn(ctx, nil, []task.Pending{inner.With(j.Args), inner.With(10 * j.Args)}, sum.With(0), task.Inherit())
				return 0, err
			}),
			inner.Handle(func(_ context.Context, j *task.Job[int]) (int, error) { return j.Args, nil }), sum.Handle(add), end.Handle(add))
		g, err := task.Spawn(e.ctx(), e.client, []task.Pending{outer.With(1), outer.With(2)}, end.With(0))
		if err != nil {
			t.Fatal(err)
		}
		if v, err := end.HandleOf(e.client, g.CallbackID()).Await(e.ctx()); err != nil || v != 33 {
			t.Errorf("the callback returned %d, %v", v, err)
		}
	},
	"pause, cancel": func(t *testing.T, e *env) {
		begun := make(chan struct{})
		typ := task.Define[int, int]("cluster:Long")
		e.start(task.WorkerOptions{}, echoing(), typ.Handle(func(ctx context.Context, _ *task.Job[int]) (int, error) {
			close(begun)
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}))
		long := send(e, typ, 0)
		wait(t, "it runs", begun)
		if got, err := e.client.Cancel(e.ctx(), long.Ref); err != nil || got != task.CancelTold {
			t.Errorf("cancel of a running task: %s, %v", got, err)
		}
		if _, err := long.Await(e.ctx()); err == nil {
			t.Error("it is done")
		}
		if err := e.client.PauseType(e.ctx(), "test:Echo"); err != nil {
			t.Fatal(err)
		}
		var last *task.Handle[string]
		e.eventually("workers know of the pause, and set tasks aside", func() bool {
			last = send(e, echo, "a")
			s, err := e.client.Stats(e.ctx())
			return err == nil && s.Parked["test:Echo"] > 0
		})
		if _, err := e.client.ResumeType(e.ctx(), "test:Echo"); err != nil {
			t.Fatal(err)
		}
		if _, err := last.Await(e.ctx()); err != nil {
			t.Error(err)
		}
		const queue = "normal:small"
		if err := e.client.PauseQueue(e.ctx(), queue); err != nil {
			t.Fatal(err)
		}
		later := send(e, echo, "a", task.In(time.Hour))
		if got, err := e.client.Cancel(e.ctx(), later.Ref); err != nil || got != task.CancelledNow {
			t.Errorf("cancel of a delayed task: %s, %v", got, err)
		}
		if err := e.client.ResumeQueue(e.ctx(), queue); err != nil {
			t.Fatal(err)
		}
	},
	"schedules, two schedulers": func(t *testing.T, e *env) {
		e.start(task.WorkerOptions{}, echoing())
		for range 2 {
			e.schedules(task.SchedulerOptions{Lease: time.Minute})
		}
		if err := e.client.AddSchedule(e.ctx(), task.ScheduleEntry{Name: "often", Task: "test:Echo", Queue: "normal:small", Spec: "every 10ms", Args: []byte(`["a"]`)}); err != nil {
			t.Fatal(err)
		}
		e.eventually("it fires", func() bool { return e.schedule("often").Fired > 5 })
		if err := e.client.RemoveSchedule(e.ctx(), "often"); err != nil {
			t.Error(err)
		}
	},
	"locks in the slot of the tasks": func(t *testing.T, e *env) { locked(t, e, e.client) },
	"list, usage": func(t *testing.T, e *env) {
		for i := range 10 {
			send(e, echo, fmt.Sprint(i))
			send(e, echo, fmt.Sprint(i), task.In(time.Hour))
		}
		n := 0
		for _, err := range e.client.All(e.ctx(), task.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 20 {
			t.Errorf("%d tasks listed", n)
		}
		if u, err := e.client.Usage(e.ctx()); err != nil || u.Keys < 2 {
			t.Errorf("usage %+v, %v", u, err)
		}
		if err := e.client.Drop(e.ctx()); err != nil {
			t.Error(err)
		}
	},
}

// plus-24, W17: all of it on a cluster of three nodes, with nothing left that does not agree.
func TestOnACluster(t *testing.T) {
	long.Test(t, "runs several servers")
	t.Parallel()
	srv := testenv.RedisCluster(t)
	for name, f := range onCluster {
		t.Run(name, func(t *testing.T) {
			e := newEnvOn(t, srv)
			f(t, e)
			e.eventually("nobody is at work", func() bool {
				found, err := task.Check(e.ctx(), e.client, 0)
				return err == nil && len(found) == 0
			})
		})
	}
}

// locked runs tasks of c under every kind of lock at once, and against somebody outside who has one of them.
func locked(t *testing.T, e *env, c *task.Client) {
	t.Helper()
	o := func(key string) lock.Object { return lock.Object{Type: lock.Job, Key: key} }
	typ := task.Define[int, int]("cluster:Locked", task.Exclusive(), task.Limits(2, 1000, time.Second), task.Locks(func(n int) []lock.Spec {
		return []lock.Spec{lock.Write(o("w")), lock.Read(o("r")), limit.Concurrency(o("c"), 3)}
	}))
	held, err := c.Locker().Try(e.ctx(), []lock.Spec{lock.Write(o("r"))}, lock.TryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Worker(task.WorkerOptions{}, typ.Handle(func(_ context.Context, j *task.Job[int]) (int, error) { return j.Args, nil }))
	if err != nil {
		t.Fatal(err)
	}
	e.run(w)
	var hs []*task.Handle[int]
	for n := range 20 {
		h, err := typ.Submit(e.ctx(), c, n)
		if err != nil {
			t.Fatal(err)
		}
		hs = append(hs, h)
	}
	e.eventually("they are blocked", func() bool { s, err := c.Stats(e.ctx()); return err == nil && s.Blocked == 20 })
	if all, err := c.Locker().List(e.ctx(), "", 0); err != nil || !slices.ContainsFunc(all, func(i lock.Info) bool { return strings.HasSuffix(i.Key, "lock:rw:job:r") }) {
		t.Errorf("locks %+v, %v", all, err)
	}
	if _, err := held.Release(e.ctx()); err != nil {
		t.Fatal(err)
	}
	for n, h := range hs {
		if v, err := h.Await(e.ctx()); err != nil || v != n {
			t.Errorf("%d: %d, %v", n, v, err)
		}
	}
}

// W17: locks under the names of the Class details page are in slots of their own, which are not those of the tasks; they are taken one by one.
func TestLocksInOtherSlots(t *testing.T) {
	long.Test(t, "runs several servers")
	t.Parallel()
	srv := testenv.RedisCluster(t)
	e := newEnvOn(t, srv)
	c, err := task.New(srv.Client, task.Options{Prefix: e.prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	defer func() { // no prefix stands before them
		for _, node := range srv.Client.Nodes() {
			if err := node.Do(context.Background(), node.B().Flushall().Build()).Error(); err != nil {
				t.Error(err)
			}
		}
	}()
	locked(t, e, c)
}

// W17: prefixes without a hash tag are refused before anything is written, at whichever door they come in.
func TestUntaggedOnACluster(t *testing.T) {
	long.Test(t, "runs several servers")
	t.Parallel()
	srv := testenv.RedisCluster(t)
	for name, c := range map[string]struct {
		o    task.Options
		says string
	}{
		"prefix":              {task.Options{Prefix: "takt"}, `"takt"`},
		"default":             {task.Options{}, `"takt"`},
		"empty tag":           {task.Options{Prefix: "takt{}"}, `"takt{}"`},
		"prefix of the locks": {task.Options{Prefix: "{takt}", LockPrefix: "plant:"}, `"plant:"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := task.New(srv.Client, c.o)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "tag") {
				t.Errorf("New: %v", err)
			}
			_, err = task.Open(t.Context(), srv.URL, c.o)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "tag") {
				t.Errorf("Open: %v", err)
			}
			var refused *redis.Error
			if c.o.LockPrefix == "" && !errors.As(err, &refused) {
				t.Errorf("%v is no refusal of the server", err)
			}
		})
	}
}
