package sfc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// handOver asks the station of an order that no recipe runs to start it. The order stays AllowedToStart until the station says Run.
func (e *Engine) handOver(ctx context.Context, item *jobstore.WorkItem, p plan) error {
	p.snap.Scope = p.snap.Job.Scope
	start := jobstore.NewStationCommand(p.snap.Job, isa95.Start)
	change := jobstore.Change{Station: &jobstore.Station{Start: start.ID}, Commands: []recipe.Command{start}, Item: item, Now: e.store.Now()}
	if err := e.store.Commit(ctx, p.snap, change); err != nil {
		return err
	}
	e.log.Debug("handed over to its station", "job", item.JobOrderID, "scope", p.snap.Scope, "why", p.why)
	e.count(OpStart, Left)
	return nil
}

// repeatStation sends a standing command, from the outbox or because it is unanswered. Its repetitions end with its answer, or when the order has gone on without it.
func (e *Engine) repeatStation(ctx context.Context, id string) error {
	route, err := e.route(ctx, id)
	if errors.Is(err, jobstore.ErrNotFound) {
		return e.store.EndStation(ctx, id)
	}
	if err != nil {
		return err
	}
	if route.Cancel != nil {
		return e.sendCancel(ctx, id, route)
	}
	snap, err := e.store.Load(ctx, jobstore.Query{JobOrderID: route.JobOrderID})
	if err != nil {
		return err
	}
	if why := route.StationObsolete(id, snap.Job); why != "" {
		e.log.Info("command to a station not sent", "job", route.JobOrderID, "method", route.Method, "command", id, "why", why)
		e.count(OpDispatch, Dropped)
		return e.store.EndStation(ctx, id)
	}
	body, err := jobstore.StationBody(route.Method, snap.Job)
	if err != nil {
		return err
	}
	now := e.store.InstallationTime()
	pause := route.StationPause(now)
	c := recipe.Command{ID: id, Scope: string(route.Scope), TypeID: route.Method.TypeID(), CorrelationID: id, Token: route.Token, Deadline: now.Add(pause)}
	ev := e.command(c, body, e.store.Now(), now) // it expires before it is repeated: the broker keeps one for a station that is away
	ev.DataSchema = route.Method.CallSchema()
	return e.sendStanding(ctx, route, ev, pause)
}

// sendStanding sends a standing command and sets the time of its repetition.
func (e *Engine) sendStanding(ctx context.Context, route jobstore.Route, ev cloudevent.Event, pause time.Duration) error {
	ev.Extensions = map[string]string{"sequence": fmt.Sprintf("%010d", route.Sequence)} // two processes may send two commands in either order
	err := e.commander.PublishEvent(ctx, e.topic(string(route.Scope), "commands"), ev)
	switch {
	case err == nil:
		e.count(OpDispatch, OK)
	case !neverTaken(err):
		return err
	default:
		e.log.Error("the broker does not take this command", "job", route.JobOrderID, "type", ev.Type, "command", ev.ID, "error", err)
		e.count(OpDispatch, Invalid)
	}
	return e.store.RepeatStation(ctx, ev.ID, pause)
}

// sendCancel sends a command that calls another one off, until its time is over.
func (e *Engine) sendCancel(ctx context.Context, id string, route jobstore.Route) error {
	c, now := *route.Cancel, e.store.InstallationTime()
	if !now.Before(c.Deadline) {
		return again(ctx, func() error { return e.canceled(ctx, id, "", route, nil) })
	}
	body, err := encodeBody(c)
	if err != nil {
		return err
	}
	c.Token = route.Token
	ev := e.command(c, body, e.store.Now(), now)
	ev.CausationID = c.Cancels
	return e.sendStanding(ctx, route, ev, route.StationPause(now))
}

// canceled records the answer to a command that calls another one off, in the CloudEvent cause; nil: none came in time. The run of an order that was stored anew does not have it.
func (e *Engine) canceled(ctx context.Context, id, cause string, route jobstore.Route, answer *recipe.Answer) error {
	snap, err := e.store.Load(ctx, jobstore.Query{JobOrderID: route.JobOrderID, Scope: route.Scope})
	if err != nil {
		return err
	}
	if snap.Execution != nil {
		if x, ok := snap.Execution.Canceled(id, answer); ok {
			if err := e.store.Commit(ctx, snap, jobstore.Change{Execution: x, Due: x.Due(), Now: e.store.Now(), CorrelationID: x.CorrelationID, CausationID: cause}); err != nil {
				return err
			}
		}
	}
	e.count(OpActionState, OK)
	return e.store.EndStation(ctx, id)
}

// stationAnswered ends the repetition of a command. A station that refuses is logged: the order stays as it is, for the MES and the station to settle.
func (e *Engine) stationAnswered(ctx context.Context, id string, route jobstore.Route, ev cloudevent.Event) error {
	why := refusedBy(ev)
	if why != "" {
		e.log.Warn("a station refuses a command", "job", route.JobOrderID, "scope", route.Scope, "method", route.Method, "command", id, "why", why)
	}
	if route.Method == isa95.Start && why != "" {
		if err := e.noteRefusal(ctx, id, route, why); err != nil {
			return err
		}
	}
	e.count(OpActionState, OK)
	return e.store.EndStation(ctx, id)
}

// noteRefusal notes in the order why its station does not take it, for people who wonder why it does not run.
func (e *Engine) noteRefusal(ctx context.Context, id string, route jobstore.Route, refused string) error {
	snap, err := e.store.Load(ctx, jobstore.Query{JobOrderID: route.JobOrderID, Scope: route.Scope})
	if err != nil || snap.Job == nil || snap.Job.Station.Start != id || snap.Job.State.Top != isa95.AllowedToStart {
		return err
	}
	mark := snap.Job.Station
	mark.Refused = refused
	return e.store.Commit(ctx, snap, jobstore.Change{Station: &mark, Now: e.store.Now()})
}

// refusedBy is why the answer of a station is a refusal, "" if it is none.
func refusedBy(ev cloudevent.Event) string {
	if refusal := ev.Err(); refusal != nil {
		return string(refusal.Kind) + ": " + refusal.Message
	}
	var result isa95.MethodResult
	if isa95.Unmarshal(ev.Data, &result) == nil && result.ReturnStatus > isa95.NoError {
		return result.ReturnStatus.String()
	}
	return ""
}
