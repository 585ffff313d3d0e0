package goworkflows

import (
	"context"
	"errors"
	"fmt"
	"time"

	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/workflow"
)

// maxWait bounds the wait for a task without a deadline: the library asks again.
const maxWait = 30 * time.Second

// shift is the time in which this process takes tasks: from the first time one is asked for until Close. Programs that are only clients have none.
type shift struct {
	worker *workflow.Worker
	ctx    context.Context // ends with the shift
	end    context.CancelCauseFunc
	over   chan struct{} // closed when the worker has handed back what it held
	err    error         // of the worker, then
}

// PrepareWorkflowQueues begins to take part in the work. Queues need no preparation.
func (b *Backend) PrepareWorkflowQueues(context.Context, []gowf.Queue) error {
	_, err := b.work()
	return err
}

// PrepareActivityQueues is PrepareWorkflowQueues.
func (b *Backend) PrepareActivityQueues(context.Context, []gowf.Queue) error {
	_, err := b.work()
	return err
}

// work returns the shift that is on, or begins one.
func (b *Backend) work() (*shift, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, ErrClosed
	}
	if b.shift != nil && b.shift.ctx.Err() == nil {
		return b.shift, nil
	}
	w, err := b.core.NewWorker(workflow.WorkerOptions{
		Name:          b.options.WorkerName,
		Lease:         b.lease,
		WorkflowLease: b.options.WorkflowLockTimeout,
		ActivityLease: b.options.ActivityLockTimeout,
		Drain:         -1, // the library's workers have waited for their tasks before Close
		Failure:       givenUp,
	})
	if err != nil {
		return nil, fmt.Errorf("goworkflows: %w", err)
	}
	s := &shift{worker: w, over: make(chan struct{})}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	b.shift = s
	go func() {
		defer close(s.over)
		s.err = w.Run(s.ctx)
		s.end(errors.Join(errors.New("goworkflows: the worker has ended, the next request for a task begins another"), s.err))
	}()
	return s, nil
}

// next waits for a task of one of queues, at most until ctx ends, or maxWait if it has no deadline; nil = none came.
func next[T any, P interface {
	*T
	Release(context.Context) error
}](ctx context.Context, b *Backend, queues []gowf.Queue, ask func(*workflow.Worker, context.Context, []string) (P, error)) (P, error) {
	s, err := b.work()
	if err != nil {
		return nil, err
	}
	wait := ctx
	if _, ok := ctx.Deadline(); !ok {
		var end context.CancelFunc
		wait, end = context.WithTimeout(ctx, maxWait)
		defer end()
	}
	t, err := ask(s.worker, wait, queueNames(queues))
	if err != nil || t == nil {
		return nil, s.none(wait, err)
	}
	if ctx.Err() != nil { // nobody would look at it
		return nil, translate(t.Release(context.WithoutCancel(ctx)))
	}
	return t, nil
}

// none is what the library gets instead of a task: nothing if the time was up, for it asks again.
func (s *shift) none(ctx context.Context, err error) error {
	switch {
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	case errors.Is(err, workflow.ErrStopped): // its worker has failed, and the shift is about to end
		<-s.ctx.Done()
		return context.Cause(s.ctx)
	case err == nil || ctx.Err() != nil:
		return nil
	}
	return translate(err)
}

func queueNames(queues []gowf.Queue) []string {
	names := make([]string, len(queues))
	for i, q := range queues {
		names[i] = string(q)
	}
	return names
}
