package sfc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// Event takes an event of equipment, from {TopicPrefix}/equipment/{scope}/events; its subject is "scope" or
// "scope/asset". It settles the action that waits for it, or stays in the mailbox for one that soon will. nil means
// that it may be acknowledged: it is committed, once however often it comes, or it is of no use to any process, or it is a dead letter.
// An error means that it could not be decided, because Redis does not serve, say: hold the message unacknowledged, and call again.
func (e *Engine) Event(ctx context.Context, ev cloudevent.Event) error {
	scope, err := e.checkEvent(ev)
	if err != nil {
		e.log.Warn("equipment event refused", "id", ev.ID, "source", ev.Source, "topic", ev.Delivery.Topic, "error", err)
		e.count(OpActionState, Invalid)
		return nil
	}
	return e.handle(ctx, "event", ev, func() error { return e.pull(ctx, scope, ev) })
}

// A retained message may be hours old, and must not move a machine.
var errRetained = errors.New("it is retained, so it may be of an earlier run; send it without the retain flag")

// checkEvent returns the scope that an event belongs to, or what is wrong with it.
func (e *Engine) checkEvent(ev cloudevent.Event) (isa95.Scope, error) {
	if why := ev.Delivery.Unreadable; why != nil {
		return "", why
	}
	if ev.Delivery.Retained {
		return "", errRetained
	}
	if ev.ID == "" || ev.Source == "" || ev.Type == "" {
		return "", errors.New("id, source and type are needed")
	}
	scope, err := isa95.ParseScope(ev.Scope())
	if err != nil {
		return "", fmt.Errorf("subject %q: %w", ev.Subject, err)
	}
	if want := e.topic(string(scope), "events"); ev.Delivery.Topic != "" && ev.Delivery.Topic != want {
		return "", fmt.Errorf("subject %q belongs to topic %s", ev.Subject, want)
	}
	if len(ev.Data) > recipe.MaxResultBytes {
		return "", fmt.Errorf("its body has %d bytes, and may have %d", len(ev.Data), recipe.MaxResultBytes)
	}
	if len(ev.Data) > 0 && !json.Valid(ev.Data) {
		return "", errors.New("its body is not JSON")
	}
	return scope, nil
}

// pull finds the waiting action in the mailbox of the event's type: one round trip, and two more to settle it.
func (e *Engine) pull(ctx context.Context, scope isa95.Scope, ev cloudevent.Event) error {
	q := jobstore.Query{
		Source: ev.Source, ID: ev.ID, Scope: scope, Mailboxes: []string{ev.Type}, CorrelationID: ev.CorrelationID,
	}
	for {
		snap, err := e.store.Load(ctx, q)
		if err != nil {
			return err
		}
		if snap.Seen {
			e.count(OpActionState, AlreadyHandled)
			return nil
		}
		box := snap.Mailboxes[ev.Type]
		if box == nil {
			box = &recipe.Mailbox{}
		}
		now := e.store.InstallationTime()
		pulled := recipe.PullEvent{
			ID: ev.ID, Source: ev.Source, Subject: ev.Subject, CorrelationID: ev.CorrelationID, Data: ev.Data,
			At: now.UnixMilli(), Until: now.Add(e.opt.MailboxRetention).UnixMilli(),
		}
		waiting, ok := box.Match(pulled, string(scope), string(snap.Owner))
		if !ok {
			return e.keep(ctx, snap, box.Clone(), ev.Type, pulled)
		}
		settled, err := e.deliver(ctx, q, ev, pulled, waiting)
		if err != nil || settled {
			return err
		}
	}
}

// maxMailbox is how many bytes of early events and waiting actions one type of one scope may have: who sends more before
// anybody waits floods.
const maxMailbox = 1 << 20

// keep puts an event that came early into its mailbox.
func (e *Engine) keep(ctx context.Context, snap *jobstore.Snapshot, box *recipe.Mailbox, typ string, ev recipe.PullEvent) error {
	if e.opt.MailboxRetention < 0 || !box.Keep(ev, string(snap.Owner)) {
		e.log.Debug("equipment event ignored", "id", ev.ID, "source", ev.Source, "type", typ)
		e.count(OpMailbox, Ignored)
		return nil
	}
	if size := len(box.Encode()); size > maxMailbox {
		e.log.Warn("equipment event not kept: its mailbox is full", "id", ev.ID, "source", ev.Source, "type", typ, "bytes", size)
		e.count(OpMailbox, Ignored)
		return nil
	}
	change := jobstore.Change{Mailboxes: map[string]*recipe.Mailbox{typ: box}, Now: e.store.Now()}
	if err := e.store.Commit(ctx, snap, change); err != nil {
		return err
	}
	e.count(OpMailbox, OK)
	return nil
}

// deliver settles the waiting action w with ev. settled is false if w does not wait any more: then it is out of the
// mailbox, and ev may be for another.
func (e *Engine) deliver(
	ctx context.Context, q jobstore.Query, ev cloudevent.Event, pulled recipe.PullEvent, w recipe.Waiting,
) (settled bool, err error) {
	q.JobOrderID = isa95.JobOrderID(w.JobID)
	snap, program, err := e.load(ctx, q, w.Recipe)
	if errors.Is(err, errBroken) {
		return false, e.abort(ctx, q.JobOrderID, err.Error(), nil)
	}
	if err != nil {
		return false, err
	}
	if snap.Seen { // another instance has it
		e.count(OpActionState, AlreadyHandled)
		return true, nil
	}
	if !waits(snap, w.Action) {
		return false, e.outdated(ctx, snap, ev.Type, w)
	}
	return true, e.decide(ctx, &event{
		query: q, cause: ev.ID,
		decide: func(s situation) recipe.Outcome { return s.program.Pulled(s.order, s.docs, w.Action, pulled, s.now) },
	}, snap, program)
}

func waits(snap *jobstore.Snapshot, action string) bool {
	if snap.Job == nil || !inExecution(snap.Job.State) || snap.Execution == nil || snap.Execution.Terminal() {
		return false
	}
	a := snap.Execution.Action(action)
	return a != nil && a.State == recipe.ActionWaiting
}

// outdated takes the wait w out of its mailbox, where it stands no more once its action has got what it waits for. What
// else the job order waits for by now stays: w may come from a mailbox that was read before another instance went on
// with the recipe.
func (e *Engine) outdated(ctx context.Context, snap *jobstore.Snapshot, typ string, w recipe.Waiting) error {
	box := snap.Mailboxes[typ]
	if box == nil {
		return nil
	}
	box = box.Clone()
	before := len(box.Waiting)
	box.Waiting = slices.DeleteFunc(box.Waiting, func(o recipe.Waiting) bool { return o.JobID == w.JobID && o.Action == w.Action })
	if len(box.Waiting) == before {
		return nil // somebody else did
	}
	return e.store.Commit(ctx, snap, jobstore.Change{Mailboxes: map[string]*recipe.Mailbox{typ: box}, Now: e.store.Now()})
}
