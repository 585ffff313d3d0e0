package task

import (
	"context"
	"sync"
	"time"
)

// runContext is the context of a handler: it knows its run and its time limit. What it takes to end it is made when somebody first asks for its end: handlers
// that are done in microseconds mostly never do, and that was a fifth of what a task cost.
type runContext struct {
	r      *run
	parent context.Context

	mu    sync.Mutex
	inner context.Context // nil = nobody has asked yet
	end   context.CancelCauseFunc
	timer *time.Timer // nil = no time limit
	over  bool        // the handler has returned
}

type runKey struct{}

// running is the run that ctx belongs to, nil outside handlers.
func running(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// live makes the context of the handler.
func (r *run) live(parent context.Context) *runContext {
	r.life.r, r.life.parent = r, parent
	return &r.life
}

// ask makes the context that can end.
func (c *runContext) ask() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner != nil {
		return c.inner
	}
	c.inner, c.end = context.WithCancelCause(c.parent)
	switch {
	case c.over:
		c.end(context.Canceled)
	case !c.r.until.IsZero():
		end := c.end
		c.timer = time.AfterFunc(time.Until(c.r.until), func() { end(ErrTimeout) })
	}
	return c.inner
}

// cancel ends the context with a cause.
func (c *runContext) cancel(cause error) {
	c.ask()
	c.end(cause)
}

// close ends the context after the handler has returned err, and says why it had ended before; nil if it had not, or err is nil: then it does not matter.
func (c *runContext) close(err error) (cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	ctx := c.parent
	if c.inner != nil {
		ctx = c.inner
		defer c.end(context.Canceled)
		if c.timer != nil {
			c.timer.Stop()
		}
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if !c.r.until.IsZero() && time.Now().After(c.r.until) {
		return ErrTimeout
	}
	return nil
}

func (c *runContext) Deadline() (time.Time, bool) { return c.r.until, !c.r.until.IsZero() }
func (c *runContext) Done() <-chan struct{}       { return c.ask().Done() }
func (c *runContext) Err() error                  { return c.ask().Err() }

func (c *runContext) Value(key any) any {
	if _, ok := key.(runKey); ok {
		return c.r
	}
	return c.ask().Value(key) // context.Cause asks so, too
}
