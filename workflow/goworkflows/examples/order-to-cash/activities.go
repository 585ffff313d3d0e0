package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cschleiden/go-workflows/activity"
	"github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
)

// activities are what the workflow has done outside. Each may run more than once, when its worker dies before the answer is recorded, so each carries a key that the other side knows again.
// What they return is for people who read the history.
type activities struct {
	books books
	mes   *mes.Client
	did   func(what string) // called after an effect and before the answer, which is the worst moment to die
}

// catalogue has the products and their prices in EUR.
var catalogue = map[string]int{"cover": 120, "housing": 300, "prototype": 900}

const creditLimit = 2000 // EUR for an order

func (o Order) total() (eur int) {
	for _, l := range o.Lines {
		eur += l.Quantity * l.Price
	}
	return eur
}

// jobOrderID is derived from the instance, the line and the try, so the same step always means the same job order.
func jobOrderID(instance string, line, try int) string {
	return fmt.Sprintf("%s.%d.%d", instance, line+1, try)
}

// Check compares an order with the catalogue. No repeat makes a wrong one right.
func (a *activities) Check(_ context.Context, o Order) (string, error) {
	for _, l := range o.Lines {
		if price, ok := catalogue[l.Product]; !ok || price != l.Price {
			return "", workflow.NewPermanentError(fmt.Errorf("%s for %d EUR is not in the catalogue", l.Product, l.Price))
		}
	}
	return fmt.Sprintf("%d EUR in all", o.total()), nil
}

// ReserveCredit sets aside what the order costs. The office is closed at the first attempt of some.
func (a *activities) ReserveCredit(ctx context.Context, o Order) (string, error) {
	if o.Customer == "bob" && activity.Attempt(ctx) == 0 {
		return "", errors.New("the credit office does not answer")
	}
	if o.total() > creditLimit {
		return "", workflow.NewPermanentError(fmt.Errorf("%d EUR is beyond the credit of %s, %d EUR", o.total(), o.Customer, creditLimit))
	}
	return a.enter("credit "+o.Number, fmt.Sprintf("%d EUR reserved for %s", o.total(), o.Customer))
}

// ReleaseCredit gives free what ReserveCredit has set aside, if it has.
func (a *activities) ReleaseCredit(_ context.Context, o Order) (string, error) {
	if _, there, err := a.books.find("credit " + o.Number); err != nil || !there {
		return "nothing was reserved", err
	}
	return a.enter("release "+o.Number, fmt.Sprintf("%d EUR free again for %s", o.total(), o.Customer))
}

// Ship sends the goods.
func (a *activities) Ship(_ context.Context, o Order) (string, error) {
	return a.enter("shipment "+o.Number, "on its way to "+o.Customer)
}

// Invoice asks for the money.
func (a *activities) Invoice(_ context.Context, o Order) (string, error) {
	return a.enter("invoice "+o.Number, fmt.Sprintf("%d EUR from %s", o.total(), o.Customer))
}

// Tell writes to the customer: about each subject once.
func (a *activities) Tell(_ context.Context, o Order, subject, text string) (string, error) {
	return a.enter(subject+" "+o.Number, fmt.Sprintf("dear %s, your order %s %s", o.Customer, o.Number, text))
}

// Post hands a job order to the machine and starts it. Its command has the id of the job order: Takt answers a command that it knows (for two hours) with the answer that it gave, also when the
// job order has run and gone meanwhile. So a repeat after a crash does not make the parts again.
func (a *activities) Post(ctx context.Context, o Order, line int, id string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // the broker may be away; the next attempt asks again
	defer cancel()
	_, err := a.mes.Call(ctx, mes.Call{ID: "post-" + id, Scope: cell, Method: isa95.StoreAndStart, JobOrder: &isa95.JobOrder{
		JobOrderID:         id,
		WorkMasterID:       []isa95.WorkMasterRef{{ID: "WM-PART"}},
		JobOrderParameters: []isa95.Parameter{parameter("product", o.Lines[line].Product), parameter("quantity", o.Lines[line].Quantity)},
	}})
	var refused *mes.RefusedError
	if errors.As(err, &refused) {
		return "", workflow.NewPermanentError(err)
	}
	if err != nil {
		return "", err
	}
	a.did("post " + id)
	return fmt.Sprintf("%s: %d %s at %s", id, o.Lines[line].Quantity, o.Lines[line].Product, cell), nil
}

// TakeBack aborts a job order that may be at the machine. That it is over, or was never there, is as good.
func (a *activities) TakeBack(ctx context.Context, id string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := a.mes.Call(ctx, mes.Call{ID: "abort-" + id, Scope: cell, Method: isa95.Abort, JobOrderID: isa95.JobOrderID(id)})
	var refused *mes.RefusedError
	switch {
	case err == nil:
		a.did("abort " + id)
		return id + " aborted", nil
	case errors.As(err, &refused) && (refused.Status == isa95.UnknownJobOrder || refused.Status == isa95.InvalidStatus):
		return id + " is not at the machine", nil
	}
	return "", err
}

// enter makes an entry in the books.
func (a *activities) enter(key, text string) (string, error) {
	text, err := a.books.once(key, text)
	if err == nil {
		a.did(key)
	}
	return text, err
}

func parameter(id string, value any) isa95.Parameter {
	text, _ := json.Marshal(value) // of a string or an int
	return isa95.Parameter{ID: id, Value: text}
}
