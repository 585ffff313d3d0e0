package task_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
)

// A unique key is free again when its task has ended, in the same step and however it ended.
func TestUniqueKeyIsReleasedAtTheEnd(t *testing.T) {
	e := newEnv(t)
	boom := errors.New("boom")
	for _, c := range []struct {
		kind task.Outcome
		name string
		err  error
		runs int
	}{
		{task.Done, "done", nil, 1},
		{task.Dead, "dead", boom, 1},
		{task.Dead, "dead after a retry", boom, 2},
		{task.Cancelled, "cancelled", nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			retry := task.Retry(task.Backoff{Base: time.Millisecond, Retries: max(c.runs-1, -1), Exact: true})
			if c.runs < 2 {
				retry = task.Retry(task.NoRetry{})
			}
			typ := task.Define[double, int]("unique:"+c.name, task.Positional(), task.Unique(time.Hour), retry)
			h, err := typ.Submit(e.ctx(), e.client, double{1})
			testenv.Must(t, err)
			var dup *task.DuplicateError
			if _, err := typ.Submit(e.ctx(), e.client, double{1}); !errors.As(err, &dup) || dup.ID != h.ID {
				t.Fatalf("a second one: %v, want a DuplicateError of %s", err, h.ID)
			}
			if c.kind == task.Cancelled {
				e.mark(h.ID)
			}
			runs := 0
			_, stop := e.start(task.WorkerOptions{}, typ.Handle(func(context.Context, *task.Job[double]) (int, error) { runs++; return 1, c.err }))
			_, err = h.Await(e.ctx())
			stop()
			if (err == nil) != (c.kind == task.Done) || runs != c.runs {
				t.Errorf("it ended with %v after %d runs", err, runs)
			}
			if _, err := typ.Submit(e.ctx(), e.client, double{1}); err != nil {
				t.Errorf("after the end: %v", err)
			}
			same(t, e.counter(c.kind, "unique:"+c.name), 1)
			if e.number("ZCARD", e.key("tasks:cancelled")) != 0 {
				t.Error("a cancel mark is left")
			}
			if letters := e.number("HEXISTS", e.key("tasks:dead"), h.ID); (letters == 1) != (c.kind == task.Dead) {
				t.Errorf("%d dead letters", letters)
			}
			e.do("FLUSHALL")
		})
	}
}

// A start key is free once its task begins, or at its end if it never does; a copy that waits for its retry does not take it again.
func TestStartKeyIsReleasedAtTheStart(t *testing.T) {
	e := newEnv(t)
	started, goOn := make(chan string), make(chan error)
	typ := task.Define[double, task.None]("start:Key", task.Positional(), task.Retry(task.Backoff{Base: time.Millisecond, Retries: 1}))
	key := e.key("tasks:unique:start")
	submit := func(id string) {
		e.do("SET", key, id, "EX", "1000")
		e.do("XADD", e.key("tasks:normal:medium"), "*", "data",
			"\x86\xa7task_id\xa2"+id+"\xa9task_name\xa9start:Key\xa6labels\x80\xa9task_args\x91\x01\xabtask_kwargs\x80\xa4meta\x81\xa2us\xa5start")
	}
	submit("t1")
	e.mark("t1")
	submit("t2") // takes the key from t1, which must not release it
	e.start(task.WorkerOptions{}, typ.Handle(func(_ context.Context, j *task.Job[double]) (task.None, error) {
		started <- j.ID
		return task.None{}, <-goOn
	}))
	if id := wait(t, "it runs", started); id != "t2" {
		t.Fatalf("%s runs", id)
	}
	if e.number("EXISTS", key) != 0 {
		t.Error("it runs and the key is held")
	}
	e.do("SET", key, "t3")
	goOn <- errors.New("again")
	wait(t, "it runs again", started)
	goOn <- nil
	e.eventually("both have ended", func() bool { return e.counter(task.Done, "start:Key")+e.counter(task.Cancelled, "start:Key") == 2 })
	if got := e.text("GET", key); got != "t3" {
		t.Errorf("the key is held by %q, want t3", got)
	}
	e.do("DEL", key)
	e.mark("t4")
	for never := false; !never; { // until the worker knows of the mark
		submit("t4")
		e.eventually("it begins, or ends without", func() bool {
			select {
			case <-started:
				goOn <- nil
				return true
			default:
				never = e.counter(task.Cancelled, "start:Key") == 2
				return never
			}
		})
	}
	if e.number("EXISTS", key) != 0 {
		t.Error("the key is held by a task that has ended")
	}
}
