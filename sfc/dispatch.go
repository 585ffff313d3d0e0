package sfc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/recipe"
)

// runOutbox sends what the outbox holds. A command leaves it once the broker has it, so a process or broker that dies
// in between costs a repetition under the same id, and nothing else.
func (e *Engine) runOutbox(ctx context.Context) error {
	return e.store.RunOutbox(ctx, e.opt.Slots, e.opt.Intake, e.dispatch)
}

// dispatch sends one command, if it is still needed when its turn comes: an Abort, a Pause or an answer may have come
// first.
func (e *Engine) dispatch(ctx context.Context, c recipe.Command) error {
	if c.Action == "" || c.Cancels != "" {
		return e.repeatStation(ctx, c.ID)
	}
	snap, err := e.store.Load(ctx, jobstore.Query{JobOrderID: isa95.JobOrderID(c.JobID), Running: true})
	if _, unreadable := errors.AsType[*jobstore.DocumentError](err); unreadable {
		return fmt.Errorf("%w: %w", jobstore.ErrUnusable, err)
	}
	if err != nil {
		return err
	}
	now := e.store.InstallationTime()
	if reason := obsolete(snap, c, now); reason != "" {
		e.log.Info("command not sent", "job", c.JobID, "action", c.Action, "command", c.ID, "why", reason)
		e.count(OpDispatch, Dropped)
		return nil
	}
	body, err := encodeBody(c)
	if err != nil {
		return fmt.Errorf("%w: %w", jobstore.ErrUnusable, err)
	}
	route := jobstore.Route{JobOrderID: snap.JobOrderID, Scope: snap.Job.Scope, Recipe: snap.Execution.Recipe, Token: c.Token}
	if c.Again {
		if route, err = e.repeated(ctx, c, route); err != nil {
			return err
		}
		c.Token = route.Token
	}
	if c.LastCall > 0 {
		c.Deadline = now.Add(c.LastCall)
	}
	e.routes.put(c.ID, route)
	err = e.commander.PublishEvent(ctx, e.topic(c.Scope, "commands"), e.command(c, body, e.store.Now(), now))
	switch {
	case err == nil:
		e.count(OpDispatch, OK)
		if c.LastCall > 0 {
			if err := again(ctx, func() error { return e.lastCalled(ctx, c) }); err != nil {
				// To send it again for that would ask the equipment once more at each attempt.
				e.log.Warn("a last call is sent, but its time-out counts from its decision", "job", c.JobID, "action", c.Action, "command", c.ID, "error", err)
			}
		}
		return nil
	case denied(err):
		e.shout(ctx, c, err)
		return fmt.Errorf("sfc: send command %s (%s of %s): %w", c.ID, c.Action, c.JobID, err)
	case !neverTaken(err):
		return fmt.Errorf("sfc: send command %s (%s of %s): %w", c.ID, c.Action, c.JobID, err)
	}
	e.log.Error("the broker does not take this command", "job", c.JobID, "action", c.Action, "command", c.ID, "error", err)
	e.count(OpDispatch, Invalid)
	refusal := recipe.Answer{CommandID: c.ID, Error: &recipe.ActionError{
		Kind: string(cloudevent.KindCommunicationError), Message: "the command could not be sent: " + err.Error(),
	}}
	return again(ctx, func() error { return e.answer(ctx, c.ID, route, refusal) })
}

// lastCalled notes that the broker has the last call of an action: from now on its time counts.
func (e *Engine) lastCalled(ctx context.Context, c recipe.Command) error {
	snap, err := e.store.Load(ctx, jobstore.Query{JobOrderID: isa95.JobOrderID(c.JobID), Running: true})
	if err != nil {
		return err
	}
	now := e.store.InstallationTime()
	if obsolete(snap, c, now) != "" {
		return nil // answered meanwhile, say
	}
	snap.Scope = snap.Job.Scope
	x := snap.Execution.LastCalled(c, now)
	return e.store.Commit(ctx, snap, jobstore.Change{Execution: x, Due: x.Due(), Now: e.store.Now(), CorrelationID: x.CorrelationID})
}

