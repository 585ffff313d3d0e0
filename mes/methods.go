package mes

import (
	"context"
	"fmt"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
)

// Call is one job method called for one order.
type Call struct {
	// ID is the CloudEvent id of the command, "" = a new one. Takt answers an id that it knows with the stored answer, so an
	// MES that keeps the id may ask again after its own restart without doing anything twice (for two hours). The source
	// must be the same, too: set Options.Source if the one who asks again has another ClientID.
	ID string

	Scope      isa95.Scope
	Method     isa95.Method    // one of the eleven that change an order
	JobOrder   *isa95.JobOrder // for Store, StoreAndStart, Update
	JobOrderID isa95.JobOrderID
	Comment    []isa95.LocalizedText // for people at the station
}

// Call calls a job method and waits for the answer; the command is sent again under the same id until it comes, also
// while Takt's store is away. NoError comes with a nil error; any other status with a *RefusedError. Another error means that
// ctx ended first (status 0): what became of the command is unknown, and a Call with the same ID finds out.
func (c *Client) Call(ctx context.Context, call Call) (isa95.ReturnStatus, error) {
	if !call.Method.IsControl() {
		return 0, fmt.Errorf("mes: %s is not a method that changes a job order", call.Method)
	}
	var body any
	if call.Method.TakesJobOrder() {
		body = isa95.JobOrderCall{JobOrder: call.JobOrder, Comment: call.Comment}
	} else {
		id := string(call.JobOrderID)
		body = isa95.JobOrderIDCall{JobOrderID: &id, Comment: call.Comment}
	}
	e, err := c.request(call.Scope, call.Method, body)
	if err != nil {
		return 0, err
	}
	if call.ID != "" {
		e.ID = call.ID
	}
	var result isa95.MethodResult
	return ask(ctx, c, string(call.Method), e, &result, func() isa95.ReturnStatus { return result.ReturnStatus })
}

// Store hands an order over without starting it. See Call for the results of all methods.
func (c *Client) Store(ctx context.Context, scope isa95.Scope, o *isa95.JobOrder) (isa95.ReturnStatus, error) {
	return c.Call(ctx, Call{Scope: scope, Method: isa95.Store, JobOrder: o})
}

// StoreAndStart hands an order over and allows it to start.
func (c *Client) StoreAndStart(ctx context.Context, scope isa95.Scope, o *isa95.JobOrder) (isa95.ReturnStatus, error) {
	return c.Call(ctx, Call{Scope: scope, Method: isa95.StoreAndStart, JobOrder: o})
}

// Update replaces an order that does not run yet.
func (c *Client) Update(ctx context.Context, scope isa95.Scope, o *isa95.JobOrder) (isa95.ReturnStatus, error) {
	return c.Call(ctx, Call{Scope: scope, Method: isa95.Update, JobOrder: o})
}

// Start allows a stored order to start.
func (c *Client) Start(ctx context.Context, scope isa95.Scope, id isa95.JobOrderID) (isa95.ReturnStatus, error) {
	return c.Call(ctx, Call{Scope: scope, Method: isa95.Start, JobOrderID: id})
}

// RevokeStart takes Start back while the order does not run yet.
func (c *Client) RevokeStart(ctx context.Context, scope isa95.Scope, id isa95.JobOrderID) (isa95.ReturnStatus, error) {
	return c.Call(ctx, Call{Scope: scope, Method: isa95.RevokeStart, JobOrderID: id})
}

// Pause interrupts a running order.
func (c *Client) Pause(ctx context.Context, scope isa95.Scope, id isa95.JobOrderID) (isa95.ReturnStatus, error) {
	return c.Call(ctx, Call{Scope: scope, Method: isa95.Pause, JobOrderID: id})
}

// Resume goes on with an interrupted order.
func (c *Client) Resume(ctx context.Context, scope isa95.Scope, id isa95.JobOrderID) (isa95.ReturnStatus, error) {
	return c.Call(ctx, Call{Scope: scope, Method: isa95.Resume, JobOrderID: id})
}

// Stop ends a running order early, as completed.
func (c *Client) Stop(ctx context.Context, scope isa95.Scope, id isa95.JobOrderID) (isa95.ReturnStatus, error) {
	return c.Call(ctx, Call{Scope: scope, Method: isa95.Stop, JobOrderID: id})
}

// Abort ends an order as failed.
func (c *Client) Abort(ctx context.Context, scope isa95.Scope, id isa95.JobOrderID) (isa95.ReturnStatus, error) {
	return c.Call(ctx, Call{Scope: scope, Method: isa95.Abort, JobOrderID: id})
}

// Cancel takes an order back that does not run yet.
func (c *Client) Cancel(ctx context.Context, scope isa95.Scope, id isa95.JobOrderID) (isa95.ReturnStatus, error) {
	return c.Call(ctx, Call{Scope: scope, Method: isa95.Cancel, JobOrderID: id})
}

// Clear has Takt forget an order that is over, and its result. Follow does it once the result is safe.
func (c *Client) Clear(ctx context.Context, scope isa95.Scope, id isa95.JobOrderID) (isa95.ReturnStatus, error) {
	return c.Call(ctx, Call{Scope: scope, Method: isa95.Clear, JobOrderID: id})
}

// JobResponse asks for the result of an order. Without one, or without the order, the error is a *RefusedError with
// status UnknownJobOrder.
func (c *Client) JobResponse(ctx context.Context, scope isa95.Scope, id isa95.JobOrderID) (*isa95.JobResponse, error) {
	text := string(id)
	e, err := c.request(scope, isa95.RequestJobResponseByJobOrderID, isa95.JobResponseByIDCall{JobOrderID: &text})
	if err != nil {
		return nil, err
	}
	var result isa95.JobResponseResult
	status := func() isa95.ReturnStatus { return result.ReturnStatus }
	if _, err := ask(ctx, c, string(isa95.RequestJobResponseByJobOrderID), e, &result, status); err != nil {
		return nil, err
	}
	if result.JobResponse == nil {
		return nil, fmt.Errorf("mes: the answer to %s for %s has no JobResponse", isa95.RequestJobResponseByJobOrderID, id)
	}
	return result.JobResponse, nil
}

// JobResponses asks for the results of all orders of a scope that are in exactly that state, with its substate.
func (c *Client) JobResponses(ctx context.Context, scope isa95.Scope, state isa95.State) ([]isa95.JobResponse, error) {
	e, err := c.request(scope, isa95.RequestJobResponseByJobOrderState, isa95.JobResponseByStateCall{JobOrderState: state.Elements()})
	if err != nil {
		return nil, err
	}
	var result isa95.JobResponsesResult
	_, err = ask(ctx, c, string(isa95.RequestJobResponseByJobOrderState), e, &result,
		func() isa95.ReturnStatus { return result.ReturnStatus })
	return result.JobResponses, err
}

// request makes the command event of a method.
func (c *Client) request(scope isa95.Scope, m isa95.Method, body any) (cloudevent.Event, error) {
	data, err := isa95.Marshal(body)
	if err != nil {
		return cloudevent.Event{}, fmt.Errorf("mes: %s: %w", m, err)
	}
	return cloudevent.New(m.TypeID(), c.o.Source, string(scope), time.Now()).WithData(data, m.CallSchema()), nil
}
