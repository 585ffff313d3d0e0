package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
)

func (e *env) detail(i workflow.Instance) workflow.Detail {
	e.t.Helper()
	d, err := e.Detail(e.ctx(), i)
	e.ok(err)
	return d
}

// What is going on in an instance is seen at each step of it, and only looked at.
func TestDetail(t *testing.T) {
	e := newEnv(t)
	i := e.begin("order-1")
	d := e.detail(workflow.Instance{ID: "order-1"})
	if d.String() != i.String() || d.State != workflow.Active || d.Pending != 1 || d.Task != workflow.Waiting || d.TaskWorker != "" || d.Paused || d.AtGate || d.QueuePaused {
		t.Errorf("just begun: %+v", d)
	}
	if off := time.Since(d.Now); off < -time.Minute || off > time.Minute {
		t.Errorf("now is %v ago", off)
	}
	w, _ := e.worker(workflow.WorkerOptions{Name: "hand"})
	first := e.task(w)
	if d = e.detail(i); d.Task != workflow.Running || d.TaskWorker != "hand" || d.Pending != 1 {
		t.Errorf("its task runs: %+v", d)
	}
	e.step(first, schedules(1, 2), timer(4, time.Hour), timer(3, time.Minute), func(cp *workflow.Checkpoint) {
		cp.Activities[1].Queue = "other"
	})
	a := e.activity(w)
	d = e.detail(i)
	if d.Task != "" || d.Pending != 0 || d.ManyOpen != 2 || d.ManyTimers != 2 || len(d.Activities) != 2 || len(d.Timers) != 2 {
		t.Fatalf("it waits: %+v", d)
	}
	if one := d.Activities[0]; one.Ref != 1 || one.Queue != "q" || one.Place != workflow.Running || one.Worker != "hand" || one.Deliveries != 1 || one.Event.Type != "ActivityScheduled" || one.Event.ID != a.Event.ID {
		t.Errorf("first activity: %+v", one)
	}
	if two := d.Activities[1]; two.Ref != 2 || two.Queue != "other" || two.Place != workflow.Waiting || two.Worker != "" || two.Event.Ref != 2 {
		t.Errorf("second activity: %+v", two)
	}
	for n, want := range []struct {
		ref int64
		in  time.Duration
	}{{3, time.Minute}, {4, time.Hour}} {
		if got := d.Timers[n]; got.Ref != want.ref || got.At.Sub(d.Now) > want.in || got.At.Sub(d.Now) < want.in-hang || got.Event.Type != workflow.EventTimerFired {
			t.Errorf("timer %d: %+v at %v", n, got, d.Now)
		}
	}
	e.ok(a.Complete(e.ctx(), event("ActivityCompleted", 1)))
	last := e.task(w)
	before := e.keys()
	e.detail(i)
	if after := e.keys(); len(after) != len(before) {
		t.Errorf("keys %q, then %q", before, after)
	}
	e.step(last, finished)
	d = e.detail(i)
	if d.State != workflow.Finished || d.Ended == nil || d.ManyOpen+d.ManyTimers+d.Pending != 0 || d.Task != "" {
		t.Errorf("ended: %+v", d)
	}
	again := e.begin("order-1")
	if d = e.detail(workflow.Instance{ID: "order-1"}); d.Execution != again.Execution {
		t.Errorf("the newest is %s, want %s", d.Instance, again)
	}
	if d = e.detail(i); d.State != workflow.Finished || d.Task != "" || d.Pending != 0 {
		t.Errorf("the old one while another is active: %+v", d)
	}
}

