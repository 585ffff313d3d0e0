package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cschleiden/go-workflows/workflow"
)

// Order is what a customer wants.
type Order struct {
	Number   string // of the order, and the id of its workflow instance
	Customer string
	Lines    []Line
	Terms    Terms
}

// Line is one product of an order. Each is a job order of its own at the machine.
type Line struct {
	Product  string
	Quantity int
	Price    int // EUR apiece
}

// Terms say how long is waited for what. They come with the order: what a workflow decides by must not change while it runs.
type Terms struct {
	Promise time.Duration // after this the customer is told that the order is late
	GiveUp  time.Duration // after this much more the order is cancelled
	BackOff time.Duration // before a job order that failed is tried once more; doubled each time
	Tries   int           // of each line
}

// Result is what became of a job order. The bridge signals it to the workflow.
type Result struct {
	JobOrder string
	Made     bool
	Why      string // if it was not made
}

// Outcome is what became of an order.
type Outcome struct {
	Delivered bool
	Why       string // if it was not delivered
}

// How activities are repeated. Each is idempotent, so a repeat after an error, or after a crash that swallowed the answer, does nothing twice.
var (
	patient  = workflow.ActivityOptions{RetryOptions: workflow.RetryOptions{MaxAttempts: 5, FirstRetryInterval: 100 * time.Millisecond, BackoffCoefficient: 2}}
	tireless = workflow.ActivityOptions{RetryOptions: workflow.RetryOptions{MaxAttempts: 1_000_000, FirstRetryInterval: time.Second, BackoffCoefficient: 2, MaxRetryInterval: time.Minute}}
)

var a *activities // names them; those that run belong to the worker

// orderToCash takes an order from its check to its invoice. If something fails on the way for good, or somebody cancels the order, it undoes what was begun and tells the customer.
func orderToCash(ctx workflow.Context, o Order) (Outcome, error) {
	s := sale{Order: o}
	why := s.produce(ctx)
	ctx = workflow.NewDisconnectedContext(ctx) // a cancellation is not heard from here on: what is made is shipped and paid for, what is not is undone
	if errors.Is(why, workflow.Canceled) {
		why = errors.New("it was cancelled")
	}
	if why != nil {
		return Outcome{Why: why.Error()}, s.compensate(ctx, why)
	}
	if _, err := workflow.ExecuteActivity[string](ctx, tireless, a.Ship, o).Get(ctx); err != nil {
		return Outcome{}, err
	}
	_, err := workflow.ExecuteActivity[string](ctx, tireless, a.Invoice, o).Get(ctx)
	return Outcome{Delivered: err == nil}, err
}

// sale is an order under way, and what would have to be undone.
type sale struct {
	Order
	reserved bool     // credit, perhaps
	posted   []string // job orders that may be at the machine, without a result
}

// produce checks the order, reserves the credit and has all lines made.
func (s *sale) produce(ctx workflow.Context) error {
	if _, err := workflow.ExecuteActivity[string](ctx, patient, a.Check, s.Order).Get(ctx); err != nil {
		return err
	}
	s.reserved = true // already now: an error does not say that it was not
	if _, err := workflow.ExecuteActivity[string](ctx, patient, a.ReserveCredit, s.Order).Get(ctx); err != nil {
		return err
	}
	_, lines := workflow.WithErrGroup(ctx) // all at once; when one fails for good, the others are cancelled
	for n := range s.Lines {
		lines.Go(func(ctx workflow.Context) error { return s.make(ctx, n) })
	}
	return lines.Wait(ctx)
}

// make has a line made at the machine. A job order that fails there is tried again, as another one.
func (s *sale) make(ctx workflow.Context, n int) error {
	for try := 1; ; try++ {
		id := jobOrderID(s.Number, n, try)
		results := workflow.NewSignalChannel[Result](ctx, id)
		s.posted = append(s.posted, id)
		if _, err := workflow.ExecuteActivity[string](ctx, patient, a.Post, s.Order, n, id).Get(ctx); err != nil {
			return err
		}
		r, err := s.await(ctx, results)
		if err != nil {
			return fmt.Errorf("job order %s: %w", id, err)
		}
		s.posted = slices.DeleteFunc(s.posted, func(p string) bool { return p == id })
		if r.Made {
			return nil
		}
		if try == s.Terms.Tries {
			return fmt.Errorf("%s failed %d times, at last because %s", s.Lines[n].Product, try, r.Why)
		}
		if _, err := workflow.ScheduleTimer(ctx, s.Terms.BackOff<<(try-1), workflow.WithTimerName("back-off")).Get(ctx); err != nil {
			return err
		}
	}
}

// await waits for a result. When the promised time is over it tells the customer, and goes on waiting until it gives up.
func (s *sale) await(ctx workflow.Context, results workflow.Channel[Result]) (Result, error) {
	r, ok, err := receive(ctx, results, s.Terms.Promise, "promised time")
	if ok || err != nil {
		return r, err
	}
	if _, err := workflow.ExecuteActivity[string](ctx, patient, a.Tell, s.Order, "delay", "is late").Get(ctx); err != nil {
		return r, err
	}
	r, ok, err = receive(ctx, results, s.Terms.GiveUp, "give up")
	if !ok && err == nil {
		err = fmt.Errorf("no result after %s", s.Terms.Promise+s.Terms.GiveUp)
	}
	return r, err
}

// receive waits for a signal, at most for d: then ok is false. The timer survives crashes, as everything in a workflow does.
func receive[T any](ctx workflow.Context, signals workflow.Channel[T], d time.Duration, timer string) (v T, ok bool, err error) {
	until, stop := workflow.WithCancel(ctx)
	defer stop()
	workflow.Select(ctx,
		workflow.Receive(signals, func(_ workflow.Context, got T, _ bool) { v, ok = got, true }),
		workflow.Await(workflow.ScheduleTimer(until, d, workflow.WithTimerName(timer)), func(ctx workflow.Context, f workflow.Future[any]) {
			_, err = f.Get(ctx) // an error: the order was cancelled
		}),
	)
	return v, ok, err
}

// compensate takes back the job orders that may be at the machine and the credit that may be reserved, and tells the customer. It goes on until that is done.
func (s *sale) compensate(ctx workflow.Context, why error) error {
	for _, id := range s.posted {
		if _, err := workflow.ExecuteActivity[string](ctx, tireless, a.TakeBack, id).Get(ctx); err != nil {
			return err
		}
	}
	if s.reserved {
		if _, err := workflow.ExecuteActivity[string](ctx, tireless, a.ReleaseCredit, s.Order).Get(ctx); err != nil {
			return err
		}
	}
	_, err := workflow.ExecuteActivity[string](ctx, tireless, a.Tell, s.Order, "apology", "cannot be delivered: "+why.Error()).Get(ctx)
	return err
}
