package goworkflows

import (
	"context"
	"fmt"
	"runtime"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/core"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/workflow"
)

// handed is what the Backend keeps of a workflow task while the library has it.
type handed struct {
	task    *workflow.WorkflowTask
	dropped runtime.Cleanup
}

// GetWorkflowTask waits for a workflow task of one of queues, at most until ctx ends, or 30 s if it has no deadline; then it returns nil and no error.
func (b *Backend) GetWorkflowTask(ctx context.Context, queues []gowf.Queue) (*backend.WorkflowTask, error) {
	t, err := next(ctx, b, queues, (*workflow.Worker).WorkflowTask)
	if err != nil || t == nil {
		return nil, err
	}
	return b.hand(ctx, t)
}

// hand translates t. If that fails, it stays with this process until its lease is over: others may know its events.
func (b *Backend) hand(ctx context.Context, t *workflow.WorkflowTask) (*backend.WorkflowTask, error) {
	events, err := fromEvents(t.Events)
	if err != nil {
		return nil, err
	}
	metadata, err := fromMetadata(t.Metadata)
	if err != nil {
		return nil, err
	}
	state, err := fromState(t.State)
	if err != nil {
		return nil, err
	}
	h := &handed{task: t}
	task := &backend.WorkflowTask{
		ID:                    t.Instance.String(),
		Queue:                 gowf.Queue(t.Queue),
		WorkflowInstance:      fromInstance(t.Instance),
		WorkflowInstanceState: state,
		Metadata:              metadata,
		LastSequenceID:        t.LastSequence,
		NewEvents:             events,
		CustomData:            h,
	}
	b.review(ctx, task.WorkflowInstance, t)
	// A task whose execution fails is dropped by the library without a word. While it is executed it is in use, so that when it is garbage, its executor is not at work any more.
	h.dropped = runtime.AddCleanup(task, func(i *core.WorkflowInstance) { go b.settle(i, point{}, false) }, task.WorkflowInstance)
	return task, nil
}

// settle tells the caches that nobody works on a task any more, and whether all of it was recorded, up to a point.
func (b *Backend) settle(i *core.WorkflowInstance, at point, recorded bool) {
	b.sequel(i, 0) // it was not asked for
	for _, c := range b.allCaches() {
		c.settle(i, at, recorded)
	}
}

func (b *Backend) allCaches() []*Cache {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.caches // only ever grows
}

// ExtendWorkflowTask keeps a task for another lock timeout. An error that wraps workflow.ErrLost means that it is somebody else's by now.
func (b *Backend) ExtendWorkflowTask(ctx context.Context, task *backend.WorkflowTask) error {
	h, err := held(task)
	if err != nil {
		return err
	}
	return translate(repeat(ctx, func() error { return h.task.Extend(ctx) }))
}

// CompleteWorkflowTask records what came of a task, all of it or nothing. If it can never be recorded, since an event is too large or a name is not allowed, the execution fails instead. An error that wraps workflow.ErrLost means that it is not, or no longer, this process's.
func (b *Backend) CompleteWorkflowTask(
	ctx context.Context, task *backend.WorkflowTask, state core.WorkflowInstanceState,
	executed, activities, timers []*history.Event, messages []*history.WorkflowEvent,
) error {
	h, err := held(task)
	if err != nil {
		return err
	}
	h.dropped.Stop()
	for _, c := range b.allCaches() {
		c.settling(task.WorkflowInstance)
	}
	cp, err := b.checkpoint(task, state, executed, activities, timers, messages)
	if err == nil {
		err = h.task.Complete(ctx, cp)
	}
	at := point{h.task.LastSequence, h.task.LastEvent}
	if n := len(executed); n > 0 {
		at = point{executed[n-1].SequenceID, executed[n-1].ID}
	}
	b.settle(task.WorkflowInstance, at, err == nil)
	if refused(err) {
		b.options.Logger.ErrorContext(ctx, "goworkflows: what a workflow did cannot be recorded, it has failed", "instance", task.ID, "error", err)
		if cp, err = b.failedExecution(task, executed, err); err == nil {
			err = h.task.Complete(ctx, cp)
		}
	}
	return translate(err)
}

func held(task *backend.WorkflowTask) (*handed, error) {
	h, ok := task.CustomData.(*handed)
	if !ok {
		return nil, fmt.Errorf("goworkflows: workflow task %s: custom data is %T, must be what GetWorkflowTask put there", task.ID, task.CustomData)
	}
	return h, nil
}