// A paused instance, a paused queue and a gate are told from one that waits for its worker.
func TestDetailOfOneThatIsHeldBack(t *testing.T) {
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	gate := func(s *workflow.Start) { s.Gate = &workflow.Gate{Key: "press", Max: 1} }
	through, waits := e.begin("first", gate), e.begin("second", gate)
	if d := e.detail(through); d.AtGate || d.Gate == nil || d.Gate.Key != "press" || d.Task != workflow.Waiting {
		t.Errorf("first at the gate: %+v", d)
	}
	if d := e.detail(waits); !d.AtGate || d.Task != "" || d.Pending != 1 {
		t.Errorf("second at the gate: %+v", d)
	}
	e.ok(e.Pause(e.ctx(), "second"))
	if d := e.detail(waits); !d.AtGate || !d.Paused {
		t.Errorf("paused at the gate: %+v", d)
	}
	e.step(e.task(w), schedules(7))
	names, err := e.PausedQueues(e.ctx())
	if err != nil || len(names) != 0 {
		t.Errorf("paused are %q, %v", names, err)
	}
	e.ok(e.PauseQueue(e.ctx(), "q"))
	d := e.detail(through)
	if !d.QueuePaused || len(d.Activities) != 1 || d.Activities[0].Place != workflow.Held || d.Activities[0].Event.Ref != 7 {
		t.Errorf("held by its queue: %+v", d)
	}
	e.ok(e.Signal(e.ctx(), "first", event(workflow.EventSignal, 0)))
	if d = e.detail(through); d.Task != workflow.Held || d.Pending != 1 {
		t.Errorf("its task is held, too: %+v", d)
	}
	if names, err = e.PausedQueues(e.ctx()); err != nil || !reflect.DeepEqual(names, []string{"q"}) {
		t.Errorf("paused are %q, %v", names, err)
	}
	e.ok(e.ResumeQueue(e.ctx(), "q"))
	if d = e.detail(through); d.QueuePaused || d.Task == workflow.Held {
		t.Errorf("resumed: %+v", d)
	}
}

// More than can be shown is counted.
func TestDetailIsBounded(t *testing.T) {
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	i := e.begin("wide")
	e.step(e.task(w), func(cp *workflow.Checkpoint) {
		for ref := range int64(1005) {
			schedules(ref + 1)(cp)
		}
		timer(5000, time.Hour)(cp)
	})
	if d := e.detail(i); d.ManyOpen != 1005 || len(d.Activities) != 1000 || d.ManyTimers != 1 || len(d.Timers) != 1 {
		t.Errorf("%d activities of %d, %d timers of %d", len(d.Activities), d.ManyOpen, len(d.Timers), d.ManyTimers)
	}
}

func TestDetailOfNothing(t *testing.T) {
	e := newEnv(t)
	for _, i := range []workflow.Instance{{ID: "none"}, {ID: "none", Execution: "x"}} {
		_, err := e.Detail(e.ctx(), i)
		e.is(err, workflow.ErrNotFound)
		if strings.HasSuffix(err.Error(), ":") {
			t.Errorf("%v", err)
		}
	}
	var name *workflow.NameError
	for _, i := range []workflow.Instance{{}, {ID: "a\n"}, {ID: "a", Execution: "b:c"}, {ID: strings.Repeat("a", 129)}} {
		if _, err := e.Detail(e.ctx(), i); !errors.As(err, &name) {
			t.Errorf("%q: %v", i.ID, err)
		}
	}
}

