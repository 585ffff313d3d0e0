package sfc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/google/uuid"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// Answer takes the answer of equipment to a command, from {TopicPrefix}/responses/{Instance}/{token}.
// nil means that it may be acknowledged: it is committed, or it was before, or it is of no use to any process, or it is a dead letter.
// An error means that it could not be decided, because Redis does not serve, say: hold the message unacknowledged, and
// call again.
//
// One that could not be read (Delivery.Unreadable) fails its action, as a body does that is not JSON.
//
// It counts only if its topic has the token of its command, and if no process of Takt has sent it: a reply to a command may be made to look like an answer.
//
// The instance that sent the command needs one round trip to Redis if it remembers the job order, else two, and any other one more.
func (e *Engine) Answer(ctx context.Context, ev cloudevent.Event) error {
	id := commandID(ev)
	if id == "" {
		log := e.log
		if why := ev.Delivery.Unreadable; why != nil {
			log = log.With("err", why)
		}
		log.Warn("answer without causationid and correlation data: which command does it answer?",
			"id", ev.ID, "source", ev.Source, "topic", topics.Prefix(e.opt.TopicPrefix).Shown(ev.Delivery.Topic))
		e.count(OpActionState, Invalid)
		return nil
	}
	if ev.Delivery.Retained {
		e.log.Warn("answer refused", "command", id, "id", ev.ID, "source", ev.Source, "err", errRetained)
		e.count(OpActionState, Invalid)
		return nil
	}
	answer := recipe.Answer{CommandID: id, Result: ev.Data}
	if refusal := ev.Err(); refusal != nil {
		answer.Error = &recipe.ActionError{Kind: string(refusal.Kind), Message: refusal.Message}
	}
	if why := ev.Delivery.Unreadable; why != nil {
		answer.Unreadable = why.Error()
	}
	return e.handle(ctx, "answer", ev, func() error {
		route, err := e.route(ctx, id)
		if errors.Is(err, jobstore.ErrNotFound) {
			e.log.Info("answer to an unknown command", "command", id, "id", ev.ID)
			e.count(OpActionState, NotFound)
			return nil
		}
		if err != nil {
			return err
		}
		forged, err := e.forged(ctx, ev, route)
		if err != nil {
			return err
		}
		if forged != "" {
			e.log.Warn("answer refused: "+forged, "command", id, "id", ev.ID, "source", ev.Source, "job", route.JobOrderID)
			e.count(OpActionState, Forged)
			return nil
		}
		if route.Method != "" {
			return e.stationAnswered(ctx, id, route, ev)
		}
		if route.Cancel != nil {
			return e.canceled(ctx, id, ev.ID, route, &answer)
		}
		answer, err := readable(ev, answer)
		if err != nil {
			e.log.Warn("answer cannot be read: it is no result", "command", id, "id", ev.ID, "source", ev.Source, "job", route.JobOrderID,
				"correlation", ev.CorrelationID, "topic", topics.Prefix(e.opt.TopicPrefix).Shown(ev.Delivery.Topic), "err", err)
		}
		return e.answer(ctx, ev.ID, route, answer)
	})
}

// readable is answer with its body read. The error says why it cannot be read; a refusal always can, for its body does not matter.
func readable(ev cloudevent.Event, answer recipe.Answer) (recipe.Answer, error) {
	switch why := ev.Delivery.Unreadable; {
	case why != nil:
		return answer, why
	case answer.Error != nil:
		return answer, nil
	}
	return answer.Read()
}

// route is what a command belongs to. ErrNotFound: never sent, or long ago.
func (e *Engine) route(ctx context.Context, commandID string) (jobstore.Route, error) {
	if route, ok := e.routes.get(commandID); ok {
		return route, nil
	}
	route, err := e.store.Route(ctx, commandID) // another instance sent it, perhaps one that is dead
	if err == nil {
		e.routes.put(commandID, route)
	}
	return route, err
}

// handle calls do. What keeps failing for a reason of its own becomes a dead letter, so that it does not come again and again,
// and does not hold up all that comes after. A panic is such a reason.
func (e *Engine) handle(ctx context.Context, kind string, ev cloudevent.Event, do func() error) error {
	err := again(ctx, func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				e.log.Error("handling a message panicked", "kind", kind, "source", ev.Source, "id", ev.ID, "panic", p, "stack", string(debug.Stack()))
				err = fmt.Errorf("sfc: panic: %v", p)
			}
		}()
		return do()
	})
	if err == nil {
		return nil
	}
	ev.Delivery.Topic = topics.Prefix(e.opt.TopicPrefix).Shown(ev.Delivery.Topic) // dead letters are read by people
	if err = e.store.Failed(ctx, jobstore.Message{Kind: kind, Event: ev}, err); err == nil {
		e.count(OpActionState, Invalid)
	}
	return err
}

// commandID is the command that ev answers: its cause, else the correlation data, which equipment echoes.
func commandID(ev cloudevent.Event) string {
	if ev.CausationID != "" {
		return ev.CausationID
	}
	if id, err := uuid.FromBytes(ev.Delivery.CorrelationData); err == nil {
		return id.String()
	}
	return ""
}

// answer settles the action that a command was for; cause is the event that says so.
func (e *Engine) answer(ctx context.Context, cause string, route jobstore.Route, answer recipe.Answer) error {
	return e.settleAnswer(ctx, route, &given{cause: cause, answer: answer})
}

// event is something that happens to a recipe in execution.
type event struct {
	query  jobstore.Query     // which job; scope as far as known
	recipe string             // SHA of the recipe, as far as known
	cause  string             // id of the CloudEvent behind it
	item   *jobstore.WorkItem // nil: none
	rearm  bool               // commit even if nothing changes, so that the timer is set
	decide func(situation) recipe.Outcome
	each   []recipe.Outcome // of a decision about answers: what came of each; nil: it is about something else
}

