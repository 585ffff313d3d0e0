package main

import (
	"context"

	"github.com/google/uuid"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// A process has two connections for what comes from the broker, each with a session of its own: one for commands, one for the answers and
// events of equipment. What holds up commands so holds up no answer, and only what keeps answers away stops installation time.
const (
	commandSession = ""        // the client id is takt-{instance}-recv
	answerSession  = "answers" // of equipment, and its events
)

func receiveClient(s jobstore.Session) string {
	if s.Name == commandSession {
		return "takt-" + s.Instance + "-recv"
	}
	return "takt-" + s.Instance + "-" + s.Name
}

// intake is what comes from the broker by a session over conn: for this instance, or for a dead one whose session is taken over.
func (p *parts) intake(conn *mqtt.Conn, session jobstore.Session) (lifecycle.Stage, error) {
	prefix := topics.Prefix(p.cfg.TopicPrefix)
	servers := make(map[string]mqtt.ServerOptions)
	if p.handler != nil && session.Name == commandSession {
		servers[commandKind] = mqtt.ServerOptions{
			Filters: jobcontrol.Filters(p.cfg.TopicPrefix, p.sc.ShareGroup), Handler: p.handler, Lane: jobcontrol.Lane,
			ResponseTopic: prefix.Answers(session.Instance, ""), Expiry: p.sc.MessageExpiry, Hold: p.sc.HoldWhenAway,
		}
	}
	if p.engine != nil && session.Name != commandSession {
		servers[answerKind] = mqtt.ServerOptions{Filters: []string{prefix.AnswerFilter(session.Instance)}, Handler: taker(p.engine.Answer), Silent: always, Lane: laneOfCommand}
		servers[eventKind] = mqtt.ServerOptions{
			Filters: []string{"$share/" + p.sc.ShareGroup + "/" + p.cfg.TopicPrefix + "/equipment/+/events"}, Handler: fromStation{taker(p.engine.Event), p.station},
			Silent: func(e cloudevent.Event) bool { return !p.station.Knows(e) }, Lane: laneOfEvent, ResponseTopic: prefix.Answers(session.Instance, ""), Expiry: p.sc.MessageExpiry, Hold: p.sc.HoldWhenAway,
		}
	}
	stage := make(lifecycle.Stage, len(servers))
	for kind, o := range servers {
		o.Lanes, o.Drain, o.Log = p.sc.Slots, p.sc.Drain, p.log
		server, err := mqtt.NewServer(conn, p.publish, o)
		if err != nil {
			return nil, err
		}
		stage[kind] = server.Run
		if session.Instance == p.instance {
			p.servers[kind] = server
		}
	}
	return stage, nil
}

// What comes from the broker, by who handles it.
const (
	commandKind = "command"
	answerKind  = "answer"
	eventKind   = "event"
)

// taker handles events that get no reply; it is handed what cannot be read, too.
type taker func(context.Context, cloudevent.Event) error

func (t taker) Handle(ctx context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
	return nil, t(ctx, e)
}

func (taker) Refuse(context.Context, cloudevent.Event, *cloudevent.Error) *cloudevent.Event {
	return nil
}

func always(cloudevent.Event) bool { return true }

// fromStation handles what a station sends: methods for the orders that it runs, and events for recipes.
type fromStation struct {
	taker
	station jobcontrol.Station
}

func (f fromStation) Handle(ctx context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
	if f.station.Knows(e) {
		return f.station.Handle(ctx, e)
	}
	return f.taker.Handle(ctx, e)
}

func (f fromStation) Refuse(ctx context.Context, e cloudevent.Event, why *cloudevent.Error) *cloudevent.Event {
	return f.station.Refuse(ctx, e, why)
}

// laneOfEvent keeps the methods for one job order in order, and the events of one type of a station, and lets nothing else wait for another; those in structured mode, whose type is in the payload, come one after the other.
func laneOfEvent(m mqtt.Message) string {
	for _, p := range m.User {
		if p.Name != "type" {
			continue
		}
		if _, ok := isa95.StationMethodByTypeID(p.Value); ok {
			return jobcontrol.Lane(m)
		}
		return m.Topic + " " + p.Value
	}
	return m.Topic
}

// laneOfCommand keeps the answers to one command in order. Those to the commands of one job may come at once: the engine takes
// them together.
func laneOfCommand(m mqtt.Message) string {
	for _, p := range m.User {
		if p.Name == "causationid" {
			return p.Value
		}
	}
	if id, err := uuid.FromBytes(m.CorrelationData); err == nil {
		return id.String()
	}
	return string(m.CorrelationData)
}
