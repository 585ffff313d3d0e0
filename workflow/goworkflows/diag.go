package goworkflows

import (
	"context"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/diag"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/workflow"
)

// GetStats counts active instances, and per queue the tasks that wait or are being worked on.
func (b *Backend) GetStats(ctx context.Context) (*backend.Stats, error) {
	s, err := ask(ctx, func() (workflow.Stats, error) { return b.core.Stats(ctx) })
	if err != nil {
		return nil, err
	}
	return &backend.Stats{
		ActiveWorkflowInstances: s.Active,
		PendingWorkflowTasks:    byQueue(s.Workflows),
		PendingActivityTasks:    byQueue(s.Activities),
	}, nil
}

// byQueue leaves out queues without tasks, as the library's own backends do.
func byQueue(counts map[string]int64) map[gowf.Queue]int64 {
	out := map[gowf.Queue]int64{}
	for q, n := range counts {
		if n > 0 {
			out[gowf.Queue(q)] = n
		}
	}
	return out
}

// GetWorkflowInstance describes one execution. ErrInstanceNotFound: it is not there.
func (b *Backend) GetWorkflowInstance(ctx context.Context, instance *gowf.Instance) (*diag.WorkflowInstanceRef, error) {
	i, err := ask(ctx, func() (workflow.Info, error) { return b.core.Info(ctx, toInstance(instance)) })
	if err != nil {
		return nil, err
	}
	return fromInfo(i)
}

// GetWorkflowInstances lists at most count executions that are older than the given one, the newest first; without IDs it begins with the newest of all.
func (b *Backend) GetWorkflowInstances(ctx context.Context, afterInstanceID, afterExecutionID string, count int) ([]*diag.WorkflowInstanceRef, error) {
	f := workflow.Filter{After: workflow.Instance{ID: afterInstanceID, Execution: afterExecutionID}, Limit: count}
	list, err := ask(ctx, func() ([]workflow.Info, error) { return b.core.List(ctx, f) })
	if err != nil {
		return nil, err
	}
	refs := make([]*diag.WorkflowInstanceRef, len(list))
	for n, i := range list {
		if refs[n], err = fromInfo(i); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

// GetWorkflowTree shows an execution with those that it started, from the one that was started by nobody.
func (b *Backend) GetWorkflowTree(ctx context.Context, instance *gowf.Instance) (*diag.WorkflowInstanceTree, error) {
	return diag.NewInstanceTreeBuilder(b).BuildWorkflowInstanceTree(ctx, instance)
}

func fromInfo(i workflow.Info) (*diag.WorkflowInstanceRef, error) {
	state, err := fromState(i.State)
	if err != nil {
		return nil, err
	}
	return &diag.WorkflowInstanceRef{Instance: fromInstance(i.Instance), CreatedAt: i.Created, CompletedAt: i.Ended, State: state, Queue: i.Queue}, nil
}
