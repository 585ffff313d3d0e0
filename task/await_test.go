package task_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/task"
)

// After Close an Await still ends, and leaves nothing behind.
func TestAwaitAfterClose(t *testing.T) {
	e := newEnv(t)
	c := e.connect(task.Options{})
	c.Close()
	h := send(e, echo, "x")
	e.start(task.WorkerOptions{}, echoing())
	returned(e, echo.HandleOf(c, h.ID), "x")
}

// A result that is not kept cannot be awaited, and says so; Keep keeps it.
func TestNotKept(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[int, task.None]("test:None")
	e.start(task.WorkerOptions{}, typ.Handle(func(context.Context, *task.Job[int]) (task.None, error) { return task.None{}, nil }))
	fails(t, errOf(send(e, typ, 1).Await(e.ctx())), task.ErrNotKept)
	if _, err := send(e, typ, 1, task.Keep(time.Minute)).Await(e.ctx()); err != nil {
		t.Errorf("%v", err)
	}
	fails(t, errOf(echo.HandleOf(e.client, "nobody").Result(e.ctx())), task.ErrResultMissing)
	short, cancel := context.WithTimeout(e.ctx(), 20*time.Millisecond)
	defer cancel()
	fails(t, errOf(echo.HandleOf(e.client, "nobody").Await(short)), context.DeadlineExceeded)
	e.counts(0, "EXISTS", e.key("tasks:awaited"))
}

// Many wait for one result, in two processes; a lost push is found by looking.
func TestAwaitTogether(t *testing.T) {
	e := newEnv(t)
	other := e.connect(task.Options{})
	h := send(e, echo, "x")
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			mine := h
			if i%2 == 1 {
				mine = echo.HandleOf(other, h.ID)
			}
			returned(e, mine, "x")
		})
	}
	e.eventually("awaited", func() bool { return e.number("HLEN", e.key("tasks:awaited")) == 1 })
	e.start(task.WorkerOptions{}, echoing())
	all.Wait()
}
