package workflow_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/workflow"
)

// Redis has lost an event that a worker was handed, as after a failover: what followed from it is refused, for the event comes again. The task is handed out again with what is left.
func TestEventsGoneMeanwhile(t *testing.T) {
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	i := e.begin("one")
	e.ok(e.Cancel(e.ctx(), i, event(workflow.EventCanceled, 0)))
	k := e.task(w)
	if types(k.Events) != "Started WorkflowExecutionCanceled" {
		t.Fatalf("events %s", types(k.Events))
	}
	list, err := e.do("XRANGE", e.key("in:one"), "-", "+").AsXRange()
	e.ok(err)
	e.do("XDEL", e.key("in:one"), list[1].ID)
	e.is(k.Complete(e.ctx(), checkpoint(k, schedules(1))), workflow.ErrLost)
	if h := e.history(i); h != "" {
		t.Errorf("history %s", h)
	}
	k = e.task(w)
	if types(k.Events) != "Started" {
		t.Errorf("handed out again: %s", types(k.Events))
	}
	e.step(k, finished)
}

// An executor that knows more than Redis is refused before anything is sent, and the task stays with its worker for one that does not.
func TestExecutorKnowsMore(t *testing.T) {
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	i := e.begin("one")
	e.step(e.task(w))
	e.ok(e.Signal(e.ctx(), "one", event(workflow.EventSignal, 0)))
	k := e.task(w)
	for _, from := range []int64{1, 3, 9} {
		cp := checkpoint(k, finished)
		cp.Executed[0].Sequence = from
		var refused *workflow.EventError
		if err := k.Complete(e.ctx(), cp); !errors.As(err, &refused) || !strings.Contains(err.Error(), "must be 2") {
			t.Errorf("from %d: %v", from, err)
		}
	}
	e.step(k, finished)
	if h := e.history(i); h != "Started SignalReceived" {
		t.Errorf("history %s", h)
	}
}

// Two have the same task, and the answer to the first is lost until the second has completed it: the first is not told that its own outcome was recorded, though the events that it handled are
// in the history.
func TestWhoseCheckpoint(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	e := newEnv(t)
	i := e.begin("one")
	first := e.mortal(workflow.WorkerOptions{Lease: 30 * time.Second, Name: "first"})
	mine := e.task(first.Worker)
	entry, err := e.do("HGET", e.key("run:one"), "e").ToString()
	e.ok(err)
	e.do("XCLAIM", e.key("tasks:q"), "workers", "second", "0", entry, "JUSTID")
	w, _ := e.worker(workflow.WorkerOptions{Name: "second", Lease: 30 * time.Second})
	theirs := e.task(w)
	first.die()
	complete := func(k *workflow.WorkflowTask, who string) error {
		return k.Complete(e.ctx(), checkpoint(k, func(cp *workflow.Checkpoint) { cp.Executed = executed(k, event(who, 0)) }))
	}
	told := make(chan error, 1)
	begun := first.proxy.Dials()
	go func() { told <- complete(mine, "First") }()
	e.until("the first has tried", func() bool { return first.proxy.Dials() > begun })
	e.ok(complete(theirs, "Second"))
	first.revive()
	e.is(<-told, workflow.ErrLost)
	if h := e.history(i); h != "Started Second" {
		t.Errorf("history %s", h)
	}
	e.ok(e.Terminate(e.ctx(), i, "enough"))
}

