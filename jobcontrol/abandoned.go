package jobcontrol

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

const (
	roleAbandoned = "abandoned"      // of the one instance that clears abandoned orders
	abandonedTTL  = 15 * time.Second // after how long another instance does it instead of a dead one
	abandonedPage = 250              // orders whose documents are read at once
	abandonedTurn = 10 * time.Minute // the longest time between two rounds
)

// RunAbandoned clears job orders that ended longer than after ago and that no MES has cleared, in one instance of all, until ctx ends. Their
// retained topics go with them; the documents stay as after any Clear. It returns nil when ctx ends; a round that fails is repeated.
func (r *Receiver) RunAbandoned(ctx context.Context, after time.Duration) error {
	return r.store.Lease(ctx, roleAbandoned, abandonedTTL, func(ctx context.Context, _ *jobstore.Lease) error {
		for {
			if _, err := r.ClearAbandoned(ctx, after); err != nil && ctx.Err() == nil {
				r.opt.Log.Warn("abandoned job orders: not all were cleared; the next round goes on", "err", err)
			}
			if !lifecycle.Sleep(ctx, min(after/4, abandonedTurn)) {
				return nil
			}
		}
	})
}

// ClearAbandoned is one round of RunAbandoned: how many job orders were cleared. Their age is that of EndTime in the response, by the date of the server.
func (r *Receiver) ClearAbandoned(ctx context.Context, after time.Duration) (cleared int, err error) {
	scopes, err := r.store.Scopes(ctx)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, scope := range scopes {
		n, err := r.clearAbandoned(ctx, scope, r.store.Now().Add(-after))
		if n > 0 {
			r.opt.Log.Warn("job orders were cleared that ended and that no MES cleared in time", "scope", scope, "orders", n, "abandoned_after", after)
		}
		cleared += n
		errs = append(errs, err)
	}
	return cleared, errors.Join(errs...)
}

func (r *Receiver) clearAbandoned(ctx context.Context, scope isa95.Scope, before time.Time) (cleared int, err error) {
	ended, err := r.store.JobsIn(ctx, scope, isa95.Ended, isa95.Aborted)
	if err != nil {
		return 0, err
	}
	for page := range slices.Chunk(ended, abandonedPage) {
		read, err := r.store.Retained(ctx, jobstore.RetainedQuery{Scope: scope, JobOrderIDs: page})
		if err != nil {
			return cleared, err
		}
		jobs := read[0].Jobs
		for i, j := range jobs {
			if !j.Read { // documents are read up to a number of bytes
				if err := r.store.RetainedDocuments(ctx, jobs[i:]); err != nil {
					return cleared, err
				}
			}
			abandoned := endedBefore(j, before)
			j.Job, j.Response = nil, nil
			if !abandoned {
				continue
			}
			done, err := r.clear(ctx, scope, j.JobOrderID)
			if err != nil {
				return cleared, err
			}
			if done {
				cleared++
			}
		}
	}
	return cleared, nil
}

// endedBefore is false for what cannot be judged: an order without a response that can be read.
func endedBefore(j *jobstore.RetainedJob, before time.Time) bool {
	if j.Job == nil || !j.Job.State.Clearable() || j.Response == nil {
		return false
	}
	ended, err := time.Parse(time.RFC3339, j.Response.EndTime)
	return err == nil && ended.Before(before)
}

// clear asks for Clear as an MES does. false: it is refused, since an MES was first.
func (r *Receiver) clear(ctx context.Context, scope isa95.Scope, id isa95.JobOrderID) (bool, error) {
	text := string(id)
	body, err := isa95.Marshal(isa95.JobOrderIDCall{JobOrderID: &text})
	if err != nil {
		return false, err
	}
	e := cloudevent.New(isa95.Clear.TypeID(), r.opt.Source, string(scope), r.store.Now()).WithData(body, isa95.Clear.CallSchema())
	req, err := r.read(e)
	if err != nil {
		return false, err
	}
	_, err = r.hold(ctx, false, func(ctx context.Context) (cloudevent.Event, error) { return r.carryOut(ctx, &req) })
	if undecided(err) {
		return false, err
	}
	return err == nil, nil
}
