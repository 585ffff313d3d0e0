package sfc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// maxQueued is the length of the work stream above which nothing is swept: there is enough to do, and to find out what
// is missing in it would cost more than it helps.
const maxQueued = 20_000

// sweeperTTL is after how long another instance sweeps instead of a dead one.
const sweeperTTL = 15 * time.Second

// runSweeper sweeps every SweepEvery, in one instance of all (B.10 b).
func (e *Engine) runSweeper(ctx context.Context) error {
	return e.store.Lease(ctx, jobstore.RoleSweeper, sweeperTTL, func(ctx context.Context, _ *jobstore.Lease) error {
		for {
			e.trySweep(ctx)
			if pause(ctx, e.opt.SweepEvery) != nil {
				return nil
			}
		}
	})
}

// runRepair sweeps when entries of the work stream were lost here. It needs no lease: two sweeps at once do no harm.
func (e *Engine) runRepair(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.swept:
			e.trySweep(ctx)
		}
	}
}

func (e *Engine) trySweep(ctx context.Context) {
	if err := e.sweep(ctx); err != nil && ctx.Err() == nil {
		e.log.Warn("sweep: not finished, the next one will be", "error", err)
	}
}

// Lost asks for a sweep: entries are gone, and with them perhaps the only trace of an order.
func (w work) Lost(items int) {
	w.log.Warn("work entries were trimmed or deleted while they were handled, sweeping", "entries", items)
	select {
	case w.swept <- struct{}{}:
	default: // one is asked for
	}
}

// sweep finds what no stream and no timer leads to (spec B.10 b), and enqueues it again. There should be nothing:
// commits write documents and entries together. But an operator may have trimmed or deleted a stream, or a
// store from before a failure may be back. Nothing it does can do harm twice: an entry for a job order that goes on by
// itself does nothing.
func (e *Engine) sweep(ctx context.Context) error {
	active, err := e.store.ActiveJobs(ctx)
	if err != nil {
		return err
	}
	if err := e.store.ShortenHistories(ctx, slices.Collect(maps.Keys(active))); err != nil {
		return err
	}
	scopes, err := e.store.Scopes(ctx)
	if err != nil {
		return err
	}
	standing := make(map[isa95.JobOrderID]bool) // orders that may start, or run without being active
	for _, scope := range scopes {
		ids, err := e.store.JobsIn(ctx, scope, isa95.AllowedToStart, isa95.Running)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if _, ok := active[id]; !ok {
				standing[id] = true
			}
		}
	}
	queued, ok, err := e.store.QueuedJobs(ctx, maxQueued) // last: what was started since is not in it, and that is harmless
	if err != nil || !ok {
		return err
	}
	for id, timer := range active {
		if !timer && !queued[id] {
			e.sweepOne(ctx, id, e.sweepActive)
		}
	}
	for id := range standing {
		if !queued[id] {
			e.sweepOne(ctx, id, e.sweepStanding)
		}
	}
	return ctx.Err()
}

// sweepOne looks at one job order. A conflict means that somebody works on it, so it is not forgotten.
func (e *Engine) sweepOne(ctx context.Context, id isa95.JobOrderID, look func(context.Context, *jobstore.Snapshot) error) {
	snap, err := e.store.Load(ctx, jobstore.Query{JobOrderID: id})
	if err == nil {
		if snap.Job != nil {
			snap.Scope = snap.Job.Scope
		}
		err = look(ctx, snap)
	}
	if err != nil && !errors.Is(err, jobstore.ErrConflict) && ctx.Err() == nil {
		e.log.Warn("sweep: job order left for the next time", "job", id, "error", err)
	}
}

// sweepActive looks at a job order that is listed as in execution and has neither timer nor work entry.
func (e *Engine) sweepActive(ctx context.Context, snap *jobstore.Snapshot) error {
	x := snap.Execution
	switch {
	case snap.Job == nil || snap.Job.State.Clearable() || snap.Job.State.IsEnd():
		return e.store.Forget(ctx, snap)
	case x == nil && inExecution(snap.Job.State):
		return e.abort(ctx, snap.JobOrderID, "its execution document is lost", nil)
	case x == nil:
		return e.store.Forget(ctx, snap)
	case x.Due().IsZero(): // paused, or waiting for what only equipment can bring
		return nil
	}
	return e.enqueue(ctx, snap, jobstore.WorkResume)
}

// sweepStanding looks at a job order that may start, or is Running without being listed as in execution, and has no work
// entry.
func (e *Engine) sweepStanding(ctx context.Context, snap *jobstore.Snapshot) error {
	switch {
	case snap.Job == nil:
		return nil
	case over(snap):
		return e.enqueue(ctx, snap, jobstore.WorkResume)
	case snap.Job.State.Top != isa95.AllowedToStart || snap.Job.Station.Start != "":
		return nil // a station has it
	}
	return e.enqueue(ctx, snap, jobstore.WorkStart)
}

func (e *Engine) enqueue(ctx context.Context, snap *jobstore.Snapshot, verb string) error {
	if err := e.store.Commit(ctx, snap, jobstore.Change{Work: []string{verb}, Now: e.store.Now()}); err != nil {
		return fmt.Errorf("sfc: enqueue %s: %w", verb, err)
	}
	e.log.Warn("sweep: job order was forgotten, enqueued again", "job", snap.JobOrderID, "state", snap.Job.State.String(), "verb", verb)
	e.count(OpSweep, OK)
	return nil
}
