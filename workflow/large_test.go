package workflow_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/workflow"
)

// largest gives the largest event of a type that do accepts.
func (e *env) largest(typ string, do func(workflow.Event) error) {
	e.t.Helper()
	for n := e.opts.MaxEvent; n > 0; n-- {
		ev := event(typ, 0)
		ev.Data = []byte(`"` + strings.Repeat("x", n) + `"`)
		var refused *workflow.EventError
		if err := do(ev); err == nil {
			return
		} else if !errors.As(err, &refused) {
			e.t.Fatal(err)
		}
	}
	e.t.Fatalf("%s: none is accepted", typ)
}

// What was accepted once is recorded, though it is larger in the history by its number.
func TestLargestEvents(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *workflow.Options) { o.MaxEvent = 1000 })
	w, _ := e.worker(workflow.WorkerOptions{})
	s := starting("a")
	e.largest("Started", func(ev workflow.Event) error { s.Event = ev; return e.Start(e.ctx(), s) })
	e.largest("S", func(ev workflow.Event) error { return e.Signal(e.ctx(), "a", ev) })
	e.largest("C", func(ev workflow.Event) error { return e.Cancel(e.ctx(), s.Instance, ev) })
	e.step(e.last(w, "Started S C"), schedules(1))
	a := e.activity(w)
	e.largest("Done", func(ev workflow.Event) error { ev.Ref = 1; return a.Complete(e.ctx(), ev) })
	task := e.task(w)
	cp := checkpoint(task)
	made := event("Made", 0)
	made.Sequence, made.Data = task.LastSequence+2, []byte(`"`+strings.Repeat("x", 1000)+`"`)
	cp.Executed = append(cp.Executed, made)
	var refused *workflow.EventError
	if err := task.Complete(e.ctx(), cp); !errors.As(err, &refused) || refused.Field != "Checkpoint.Executed[1]" {
		t.Errorf("an event that did not come with the task: %v", err)
	}
	e.step(task, finished)
	if h := e.history(s.Instance); h != "Started S C Done/1" {
		t.Errorf("history %s", h)
	}
}

const mib = 1 << 20

// sized is an event of about so many bytes.
func sized(typ string, ref int64, bytes int) workflow.Event {
	ev := event(typ, ref)
	ev.Data = []byte(`"` + strings.Repeat("x", bytes-200) + `"`)
	return ev
}

// Events wait that take longer on their way than one call may: they come in several tasks, each no larger than a call carries.
func TestLargeBacklog(t *testing.T) {
	long.Test(t, "slows a link down")
	t.Parallel()
	e := newEnv(t)
	i := e.begin("a")
	const n = 12
	for k := range n {
		e.ok(e.Cancel(e.ctx(), i, sized("C", int64(k), mib)))
	}
	far, p := e.far()
	w, _ := far.worker(workflow.WorkerOptions{Lease: hang})
	p.Throttle(2 * mib) // 6 s for all of them
	task := e.task(w)
	p.Throttle(0)
	got := types(task.Events)
	for tasks := 1; tasks < n; tasks++ {
		e.step(task)
		task = e.task(w)
		got += " " + types(task.Events)
	}
	e.step(task, finished)
	want := "Started C"
	for k := 1; k < n; k++ {
		want += fmt.Sprint(" C/", k)
	}
	if got != want {
		t.Errorf("events %s, want %s", got, want)
	}
	small := e.begin("small")
	for k := range 4 {
		e.ok(e.Cancel(e.ctx(), small, sized("C", int64(k+1), 400<<10)))
	}
	if task = e.task(w); types(task.Events) != "Started C/1 C/2" {
		t.Errorf("events %s", types(task.Events))
	}
	e.step(task, finished)
}

// Tasks that are handed out with something else take no longer on their way than a call may, either: those that are too large in all are loaded one by one.
func TestLargeTasksTogether(t *testing.T) {
	long.Test(t, "counts bytes on a connection that heartbeats share")
	t.Parallel()
	e := newEnv(t)
	far, p := e.far()
	var most, reply atomic.Int64
	p.Tap(func(fromClient bool, data []byte) { // one request is under way at a time
		if fromClient {
			reply.Store(0)
		} else if n := reply.Add(int64(len(data))); n > most.Load() {
			most.Store(n)
		}
	})
	const n = 8
	for k := range n {
		id := fmt.Sprint("a", k)
		e.ok(e.Cancel(e.ctx(), e.begin(id), sized("C", 0, mib)))
	}
	w, _ := far.worker(workflow.WorkerOptions{})
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			task, err := w.WorkflowTask(e.ctx(), []string{"q"})
			if err == nil {
				err = task.Complete(e.ctx(), checkpoint(task, finished))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := most.Load(); n > 4*mib {
		t.Errorf("%d bytes in one reply", n)
	}
}

// What a worker has to say takes longer on its way than a call may that says little.
func TestLargeOutcomes(t *testing.T) {
	long.Test(t, "slows a link down")
	t.Parallel()
	e := newEnv(t, func(o *workflow.Options) { o.MaxEvent = 8 * mib })
	warm(e)
	one, slow := e.far()
	other, slower := e.far()
	w, _ := one.worker(workflow.WorkerOptions{Lease: hang})
	acts, _ := other.worker(workflow.WorkerOptions{Lease: hang})
	e.begin("a")
	e.step(e.task(w), schedules(1))
	a := e.activity(acts)
	e.begin("b")
	task := e.task(w)
	cp := checkpoint(task, finished)
	cp.Executed = append(cp.Executed, sized("Made", 0, 7*mib))
	cp.Executed[1].Sequence = 2
	for _, p := range []*testenv.Proxy{slow, slower} {
		p.Throttle(7 * mib / 6) // 6 s
	}
	var all sync.WaitGroup
	all.Go(func() {
		if err := task.Complete(e.ctx(), cp); err != nil {
			t.Error(err)
		}
	})
	all.Go(func() {
		if err := a.Complete(e.ctx(), sized("Done", 1, 7*mib)); err != nil {
			t.Error(err)
		}
	})
	all.Wait()
	slow.Throttle(0)
	e.step(e.task(w), finished)
}