// denied: the broker says that Takt has no right to send this. Rights are for an operator to mend, and may be missing for a moment only, while they are loaded again. So
// the command is tried again until its action times out.
func denied(err error) bool {
	var refused *mqtt.PublishError
	return errors.As(err, &refused) && refused.Code == 0x87
}

// shoutEvery is how often one instance names missing rights as an error.
const shoutEvery = time.Minute

func (e *Engine) shout(ctx context.Context, c recipe.Command, err error) {
	level, now, last := slog.LevelDebug, time.Now().UnixNano(), e.shouted.Load()
	if (last == 0 || now-last >= int64(shoutEvery)) && e.shouted.CompareAndSwap(last, now) {
		level = slog.LevelError
	}
	e.log.Log(ctx, level, "the broker denies a command: give Takt the right to publish on this topic; it is tried again until the action times out",
		"topic", e.topic(c.Scope, "commands"), "job", c.JobID, "action", c.Action, "command", c.ID, "error", err)
}

// neverTaken: the broker will not take this message, however often it is sent. To try for ever would keep a slot from
// others.
func neverTaken(err error) bool {
	var refused *mqtt.PublishError
	var size *mqtt.SizeError
	var message *mqtt.MessageError
	return errors.As(err, &refused) && !refused.Temporary() || errors.As(err, &size) || errors.As(err, &message)
}

func encodeBody(c recipe.Command) ([]byte, error) {
	return isa95.Marshal(isa95.ActionCall{JobOrderID: c.JobID, Action: c.Action, Attempt: c.Attempt, Parameters: c.Parameters})
}

// command is c on the wire: its id is what the answer names as its cause, and its response topic proves that the answer is from where it went.
// recorded is the date, now is installation time.
func (e *Engine) command(c recipe.Command, body []byte, recorded, now time.Time) cloudevent.Event {
	ev := cloudevent.Event{
		ID: c.ID, Source: e.opt.Source, SpecVersion: cloudevent.SpecVersion, Type: c.TypeID, Subject: c.Scope,
		RecordedTime: cloudevent.FormatTime(recorded), CorrelationID: c.CorrelationID,
		DataContentType: cloudevent.ContentTypeJSON, Data: body,
		Delivery: cloudevent.Delivery{ResponseTopic: topics.Prefix(e.opt.TopicPrefix).Answers(e.opt.Instance, string(c.Token))},
	}
	if id, err := uuid.Parse(c.ID); err == nil {
		ev.Delivery.CorrelationData = id[:]
	}
	if !c.Deadline.IsZero() { // after it nobody waits for the answer
		ev.ExpiryInterval = max(int64((c.Deadline.Sub(now)+time.Second-1)/time.Second), 1)
	}
	return ev
}

// topic is where the commands or events of the equipment of a scope go.
func (e *Engine) topic(scope, kind string) string {
	return topics.Prefix(e.opt.TopicPrefix).Equipment(scope, kind)
}

// obsolete says why nobody needs c any more, "" if somebody does.
func obsolete(snap *jobstore.Snapshot, c recipe.Command, now time.Time) string {
	job, x := snap.Job, snap.Execution
	switch {
	case job == nil || x == nil:
		return "nothing is in execution"
	case job.State.Top != isa95.Running:
		return "the job order is " + job.State.String()
	case x.Terminal():
		return "the recipe is over"
	case x.Paused:
		return "the recipe is paused"
	}
	a := x.Action(c.Action)
	switch {
	case a == nil || a.CommandID != c.ID:
		return "another attempt has begun"
	case a.State != recipe.ActionDispatched:
		return "the action is " + string(a.State)
	case a.Deadline != 0 && now.UnixMilli() >= a.Deadline:
		return "its time is over"
	}
	return ""
}
