package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/telemetry"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/publisher"
	"github.com/taktworks/takt/sampling"
	"github.com/taktworks/takt/sfc"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/workflow"
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

func (c *serveCmd) Run(ctx context.Context, a *app) error {
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
	c.silence = startSilence
	defer setGC()()
	ready := func() { a.log.Info("ready: commands are taken", "instance", instance) }
	if c.Console == "" {
		return serve(ctx, a.Config, &c.ServeConfig, instance, false, ready, a.log)
	}
	parts := newGroup(ctx)
	if _, err := parts.console(a, "console-", c.Console, c.ConsoleFlags, rulesOf(&c.ServeConfig), false); err != nil {
		return err
	}
	parts.start("serve", func(ctx context.Context) error {
		defer parts.cancel()
		return serve(ctx, a.Config, &c.ServeConfig, instance, false, ready, a.log)
	})
	<-parts.ctx.Done()
	return parts.stop()
}

// serve is the one place of wiring: it builds the parts in the order that data flows and runs them until ctx ends.
// ready, if not nil, is called once commands are taken.
func serve(ctx context.Context, cfg *Config, sc *ServeConfig, instance string, embedded bool, ready func(), log *slog.Logger) error {
	traces, err := cfg.traces(ctx, instance, log)
	if err != nil {
		return err
	}
	defer traces.Close()
	source := "urn:takt:" + instance
	so := cfg.storeOptions(embedded, log)
	so.Instance, so.Source, so.WorkerTTL = instance, source, sc.WorkerTTL
	metrics := telemetry.NewMetrics(readBuild().Version)
	push, err := cfg.push(ctx, metrics, instance, log)
	if err != nil {
		return err
	}
	defer push.Close()
	so.Observe = metrics.Stream
	so.EndStateRetention, so.ReplyRetention, so.EventExpiry = sc.EndStateRetention, sc.ReplyRetention, sc.MessageExpiry
	so.Replicas, so.WaitForDisk, so.ReplicasWithin = sc.RedisWait, sc.RedisWaitDisk, sc.RedisWaitWithin
	redisAnswers := sc.whenSilent(func() {
		log.Warn("Redis does not answer yet: it is tried again, and commands are taken once it does", "redis", redis.Redact(cfg.Redis))
	})
	store, err := openWhenUp(ctx, so, log)
	redisAnswers()
	if err != nil {
		return storeError(err)
	}
	defer store.Close()

	// Three connections, each with its own client id: acknowledgements of one never wait for those of another.
	commands, answersOf := jobstore.Session{Instance: instance, Name: commandSession}, jobstore.Session{Instance: instance, Name: answerSession}
	receive, noReceive := mqtt.New(cfg.intakeOptions(commands, sc, log))
	answers, noAnswers := mqtt.New(cfg.intakeOptions(answersOf, sc, log))
	publishing := cfg.mqttOptions("takt-"+instance+"-pub", 0, log)
	publishing.ReceiveBytes = comparedBytes
	publish, noPublish := mqtt.New(publishing)
	if err := cmp.Or(noReceive, noAnswers, noPublish); err != nil {
		return err
	}
	p := parts{
		cfg: cfg, sc: sc, instance: instance, source: source, store: store, receive: receive, answers: answers, publish: publish,
		metrics: metrics, traces: traces, sampler: cfg.sampler(store, slices.Contains(sc.Roles, roleEngine), embedded, log), warn: make(map[string]func() string), log: log,
	}
	p.replicas = &replicasWatch{ask: store.AskReplicas, log: log}
	p.guard = newTopicGuard(store, publish, p.receiverOptions(), embedded && cfg.ownBroker, log)
	stages, err := p.build()
	if err != nil {
		return err
	}
	if ready != nil {
		stages[len(stages)-1]["ready"] = func(ctx context.Context) error {
			for receive.Ready(ctx) == nil && answers.Ready(ctx) == nil && publish.Ready(ctx) == nil && ctx.Err() == nil {
				if p.replicas.Ready(ctx) == nil {
					ready()
					break
				}
				lifecycle.Sleep(ctx, replicasEvery/20)
			}
			<-ctx.Done()
			return nil
		}
	}
	ended := sc.whenSilent(func() {
		if publish.Facts().Connects == 0 {
			log.Warn("the broker does not answer yet: it is tried again, and commands are taken once it does", "mqtt", publishing.String())
		}
	})
	defer ended()
	return lifecycle.Run(ctx, sc.Drain, stages...)
}

// startSilence is when `takt serve` says which server it waits for: a server that hangs is an error only after several seconds.
const startSilence = 2 * time.Second

// whenSilent calls say unless stop is called before the silence is over.
func (sc *ServeConfig) whenSilent(say func()) (stop func()) {
	if sc.silence == 0 {
		return func() {}
	}
	timer := time.AfterFunc(sc.silence, say)
	return func() { timer.Stop() }
}

// intakeKeepAlive is that of the connection which takes the answers of equipment: a broker that is silent for half as long again takes no
// part of any time-out.
const intakeKeepAlive = 5 * time.Second