func TestChildren(t *testing.T) {
	child := func(data string) workflow.Event {
		return workflow.Event{Type: workflow.EventSubScheduled, Ref: 4, Data: json.RawMessage(data)}
	}
	got := workflow.Children([]workflow.Event{
		child(`{"name":"pack","sub_workflow_instance":{"instance_id":"box-1","execution_id":"x-1"}}`), child(`{}`), child(`[]`),
		{Type: "ActivityScheduled", Data: json.RawMessage(`{"sub_workflow_instance":{"instance_id":"no"}}`)},
	})
	if want := []workflow.Instance{{ID: "box-1", Execution: "x-1", ParentEvent: 4}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Watchers are told of starts and of all kinds of ends, from the moment that they are ready.
func TestWatch(t *testing.T) {
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	e.begin("before")
	e.step(e.task(w), finished)

	watcher := e.other()
	changes, stop := watcher.watch()
	next := func(kind workflow.ChangeKind, id string, outcome workflow.Outcome) {
		t.Helper()
		if c := e.told(changes); c.Kind != kind || c.ID != id || c.Outcome != outcome || c.Name != "flow" {
			t.Errorf("told %+v, want that %s %s %s", c, id, kind, outcome)
		}
	}
	e.begin("a")
	next(workflow.Started, "a", "")
	e.step(e.task(w), finished)
	next(workflow.EndedAs, "a", workflow.Completed)
	i := e.begin("b")
	next(workflow.Started, "b", "")
	e.ok(e.Terminate(e.ctx(), i, "enough"))
	next(workflow.EndedAs, "b", workflow.Terminated)
	e.begin("c")
	next(workflow.Started, "c", "")
	follow := workflow.Instance{ID: "c", Execution: "c-2"}
	e.step(e.task(w), func(cp *workflow.Checkpoint) {
		cp.State = workflow.ContinuedAsNew
		cp.Messages = []workflow.Message{{Start: &workflow.Start{Instance: follow, Queue: "q", Name: "flow", Event: event("Started", 0)}}}
	})
	next(workflow.EndedAs, "c", "")
	next(workflow.Started, "c", "")
	e.ok(stop())
	if len(changes) != 0 {
		t.Errorf("and %+v", <-changes)
	}
	if err := watcher.Watch(e.ctx(), nil, nil); err == nil {
		t.Error("a watcher without a function")
	}
}

// watch returns when it is told of everything from then on; stop ends it.
func (e *env) watch() (changes <-chan workflow.Change, stop func() error) {
	e.t.Helper()
	ctx, cancel := context.WithCancel(e.ctx())
	ready, ch, done := make(chan struct{}), make(chan workflow.Change, 16), make(chan error, 1)
	go func() { done <- e.Watch(ctx, func() { close(ready) }, func(c workflow.Change) { ch <- c }) }()
	select {
	case <-ready:
	case <-time.After(hang):
		e.t.Fatal("not ready")
	}
	return ch, func() error { cancel(); return <-done }
}

// told is the next change.
func (e *env) told(changes <-chan workflow.Change) (c workflow.Change) {
	e.t.Helper()
	select {
	case c = <-changes:
	case <-time.After(hang):
		e.t.Fatal("hears of nothing")
	}
	return c
}

// A watcher hears of its own database alone, though channels of Redis know no databases.
func TestWatchersOfOneDatabase(t *testing.T) {
	here := newEnv(t)
	there := on(t, here.srv, here.srv.Connect(t, redis.Options{URL: here.srv.URL + "/1"}), here.opts)
	changes, _ := here.watch()
	elsewhere, _ := there.watch()
	here.begin("a")
	there.begin("b")
	for want, ch := range map[string]<-chan workflow.Change{"a": changes, "b": elsewhere} {
		if c := here.told(ch); c.ID != want {
			t.Errorf("hears first of %s, want %s", c.ID, want)
		}
	}
}

// One shard and many have prefixes of their own, and yet whoever comes with another number is refused; who looks on decides nothing.
func TestShardsAreCompared(t *testing.T) {
	srv := testenv.Redis(t)
	one, many := srv.TaggedPrefix(t), srv.ShardedPrefix(t, 3)
	for n, c := range []struct {
		prefix string
		shards int
		lookOn bool
		says   []string // of ErrShards; none = it is opened
	}{
		{one, 1, true, nil},
		{strings.Trim(one, "{}"), 3, true, nil}, // nothing is stored yet
		{one, 1, false, nil},
		{one, 1, true, nil},
		{one, 0, false, nil}, // 0 is one
		{strings.Trim(one, "{}"), 3, true, []string{"3 here, 1 in Redis"}},
		{strings.Trim(one, "{}"), 3, false, []string{"3 here, 1 in Redis"}},

		{many, 3, false, nil},
		{many, 3, true, nil},
		{many, 1, true, []string{"1 here, 3 in Redis", "{" + many + "-0}:workflow:shards"}},
		{many, 1, false, []string{"1 here, 3 in Redis"}},
		{"{" + many + "}", 1, true, []string{"1 here, 3 in Redis"}},
		{many, 2, false, []string{"2 here, 3 in Redis"}},
		{"{" + many + "}", 2, false, []string{"2 here, 3 in Redis"}}, // the tag of tasks under the same prefix
	} {
		ctx, cancel := context.WithTimeout(context.Background(), hang)
		client, err := workflow.Connect{URL: srv.URL, LookOn: c.lookOn}.Open(ctx, workflow.Options{Prefix: c.prefix, Shards: c.shards})
		cancel()
		if err == nil {
			client.Close()
		}
		if (err == nil) != (c.says == nil) || err != nil && !errors.Is(err, workflow.ErrShards) {
			t.Fatalf("open %d: error %v, want %q", n, err, c.says)
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("open %d: no %q in: %v", n, s, err)
			}
		}
	}
}
