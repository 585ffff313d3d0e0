package tasktest

import (
	"context"
	"errors"
	"testing"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/task"
)

// Client returns a Client on a Redis of its own, in this process, for the time of the test.
func Client(t testing.TB) *task.Client {
	t.Helper()
	c, end, err := Open(t.Context(), task.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Open is Client for whoever has no testing.TB, or options. end closes the Client and ends its Redis; workers must have ended before.
func Open(ctx context.Context, o task.Options) (c *task.Client, end func() error, err error) {
	srv, err := embedded.StartMiniredis(ctx, embedded.MiniredisOptions{})
	if err != nil {
		return nil, nil, err
	}
	c, err = task.Connect{URL: srv.URL(), Embedded: true}.Open(ctx, o)
	if err != nil {
		return nil, nil, errors.Join(err, srv.Stop())
	}
	return c, func() error { c.Close(); return srv.Stop() }, nil
}

// Runs are the ends of runs, in their order.
type Runs []task.Event

// Of are the runs of one task.
func (r Runs) Of(id string) Runs {
	var own Runs
	for _, e := range r {
		if e.Info.ID == id {
			own = append(own, e)
		}
	}
	return own
}

// Outcome is how the last of them ended; "" if there is none.
func (r Runs) Outcome() task.Outcome {
	if len(r) == 0 {
		return ""
	}
	return r[len(r)-1].Outcome
}

// Err is what the last of them failed with, nil if it did not or there is none.
func (r Runs) Err() error {
	if len(r) == 0 {
		return nil
	}
	return r[len(r)-1].Err
}

// Count is how many of them ended so.
func (r Runs) Count(o task.Outcome) (n int) {
	for _, e := range r {
		if e.Outcome == o {
			n++
		}
	}
	return n
}

// Drain runs all tasks that were submitted with c, and those that they submit, until none is left: delayed ones and retries do not wait until they are due. It returns the ends of all
// runs. A task that none of the handlers is for is put back once and is dead then. If ctx ends first, the error says so; give it a deadline where a handler may put tasks
// back for ever. With middleware or other settings of a worker call c.Drain.
func Drain(ctx context.Context, c *task.Client, handlers ...task.Handler) (Runs, error) {
	runs, err := c.RunAll(ctx, task.WorkerOptions{MaxUnknown: 1}, handlers...)
	return runs, err
}
