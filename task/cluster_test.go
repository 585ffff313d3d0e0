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

// onCluster is what is done on a cluster of three nodes, each under a prefix of its own and so on one node or the other.
var onCluster = map[string]func(t *testing.T, e *env){
	"done":                           testDone,
	"submissions under a key":        testKeyMakesOneTask,
	"unique":                         testUnique,
	"dead letters":                   testDeadLetterLives,
	"nested groups":                  testGroupsNest,
	"a group that fails fast":        testGroupFailFast,
	"a group of several pages":       testSpawnAgainAfterTheFirstPage,
	"blocked, paused, configured":    testBlocked,
	"pools, aggregates, schedules":   testPool,
	"slots of a schedule":            testPeriodic,
	"find, list, cancel":             testInspect,
	"stats":                          testStats,
	"watch":                          testWatch,
	"run all":                        testRunAll,
	"locks in the slot of the tasks": func(t *testing.T, e *env) { locked(t, e, e.client) },
	"usage, and everything is dropped": func(t *testing.T, e *env) {
		for i := range 10 {
			send(e, echo, fmt.Sprint(i))
			send(e, echo, fmt.Sprint(i), task.In(time.Hour))
		}
		if u, err := e.client.Usage(e.ctx()); err != nil || u.Keys < 2 {
			t.Errorf("usage %+v, %v", u, err)
		}
		if err := e.client.Drop(e.ctx()); err != nil || e.left() != 0 {
			t.Errorf("%d tasks are left, %v", e.left(), err)
		}
	},
}

// All of it on a cluster of three nodes, with nothing left that does not agree.
func TestOnACluster(t *testing.T) {
	long.Test(t, "runs a cluster")
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
	e.ok(err)
	w, err := c.Worker(task.WorkerOptions{}, typ.Handle(func(_ context.Context, j *task.Job[int]) (int, error) { return j.Args, nil }))
	e.ok(err)
	e.run(w)
	var hs []*task.Handle[int]
	for n := range 20 {
		h, err := typ.Submit(e.ctx(), c, n)
		e.ok(err)
		hs = append(hs, h)
	}
	e.eventually("they are blocked", func() bool { s, err := c.Stats(e.ctx()); return err == nil && s.Blocked == 20 })
	if all, err := c.Locker().List(e.ctx(), "", 0); err != nil || !slices.ContainsFunc(all, func(i lock.Info) bool { return strings.HasSuffix(i.Key, "lock:rw:job:r") }) {
		t.Errorf("locks %+v, %v", all, err)
	}
	e.ok(errOf(held.Release(e.ctx())))
	for n, h := range hs {
		if v, err := h.Await(e.ctx()); err != nil || v != n {
			t.Errorf("%d: %d, %v", n, v, err)
		}
	}
}

// Locks under the names of the Class details page are in slots of their own, which are not those of the tasks; they are taken one by one.
func TestLocksInOtherSlots(t *testing.T) {
	long.Test(t, "runs a cluster")
	t.Parallel()
	srv := testenv.RedisCluster(t)
	e := newEnvOn(t, srv)
	c, err := task.New(srv.Client, task.Options{Prefix: e.prefix})
	e.ok(err)
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

// Prefixes without a hash tag are refused before anything is written, at whichever door they come in.
func TestUntaggedOnACluster(t *testing.T) {
	long.Test(t, "runs a cluster")
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
