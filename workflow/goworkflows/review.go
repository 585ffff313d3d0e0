package goworkflows

import (
	"context"

	"github.com/cschleiden/go-workflows/core"

	"github.com/taktworks/takt/workflow"
)

// review closes executors of t's execution that have seen another past than the recorded one. That is so when Redis came back without the end of its data, and the execution has gone on since.
func (b *Backend) review(ctx context.Context, i *core.WorkflowInstance, t *workflow.WorkflowTask) {
	for _, c := range b.allCaches() {
		at, ok := c.seen(i)
		switch {
		case !ok, at == point{t.LastSequence, t.LastEvent}:
		case at.sequence < t.LastSequence && b.follows(ctx, i, t, at): // another worker went on with it
		default:
			c.forget(i, at)
		}
	}
}

// sequel is what follows in a history after the event that an executor has seen last.
type sequel struct {
	after  int64
	events []workflow.Event
}

// follows says whether the event at a point is the recorded one. What comes after it is read with it, and kept for the executor, which is going to ask for it.
func (b *Backend) follows(ctx context.Context, i *core.WorkflowInstance, t *workflow.WorkflowTask, at point) bool {
	past, err := b.core.History(ctx, t.Instance, at.sequence-1)
	if err != nil || len(past) == 0 || past[0].Sequence != at.sequence || past[0].ID != at.id {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sequels[i] = sequel{at.sequence, past[1:]}
	return true
}

// sequel gives what is kept for the executor of a task, once, if it begins after that number.
func (b *Backend) sequel(i *core.WorkflowInstance, after int64) (events []workflow.Event, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.sequels[i]
	delete(b.sequels, i)
	return s.events, ok && s.after == after
}