// comparedBytes bounds what the connection that publishes holds of retained topics while the publisher compares them with the store.
const comparedBytes = 8 << 20

// openWhenUp waits for a Redis that is away, for a process may start before it; what will never work fails at once.
func openWhenUp(ctx context.Context, o jobstore.Options, log *slog.Logger) (*jobstore.Store, error) {
	said, at := "", time.Time{} // the same is said again after a while, not at each attempt
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		store, err := jobstore.Open(ctx, o)
		if err == nil || !jobstore.Away(err) || ctx.Err() != nil {
			return store, err
		}
		if err.Error() != said || time.Since(at) > 30*time.Second {
			log.Warn("waiting for Redis: it is tried again until it answers", "err", err)
			said, at = err.Error(), time.Now()
		}
		if !lifecycle.Sleep(ctx, wait) {
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
	receive, answers *mqtt.Conn // commands; what equipment sends
	publish          *mqtt.Conn
	guard            *topicGuard
	replicas         *replicasWatch
	handler          *jobcontrol.Receiver    // nil without the role
	engine           *sfc.Engine             // nil without the role
	station          jobcontrol.Station      // beside the engine
	servers          map[string]*mqtt.Server // of this process, by what they handle
	sampler          *sampling.Sampler
	metrics          *telemetry.Metrics
	traces           *telemetry.Traces        // nil = none are made
	warn             map[string]func() string // of /readyz
	log              *slog.Logger
}

// takesAnswers says whether answers of equipment can come, and what they change can be kept as --redis-wait wants: without replicas no command leaves, so no time may pass for it.
func (p *parts) takesAnswers() bool {
	return p.answers.Receiving() && (p.sc.RedisWait == 0 || p.replicas.Ready(context.Background()) == nil)
}

// build makes the stages. The first stops first: intake, then work, then what reports the work, then the connections.
func (p *parts) build() ([]lifecycle.Stage, error) {
	work, report := lifecycle.Stage{}, lifecycle.Stage{}
	has := func(role string) bool { return slices.Contains(p.sc.Roles, role) }
	if has(roleReceiver) {
		if jobcontrol.AllowAll(p.sc.ReplyTopics) {
			p.log.Warn("replies go to any topic outside the topic prefix that a command names: name those of your requesters in --reply-topics", "reply_topics", p.sc.ReplyTopics)
		}
		p.handler = jobcontrol.New(p.store, p.receiverOptions())
		if p.sc.AbandonedAfter > 0 {
			work["abandoned orders"] = func(ctx context.Context) error { return p.handler.RunAbandoned(ctx, p.sc.AbandonedAfter) }
		}
	}
	if has(roleEngine) {
		p.engine = sfc.New(p.store, p.publish, sfc.Options{
			TopicPrefix: p.cfg.TopicPrefix, Instance: p.instance, Source: p.source, Slots: p.sc.Slots, Drain: p.sc.Drain, Intake: p.takesAnswers, MailboxRetention: p.sc.MailboxRetention,
			Count: func(c sfc.Counted) { p.metrics.Recipe(string(c.Operation), string(c.Result)) }, Log: p.log,
		})
		work["recipes"] = p.engine.Run
		if p.handler == nil {
			p.station = jobcontrol.New(p.store, p.receiverOptions()).Station()
		} else {
			p.station = p.handler.Station()
		}
	}
	intake := lifecycle.Stage{}
	p.servers = make(map[string]*mqtt.Server)
	for name, conn := range map[string]*mqtt.Conn{commandSession: p.receive, answerSession: p.answers} {
		servers, err := p.intake(conn, jobstore.Session{Instance: p.instance, Name: name})
		if err != nil {
			return nil, err
		}
		maps.Copy(intake, servers)
	}
	if len(intake) > 0 && p.sc.SessionExpiry > 0 {
		report["heirs"] = p.inherit
	}
	if has(rolePublisher) {
		o := p.sc.publisherOptions(p.cfg.TopicPrefix, p.log)
		o.Lease, o.Batch, o.Block = p.sc.WorkerTTL, p.sc.ReadCount, p.sc.ReadBlock
		pub, err := publisher.New(p.store, p.publish, o)
		if err != nil {
			return nil, err
		}
		report["publisher"] = pub.Run
		p.publisherGauges(pub)
		p.warn["publisher"] = func() string { return refusalsText(pub.Refusals()) }
	}
	events := jobcontrol.EventSender{Store: p.store, Ready: p.publish.Ready, Publish: p.publish.PublishEvent, TopicPrefix: p.cfg.TopicPrefix, Slots: p.sc.Slots}
	report["status events"] = events.Run
	connections := lifecycle.Stage{"mqtt receive": p.receive.Run, "mqtt answers": p.answers.Run}
	for _, stage := range []lifecycle.Stage{intake, work, report, connections} {
		for name, run := range stage {
			stage[name] = p.guard.gated(run)
		}
	}
	report["samples"] = p.sampler.Run
	p.connectionGauges()
	p.metrics.Registerer().MustRegister(p.sampler)
	report["broker"], connections["topics"] = p.watchBroker, p.guard.Run
	connections["mqtt publish"], connections["heartbeat"], connections["replicas"] = p.publish.Run, p.store.RunWorker, p.replicas.Run
	if p.sc.HTTP != "" {
		report["http"] = p.web().Run
	}
	return []lifecycle.Stage{intake, work, report, connections}, nil
}

// publisherPatience is how long a process that only publishes counts as alive without Redis. One with other roles holds commands and answers, and always does.
const publisherPatience = time.Minute

// refusalsText names the first of what the broker refuses, "" for nothing.
func refusalsText(refused []publisher.Refusal) string {
	if len(refused) == 0 {
		return ""
	}
	text := refused[0].String()
	if n := len(refused) - 1; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	return text
}

func (p *parts) connectionGauges() {
	for name, conn := range map[string]*mqtt.Conn{"receive": p.receive, "answers": p.answers, "publish": p.publish} {
		p.metrics.Gauge("takt_mqtt_"+name+"_held_bytes", "Bytes of messages that came over this connection and are not acknowledged.", func() float64 { return float64(conn.Facts().HeldBytes) })
		p.metrics.Gauge("takt_mqtt_"+name+"_losses", "How often the connection to the broker was lost.", func() float64 { return float64(conn.Facts().Losses) })
	}
}

func (p *parts) publisherGauges(pub *publisher.Publisher) {
	p.metrics.Gauge("takt_publishing", "1 while this process publishes the retained topics, 0 while it stands by.", func() float64 {
		if pub.Stats().Publishing {
			return 1
		}
		return 0
	})
	p.metrics.Gauge("takt_publisher_topics", "Order and result topics written or deleted.", func() float64 { return float64(pub.Stats().Topics) })
	p.metrics.Gauge("takt_publisher_refused", "Messages that the broker refused.", func() float64 { return float64(pub.Stats().Refused) })
	p.metrics.Gauge("takt_publisher_waiting", "Retained topics that the broker does not take now.", func() float64 { return float64(pub.Stats().Waiting) })
}

// sampler keeps figures of the installation, in one process of all.
func (c *Config) sampler(store *jobstore.Store, engine, embedded bool, log *slog.Logger) *sampling.Sampler {
	return sampling.New(sampling.Options{
		Store: store, Engine: engine, Log: log,
		Tasks: func(ctx context.Context) (*task.Client, error) {
			return looking(c).taskClient(ctx, embedded, task.Options{Log: log})
		},
		Workflows: func(ctx context.Context) (*workflow.Client, error) {
			return looking(c).workflowClient(ctx, embedded, workflow.Options{Log: log})
		},
	})
}

// web answers /metrics, /livez and /readyz.
func (p *parts) web() *telemetry.Server {
	var live func(context.Context) error
	if len(p.sc.Roles) == 1 && p.sc.Roles[0] == rolePublisher { // a new process may find what this one does not
		live = telemetry.Within(publisherPatience, p.store.Ping)
	}
	return &telemetry.Server{
		Live: live,
		Addr: p.sc.HTTP, Metrics: p.metrics, Log: p.log,
		Info: map[string]any{"instance": p.instance, "roles": p.sc.Roles}, Warn: p.warn,
		Ready: map[string]func(context.Context) error{
			"redis": p.store.Ping, "mqtt receive": p.receive.Ready, "mqtt answers": p.answers.Ready, "mqtt publish": p.publish.Ready,
			"broker": p.brokerFit, "topics": p.guard.Ready, "replicas": p.replicas.Ready,
		},
	}
}

// observe counts commands by method and by what they were answered with, and makes a span of each.
func (p *parts) observe(o jobcontrol.Observation) {
	method, ok := isa95.MethodByTypeID(o.Type)
	name := string(method)
	if m, station := isa95.StationMethodByTypeID(o.Type); !ok && station {
		name, ok = string(m), true
	}
	if kind, isConfig := isa95.ConfigByTypeID(o.Type); !ok && isConfig {
		fill(p.guard.look) // it may be a new station
		name = "config." + string(kind)
	}
	status := observed(o)
	p.metrics.Command(name, status, o.Tries, o.Took)
	p.traces.Record(strings.TrimSpace("takt.command "+name), trace.SpanKindServer, o.Took, o.Kind != "",
		attribute.String("takt.status", status), attribute.Int("takt.tries", o.Tries), attribute.Bool("takt.repeated", o.Repeated))
}

// observed is what became of an event, as metrics and traces name it.
func observed(o jobcontrol.Observation) string {
	switch {
	case o.Muted:
		return "RESPONSE_TOPIC_NOT_ALLOWED"
	case o.Kind != "":
		return string(o.Kind)
	}
	return o.Status.String()
}

func (p *parts) receiverOptions() jobcontrol.Options {
	return jobcontrol.Options{
		Source: p.source, TopicPrefix: p.cfg.TopicPrefix, ReplyTopics: p.sc.ReplyTopics, MessageExpiry: p.sc.MessageExpiry, HoldWhenAway: p.sc.HoldWhenAway,
		UnknownMembers: isa95.UnknownMembers(p.cfg.UnknownMembers), AnyScope: !p.sc.RequireConfiguration, Observe: p.observe, Log: p.log,
	}
}
