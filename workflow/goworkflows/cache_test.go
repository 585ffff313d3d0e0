package goworkflows

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/core"
	"github.com/cschleiden/go-workflows/workflow/executor"
	"pgregory.net/rapid"

	"github.com/taktworks/takt/internal/testenv"
)

// fakeExecutor knows whether it is at work.
type fakeExecutor struct {
	busy   atomic.Bool
	closed atomic.Int32
}

func (x *fakeExecutor) ExecuteTask(context.Context, *backend.WorkflowTask) (*executor.ExecutionResult, error) {
	return nil, errors.New("is never executed")
}

func (x *fakeExecutor) Close() { x.closed.Add(1) }

func drawPoint(t *rapid.T) point {
	return point{rapid.Int64Range(0, 3).Draw(t, "sequence"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "event")}
}

func newCache(o CacheOptions) *Cache { return NewCache(on(nil, backend.ApplyOptions()), o) }

func instanceOf(id string) *core.WorkflowInstance { return core.NewWorkflowInstance(id, "e") }

// execute does what the library does with a task: Get, and Store in any case.
func execute(t rapid.TB, c *Cache, task *core.WorkflowInstance) (x *fakeExecutor, hit bool) {
	found, hit, err := c.Get(context.Background(), task)
	testenv.Must(t, err)
	if hit {
		x = found.(*fakeExecutor)
	} else {
		x = &fakeExecutor{}
	}
	if x.busy.Swap(true) {
		t.Fatal("two tasks have one executor")
	}
	testenv.Must(t, c.Store(context.Background(), task, x))
	return x, hit
}

// The library's defect: an executor at work was closed when the cache was full, or its time was up.
func TestCacheNeverClosesWhatIsUsed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 4).Draw(t, "size")
		c := newCache(CacheOptions{Size: size})
		all := map[*fakeExecutor]bool{}
		used := map[*core.WorkflowInstance]*fakeExecutor{}
		var tasks []*core.WorkflowInstance // those of used
		end := func(t *rapid.T) (*core.WorkflowInstance, *fakeExecutor) {
			if len(tasks) == 0 {
				t.Skip("nothing is used")
			}
			i := rapid.IntRange(0, len(tasks)-1).Draw(t, "task")
			task := tasks[i]
			tasks = append(tasks[:i], tasks[i+1:]...)
			x := used[task]
			delete(used, task)
			x.busy.Store(false)
			return task, x
		}
		instance := func(t *rapid.T) *core.WorkflowInstance {
			return instanceOf(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "instance"))
		}
		t.Repeat(map[string]func(*rapid.T){
			"execute": func(t *rapid.T) { // also beside a task of the same instance that was lost
				task := instance(t)
				x, _ := execute(t, c, task)
				all[x], used[task] = true, x
				tasks = append(tasks, task)
			},
			"record": func(t *rapid.T) {
				task, _ := end(t)
				c.settling(task)
				c.settle(task, drawPoint(t), true)
			},
			"fail": func(t *rapid.T) {
				task, x := end(t)
				c.settle(task, point{}, false)
				if x.closed.Load() != 1 {
					t.Fatal("an executor was kept that has seen what was not recorded")
				}
			},
			"finish": func(t *rapid.T) { // as the library does: before it completes the task
				task, x := end(t)
				testenv.Must(t, c.Evict(context.Background(), task))
				if x.closed.Load() != 1 {
					t.Fatal("not closed when its execution had ended")
				}
				c.settling(task)
				c.settle(task, point{9, "i"}, true)
			},
			"evict":  func(t *rapid.T) { _ = c.Evict(context.Background(), instance(t)) },
			"forget": func(t *rapid.T) { c.forget(instance(t), drawPoint(t)) },
			"expire": func(*rapid.T) {
				c.change(expired, func() []*entry {
					gone, _ := c.shelf.expire(time.Now().Add(time.Hour), c.ttl)
					return gone
				})
			},
			"stop": func(*rapid.T) { c.stop() },
			"": func(t *rapid.T) {
				for x := range all {
					if n := x.closed.Load(); n > 1 || n == 1 && x.busy.Load() {
						t.Fatalf("closed %d times, at work: %v", n, x.busy.Load())
					}
				}
				if n := len(c.shelf.newest); n > max(size, len(used)) {
					t.Fatalf("%d executors are kept, %d are used and there is place for %d", n, len(used), size)
				}
			},
		})
		for len(tasks) > 0 {
			task, _ := end(t)
			c.settle(task, point{}, rapid.Bool().Draw(t, "recorded"))
		}
		c.stop()
		for x := range all {
			if x.closed.Load() != 1 {
				t.Fatalf("closed %d times at the end", x.closed.Load())
			}
		}
		if len(c.shelf.newest)+len(c.shelf.used)+c.shelf.idle.Len() > 0 {
			t.Fatalf("something is left: %+v", c.shelf)
		}
	})
}

