package task_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/task"
)

// T13: what a worker says of a task after its heartbeat has ended reaches Redis, and changes nothing there. Each way in which a run ends is refused by a script of its own.
func TestEachEndIsFenced(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	for name, c := range map[string]struct {
		opts []task.TypeOption
		err  error // of the first run
	}{
		"result":         {},
		"retry":          {opts: []task.TypeOption{task.Retry(task.Backoff{Base: time.Millisecond})}, err: errors.New("once more")},
		"dead letter":    {err: errors.New("never")},
		"of unique task": {opts: []task.TypeOption{task.Unique(0)}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			typ := task.Define[int, string]("test:Fenced", append(c.opts, task.Small)...)
			runs := 0
			h := send(e, typ, 1)
			_, stop := e.start(task.WorkerOptions{ID: "w", Lease: time.Hour}, typ.Handle(func(context.Context, *task.Job[int]) (string, error) {
				if runs++; runs == 1 {
					e.must("DEL", e.key("worker:w"))
					return "stale", c.err
				}
				return "run " + strconv.Itoa(runs), nil
			}))
			defer stop()
			got, err := h.Await(e.ctx())
			if err != nil || got != "run 2" {
				t.Errorf("%q, %v: the end of the stale run counts", got, err)
			}
			e.idle()
			if n := e.number("HLEN", e.key("tasks:dead")); n != 0 {
				t.Errorf("%d dead letters", n)
			}
			if done, retried := e.counter(task.Done, "test:Fenced"), e.counter(task.Retried, "test:Fenced"); done != 1 || retried != 0 {
				t.Errorf("counted: %d succeeded, %d retried", done, retried)
			}
		})
	}
}
