package task_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
)

// The callback gets the results in the order of the children, is labelled with its group, has its own
// priority and size, and its result can be awaited. A child finds the Client in its context.
func TestGroupCallsBack(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	f.start(func(ctx context.Context, j *task.Job[double]) (int, error) {
		if task.ClientFrom(ctx) == nil || j.GroupID == "" {
			t.Errorf("the child %s has no client, or no group: %q", j.ID, j.GroupID)
		}
		return 2 * j.Args.N, nil
	})
	g := f.spawn(5)
	if n, err := f.callback.HandleOf(e.client, g.CallbackID()).Await(e.ctx()); n != 5 || err != nil {
		t.Errorf("the callback returned %d, %v, want 5", n, err)
	}
	same(t, show(wait(t, "the callback", f.fired)), "0 2 4 6 8")
	info := <-f.infos
	if info.ID != "_"+g.ID+":callback" || info.Labels["callback_group_id"] != g.ID || info.Queue != "realtime:large" {
		t.Errorf("the callback was %s in %s with labels %v", info.ID, info.Queue, info.Labels)
	}
	got := f.info(g)
	if got.OK != 5 || got.Failed != 0 || got.Remaining != 0 || got.Submitted != 5 || got.Fired != "callback" || got.Policy != task.OnAllSuccess {
		t.Errorf("info %+v", got)
	}
	if d := time.Until(got.Expires); d < 23*time.Hour || d > 24*time.Hour {
		t.Errorf("it expires in %v, want 24 h", d)
	}
}

// Nothing is fired while children remain; the last one fires once. A child's result is where the page says, and its own one is
// not kept beside it.
func TestGroupFiresWithTheLastChild(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	goOn := make(chan struct{})
	f.start(func(_ context.Context, j *task.Job[double]) (int, error) { <-goOn; return 7, nil })
	g := f.spawn(3, task.GroupTTL(time.Hour))
	for left := int64(2); left >= 1; left-- {
		goOn <- struct{}{}
		e.eventually("a child has ended", func() bool { return e.number("GET", e.key("groups:"+g.ID+":remaining")) == left })
		if len(f.fired) != 0 || f.info(g).Fired != "" {
			t.Fatalf("fired with %d left", left)
		}
	}
	goOn <- struct{}{}
	wait(t, "the callback", f.fired)
	if fired, failed := f.quiet(); fired+failed != 0 {
		t.Errorf("%d more callbacks", fired+failed)
	}
	for i := range 3 {
		key := e.key("groups:" + g.ID + ":results:" + g.ChildID(i))
		if got := e.text("GET", key); got != "\x07" {
			t.Errorf("result %d is %q, want msgpack 7", i, got)
		}
		if ttl := e.number("TTL", key); ttl < 3500 || ttl > 3600 {
			t.Errorf("result %d expires in %d s, want the group's hour", i, ttl)
		}
		e.counts(0, "EXISTS", e.key("results:"+g.ChildID(i)))
	}
	for _, part := range []string{"callback", "remaining", "done", "state"} {
		if ttl := e.number("TTL", e.key("groups:"+g.ID+":"+part)); ttl < 3500 || ttl > 3600 {
			t.Errorf("%s expires in %d s, want the group's hour", part, ttl)
		}
	}
	if got := e.text("GET", e.key("groups:"+g.ID+":callback")); got != "\x82\xaatask_class\xaegroup:Callback\xa4args\x91\x03" {
		t.Errorf("the callback record is %q", got)
	}
}

// A child that is retried, or snoozes, or whose worker stops has not ended; the group waits for its end.
func TestGroupWaitsForRetries(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e, task.Retry(task.Backoff{Base: time.Millisecond, Retries: 3}))
	var snoozed sync.Map
	f.start(func(_ context.Context, j *task.Job[double]) (int, error) {
		if _, again := snoozed.LoadOrStore(j.ID, true); !again {
			return 0, task.Snooze(time.Millisecond)
		}
		if j.Attempt < 3 {
			return 0, errors.New("not yet")
		}
		return j.Attempt, nil
	})
	g := f.spawn(3)
	same(t, show(wait(t, "the callback", f.fired)), "3 3 3")
	f.quiet()
	if n := f.runs.Load(); n != 12 {
		t.Errorf("%d runs, want 12", n)
	}
	if info := f.info(g); info.OK != 3 || info.Failed != 0 {
		t.Errorf("info %+v", info)
	}
}

