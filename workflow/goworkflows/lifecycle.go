package goworkflows

import (
	"context"
	"fmt"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/core"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/workflow"
)

// CreateWorkflowInstance starts an instance with its first event. ErrInstanceAlreadyExists: another execution of the ID is active. The same call again does nothing.
func (b *Backend) CreateWorkflowInstance(ctx context.Context, instance *gowf.Instance, event *history.Event) error {
	s, err := start(instance, event, gowf.QueueDefault)
	if err != nil {
		return err
	}
	return translate(b.core.Start(ctx, *s))
}

// start is the start of an instance that event asks for; queue is for one that names none.
func start(instance *gowf.Instance, event *history.Event, queue gowf.Queue) (*workflow.Start, error) {
	a, ok := event.Attributes.(*history.ExecutionStartedAttributes)
	if !ok {
		return nil, fmt.Errorf("goworkflows: start of %s: attributes are %T, must be *history.ExecutionStartedAttributes", instance.InstanceID, event.Attributes)
	}
	e, err := toEvent(event)
	if err != nil {
		return nil, err
	}
	metadata, err := toMetadata(a.Metadata)
	if err != nil {
		return nil, fmt.Errorf("goworkflows: start of %s: metadata: %w", instance.InstanceID, err)
	}
	if a.Queue != "" {
		queue = a.Queue
	}
	return &workflow.Start{Instance: toInstance(instance), Queue: string(queue), Name: a.Name, Metadata: metadata, Event: e}, nil
}

// CancelWorkflowInstance asks the execution to end. ErrInstanceNotFound: it is not there, or has ended.
func (b *Backend) CancelWorkflowInstance(ctx context.Context, instance *gowf.Instance, event *history.Event) error {
	e, err := toEvent(event)
	if err != nil {
		return err
	}
	return translate(b.core.Cancel(ctx, toInstance(instance), e))
}

// SignalWorkflow delivers a signal to the active execution, or to the one that takes over from it. ErrInstanceNotFound: none is active. The same event again is not delivered again,
// nor is the signal of a workflow when the activity that sends it runs again.
func (b *Backend) SignalWorkflow(ctx context.Context, instanceID string, event *history.Event) error {
	e, err := toEvent(event)
	if err != nil {
		return err
	}
	if id := signalID(ctx); id != "" {
		e.ID = id
	}
	return translate(b.core.Signal(ctx, instanceID, e))
}

// RemoveWorkflowInstance removes an execution that has ended, with its history. ErrInstanceNotFinished: it is active. ErrInstanceNotFound: it is not there (any more).
func (b *Backend) RemoveWorkflowInstance(ctx context.Context, instance *gowf.Instance) error {
	return translate(b.core.Remove(ctx, toInstance(instance)))
}

// minAge is what executions have at least when they are removed by their age. The library's client asks again and again whether one has ended, with growing pauses;
// it would report one that is gone by then as unknown instead of its result.
const minAge = 500 * time.Millisecond

// RemoveWorkflowInstances removes all executions that ended before the given time and half a second ago at least, in steps of the given size. Without a time it removes none.
func (b *Backend) RemoveWorkflowInstances(ctx context.Context, options ...backend.RemovalOption) error {
	o := backend.DefaultRemovalOptions
	for _, set := range options {
		set(&o)
	}
	if o.BatchSize < 1 {
		return fmt.Errorf("goworkflows: batch size %d: must be at least 1", o.BatchSize)
	}
	before := o.FinishedBefore
	if old := time.Now().Add(-minAge); before.After(old) {
		before = old
	}
	for {
		removed, err := b.core.RemoveEnded(ctx, before, o.BatchSize)
		if err != nil || removed < o.BatchSize {
			return translate(err)
		}
	}
}

// GetWorkflowInstanceState says where an execution stands. ErrInstanceNotFound: it is not there. Without an execution ID it is the active one, or the one that ended last.
func (b *Backend) GetWorkflowInstanceState(ctx context.Context, instance *gowf.Instance) (core.WorkflowInstanceState, error) {
	i, err := ask(ctx, func() (workflow.Info, error) { return b.core.Info(ctx, toInstance(instance)) })
	if err != nil {
		return 0, err
	}
	return fromState(i.State)
}

// GetWorkflowInstanceHistory returns the events after lastSequenceID, in their order; nil = all.
func (b *Backend) GetWorkflowInstanceHistory(ctx context.Context, instance *gowf.Instance, lastSequenceID *int64) ([]*history.Event, error) {
	var after int64
	if lastSequenceID != nil {
		after = *lastSequenceID
	}
	if events, ok := b.sequel(instance, after); ok {
		return fromEvents(events)
	}
	events, err := ask(ctx, func() ([]workflow.Event, error) { return b.core.History(ctx, toInstance(instance), after) })
	if err != nil {
		return nil, err
	}
	return fromEvents(events)
}
