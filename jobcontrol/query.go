package jobcontrol

import (
	"context"
	"errors"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// query answers the two queries of OPC 40001-3. They change nothing, so they are answered anew when they are repeated.
func (r *Receiver) query(ctx context.Context, req *request) (cloudevent.Event, error) {
	now := r.store.Now()
	if err := expired(req.event, now); err != nil {
		return cloudevent.Event{}, err
	}
	var result any
	var err error
	if req.method == isa95.RequestJobResponseByJobOrderID {
		result, err = r.responseOf(ctx, req)
	} else {
		result, err = r.responsesIn(ctx, req)
	}
	if err != nil {
		return cloudevent.Event{}, err
	}
	body, err := isa95.Marshal(result)
	if errors.Is(err, isa95.ErrLimit) {
		return cloudevent.Event{}, cloudevent.Errorf(cloudevent.KindResourceExhausted, "the answer is too large: %v", err)
	}
	return r.replyWith(req, body, now), err
}

// responseOf finds the response to a job order of the scope. Of an order that was cleared there is none any more.
func (r *Receiver) responseOf(ctx context.Context, req *request) (isa95.JobResponseResult, error) {
	snap, err := r.store.Load(ctx, jobstore.Query{JobOrderID: req.id, Response: true, Scope: req.scope})
	switch {
	case err != nil:
		return isa95.JobResponseResult{}, err
	case snap.Job == nil || snap.Job.Scope != req.scope:
		err = &existsError{refusal(errUnknownJobOrder, "%q at station %q", req.id, req.scope), isa95.Initial}
	case snap.Job.State.IsEnd():
		err = &existsError{refusal(errUnknownJobOrder, "%q was cancelled or cleared", req.id), snap.Job.State}
	case snap.Response == nil:
		err = &existsError{refusal(errUnknownJobOrder, "%q has no response yet, it is %s", req.id, snap.Job.State), snap.Job.State}
	}
	return isa95.JobResponseResult{JobResponse: snap.Response, ReturnStatus: isa95.NoError}, err
}

// responsesIn lists the responses of the scope whose job orders are in exactly the state asked for: a parent state does not
// mean its substates, and a state without texts means none.
func (r *Receiver) responsesIn(ctx context.Context, req *request) (isa95.JobResponsesResult, error) {
	result := isa95.JobResponsesResult{ReturnStatus: isa95.NoError}
	if req.state == isa95.Initial {
		return result, nil
	}
	var err error
	result.JobResponses, err = r.store.ResponsesByState(ctx, req.scope, []isa95.State{req.state})
	var unreadable *jobstore.DocumentError
	if errors.As(err, &unreadable) && !undecided(err) { // the others are worth more than none
		r.opt.Log.Error("jobcontrol: a response is left out", "scope", string(req.scope), "err", err)
		err = nil
	}
	return result, err
}
