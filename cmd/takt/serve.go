package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/publisher"
	"github.com/taktworks/takt/sfc"
)

// The roles a process may have. The sender of status events runs in every one.
const (
	roleReceiver  = "receiver"
	roleEngine    = "engine"
	rolePublisher = "publisher"
)

var allRoles = []string{roleReceiver, roleEngine, rolePublisher}

type serveCmd struct {
	ServeConfig
}

func (serveCmd) Help() string {
	return `Runs until it is told to stop (SIGINT or SIGTERM), then finishes what it has in hand, at most --drain long. Any number of processes may serve the same Redis and broker: they share the work, and if one dies the others go on with what it held.

Examples:
  takt serve --redis redis://127.0.0.1:6379 --mqtt mqtt://127.0.0.1:1883
  takt serve --roles receiver,engine --http 127.0.0.1:9464`
}

func (c *serveCmd) Run(ctx context.Context, a *app) error {
	if err := c.validate(); err != nil {
		return &exitError{exitUsage, err}
	}
	if a.Redis == "" || a.MQTT == "" {
		return &exitError{exitUsage, fmt.Errorf("takt serve needs your own Redis and broker: give --redis URL and --mqtt URL; to try it out without them use takt dev")}
	}
	instance, release, err := a.claimInstance()
	if err != nil {
		return err
	}
	defer release()
	a.log.Info("serving", "instance", instance, "roles", c.Roles, "prefix", a.Prefix, "topic_prefix", a.TopicPrefix)
	defer a.log.Info("stopped", "instance", instance)
	ready := func() { a.log.Info("ready: commands are taken", "instance", instance) }
	return serve(ctx, a.Config, &c.ServeConfig, instance, false, ready, a.log)
}

// sessionExpiry is how long the broker keeps what came for an instance that is away.
const sessionExpiry = time.Hour

// serve is the one place of wiring: it builds the parts in the order that data flows and runs them until ctx ends.
// ready, if not nil, is called once commands are taken.
func serve(ctx context.Context, cfg *Config, sc *ServeConfig, instance string, embedded bool, ready func(), log *slog.Logger) error {
	source := "urn:takt:" + instance
	so := cfg.storeOptions(embedded, log)
	so.Instance, so.Source, so.WorkerTTL = instance, source, sc.WorkerTTL
	so.EndStateRetention, so.ReplyRetention, so.EventExpiry = sc.EndStateRetention, sc.ReplyRetention, sc.MessageExpiry
	store, err := openWhenUp(ctx, so, log)
	if err != nil {
		return err
	}
	defer store.Close()

	// Two connections, each with its own client id (D4, E-P14): acknowledgements of one direction never wait for the other.
	receive, err := mqtt.New(cfg.mqttOptions("takt-"+instance+"-recv", sessionExpiry, log))
	if err != nil {
		return err
	}
	publish, err := mqtt.New(cfg.mqttOptions("takt-"+instance+"-pub", 0, log))
	if err != nil {
		return err
	}
	p := parts{cfg: cfg, sc: sc, instance: instance, source: source, store: store, receive: receive, publish: publish, log: log}
	stages, err := p.build()
	if err != nil {
		return err
	}
	if ready != nil {
		stages[len(stages)-1]["ready"] = func(ctx context.Context) error {
			if receive.Ready(ctx) == nil && publish.Ready(ctx) == nil {
				ready()
			}
			<-ctx.Done()
			return nil
		}
	}
	return lifecycle.Run(ctx, sc.Drain, stages...)
}

