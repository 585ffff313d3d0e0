package task_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/task"
)

// quick counts its runs.
func quick[T any](typ *task.Type[T, task.None], ran *atomic.Int64) task.Handler {
	return typ.Handle(func(context.Context, *task.Job[T]) (task.None, error) { ran.Add(1); return task.None{}, nil })
}

// All cancel marks count, those that are there when the worker begins and those that come later, however many there are.
func TestEveryCancelMarkCounts(t *testing.T) {
	t.Parallel()
	const many = 12_000
	e := newEnv(t)
	typ := task.Define[double, task.None]("marks:Many", task.Positional())
	mark := func(from, to int, at int64) {
		args := []string{"ZADD", e.key("tasks:cancelled")}
		for i := from; i < to; i++ {
			args = append(args, fmt.Sprint(at+int64(i/4)), fmt.Sprintf("other-%d", i))
		}
		e.must(args...)
	}
	now := time.Now().UnixMilli()
	first := send(e, typ, double{1}, task.ID("first"))
	e.must("ZADD", e.key("tasks:cancelled"), fmt.Sprint(now-3_600_000), first.ID)
	mark(0, many, now-100_000)

	var ran atomic.Int64
	ends := make(chan task.Event, 10)
	e.start(task.WorkerOptions{Observe: func(ev task.Event) { ends <- ev }}, quick(typ, &ran))
	if ev := wait(t, "the end of the first", ends); ev.Outcome != task.Cancelled {
		t.Errorf("the first is %s, want cancelled", ev.Outcome)
	}
	for i, at := range []int64{now, now - 7_200_000} { // the second by a clock that is late
		id := fmt.Sprint("later-", i)
		e.must("ZADD", e.key("tasks:cancelled"), fmt.Sprint(at), id)
		mark(many*(i+1), many*(i+2), now+100_000)
		e.must("PUBLISH", e.key("tasks:control"), id)
		e.eventually("the mark is read", func() bool {
			send(e, typ, double{2}, task.ID(fmt.Sprintf("later-%d", i)))
			e.must("DEL", e.key("tasks:known:id:"+id))
			return wait(t, "an end", ends).Outcome == task.Cancelled
		})
	}
	e.must("DEL", e.key("tasks:cancelled"))
	e.must("PUBLISH", e.key("tasks:control"), "")
	e.eventually("the removal is read", func() bool {
		e.must("DEL", e.key("tasks:known:id:later-0"))
		send(e, typ, double{2}, task.ID("later-0"))
		return wait(t, "an end", ends).Outcome == task.Done
	})
	e.idle()
}

// A child of a group that was cancelled does not run, though the mark of the group is gone.
func TestCancelledGroupOutlivesItsMark(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[double, task.None]("marks:Child", task.Positional())
	callback := task.Define[task.None, task.None]("marks:Callback")
	spawn := func(id string) *task.Group {
		g := spawn(e, []task.Pending{typ.With(double{1}, task.In(50*time.Millisecond))}, callback.With(task.None{}), task.GroupID(id))
		return g
	}
	g := spawn("stopped")
	e.ok(g.Cancel(e.ctx()))
	e.must("DEL", e.key("tasks:cancelled")) // as after a day
	spawn("other")

	var ran, called atomic.Int64
	ends := make(chan task.Event, 10)
	e.start(task.WorkerOptions{Observe: func(ev task.Event) { ends <- ev }}, quick(typ, &ran), quick(callback, &called))
	for range 3 { // both children and a callback
		wait(t, "an end", ends)
	}
	e.idle()
	info, err := g.Info(e.ctx())
	if err != nil || info.Failed != 1 || info.OK != 0 {
		t.Errorf("the group: %+v, %v", info, err)
	}
	if ran.Load() != 1 || called.Load() != 1 {
		t.Errorf("%d children ran and %d callbacks, want those of the other group", ran.Load(), called.Load())
	}
}

// The mark of a group is that of no task, whatever its id.
func TestGroupMarkIsNoTaskID(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[double, task.None]("marks:Group", task.Positional())
	spawn(e, []task.Pending{typ.With(double{1}), typ.With(double{2})}, typ.With(double{3}), task.GroupID("g"))
	h := send(e, typ, double{9}, task.ID("g:*"), task.UniqueKey("u", time.Minute))
	e.ok(errOf(e.client.Cancel(e.ctx(), h.Ref)))
	var ran atomic.Int64
	e.start(task.WorkerOptions{}, quick(typ, &ran))
	e.idle()
	if ran.Load() != 3 {
		t.Errorf("%d runs, want 3: two children and the callback", ran.Load())
	}
}

// A peer's keyword arguments are not dropped in silence: the task is dead, and its error names them.
func TestKeywordArgumentsAreNotDropped(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[double, task.None]("test:MyTask", task.Positional())
	body := "\x85\xa7task_id\xa6abc123\xa9task_name\xabtest:MyTask\xa6labels\x80\xa9task_args\x91\x01\xabtask_kwargs\x81\xa5force\xc3"
	e.must("XADD", e.key("tasks:normal:medium"), "*", "data", rueidis.BinaryString([]byte(body)))
	var ran atomic.Int64
	ends := make(chan task.Event, 1)
	e.start(task.WorkerOptions{Observe: func(ev task.Event) { ends <- ev }}, quick(typ, &ran))
	ev := wait(t, "its end", ends)
	if ev.Outcome != task.Dead || ev.Err == nil || !strings.Contains(ev.Err.Error(), `{"force":true}`) {
		t.Errorf("%s, %v: want dead, with the keyword arguments", ev.Outcome, ev.Err)
	}
	e.idle()
	if ran.Load() != 0 || e.number("HEXISTS", e.key("tasks:dead"), "abc123") != 1 {
		t.Errorf("%d runs, want none and a dead letter", ran.Load())
	}
}