// A document that a later version has added to loses nothing by a checkpoint, and all that a checkpoint changes is changed in it.
func TestDocumentWithMore(t *testing.T) {
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	i := e.begin("one")
	key := e.key("doc:" + i.String())
	doc, err := e.do("GET", key).ToString()
	e.ok(err)
	e.do("SET", key, strings.Replace(doc, "{", `{"priority":12345678901234567890,`, 1))
	k := e.task(w)
	e.step(k)
	if info := e.info(i); info.LastSequence != 1 || info.LastEvent != k.Events[0].ID || info.State != workflow.Active {
		t.Errorf("after a checkpoint: %+v", info)
	}
	e.ok(e.Signal(e.ctx(), "one", event(workflow.EventSignal, 0)))
	e.step(e.task(w), finished)
	if info := e.info(i); info.LastSequence != 2 || info.LastEvent != "" || info.Outcome != workflow.Completed || info.Ended == nil {
		t.Errorf("at the end: %+v", info)
	}
	if doc, err = e.do("GET", key).ToString(); err != nil || !strings.Contains(doc, `"priority":12345678901234567890`) {
		t.Errorf("document %s, %v", doc, err)
	}
}

// A right that a script needs is withdrawn: it says so before it writes anything, Complete waits for it to be given back, and nothing is there by half.
func TestRightWithdrawn(t *testing.T) {
	said := make(chan string, 100)
	e := newEnv(t, func(o *workflow.Options) { o.Log = slog.New(slog.NewTextHandler(lines(said), nil)) })
	w, _ := e.worker(workflow.WorkerOptions{})
	i := e.begin("one")
	e.step(e.task(w))
	for n, right := range []string{"set", "rpush", "xadd", "hset", "xack", "zadd", "publish"} {
		e.ok(e.Signal(e.ctx(), "one", event(workflow.EventSignal, 0)))
		k, ctx, told := e.task(w), e.ctx(), make(chan error, 1)
		e.do("ACL", "SETUSER", "default", "-"+right)
		go func() { told <- k.Complete(ctx, checkpoint(k, schedules(int64(n)+1), timer(int64(n)+100, time.Hour))) }()
		for line := ""; !strings.Contains(line, "an outcome waits") || !strings.Contains(line, strings.ToUpper(right)); {
			select {
			case line = <-said:
			case err := <-told:
				t.Fatalf("%s: %v", right, err)
			case <-ctx.Done():
				t.Fatalf("%s: nothing is said", right)
			}
		}
		if have := e.int("LLEN", e.key("his:"+i.String())); have != k.LastSequence {
			t.Errorf("%s: %d events in the history, %d before", right, have, k.LastSequence)
		}
		e.do("ACL", "SETUSER", "default", "+"+right)
		e.ok(<-told)
	}
	e.ok(e.Terminate(e.ctx(), i, "enough"))
}

// lines passes on what is written, as long as there is room.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	select {
	case l <- string(b):
	default:
	}
	return len(b), nil
}