// openWhenUp waits for a Redis that is away, for a process may start before it; what will never work fails at once.
func openWhenUp(ctx context.Context, o jobstore.Options, log *slog.Logger) (*jobstore.Store, error) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		store, err := jobstore.Open(ctx, o)
		if err == nil || !jobstore.Away(err) || ctx.Err() != nil {
			return store, err
		}
		log.Warn("waiting for Redis", "err", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// parts are what the stages of one process are built from.
type parts struct {
	cfg              *Config
	sc               *ServeConfig
	instance, source string
	store            *jobstore.Store
	receive, publish *mqtt.Conn
	log              *slog.Logger
}

// build makes the stages. The first stops first: intake, then work, then what reports the work, then the connections.
func (p *parts) build() ([]lifecycle.Stage, error) {
	intake, work, report := lifecycle.Stage{}, lifecycle.Stage{}, lifecycle.Stage{}
	has := func(role string) bool { return slices.Contains(p.sc.Roles, role) }
	if has(roleReceiver) {
		commands, err := p.receiver()
		if err != nil {
			return nil, err
		}
		intake["commands"], report["metadata"] = commands.Run, p.metadata
	}
	if has(roleEngine) {
		if err := p.engine(intake, work); err != nil {
			return nil, err
		}
	}
	if has(rolePublisher) {
		o := p.sc.publisherOptions(p.cfg.TopicPrefix, p.log)
		o.Lease = p.sc.WorkerTTL
		pub, err := publisher.New(p.store, p.publish, o)
		if err != nil {
			return nil, err
		}
		report["publisher"] = pub.Run
	}
	events := jobcontrol.EventSender{Store: p.store, Publish: p.publish.PublishEvent, TopicPrefix: p.cfg.TopicPrefix, Slots: p.sc.Slots}
	report["status events"] = events.Run
	connections := lifecycle.Stage{"mqtt receive": p.receive.Run, "mqtt publish": p.publish.Run, "heartbeat": p.store.RunWorker}
	return []lifecycle.Stage{intake, work, report, connections}, nil
}

// shared is a subscription that one of all instances gets each message of.
func (p *parts) shared(filter string) string {
	return "$share/" + p.sc.ShareGroup + "/" + p.cfg.TopicPrefix + "/" + filter
}

func (p *parts) responseTopic() string { return p.cfg.TopicPrefix + "/responses/" + p.instance }

func (p *parts) receiverOptions() jobcontrol.Options {
	return jobcontrol.Options{
		Source: p.source, TopicPrefix: p.cfg.TopicPrefix, MessageExpiry: p.sc.MessageExpiry, HoldWhenAway: p.sc.HoldWhenAway, Log: p.log,
	}
}

func (p *parts) receiver() (*mqtt.Server, error) {
	return mqtt.NewServer(p.receive, p.publish, mqtt.ServerOptions{
		Filters: jobcontrol.Filters(p.cfg.TopicPrefix, p.sc.ShareGroup), Handler: jobcontrol.New(p.store, p.receiverOptions()),
		Lanes: p.sc.Slots, Lane: jobcontrol.Lane, ResponseTopic: p.responseTopic(), Expiry: p.sc.MessageExpiry,
		Hold: p.sc.HoldWhenAway, Drain: p.sc.Drain, Log: p.log,
	})
}

// metadata says once, retained, what the receiver understands.
func (p *parts) metadata(ctx context.Context) error {
	for wait := time.Second; ctx.Err() == nil; wait = min(2*wait, time.Minute) {
		err := p.publish.Ready(ctx)
		if err == nil {
			var m mqtt.Message
			if m, err = p.receiverOptions().Metadata(time.Now()); err != nil {
				return err
			}
			if err = p.publish.Publish(ctx, m); err == nil {
				break
			}
		}
		p.log.Warn("metadata not published yet", "err", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	<-ctx.Done()
	return nil
}

func (p *parts) engine(intake, work lifecycle.Stage) error {
	engine := sfc.New(p.store, p.publish, sfc.Options{
		TopicPrefix: p.cfg.TopicPrefix, Instance: p.instance, Source: p.source, Slots: p.sc.Slots, Drain: p.sc.Drain, Log: p.log,
	})
	answers, err := mqtt.NewServer(p.receive, p.publish, mqtt.ServerOptions{
		Filters: []string{p.responseTopic()}, Handler: taker(engine.Answer), Lanes: p.sc.Slots, Lane: laneOfCorrelation, Drain: p.sc.Drain, Log: p.log,
	})
	if err != nil {
		return err
	}
	events, err := mqtt.NewServer(p.receive, p.publish, mqtt.ServerOptions{
		Filters: []string{p.shared("equipment/+/events")}, Handler: taker(engine.Event), Lanes: p.sc.Slots, Drain: p.sc.Drain, Log: p.log,
	})
	if err != nil {
		return err
	}
	intake["answers"], intake["equipment events"] = answers.Run, events.Run
	work["recipes"] = engine.Run
	return nil
}

// taker handles events that nobody is answered about.
type taker func(context.Context, cloudevent.Event) error

func (t taker) Handle(ctx context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
	return nil, t(ctx, e)
}

func (taker) Refuse(context.Context, cloudevent.Event, *cloudevent.Error) *cloudevent.Event {
	return nil
}

// laneOfCorrelation keeps the answers of one recipe in order: they carry its correlation id.
func laneOfCorrelation(m mqtt.Message) string {
	for _, p := range m.User {
		if p.Name == "correlationid" {
			return p.Value
		}
	}
	return string(m.CorrelationData)
}
