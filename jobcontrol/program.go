package jobcontrol

import (
	"context"
	"errors"
	"fmt"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// Program handles the CloudEvents of a program beside those of Takt, and promises the same: an event is checked, held while Redis is away, decided again after a conflict,
// handled once, and answered the same when it is repeated. It is an mqtt.Handler, and may be called by any number of goroutines.
type Program struct {
	r *Receiver
	ProgramOptions
}

// ProgramOptions are what a Program does.
type ProgramOptions struct {
	Name  string                // of the program, one for all its replicas; without / and :
	Knows func(typ string) bool // whether it handles events of a type; the others are refused

	// Do adds to b what e changes, and returns the body of the reply in JSON, nil for none. It may be called several times for one event, and writes nothing itself.
	//
	// A *cloudevent.Error and a *RefusedError refuse the event. Any other error is answered with INTERNAL_LOGIC_ERROR, without its text; when no answer was asked for, Do is
	// called again until it has failed ten times over jobstore.Options.Patience while other events were handled, or over ten times that while none was; then the event is a dead letter.
	Do func(ctx context.Context, e cloudevent.Event, b *jobstore.Batch) (body []byte, err error)
}

// Program returns what handles the events of a program, with the options of r.
func (r *Receiver) Program(o ProgramOptions) Program { return Program{r, o} }

// Handle handles e, as Receiver.Handle does for a command.
func (p Program) Handle(ctx context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
	return p.r.handle(ctx, e, p.read, func(_ context.Context, req *request) (cloudevent.Event, error) {
		return p.carryOut(ctx, req) // the time that a command waits for Redis is none of the program's
	})
}

// Refuse makes the answer to an event that could not be read, as Receiver.Refuse does.
func (p Program) Refuse(_ context.Context, e cloudevent.Event, why *cloudevent.Error) *cloudevent.Event {
	if p.r.mute(e) {
		return nil
	}
	req := request{event: e}
	reply := p.r.refuse(&req, req.verdict(why))
	p.r.report(&req, req.verdict(why), why, false, 0, 0)
	return &reply
}

func (p Program) read(e cloudevent.Event) (request, error) {
	req := request{event: e, program: p.Knows(e.Type)}
	if !req.program {
		return req, cloudevent.Errorf(cloudevent.KindUnknownPayloadType, "type %.200q is none that %s handles", e.Type, p.Name)
	}
	if err := checkCall(e); err != nil {
		return req, err
	}
	if e.Subject == "" && topicScope(p.r.opt.TopicPrefix, e.Delivery.Topic) == "" {
		return req, nil // it concerns no scope
	}
	return req, p.r.readScope(&req)
}

func (p Program) carryOut(ctx context.Context, req *request) (cloudevent.Event, error) {
	e := req.event
	snap, err := p.load(ctx, req)
	if err != nil {
		return cloudevent.Event{}, err
	}
	if err := expired(e, p.r.store.Now()); err != nil {
		return cloudevent.Event{}, err
	}
	b := p.r.store.Batch(p.Name)
	body, err := p.Do(ctx, e, b)
	if err != nil {
		if _, done := p.load(ctx, req); done != nil { // another replica may have handled the same event meanwhile, which is why this one was refused
			return cloudevent.Event{}, done
		}
		return cloudevent.Event{}, p.failure(ctx, err)
	}
	reply := p.r.replyWith(req, body, p.r.store.Now())
	seen := &jobstore.Seen{Body: e.Data}
	if e.Delivery.ResponseTopic != "" {
		seen.Reply = &reply
	}
	return reply, b.Commit(ctx, snap, seen)
}

// load reads whether the event was handled. If it was, the error is the reply that it got.
func (p Program) load(ctx context.Context, req *request) (*jobstore.Snapshot, error) {
	snap, err := p.r.store.Load(ctx, jobstore.Query{Scope: req.scope, Source: req.event.Source, ID: req.event.ID, Program: p.Name})
	switch {
	case err != nil:
		return nil, err
	case snap.Seen && snap.Reply == nil: // no answer was asked for
		return nil, &repeatError{reply: p.r.replyWith(req, nil, p.r.store.Now())}
	case snap.Seen:
		return nil, p.r.seen(ctx, req, snap)
	}
	return snap, nil
}

// failure is what an error of Do says about the event.
func (p Program) failure(ctx context.Context, err error) error {
	refused, rules := errors.AsType[*RefusedError](err)
	_, decided := errors.AsType[*cloudevent.Error](err)
	switch {
	case rules:
		return &cloudevent.Error{Kind: refused.Kind, Message: refused.Error(), Context: refused.Context}
	case ctx.Err() != nil: // it was cut off
		return ctx.Err()
	case decided, undecided(err), jobstore.Final(err):
		return err
	}
	return &programError{err.Error()}
}

// programError is a failure of the program. It hides the error itself: a time-out of the program is none of Takt's.
type programError struct{ text string }

func (e *programError) Error() string { return e.text }

// Call is a job method that a program calls.
type Call struct {
	Method     isa95.Method // not a query
	Scope      isa95.Scope
	JobOrderID isa95.JobOrderID // of methods that take no job order
	JobOrder   *isa95.JobOrder  // of Store, StoreAndStart and Update; it must not change until the commit
}

// RefusedError says that the rules refuse a job method that a program calls, and what an MES would have been answered.
type RefusedError struct {
	Status  isa95.ReturnStatus
	Kind    cloudevent.ErrorKind // STATE_INVALID where the standard has only the status
	Context map[string]string
	Err     error
}

// Error is the reason.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap is the reason.
func (e *RefusedError) Unwrap() error { return e.Err }

// Call adds to b what a job method does, by the rules that hold for an MES; cause is the event that made the program call it. A *RefusedError adds nothing.
// The acceptance checks and the options of r apply.
func (r *Receiver) Call(ctx context.Context, b *jobstore.Batch, cause cloudevent.Event, c Call) error {
	req := request{event: cause, method: c.Method, scope: c.Scope, id: c.JobOrderID, unknown: r.opt.UnknownMembers}
	err := req.readCall(c)
	var snap *jobstore.Snapshot
	var change jobstore.Change
	if err == nil {
		snap, change, err = r.judge(ctx, &req, b.Load)
	}
	if err != nil {
		v := verdictOf(c.Method, err)
		if undecided(err) || v.kind == cloudevent.KindInternalLogicError {
			return err
		}
		if v.kind == "" {
			v.kind = cloudevent.KindStateInvalid
		}
		return &RefusedError{Status: v.status, Kind: v.kind, Context: v.context, Err: err}
	}
	return b.Change(snap, change)
}

func (req *request) readCall(c Call) error {
	switch {
	case !c.Method.IsControl():
		return fmt.Errorf("jobcontrol: method %q of a program: must be one that changes a job order, such as %s", c.Method, isa95.StoreAndStart)
	case c.Method.TakesJobOrder() && c.JobOrder == nil:
		return missing("JobOrder")
	}
	if _, err := isa95.ParseScope(string(c.Scope)); err != nil {
		return err
	}
	if c.Method.TakesJobOrder() {
		req.order = c.JobOrder
		return req.checkOrder()
	}
	var err error
	req.id, err = isa95.ParseJobOrderID(string(c.JobOrderID))
	return err
}
