package goworkflows

import (
	"context"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/core"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/schedule"
	"github.com/taktworks/takt/workflow"
)

// StartOptions are what the library's client has no word for.
type StartOptions struct {
	client.WorkflowInstanceOptions

	// Attributes are what instances can be searched for, with workflow.Filter or takt workflow list --attr.
	Attributes map[string]string
	// Gate bounds how many instances with its key are active at once; others wait before their first task, in the order they came. nil = no bound.
	Gate *workflow.Gate
}

// Start is Client.CreateWorkflowInstance of the library with more to say. backend.ErrInstanceAlreadyExists: an execution of the ID is active.
func (b *Backend) Start(ctx context.Context, o StartOptions, wf gowf.Workflow, args ...any) (*gowf.Instance, error) {
	s, instance, err := b.newStart(ctx, o, wf, args)
	if err != nil {
		return nil, err
	}
	return instance, translate(repeat(ctx, func() error { return b.core.Start(ctx, *s) }))
}

// SignalOnce is Client.SignalWorkflow of the library for a signal that has an identity, such as the id of the message that it tells of: the same eventID is delivered to an instance once
// within 15 minutes (Options.KnownFor of the core), so after an error, or a crash before its answer, it may be sent again. backend.ErrInstanceNotFound: no execution of the instance is active.
func (b *Backend) SignalOnce(ctx context.Context, eventID, instanceID, signal string, arg any) error {
	c := &capture{Backend: b}
	if err := client.New(c).SignalWorkflow(ctx, instanceID, signal, arg); err != nil {
		return err
	}
	c.event.ID = eventID
	return b.SignalWorkflow(ctx, instanceID, c.event)
}

// SignalWithStart signals the active execution of an instance, or starts one if none is, which finds the signal waiting. started says which. Nothing can come between the two.
func (b *Backend) SignalWithStart(ctx context.Context, signal string, arg any, o StartOptions, wf gowf.Workflow, args ...any) (started bool, err error) {
	s, _, err := b.newStart(ctx, o, wf, args)
	if err != nil {
		return false, err
	}
	c := &capture{Backend: b}
	if err := client.New(c).SignalWorkflow(ctx, o.InstanceID, signal, arg); err != nil {
		return false, err
	}
	e, err := toEvent(c.event)
	if err != nil {
		return false, err
	}
	started, err = b.core.SignalWithStart(ctx, e, *s)
	return started, translate(err)
}

// ScheduleOptions are what Schedule starts, and when it does not. The zero value of what is beside StartOptions is ready.
type ScheduleOptions struct {
	StartOptions // InstanceID is the name of the schedule, 1 to 100 bytes

	// Missed says what becomes of slots that passed while no worker ran; 0 = the latest of them is started.
	Missed schedule.Missed
	// Exclusive skips a slot while the instance that the schedule started last is active, in whatever execution.
	Exclusive bool
}

// Schedule has instances started at the slots of a rule, such as "every 15m", "cron TZ=Europe/Berlin 0 6 * * MON-FRI" or "rrule FREQ=WEEKLY;INTERVAL=2": package schedule has them all. o.InstanceID is the name of the schedule; its instances
// have that and the slot as their ID. The same name again replaces it, as workflow.Client.PutSchedule does. Client has PauseSchedule, ResumeSchedule, RemoveSchedule and Schedules.
func (b *Backend) Schedule(ctx context.Context, rule string, o ScheduleOptions, wf gowf.Workflow, args ...any) error {
	s, _, err := b.newStart(ctx, o.StartOptions, wf, args)
	if err != nil {
		return err
	}
	name := s.Instance.ID
	s.Instance, s.Event.ID, s.Event.Time = workflow.Instance{}, "", time.Time{} // of each slot
	return translate(b.core.PutSchedule(ctx, workflow.Schedule{Name: name, Rule: rule, Missed: o.Missed, Exclusive: o.Exclusive, Start: *s}))
}

// Result waits until an execution has ended, of which it is told at once, and returns what the workflow returned. Without an execution ID the newest one is meant.
// Its errors are those of client.GetWorkflowResult, or the cause of ctx.
func Result[T any](ctx context.Context, b *Backend, instance *gowf.Instance) (T, error) {
	info, last, err := b.core.Await(ctx, toInstance(instance))
	if err != nil {
		return *new(T), translate(err)
	}
	e := &ended{Backend: b}
	if last.ID != "" {
		if e.last, err = fromEvent(last); err != nil {
			return *new(T), err
		}
	}
	return client.GetWorkflowResult[T](ctx, client.New(e), fromInstance(info.Instance), time.Minute)
}

// ended is a backend for who asks for the result of an execution whose last event came with the news of its end.
type ended struct {
	*Backend
	last *history.Event
}

func (e *ended) GetWorkflowInstanceState(context.Context, *gowf.Instance) (core.WorkflowInstanceState, error) {
	return core.WorkflowInstanceStateFinished, nil
}

func (e *ended) GetWorkflowInstanceHistory(ctx context.Context, i *gowf.Instance, after *int64) ([]*history.Event, error) {
	if e.last != nil {
		switch e.last.Type {
		case history.EventType_WorkflowExecutionFinished, history.EventType_WorkflowExecutionContinuedAsNew, history.EventType_WorkflowExecutionTerminated:
			return []*history.Event{e.last}, nil
		}
	}
	return e.Backend.GetWorkflowInstanceHistory(ctx, i, after) // its end is somewhere before
}

// newStart is what the library's client would start.
func (b *Backend) newStart(ctx context.Context, o StartOptions, wf gowf.Workflow, args []any) (*workflow.Start, *gowf.Instance, error) {
	c := &capture{Backend: b}
	instance, err := client.New(c).CreateWorkflowInstance(ctx, o.WorkflowInstanceOptions, wf, args...)
	if err != nil {
		return nil, nil, err
	}
	s, err := start(instance, c.event, gowf.QueueDefault)
	if err != nil {
		return nil, nil, err
	}
	s.Attributes, s.Gate = o.Attributes, o.Gate
	return s, instance, nil
}

// capture keeps the event that the library's client makes, in the place of sending it.
type capture struct {
	backend.Backend
	event *history.Event
}

func (c *capture) CreateWorkflowInstance(_ context.Context, _ *gowf.Instance, e *history.Event) error {
	c.event = e
	return nil
}

func (c *capture) SignalWorkflow(_ context.Context, _ string, e *history.Event) error {
	c.event = e
	return nil
}
