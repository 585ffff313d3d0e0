package main

import (
	"context"

	"github.com/google/uuid"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/mqtt"
)

func receiveClient(instance string) string { return "takt-" + instance + "-recv" }

// intake is what comes from the broker over conn for an instance: this one, or a dead one whose session is taken over.
func (p *parts) intake(conn *mqtt.Conn, instance string) (lifecycle.Stage, error) {
	prefix := topics.Prefix(p.cfg.TopicPrefix)
	servers := make(map[string]mqtt.ServerOptions)
	if p.handler != nil {
		servers["commands"] = mqtt.ServerOptions{
			Filters: jobcontrol.Filters(p.cfg.TopicPrefix, p.sc.ShareGroup), Handler: p.handler, Lane: jobcontrol.Lane,
			ResponseTopic: prefix.Answers(instance, ""), Expiry: p.sc.MessageExpiry, Hold: p.sc.HoldWhenAway,
		}
	}
	if p.engine != nil {
		servers["answers"] = mqtt.ServerOptions{Filters: prefix.AnswerFilters(instance), Handler: taker(p.engine.Answer), Silent: true, Lane: laneOfCommand}
		servers["equipment events"] = mqtt.ServerOptions{
			Filters: []string{"$share/" + p.sc.ShareGroup + "/" + p.cfg.TopicPrefix + "/equipment/+/events"}, Handler: taker(p.engine.Event), Silent: true, Lane: laneOfType,
		}
	}
	stage := make(lifecycle.Stage, len(servers))
	for name, o := range servers {
		o.Lanes, o.Drain, o.Log = p.sc.Slots, p.sc.Drain, p.log
		server, err := mqtt.NewServer(conn, p.publish, o)
		if err != nil {
			return nil, err
		}
		stage[name] = server.Run
	}
	return stage, nil
}

// taker handles events that nobody is answered about.
type taker func(context.Context, cloudevent.Event) error

func (t taker) Handle(ctx context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
	return nil, t(ctx, e)
}

func (taker) Refuse(context.Context, cloudevent.Event, *cloudevent.Error) *cloudevent.Event {
	return nil
}

// laneOfType keeps the events of one type of a station in order, and lets no type wait for another.
func laneOfType(m mqtt.Message) string {
	for _, p := range m.User {
		if p.Name == "type" {
			return m.Topic + " " + p.Value
		}
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