// Whichever right is missing, what is on every way is done or leaves all as it was: their scripts check only the rights that they need there.
func TestAnyRightWithdrawn(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	said := make(chan string, 100)
	e := newEnv(t, func(o *workflow.Options) { o.Log = slog.New(slog.NewTextHandler(lines(said), nil)) })
	w, _ := e.worker(workflow.WorkerOptions{Lease: time.Hour}) // its heartbeat needs some of the rights, too
	e.do("ACL", "SETUSER", "onlooker", "on", ">secret", "~*", "&*", "+@all")
	onlooker := e.srv.Connect(t, redis.Options{Username: "onlooker", Password: "secret"})
	look := func(words ...string) rueidis.RedisResult {
		return onlooker.Do(e.ctx(), onlooker.B().Arbitrary(words...).Build())
	}
	state := func() map[string]string {
		all := map[string]string{}
		for _, name := range e.keys() {
			if strings.HasPrefix(name, e.opts.Prefix) {
				continue // heartbeats
			}
			key := e.key(name)
			if kind, _ := look("TYPE", key).ToString(); kind != "stream" {
				dump, err := look("DUMP", key).ToString()
				e.ok(err)
				all[name] = dump
				continue
			}
			entries, err := look("XRANGE", key, "-", "+").ToAny() // a dump would tell when it was read last, too
			e.ok(err)
			pending, _ := look("XPENDING", key, "workers").ToAny() // an inbox has none
			all[name] = fmt.Sprint(entries, pending)
		}
		return all
	}
	rights := []string{"set", "rpush", "del", "xadd", "xdel", "xack", "sadd", "hset", "hsetnx", "hdel", "zadd", "zrem", "hincrby", "pexpire", "pexpireat", "publish",
		"get", "hget", "hmget", "hgetall", "hexists", "exists", "xrange", "xlen", "lrange", "lindex", "zrange", "sismember", "time"}
	refused := map[string]int{}
	without := func(what, right string, do func() error) {
		for len(said) > 0 { // of the one before
			<-said
		}
		before, told := state(), make(chan error, 1)
		e.do("ACL", "SETUSER", "default", "-"+right)
		go func() { told <- do() }()
		var err error
		waits := false // it is repeated until the right is given back
		for done := false; !done && !waits; {
			select {
			case line := <-said:
				waits = strings.Contains(line, "an outcome waits")
			case err = <-told:
				done = true
			}
		}
		if waits || err != nil {
			refused[what]++
			if d := cmp.Diff(before, state()); d != "" {
				t.Errorf("%s without %s, %v: %s", what, right, err, d)
			}
		}
		e.do("ACL", "SETUSER", "default", "+"+right)
		if waits {
			e.ok(<-told)
		} else if err != nil {
			e.ok(do())
		}
	}
	for _, right := range rights {
		without("start", right, func() error { return e.Start(e.ctx(), starting(right)) })
		k := e.task(w)
		without("checkpoint", right, func() error { return k.Complete(e.ctx(), checkpoint(k, schedules(1))) })
		a := e.activity(w)
		without("result", right, func() error { return a.Complete(e.ctx(), event("ActivityCompleted", 1)) })
		without("signal", right, func() error {
			return e.Signal(e.ctx(), right, workflow.Event{ID: right, Type: workflow.EventSignal, Time: time.Now()})
		})
		k = e.task(w)
		e.ok(k.Complete(e.ctx(), checkpoint(k)))
		k = e.task(w)
		without("end", right, func() error { return k.Complete(e.ctx(), checkpoint(k, finished)) })
	}
	for _, what := range []string{"start", "checkpoint", "result", "signal", "end"} {
		if n := refused[what]; n < 5 || n == len(rights) {
			t.Errorf("%s was refused without %d of %d rights", what, n, len(rights))
		}
	}
}

// A task of a later version that comes when the worker has stopped to read is left alone as well.
func TestSetAsideAtTheStop(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, stop := e.worker(workflow.WorkerOptions{})
	stop()
	e.ok(workflow.SetAside(w, "q"))
}

// A right that loading a task needs is withdrawn: its instance is not paused for that, whatever WorkerOptions.MaxDeliveries says, and goes on once the right is given back.
func TestRightToLoadWithdrawn(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	t.Parallel()
	log := &notes{}
	e := newEnv(t, func(o *workflow.Options) { o.Log = slog.New(slog.NewTextHandler(log, nil)) })
	w, _ := e.worker(workflow.WorkerOptions{MaxDeliveries: 1, Lease: time.Hour})
	e.begin("warm")
	e.step(e.task(w), finished)
	e.begin("one")
	e.ok(e.do("ACL", "SETUSER", "default", "-xrange").Error())
	ctx := e.ctx()
	got := make(chan *workflow.WorkflowTask, 1)
	go func() {
		task, _ := w.WorkflowTask(ctx, []string{"q"})
		got <- task
	}()
	e.until("it is tried", func() bool {
		return log.has("stream: entry waits to be tried again") || log.has("stream: handler failed")
	})
	e.ok(e.do("ACL", "SETUSER", "default", "+xrange").Error())
	task := <-got
	if task == nil || task.ID != "one" {
		t.Fatalf("task: %+v", task)
	}
	e.step(task, finished)
	if log.has("is paused") {
		t.Error("the instance was paused")
	}
}
