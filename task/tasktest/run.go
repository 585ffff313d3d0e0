package tasktest

import (
	"context"
	"time"

	"github.com/taktworks/takt/task"
)

// Option says something about the task that a handler finds. Without any it is the first run of a task that was submitted just now.
type Option func(*task.Trial)

// ID is the task's id.
func ID(id string) Option { return func(t *task.Trial) { t.ID = id } }

// Attempt is the number of the run, from 1.
func Attempt(n int) Option { return func(t *task.Trial) { t.Attempt = n } }

// Labels are the task's labels.
func Labels(labels map[string]string) Option { return func(t *task.Trial) { t.Labels = labels } }

// Group is the id of the group that the task is in.
func Group(id string) Option { return func(t *task.Trial) { t.GroupID = id } }

// Parent is the id of the task that submitted this one.
func Parent(id string) Option { return func(t *task.Trial) { t.ParentID = id } }

// Enqueued is when the task was submitted.
func Enqueued(at time.Time) Option { return func(t *task.Trial) { t.Enqueued = at } }

// Timeout is the run's time limit, in the place of that of its type; negative = none.
func Timeout(d time.Duration) Option { return func(t *task.Trial) { t.Timeout = d } }

// Deadline is when the task's life ends.
func Deadline(at time.Time) Option { return func(t *task.Trial) { t.Deadline = at } }

// Middleware runs around the handler, the first outermost.
func Middleware(m ...task.Middleware) Option {
	return func(t *task.Trial) { t.Middleware = append(t.Middleware, m...) }
}

// With is the Client that the handler finds, for handlers that submit tasks; see Client and Open.
func With(c *task.Client) Option { return func(t *task.Trial) { t.Client = c } }

// Run calls the handler h of t with args, as a worker would but in memory, and returns what it returned: arguments and result go through their encoding, the context has the
// run's time limit, a panic is a *task.PanicError. It blocks until the handler returns. Locks are not taken. To test a cancellation let ctx end with the cause task.ErrCancelled.
func Run[T, R any](ctx context.Context, t *task.Type[T, R], h task.Handler, args T, opts ...Option) (R, error) {
	tried, err := Try(ctx, t, h, args, opts...)
	if err == nil {
		err = tried.Err
	}
	return tried.Value, err
}

// Try is Run and says also what a worker would make of the end. Its error is not that of the handler, but of the test: h is no handler of t, or Submit would refuse such a task.
func Try[T, R any](ctx context.Context, t *task.Type[T, R], h task.Handler, args T, opts ...Option) (task.Tried[R], error) {
	var trial task.Trial
	for _, o := range opts {
		o(&trial)
	}
	return t.Try(ctx, h, args, trial)
}
