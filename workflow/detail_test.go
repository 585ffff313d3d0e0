package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// What would be removed is counted before.
func TestCountEnded(t *testing.T) {
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	for n := range 3 {
		e.begin(fmt.Sprint("i-", n))
		e.step(e.task(w), finished)
	}
	e.begin("active")
	for before, want := range map[time.Time]int64{time.Now().Add(time.Minute): 3, time.Now().Add(-time.Minute): 0} {
		if n, err := e.CountEnded(e.ctx(), before); err != nil || n != want {
			t.Errorf("%d, %v, want %d", n, err, want)
		}
	}
}

// An execution that is started again under the same name, after its document has expired, is active: removing what has ended leaves it, and comes to an end.
func TestRemoveEndedAndStartedAgain(t *testing.T) {
	e := newEnv(t)
	i := e.begin("again")
	e.ok(e.Terminate(e.ctx(), i, "test"))
	rdb := e.srv.Client
	e.ok(rdb.Do(e.ctx(), rdb.B().Del().Key(e.opts.Prefix+":workflow:doc:"+i.String()).Build()).Error()) // as its time to live does
	e.begin("again", func(s *workflow.Start) { s.Instance = i })
	if _, err := e.RemoveEnded(e.ctx(), time.Now().Add(time.Minute), 0); err != nil {
		t.Fatal(err)
	}
	if d := e.detail(i); d.State != workflow.Active {
		t.Errorf("%+v", d)
	}
	if n, err := e.CountEnded(e.ctx(), time.Now().Add(time.Minute)); err != nil || n != 0 {
		t.Errorf("%d have ended, %v", n, err)
	}
}

// Watchers are told of starts and of all kinds of ends, from the moment that they are ready.
func TestWatch(t *testing.T) {
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	e.begin("before")
	e.step(e.task(w), finished)

	ctx, cancel := context.WithCancel(e.ctx())
	ready, changes, done := make(chan struct{}), make(chan workflow.Change, 16), make(chan error, 1)
	watcher := e.other()
	go func() {
		done <- watcher.Watch(ctx, func() { close(ready) }, func(c workflow.Change) { changes <- c })
	}()
	select {
	case <-ready:
	case <-time.After(hang):
		t.Fatal("not ready")
	}
	next := func(kind workflow.ChangeKind, id string, outcome workflow.Outcome) {
		t.Helper()
		select {
		case c := <-changes:
			if c.Kind != kind || c.ID != id || c.Outcome != outcome || c.Name != "flow" {
				t.Errorf("told %+v, want that %s %s %s", c, id, kind, outcome)
			}
		case <-time.After(hang):
			t.Fatalf("nobody was told that %s %s", id, kind)
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
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(changes) != 0 {
		t.Errorf("and %+v", <-changes)
	}
	if err := watcher.Watch(e.ctx(), nil, nil); err == nil {
		t.Error("a watcher without a function")
	}
}

// A watcher hears of its own database alone, though channels of Redis know no databases.
func TestWatchersOfOneDatabase(t *testing.T) {
	here := newEnv(t)
	there := on(t, here.srv, here.srv.Connect(t, redis.Options{URL: here.srv.URL + "/1"}), here.opts)
	watch := func(e *env) <-chan workflow.Change {
		ready, changes := make(chan struct{}), make(chan workflow.Change, 16)
		go func() { _ = e.Watch(e.ctx(), func() { close(ready) }, func(c workflow.Change) { changes <- c }) }()
		select {
		case <-ready:
		case <-time.After(hang):
			t.Fatal("not ready")
		}
		return changes
	}
	first := func(changes <-chan workflow.Change, want string) {
		t.Helper()
		select {
		case c := <-changes:
			if c.ID != want {
				t.Errorf("hears first of %s, want %s", c.ID, want)
			}
		case <-time.After(hang):
			t.Fatalf("hears nothing of %s", want)
		}
	}
	changes, elsewhere := watch(here), watch(there)
	here.begin("a")
	first(changes, "a")
	there.begin("b")
	first(elsewhere, "b")
}

// One shard and many have prefixes of their own, and yet whoever comes with another number is refused; who looks on decides nothing.
func TestShardsAreCompared(t *testing.T) {
	srv := testenv.Redis(t)
	open := func(prefix string, shards int, lookOn bool) error {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), hang)
		defer cancel()
		c, err := workflow.Connect{URL: srv.URL, LookOn: lookOn}.Open(ctx, workflow.Options{Prefix: prefix, Shards: shards})
		if err == nil {
			c.Close()
		}
		return err
	}
	refused := func(err error, parts ...string) {
		t.Helper()
		if !errors.Is(err, workflow.ErrShards) {
			t.Fatalf("error %v, want %v", err, workflow.ErrShards)
		}
		for _, p := range parts {
			if !strings.Contains(err.Error(), p) {
				t.Errorf("no %q in: %v", p, err)
			}
		}
	}
	one, many := srv.TaggedPrefix(t), srv.ShardedPrefix(t, 3)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(open(one, 1, true))
	must(open(strings.Trim(one, "{}"), 3, true)) // nothing is stored yet
	must(open(one, 1, false))
	must(open(one, 1, true))
	refused(open(strings.Trim(one, "{}"), 3, true), "3 here, 1 in Redis")
	refused(open(strings.Trim(one, "{}"), 3, false), "3 here, 1 in Redis")

	must(open(many, 3, false))
	must(open(many, 3, true))
	refused(open(many, 1, true), "1 here, 3 in Redis", "{"+many+"-0}:workflow:shards")
	refused(open("{"+many+"}", 1, true), "1 here, 3 in Redis")
	refused(open(many, 2, false), "2 here, 3 in Redis")
	refused(open("{"+many+"}", 2, false), "2 here, 3 in Redis") // the tag of tasks under the same prefix
}
