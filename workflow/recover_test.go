package workflow_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/workflow"
)

// mortal is a worker in a process of its own that can be cut off from Redis, as one that died or hangs.
type mortal struct {
	*workflow.Worker
	e     *env
	name  string
	proxy *testenv.Proxy
}

// mortalLease is longer than a busy machine holds up a worker that is to live. No test waits for the leases of the dead: they are ended in Redis.
const mortalLease = time.Minute

func (e *env) mortal(o workflow.WorkerOptions) *mortal {
	e.t.Helper()
	c, p := e.far()
	o.Name = cmp.Or(o.Name, "mortal-"+p.Addr)
	o.Lease = cmp.Or(o.Lease, mortalLease)
	w, _ := c.worker(o)
	return &mortal{w, e, o.Name, p}
}

// die lets nothing more come from it, and others know.
func (m *mortal) die() {
	m.proxy.Refuse(true)
	m.proxy.Cut()
	m.e.expire(m.name)
}

// hang holds up all that comes from it or goes there; others take it for dead.
func (m *mortal) hang() {
	m.proxy.Stall(true)
	m.e.expire(m.name)
}

// expire ends the lease of a worker in Redis, as time does.
func (e *env) expire(worker string) {
	e.t.Helper()
	prefixes := []string{e.opts.Prefix}
	for i := range e.opts.Shards {
		prefixes = append(prefixes, shardPrefix(e.opts.Prefix, i))
	}
	for _, p := range prefixes {
		e.srv.Expire(e.t, keys.New(p).Worker(worker))
	}
}

// revive lets it go on.
func (m *mortal) revive() { m.proxy.Refuse(false) }

// What a worker had of several queues when it died is recovered from all of them, tasks and activities.
func TestRecoverAllQueues(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	dying := e.mortal(workflow.WorkerOptions{})
	for _, q := range []string{"q1", "q2"} {
		e.begin("acts-"+q, func(s *workflow.Start) { s.Queue = q })
		e.step(e.task(dying.Worker, q), schedules(1))
		e.activity(dying.Worker, q)
		e.begin("task-"+q, func(s *workflow.Start) { s.Queue = q })
		e.task(dying.Worker, q)
	}
	dying.die()
	w, _ := e.worker(workflow.WorkerOptions{})
	for range 2 {
		task := e.task(w, "q1", "q2")
		if task.Attempt != 2 {
			t.Errorf("attempt %d", task.Attempt)
		}
		e.step(task, finished)
	}
	for range 2 {
		a := e.activity(w, "q1", "q2")
		e.ok(a.Complete(e.ctx(), event("Done", 1)))
		e.step(e.task(w, "q1", "q2"), finished)
	}
	e.idle("q1", "q2")
}

// Activities that take long, and are extended, do not hide one whose worker died.
func TestLongOnesHideNothing(t *testing.T) {
	long.Test(t, "waits until a worker looks for the dead")
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{Lease: 10 * time.Second, ActivityLease: time.Minute})
	e.begin("a")
	refs := make([]int64, 25)
	for i := range refs {
		refs[i] = int64(i + 1)
	}
	e.step(e.task(w), schedules(refs...))
	var long []*workflow.ActivityTask
	for range 20 {
		long = append(long, e.activity(w))
	}
	dying := e.mortal(workflow.WorkerOptions{})
	crashed := map[int64]bool{}
	for range 5 {
		crashed[e.activity(dying.Worker).Event.Ref] = true
	}
	dying.die()
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, a := range long {
		all.Go(func() {
			tick := time.Tick(200 * time.Millisecond)
			for ctx.Err() == nil {
				if err := a.Extend(context.Background()); err != nil {
					t.Error(err)
				}
				select {
				case <-tick:
				case <-ctx.Done():
				}
			}
		})
	}
	for range 5 {
		a := e.activity(w)
		if !crashed[a.Event.Ref] {
			t.Errorf("activity %d, which is with a worker", a.Event.Ref)
		}
		e.ok(a.Complete(e.ctx(), event("Done", a.Event.Ref)))
	}
	stop()
	all.Wait()
	for _, a := range long {
		e.ok(a.Complete(e.ctx(), event("Done", a.Event.Ref)))
	}
	e.until("all results are there", func() bool { return e.int("XLEN", e.key("in:a")) == 25 })
	e.step(e.task(w), finished)
	e.idle("q")
}