func TestCacheKeepsTheMostRecentlyUsed(t *testing.T) {
	c := newCache(CacheOptions{Size: 2})
	run := func(id string) (x *fakeExecutor, hit bool) {
		task := instanceOf(id)
		x, hit = execute(t, c, task)
		x.busy.Store(false)
		c.settle(task, point{1, "a"}, true)
		return x, hit
	}
	run("a")
	b, _ := run("b")
	run("a")
	run("c")
	if b.closed.Load() != 1 {
		t.Error("b was not used for the longest time, and is kept")
	}
	for _, id := range []string{"a", "c"} {
		if _, hit := run(id); !hit {
			t.Errorf("%s is not there", id)
		}
	}
}

func TestCacheForgets(t *testing.T) {
	c := newCache(CacheOptions{})
	if at, ok := c.seen(instanceOf("a")); ok {
		t.Errorf("nobody has seen %v", at)
	}
	task := instanceOf("a")
	x, _ := execute(t, c, task)
	if at, ok := c.seen(instanceOf("a")); ok {
		t.Errorf("one that is used has seen %v", at)
	}
	x.busy.Store(false)
	c.settle(task, point{7, "g"}, true)
	if at, ok := c.seen(instanceOf("a")); !ok || at != (point{7, "g"}) {
		t.Errorf("it has seen %v, %v", at, ok)
	}
	c.forget(instanceOf("a"), point{7, "h"})
	if x.closed.Load() != 0 {
		t.Error("closed although it was used since")
	}
	c.forget(instanceOf("a"), point{7, "g"})
	if x.closed.Load() != 1 {
		t.Error("not closed")
	}
}

// The next task of an instance may be here before this one hears that it is recorded.
func TestCacheWaitsForTheOutcome(t *testing.T) {
	for _, recorded := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := newCache(CacheOptions{})
			first, second := instanceOf("a"), instanceOf("a")
			x, _ := execute(t, c, first)
			c.settling(first)
			x.busy.Store(false)
			got := make(chan bool)
			go func() {
				_, hit := execute(t, c, second)
				got <- hit
			}()
			synctest.Wait()
			select {
			case <-got:
				t.Error("did not wait")
			default:
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errors.New("lost"))
			if _, hit, err := c.Get(ctx, instanceOf("a")); hit || err == nil || err.Error() != "lost" {
				t.Errorf("at the end of its context: %v, %v", hit, err)
			}
			c.settle(first, point{3, "c"}, recorded)
			if hit := <-got; hit != recorded {
				t.Errorf("recorded %v, found %v", recorded, hit)
			}
		})
	}
}

func TestCacheExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(CacheOptions{TTL: time.Minute})
		ctx, stop := context.WithCancel(t.Context())
		var over atomic.Bool
		go func() {
			c.StartEviction(ctx)
			over.Store(true)
		}()
		idle, busy := instanceOf("idle"), instanceOf("busy")
		x, _ := execute(t, c, idle)
		y, _ := execute(t, c, busy)
		time.Sleep(10 * time.Second)
		c.settle(idle, point{1, "a"}, true)
		time.Sleep(time.Minute - time.Nanosecond)
		synctest.Wait()
		if x.closed.Load() != 0 {
			t.Error("closed before its time")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if x.closed.Load() != 1 || y.closed.Load() != 0 {
			t.Errorf("closed after a minute: idle %d, at work %d", x.closed.Load(), y.closed.Load())
		}
		z, _ := execute(t, c, idle)
		c.settle(idle, point{1, "a"}, true)
		stop()
		synctest.Wait()
		if !over.Load() || z.closed.Load() != 1 || y.closed.Load() != 0 {
			t.Errorf("after the end: over %v, idle %d, at work %d", over.Load(), z.closed.Load(), y.closed.Load())
		}
		c.settle(busy, point{1, "a"}, true)
		if y.closed.Load() != 1 {
			t.Error("not closed after its use, though the cache was stopped")
		}
	})
}
