package goworkflows

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/history"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/workflow"
)

// GetActivityTask waits for an activity of one of queues, at most until ctx ends, or 30 s if it has no deadline; then it returns nil and no error.
func (b *Backend) GetActivityTask(ctx context.Context, queues []gowf.Queue) (*backend.ActivityTask, error) {
	t, err := next(ctx, b, queues, (*workflow.Worker).ActivityTask)
	if err != nil || t == nil {
		return nil, err
	}
	event, err := fromEvent(t.Event)
	if err != nil {
		return nil, err
	}
	mark(event)
	task := &backend.ActivityTask{
		ID:               b.keep(t),
		ActivityID:       event.ID,
		Queue:            gowf.Queue(t.Queue),
		WorkflowInstance: fromInstance(t.Instance),
		Event:            event,
	}
	runtime.AddCleanup(task, b.forget, task.ID) // if it is never completed
	return task, nil
}

// heldActivity is an activity that this process has.
type heldActivity struct {
	*workflow.ActivityTask
	stopped atomic.Bool // ExtendActivityTask failed, for which the library's worker ends the context of the activity
}

// keep remembers t under a new ID: an activity may be handed out to this process twice.
func (b *Backend) keep(t *workflow.ActivityTask) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.handed++
	id := t.Event.ID + "." + strconv.FormatUint(b.handed, 10)
	b.activities[id] = &heldActivity{ActivityTask: t}
	return id
}

func (b *Backend) forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.activities, id)
}

func (b *Backend) kept(task *backend.ActivityTask) (*heldActivity, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.activities[task.ID]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("goworkflows: activity task %s: was completed, or is not from GetActivityTask: %w", task.ID, workflow.ErrLost)
}

// ExtendActivityTask keeps a task for another lock timeout. An error that wraps workflow.ErrLost means that its result is not wanted any more.
func (b *Backend) ExtendActivityTask(ctx context.Context, task *backend.ActivityTask) error {
	t, err := b.kept(task)
	if err != nil {
		return err
	}
	err = repeat(ctx, func() error { return t.Extend(ctx) })
	t.stopped.Store(t.stopped.Load() || err != nil)
	return translate(err)
}

// CompleteActivityTask delivers the result of an activity to its instance. One that is too large is delivered as a failure. An error that wraps workflow.ErrLost means that there is one already, or that the instance has ended.
// A failure after an extension has failed is not delivered, for the activity failed because it was stopped: it is handed back, and the error wraps workflow.ErrLost.
func (b *Backend) CompleteActivityTask(ctx context.Context, task *backend.ActivityTask, result *history.Event) error {
	t, err := b.kept(task)
	if err != nil {
		return err
	}
	e, err := toEvent(result)
	if err != nil {
		return err
	}
	defer b.forget(task.ID) // whatever comes of it, it is over for this process
	if result.Type == history.EventType_ActivityFailed && t.stopped.Load() {
		if err := t.Release(ctx); err != nil && !errors.Is(err, workflow.ErrLost) {
			return translate(err)
		}
		return fmt.Errorf("goworkflows: activity task %s: was stopped when its lease could not be extended, its failure is not recorded: %w", task.ID, workflow.ErrLost)
	}
	err = t.Complete(ctx, e)
	if refused(err) {
		b.options.Logger.ErrorContext(ctx, "goworkflows: the result of an activity cannot be recorded, it has failed", "instance", t.Instance.String(), "error", err)
		if e, err = failedActivity(result, err); err == nil {
			err = t.Complete(ctx, e)
		}
	}
	return translate(err)
}

// givenUp is what a workflow gets of an activity that takes its workers with it. The error is permanent, for another attempt would take the next one.
func givenUp(_ *workflow.ActivityTask, cause error) workflow.Event {
	err := gowf.NewPermanentError(fmt.Errorf("the activity took worker after worker with it and was given up: %w", cause))
	data, err := history.SerializeAttributes(&history.ActivityFailedAttributes{Error: recorded(err)})
	if err != nil {
		panic(err) // text is always JSON
	}
	return workflow.Event{Type: workflow.EventActivityErr, Data: data}
}
