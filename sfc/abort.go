package sfc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// abort ends a job order whose recipe cannot start or go on, with a response that says why. An order that has ended
// meanwhile stays as it is. item, if not nil, is settled with it.
func (e *Engine) abort(ctx context.Context, id isa95.JobOrderID, reason string, item *jobstore.WorkItem) error {
	snap, err := e.store.Load(ctx, jobstore.Query{JobOrderID: id})
	if err != nil || snap.Job == nil {
		return err
	}
	if x := snap.Execution; x != nil && !x.Terminal() && len(x.WaitingTypes()) > 0 {
		snap, err = e.store.Load(ctx, jobstore.Query{JobOrderID: id, Scope: snap.Job.Scope, Mailboxes: x.WaitingTypes()})
		if err != nil || snap.Job == nil {
			return err
		}
	}
	state, ok := isa95.Next(snap.Job.State, isa95.Abort)
	if !ok {
		return nil
	}
	snap.Scope = snap.Job.Scope
	change := jobstore.Change{
		Transition: &jobstore.Transition{Method: isa95.Abort, State: state},
		Item:       item, Now: e.store.Now(), Facts: []recipe.Fact{{Kind: recipe.FactFailed, Error: reason}},
	}
	if x := snap.Execution; x != nil && !x.Terminal() {
		change.Execution = x.Abort(reason, e.store.InstallationTime())
		change.CorrelationID = x.CorrelationID
		change.Mailboxes = forget(snap, string(id))
		change.Response = jobstore.NewResponse(snap.Job, change.Execution, state, change.Now)
	} else { // never started; what there is is of an earlier use of the id
		change.Response = jobstore.NewResponse(snap.Job, nil, state, change.Now)
		text, err := json.Marshal(reason)
		if err != nil {
			return fmt.Errorf("sfc: %w", err)
		}
		change.Response.JobResponseData = append(change.Response.JobResponseData,
			isa95.Parameter{ID: jobstore.ErrorParameter, Value: text})
	}
	if err := e.store.Commit(ctx, snap, change); err != nil {
		return err
	}
	e.running.drop(id)
	e.log.Warn("job order aborted", "job", id, "why", reason)
	e.count(OpAbort, OK)
	return nil
}

// forget takes a job out of the mailboxes that were loaded, and returns those that changed.
func forget(snap *jobstore.Snapshot, job string) map[string]*recipe.Mailbox {
	changed := make(map[string]*recipe.Mailbox)
	for typ, box := range snap.Mailboxes {
		if box = box.Clone(); box.Forget(job) {
			changed[typ] = box
		}
	}
	return changed
}

// GiveUp is called before an entry goes to the dead letters: it failed too often, for a reason that is not Redis. Its job
// order ends, so that somebody is told.
func (w work) GiveUp(ctx context.Context, item *jobstore.WorkItem, cause error) error {
	reason := fmt.Sprintf("%s was given up after %d attempts: %v", item.Action, item.Deliveries, cause)
	err := again(ctx, func() error { return w.abort(ctx, item.JobOrderID, reason, nil) })
	var unreadable *jobstore.DocumentError
	if errors.As(err, &unreadable) {
		w.log.Error("job order cannot be aborted, see `takt check`", "job", item.JobOrderID, "error", err)
		return nil
	}
	return err
}