// situation is what a decision is made on.
type situation struct {
	program *recipe.Program
	order   recipe.Order
	docs    recipe.Docs
	now     time.Time // installation time
}

// settle carries one event out: loads, decides, commits. It returns nil when the event is settled, ErrConflict when
// another writer came first.
func (e *Engine) settle(ctx context.Context, ev *event) error {
	if snap, program := e.recall(ev.query.JobOrderID); snap != nil {
		err := e.decide(ctx, ev, snap, program)
		if err == nil || errors.Is(err, jobstore.ErrConflict) || jobstore.Waits(err) {
			return err
		}
	}
	snap, program, err := e.load(ctx, ev.query, ev.recipe)
	if errors.Is(err, errBroken) {
		return e.abort(ctx, ev.query.JobOrderID, err.Error(), ev.item)
	}
	if err != nil {
		return err
	}
	return e.decide(ctx, ev, snap, program)
}

// decide decides on what was loaded or recalled, and commits. errRecalled: it is to be loaded.
func (e *Engine) decide(ctx context.Context, ev *event, snap *jobstore.Snapshot, program *recipe.Program) error {
	job, x := snap.Job, snap.Execution
	switch {
	case snap.Recalled && !inExecution(job.State): // Recall returns no recipe that is over
		return errRecalled
	case job == nil || x == nil:
		e.log.Info("nothing is in execution", "job", snap.JobOrderID)
		e.count(OpActionState, NotFound)
		return nil
	case x.Terminal() || !inExecution(job.State): // late: only logged
		e.log.Info("came too late", "job", snap.JobOrderID, "state", job.State.String())
		e.count(OpActionState, AlreadyHandled)
		return nil
	}
	s := situation{
		program: program, order: job.RecipeOrder(), now: e.store.InstallationTime(),
		docs: recipe.Docs{Execution: x, Mailboxes: snap.Mailboxes, Intake: e.intake()},
	}
	if job.State.Top == isa95.Interrupted { // recorded only, whoever interrupted it
		s.docs.Execution = x.Pause(s.now)
	}
	seed := e.draw()
	out := ev.decide(s)
	if snap.Recalled && (out.Stale || len(out.ChangedMailboxes) > 0) { // mailboxes were not recalled
		return errRecalled
	}
	if out.Stale {
		e.log.Debug("nothing to do", "job", snap.JobOrderID, "why", out.Note)
		if !ev.rearm {
			e.done(snap.JobOrderID, x, ev.outcomes(out))
			return nil
		}
		e.count(OpActionState, AlreadyHandled)
		out = recipe.Outcome{Docs: recipe.Docs{Execution: s.docs.Execution}, Due: s.docs.Execution.Due(), Phase: recipe.PhaseRunning}
	}
	change, err := consequence(snap, out, e.store.Now())
	if err != nil {
		return err
	}
	change.Commands = seed.Tokens(change.Commands)
	change.Item, change.CausationID = ev.item, ev.cause
	if ev.query.ID != "" {
		change.Seen = &jobstore.Seen{}
	}
	if err := e.store.Commit(ctx, snap, change); err != nil {
		return err
	}
	e.done(snap.JobOrderID, x, ev.outcomes(out))
	return nil
}

// intake is what this process knows of those who take the answers.
func (e *Engine) intake() recipe.Intake {
	return recipe.Intake{Resumed: e.store.Resumed(), Sent: func(commandID string) bool {
		_, ok := e.routes.get(commandID)
		return ok
	}}
}

// outcomes are those to count: out, or those it consists of.
func (ev *event) outcomes(out recipe.Outcome) []recipe.Outcome {
	if ev.each != nil {
		return ev.each
	}
	return []recipe.Outcome{out}
}

// done counts what a commit carried out.
func (e *Engine) done(job isa95.JobOrderID, before *recipe.Execution, outcomes []recipe.Outcome) {
	for _, out := range outcomes {
		if out.Stale {
			e.count(OpActionState, AlreadyHandled)
			continue
		}
		for _, o := range operations(before, out.Docs.Execution) {
			e.count(o, OK)
		}
		before = out.Docs.Execution
		if out.Phase != recipe.PhaseRunning {
			e.running.drop(job)
			e.log.Debug("recipe ended", "job", job, "phase", string(out.Phase), "note", out.Note)
		}
	}
}

// inExecution: the states in which a recipe can be under way.
func inExecution(s isa95.State) bool { return s.Top == isa95.Running || s.Top == isa95.Interrupted }

// consequence is the change that a decision about a recipe in execution asks for. When the recipe is through or has
// failed, the job order ends in the same commit, with its response.
func consequence(snap *jobstore.Snapshot, out recipe.Outcome, now time.Time) (jobstore.Change, error) {
	x := out.Docs.Execution
	change := jobstore.Change{
		Execution: x, Due: out.Due, Commands: out.Commands,
		Mailboxes: changedMailboxes(out), Taken: out.Taken, Now: now, CorrelationID: x.CorrelationID, Facts: out.Facts,
	}
	var err error
	if change.Transition, change.Response, err = jobstore.Conclude(snap.Job, out.Phase, x, now); err != nil {
		return change, fmt.Errorf("sfc: %w", err)
	}
	return change, nil
}

func changedMailboxes(out recipe.Outcome) map[string]*recipe.Mailbox {
	if len(out.ChangedMailboxes) == 0 {
		return nil
	}
	changed := make(map[string]*recipe.Mailbox, len(out.ChangedMailboxes))
	for _, typ := range out.ChangedMailboxes {
		changed[typ] = out.Docs.Mailboxes[typ]
	}
	return changed
}
