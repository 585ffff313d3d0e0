package sfc

import (
	"context"
	"errors"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// resume evaluates a recipe anew: after Resume, and when the sweeper found one that nothing leads to. It sends no
// command again that is not due, so it may be done at any time, by any number of instances.
func (e *Engine) resume(ctx context.Context, item *jobstore.WorkItem) error {
	q, sha := e.known(item.JobOrderID)
	ev := event{
		query: q, recipe: sha, item: item, rearm: true,
		decide: func(s situation) recipe.Outcome { return s.program.Evaluate(s.order, s.docs, s.now) },
	}
	return again(ctx, func() error {
		snap, program, err := e.load(ctx, ev.query, ev.recipe)
		switch {
		case errors.Is(err, errBroken):
			return e.abort(ctx, item.JobOrderID, err.Error(), item)
		case err != nil:
			return err
		case over(snap):
			return e.finish(ctx, snap, item)
		case snap.Execution != nil && snap.Execution.Terminal():
			return e.leave(ctx, snap, item)
		}
		return e.decide(ctx, &ev, snap, program)
	})
}

// over: the recipe ended and its job order did not. A recipe whose first steps have no actions, or whose first condition
// fails, is over when it is started; Run and End are two commits then, and this work entry joins them.
func over(snap *jobstore.Snapshot) bool {
	return snap.Job != nil && snap.Job.State.Top == isa95.Running && snap.Execution != nil && snap.Execution.Terminal()
}

func (e *Engine) finish(ctx context.Context, snap *jobstore.Snapshot, item *jobstore.WorkItem) error {
	x := snap.Execution
	change, err := consequence(snap, recipe.Outcome{Docs: recipe.Docs{Execution: x}, Phase: x.Phase()}, e.store.Now())
	if err != nil {
		return err
	}
	change.Item = item
	if err := e.store.Commit(ctx, snap, change); err != nil {
		return err
	}
	e.count(OpFinish, OK)
	return nil
}

// leave takes a job whose recipe was aborted or stopped while it waited for events out of the mailboxes.
func (e *Engine) leave(ctx context.Context, snap *jobstore.Snapshot, item *jobstore.WorkItem) error {
	types := snap.Execution.WaitingTypes()
	if len(types) == 0 {
		return nil
	}
	snap, err := e.store.Load(ctx, jobstore.Query{JobOrderID: item.JobOrderID, Scope: snap.Scope, Mailboxes: types})
	if err != nil {
		return err
	}
	changed := forget(snap, string(item.JobOrderID))
	if snap.Execution == nil || !snap.Execution.Terminal() || len(changed) == 0 {
		return nil // the id is in use again, or an event was faster
	}
	return e.store.Commit(ctx, snap, jobstore.Change{Mailboxes: changed, Item: item, Now: e.store.Now()})
}