// The answer to a repeated submission says where the first one went, and a key of one type is none of another.
func TestKnownSubmissionKeepsItsQueueAndType(t *testing.T) {
	e := newEnv(t)
	a, b := task.Define[double, task.None]("marks:A", task.Positional()), task.Define[double, task.None]("marks:B", task.Positional())
	agg := task.Define[double, task.None]("marks:Agg", task.Positional(), task.Aggregate[double]{MaxDelay: time.Hour})
	for _, opt := range []task.SubmitOption{task.Key("order-17"), task.ID("order-18")} {
		first := send(e, a, double{1}, opt, task.Realtime)
		again := send(e, a, double{1}, opt)
		if !again.Existing || again.Ref != first.Ref {
			t.Errorf("the answer is %+v, want %+v", again.Ref, first.Ref)
		}
		for _, other := range []*task.Type[double, task.None]{b, agg} {
			h, err := other.Submit(e.ctx(), e.client, double{1}, opt)
			if h != nil || err == nil || !strings.Contains(err.Error(), "marks:A") || !strings.Contains(err.Error(), other.Name()) {
				t.Errorf("%s under a key of A: %v, %v; want an error that names both", other.Name(), h, err)
			}
		}
	}
	first := send(e, agg, double{1}, task.Key("order-19"))
	if again := send(e, agg, double{1}, task.Key("order-19")); !again.Existing || again.Ref != first.Ref {
		t.Errorf("the answer is %+v, want %+v", again.Ref, first.Ref)
	}
	e.counts(1, "HGET", e.key("tasks:collected:marks%3AAgg:"), "n")
	if h, err := a.Submit(e.ctx(), e.client, double{1}, task.Key("order-19")); err == nil || !strings.Contains(err.Error(), "marks:Agg") {
		t.Errorf("A under a key of an aggregated type: %v, %v; want an error", h, err)
	}
}

func TestRunTwiceIsRefused(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[double, task.None]("marks:Twice", task.Positional())
	var ran atomic.Int64
	w, stop := e.start(task.WorkerOptions{}, quick(typ, &ran))
	send(e, typ, double{1})
	e.idle()
	s, err := e.client.Scheduler(task.SchedulerOptions{})
	e.ok(err)
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() { end <- s.Run(ctx) }()
	e.eventually("the scheduler leads", func() bool { id, _, err := e.client.SchedulerLeader(e.ctx()); return err == nil && id == s.ID() })
	gone, over := context.WithCancel(t.Context())
	over()
	for what, run := range map[string]func(context.Context) error{"Worker": w.Run, "Scheduler": s.Run} {
		if err := run(gone); err == nil || !strings.Contains(err.Error(), "runs already") {
			t.Errorf("%s.Run at the same time: %v, want an error", what, err)
		}
	}
	stop()
	cancel()
	e.ok(wait(t, "the end of the scheduler", end))

	// Once they have ended they can run again.
	e.run(w)
	again, over := context.WithCancel(t.Context())
	go func() { end <- s.Run(again) }()
	e.eventually("the scheduler leads again", func() bool {
		id, term, err := e.client.SchedulerLeader(e.ctx())
		return err == nil && id == s.ID() && term == 2
	})
	send(e, typ, double{2})
	e.idle()
	same(t, ran.Load(), 2)
	over()
	e.ok(wait(t, "the second end of the scheduler", end))
}

// lone counts the calls that are not pipelines.
type lone struct {
	rueidis.Client
	calls atomic.Int64
}

func (l *lone) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	l.calls.Add(1)
	return l.Client.Do(ctx, cmd)
}

// Tasks that need a script go in pipelines too, in their order, and each has its own answer.
func TestSubmitManyPipelinesScripts(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[double, task.None]("marks:Unique", task.Positional(), task.Unique(time.Minute))
	args := make([]double, 600)
	for i := range args {
		args[i].N = i
	}
	args[599].N = 5
	slow := &lone{Client: e.srv.Client}
	c, err := task.New(slow, task.Options{Prefix: e.prefix})
	e.ok(err)
	t.Cleanup(c.Close)
	send(e, typ, double{-1}) // the server knows the script
	handles, err := typ.SubmitMany(e.ctx(), c, args, task.In(time.Hour))
	var batch *task.BatchError
	var twin *task.DuplicateError
	if !errors.As(err, &batch) || len(batch.Errs) != 1 || !errors.As(batch.Errs[599], &twin) || twin.ID != handles[5].ID {
		t.Fatalf("%v: want that the last is refused for the sixth", err)
	}
	for i, h := range handles[:599] {
		if h == nil || h.Due.IsZero() || h.ID == "" {
			t.Fatalf("handle %d is %+v", i, h)
		}
	}
	e.counts(599, "ZCARD", e.key("tasks:delayed"))
	if n := slow.calls.Load(); n > 20 {
		t.Errorf("%d single calls for 600 tasks, want pipelines", n)
	}
}