// A child of a group that has expired ends as it does, and leaves no keys of the group behind.
func TestGroupHasExpired(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	g := f.spawn(2)
	for _, part := range []string{"callback", "remaining", "done", "state"} {
		e.do("DEL", e.key("groups:"+g.ID+":"+part))
	}
	f.start(nil)
	e.eventually("they have ended", func() bool { return e.counter(task.Done, "group:Child") == 2 })
	if fired, failed := f.quiet(); fired+failed != 0 {
		t.Error("something was fired")
	}
	keys, err := e.srv.AllKeys(e.ctx())
	e.ok(err)
	if i := slices.IndexFunc(keys, func(k string) bool { return strings.Contains(k, ":groups:") }); i >= 0 {
		t.Errorf("left behind: %s", keys[i])
	}
	fails(t, errOf(g.Info(e.ctx())), task.ErrNotFound)
	fails(t, errOf(task.GroupResultsOf[int](e.ctx(), e.client, g.ID)), task.ErrNotFound)
}

// The children of a group that a Python peer made, by its record; once, though they are delivered twice. Without the record nothing is fired and nothing fails.
func TestGroupOfAPythonPeer(t *testing.T) {
	for _, record := range []bool{true, false} {
		t.Run(fmt.Sprint("record ", record), func(t *testing.T) {
			e := newEnv(t)
			f := newFamily(e)
			if record {
				e.do("SET", e.key("groups:py:callback"), "\x82\xaatask_class\xaegroup:Callback\xa4args\x91\x05", "EX", "1000")
			}
			e.do("SET", e.key("groups:py:remaining"), "2", "EX", "1000")
			for range 2 {
				for _, id := range []string{"c1", "c2"} {
					e.do("XADD", e.key("tasks:normal:small"), "*", "data",
						"\x85\xa7task_id\xa2"+id+"\xa9task_name\xabgroup:Child\xa6labels\x83\xa8priority\xa6normal\xa4size\xa5small\xa8group_id\xa2py\xa9task_args\x91\x15\xabtask_kwargs\x80")
				}
			}
			e.start(task.WorkerOptions{}, f.child.Handle(func(_ context.Context, j *task.Job[double]) (int, error) { return 2 * j.Args.N, nil }),
				f.callback.Handle(func(_ context.Context, j *task.Job[double]) (int, error) {
					if j.Args.N != 5 || j.Labels["callback_group_id"] != "py" || j.Queue != "realtime:large" || j.ID != "_py:callback" {
						t.Errorf("the callback is %+v", j)
					}
					f.fired <- nil
					return 0, nil
				}))
			e.eventually("all have ended", func() bool { return e.counter(task.Done, "group:Child") == 4 })
			if record {
				wait(t, "the callback", f.fired)
			}
			if fired, _ := f.quiet(); fired != 0 {
				t.Errorf("%d more callbacks", fired)
			}
			if got := e.text("GET", e.key("groups:py:results:c1")); got != "\x2a" {
				t.Errorf("result %q, want msgpack 42", got)
			}
			e.counts(0, "GET", e.key("groups:py:remaining"))
		})
	}
}

// The in-process look-alike does for groups and aggregates, too.
func TestGroupOnMiniredis(t *testing.T) {
	e := newEnvOn(t, testenv.Miniredis(t))
	f := newFamily(e)
	typ := noteType("note:Mini", task.Aggregate[note]{MaxSize: 2, MaxDelay: time.Hour})
	ch := make(chan string, 1)
	e.start(task.WorkerOptions{}, append(f.handlers(nil), typ.HandleBatch(batches(ch, nil)))...)
	f.spawn(3)
	same(t, show(wait(t, "the callback", f.fired)), "0 2 4")
	sendMany(e, typ, []note{{"a", 1}, {"a", 2}})
	same(t, wait(t, "a batch", ch), "a 1 2")
}