// A worker that only slept finds its task gone: Complete, Extend and Release say so and change nothing, its context ends, Lost is told. It works on after that.
func TestZombie(t *testing.T) {
	long.Test(t, "waits until a worker notices that its lease has ended")
	t.Parallel()
	e := newEnv(t)
	lost := make(chan workflow.Instance, 10)
	slow := e.mortal(workflow.WorkerOptions{Lease: 5 * time.Second, Lost: func(i workflow.Instance) { lost <- i }})
	i := e.begin("a")
	task := e.task(slow.Worker)
	e.begin("b")
	e.step(e.task(slow.Worker), schedules(1))
	a := e.activity(slow.Worker)
	slow.hang()
	w, _ := e.worker(workflow.WorkerOptions{})
	again, act := e.task(w), e.activity(w)
	e.step(again, schedules(1))
	before := e.dump()
	slow.proxy.Stall(false)
	e.is(task.Complete(e.ctx(), checkpoint(task, schedules(9), timer(8, time.Hour))), workflow.ErrLost)
	e.is(task.Extend(e.ctx()), workflow.ErrLost)
	e.is(task.Release(e.ctx()), workflow.ErrLost)
	e.is(a.Extend(e.ctx()), workflow.ErrLost)
	e.is(a.Complete(e.ctx(), event("Late", 1)), workflow.ErrLost)
	if after := e.dump(); !maps.Equal(before, after) {
		t.Error("a worker that lost its task changed something")
	}
	<-task.Context().Done()
	<-a.Context().Done()
	e.ok(act.Complete(e.ctx(), event("Done", 1)))
	one := e.activity(w)
	e.ok(one.Complete(e.ctx(), event("Done", 1)))
	for range 2 {
		e.step(e.task(slow.Worker), finished)
	}
	if h := e.history(i); h != "Started Done/1" {
		t.Errorf("history: %s", h)
	}
	e.idle("q")
}

// A worker that is cut off from Redis tells who has a task of it, as soon as others may have it.
func TestLostByWorker(t *testing.T) {
	long.Test(t, "waits for a lease to end")
	t.Parallel()
	e := newEnv(t)
	lost := make(chan workflow.Instance, 10)
	cut := e.mortal(workflow.WorkerOptions{Lease: 5 * time.Second, Lost: func(i workflow.Instance) { lost <- i }})
	i := e.begin("a")
	task := e.task(cut.Worker)
	cut.die()
	select {
	case got := <-lost:
		if got.String() != i.String() || task.Context().Err() == nil {
			t.Errorf("lost: %s, context %v", got, task.Context().Err())
		}
	case <-time.After(hang):
		t.Error("nobody is told")
	}
	e.is(task.Complete(e.ctx(), checkpoint(task)), workflow.ErrLost)
	cut.revive()
	if again := e.task(cut.Worker); again.Attempt != 2 {
		t.Errorf("attempt %d", again.Attempt)
	} else {
		e.step(again, finished)
	}
}

// With all data gone, or only the groups, workers that wait go on with what is started then.
func TestDataGone(t *testing.T) {
	t.Parallel()
	for name, destroy := range map[string]func(*env){
		"everything": func(e *env) { e.ok(e.do("FLUSHALL").Error()) },
		"groups": func(e *env) {
			for _, kind := range []string{"tasks:q", "activities:q"} {
				e.ok(e.do("XGROUP", "DESTROY", e.key(kind), "workers").Error())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			w, _ := e.worker(workflow.WorkerOptions{Lease: mortalLease})
			e.poll(w, 2, func(task *workflow.WorkflowTask) workflow.Checkpoint {
				if task.LastSequence == 0 {
					return checkpoint(task, schedules(1), timer(2, 10*time.Millisecond))
				}
				if task.LastSequence+int64(len(task.Events)) < 3 {
					return checkpoint(task)
				}
				return checkpoint(task, finished)
			})
			e.act(w, 2)
			e.ended(e.begin("before"))
			destroy(e)
			for n := range 3 {
				e.ended(e.begin(fmt.Sprint("after", n)))
			}
			e.idle("q")
		})
	}
}

// An entry that an operator deleted under a worker, or added, is no harm.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{MaxDeliveries: 2})
	e.ok(e.do("XADD", e.key("tasks:q"), "*", "what", "ever").Error())
	e.ok(e.do("XADD", e.key("tasks:q"), "*", "i", "nobody").Error())
	e.ok(e.do("XADD", e.key("activities:q"), "*", "i", "nobody", "x", "x", "r", "1", "d", `{"id":"1","type":"A"}`).Error())
	i := e.begin("a")
	e.step(e.task(w), schedules(1))
	foreign := e.activity(w)
	e.is(foreign.Complete(e.ctx(), event("Done", 1)), workflow.ErrLost)
	e.ok(e.activity(w).Complete(e.ctx(), event("Done", 1)))
	e.step(e.task(w), finished)
	e.ended(i)
	e.idle("q")
}
