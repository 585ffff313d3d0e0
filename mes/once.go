package mes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/taktworks/takt/isa95"
)

// StoreOnce stores the job order of call at its station if it never was: call.Method is isa95.Store or isa95.StoreAndStart. It may be
// repeated at any time, also by the next process with the same memory, Options.Source and order, and the order is made once:
//
//   - an order that the memory knows is not sent, whether Takt has it, or its result was handed over, or it is cleared (for 7 days);
//   - the command has an id that stays the same, so Takt carries a repeat out once;
//   - an order that exists at the station already is accepted as it is, also with another content: use Update to change it;
//   - an order that Takt lost (FollowOptions.OnLost) is sent again, as a new command.
//
// It returns where the order is now: OrderAccepted, OrderHanded or OrderGone. Errors are those of Call, and of the memory; after any of them
// repeat it or, after a *RefusedError, change the order. It waits for Takt's answer as Call does.
//
// Run Follow with the same memory, and start it first: it reports the results of orders that earlier processes stored.
func (c *Client) StoreOnce(ctx context.Context, memory Memory, call Call) (OrderState, error) {
	if call.Method != isa95.Store && call.Method != isa95.StoreAndStart {
		return "", fmt.Errorf("mes: StoreOnce: the method is %q, must be Store or StoreAndStart", call.Method)
	}
	if call.JobOrder == nil {
		return "", errors.New("mes: StoreOnce: the job order is missing")
	}
	id, err := isa95.ParseJobOrderID(call.JobOrder.JobOrderID)
	if err != nil {
		return "", fmt.Errorf("mes: StoreOnce: %w", err)
	}
	free, err := c.only(ctx, call.Scope, id)
	if err != nil {
		return "", fmt.Errorf("mes: StoreOnce: %w", err)
	}
	defer free()
	known, err := memory.Order(ctx, call.Scope, id)
	if err != nil {
		return "", fmt.Errorf("mes: StoreOnce: memory: %w", err)
	}
	if known.State != OrderUnknown && known.State != OrderLost {
		return known.State, nil
	}
	if call.ID == "" {
		if call.ID, err = commandID(call, known.Lost); err != nil {
			return "", err
		}
	}
	_, err = c.Call(ctx, call)
	if refused, ok := errors.AsType[*RefusedError](err); ok && refused.JobOrderState() != isa95.Initial {
		err = nil // it exists
	}
	if err != nil {
		return "", err
	}
	if err := memory.Accepted(context.WithoutCancel(ctx), call.Scope, id); err != nil {
		return "", fmt.Errorf("mes: StoreOnce: memory: %w", err)
	}
	known, err = memory.Order(ctx, call.Scope, id) // Follow may have its result already
	if err != nil {
		return "", fmt.Errorf("mes: StoreOnce: memory: %w", err)
	}
	return known.State, nil
}

// commandID is the same for the same order with the same content, until Takt loses it: lost counts.
func commandID(call Call, lost int) (string, error) {
	body, err := isa95.Marshal(isa95.JobOrderCall{JobOrder: call.JobOrder, Comment: call.Comment})
	if err != nil {
		return "", fmt.Errorf("mes: %s: %w", call.Method, err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d %s", call.Scope, call.Method, lost, body))
	return call.JobOrder.JobOrderID + "-" + hex.EncodeToString(sum[:8]), nil
}

// exclusive lets one at a time work on an order.
type exclusive struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed when it is free
}

// only waits until nothing else of this client works on an order, so that it is not cleared between the look into the memory that finds
// it unknown and the command that finds it stored: it would be made twice. Call free at the end.
func (c *Client) only(ctx context.Context, scope isa95.Scope, id isa95.JobOrderID) (free func(), err error) {
	key := string(scope) + "/" + string(id) // neither has a slash
	x := &c.orders
	for {
		x.mu.Lock()
		busy := x.held[key]
		if busy == nil {
			if x.held == nil {
				x.held = map[string]chan struct{}{}
			}
			mine := make(chan struct{})
			x.held[key] = mine
			x.mu.Unlock()
			return func() {
				x.mu.Lock()
				delete(x.held, key)
				x.mu.Unlock()
				close(mine)
			}, nil
		}
		x.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
