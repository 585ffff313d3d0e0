package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/workflow"
)

// storeOptions are those of every Store; the caller adds what is its own.
func (c *Config) storeOptions(embedded bool, log *slog.Logger) jobstore.Options {
	return jobstore.Options{
		URL: c.Redis, Username: c.RedisUsername, Password: c.RedisPassword,
		CAFile: c.RedisCA, CertFile: c.RedisCert, KeyFile: c.RedisKey, ServerName: c.RedisServerName,
		SentinelUsername: c.RedisSentinelUsername, SentinelPassword: c.RedisSentinelPassword,
		Embedded: embedded, Looks: c.looks, Prefix: c.Prefix, Log: log,
	}
}

// openTimeout is how long a command tries to reach Redis or ZooKeeper.
const openTimeout = 10 * time.Second

// open connects to the Redis of the settings, or of a takt dev that runs, for a command that needs it, until the command has ended.
func open[C interface{ Close() }](ctx context.Context, a *app, connect func(ctx context.Context, embedded bool) (C, error)) (client C, err error) {
	embedded := a.useEndpoints()
	if err := a.needRedis(); err != nil {
		return client, &exitError{exitUsage, err}
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if client, err = connect(ctx, embedded); err != nil {
		return client, storeError(err)
	}
	a.atEnd = append(a.atEnd, client.Close)
	return client, nil
}

// provide lets the Run of a command have a client as an argument.
func (a *app) provide() error {
	return errors.Join(a.kong.BindToProvider(a.openStore), a.kong.BindToProvider(a.openTasks), a.kong.BindToProvider(a.openWorkflows))
}

// with is for a command that judges its flags before it connects.
func with[C any](ctx context.Context, open func(context.Context) (C, error), f func(C) error) error {
	client, err := open(ctx)
	if err != nil {
		return err
	}
	return f(client)
}

// openStore connects to the store of job orders, to look at it.
func (a *app) openStore(ctx context.Context) (*jobstore.Store, error) {
	return open(ctx, a, func(ctx context.Context, embedded bool) (*jobstore.Store, error) {
		o := a.storeOptions(embedded, a.log)
		o.Instance = "cli-" + randomHex(4)
		return jobstore.Open(ctx, o)
	})
}

// openTasks connects to the tasks.
func (a *app) openTasks(ctx context.Context) (*task.Client, error) {
	o := a.replicas.task()
	o.Log = a.log
	return open(ctx, a, func(ctx context.Context, embedded bool) (*task.Client, error) { return a.taskClient(ctx, embedded, o) })
}

// openWorkflows connects to the workflow instances.
func (a *app) openWorkflows(ctx context.Context) (*workflow.Client, error) {
	if a.Shards > 1 {
		a.keys = "{" + strings.Trim(a.Prefix, "{}") + "-*}"
	}
	client, err := open(ctx, a, func(ctx context.Context, embedded bool) (*workflow.Client, error) {
		return a.workflowClient(ctx, embedded, workflow.Options{Log: a.log})
	})
	if errors.Is(err, workflow.ErrShards) {
		err = &exitError{exitUsage, fmt.Errorf("%w: --shards, TAKT_SHARDS, or shards in the file", err)}
	}
	return client, err
}

// taskClient connects to the server for tasks, locks and schedules.
func (c *Config) taskClient(ctx context.Context, embedded bool, o task.Options) (*task.Client, error) {
	o.Prefix = c.Prefix
	return task.Connect{
		URL: c.Redis, Username: c.RedisUsername, Password: c.RedisPassword,
		CAFile: c.RedisCA, CertFile: c.RedisCert, KeyFile: c.RedisKey, ServerName: c.RedisServerName,
		SentinelUsername: c.RedisSentinelUsername, SentinelPassword: c.RedisSentinelPassword, Embedded: embedded, Looks: c.looks,
	}.Open(ctx, o)
}

// workflowClient connects to the server for workflow instances, with o for what the settings do not say. It decides nothing about the number of shards.
func (c *Config) workflowClient(ctx context.Context, embedded bool, o workflow.Options) (*workflow.Client, error) {
	o.Prefix, o.Shards, o.Retention = c.Prefix, c.Shards, c.WorkflowRetention
	if o.Retention == 0 {
		o.Retention = -1
	}
	return workflow.Connect{
		URL: c.Redis, Username: c.RedisUsername, Password: c.RedisPassword,
		CAFile: c.RedisCA, CertFile: c.RedisCert, KeyFile: c.RedisKey, ServerName: c.RedisServerName,
		SentinelUsername: c.RedisSentinelUsername, SentinelPassword: c.RedisSentinelPassword, Embedded: embedded, LookOn: true, Looks: c.looks,
	}.Open(ctx, o)
}

// mqttOptions are those of every connection.
func (c *Config) mqttOptions(clientID string, session time.Duration, log *slog.Logger) mqtt.Options {
	if clientID == "" {
		clientID = "takt-" + randomHex(4)
	}
	prefix := topics.Prefix(c.TopicPrefix)
	return mqtt.Options{
		URL: c.MQTT, ClientID: clientID, Username: c.MQTTUsername, Password: c.MQTTPassword,
		CAFile: c.MQTTCA, CertFile: c.MQTTCert, KeyFile: c.MQTTKey, SessionExpiry: session,
		PrivateTopic: prefix.Private(clientID), ShownTopic: prefix.Shown, Log: log,
	}
}

// receiveMaximum is how many messages a serving process takes in hand: enough for all slots, and little enough that the bytes of
// those are bounded.
const receiveMaximum = 512

// intakeOptions are mqttOptions of a connection for what a serving process handles. A quarter of the bytes is for equipment.
func (c *Config) intakeOptions(session jobstore.Session, sc *ServeConfig, log *slog.Logger) mqtt.Options {
	o := c.mqttOptions(receiveClient(session), sc.SessionExpiry, log)
	o.ReceiveBytes = sc.IntakeBytes - sc.IntakeBytes/4
	if session.Name == answerSession {
		o.ReceiveBytes, o.KeepAlive = sc.IntakeBytes/4, intakeKeepAlive
	}
	if !c.inProcessBroker { // which stalls when it counts what is in flight
		o.ReceiveMaximum = receiveMaximum
	}
	return o
}

// dial runs a connection for a command of the command line until hangUp is called.
func (a *app) dial(ctx context.Context, clientID string) (conn *mqtt.Conn, hangUp func(), err error) {
	if err := a.findBroker(); err != nil {
		return nil, nil, err
	}
	return a.dialAs(ctx, a.Config, clientID)
}

// dialAs is dial with another configuration.
func (a *app) dialAs(ctx context.Context, cfg *Config, clientID string) (conn *mqtt.Conn, hangUp func(), err error) {
	log := a.dialLog()
	conn, err = mqtt.New(cfg.mqttOptions(clientID, 0, log.Logger))
	if err != nil {
		return nil, nil, &exitError{exitUsage, err}
	}
	hangUp, err = a.connect(ctx, cfg.MQTT, conn, log)
	return conn, hangUp, err
}

// connector is a connection, or a client of several.
type connector interface {
	Run(context.Context) error
	Ready(context.Context) error
}

// connect runs conn until hangUp is called, and waits for --connect-timeout at most, or until ctx ends, that it is ready. The error says all that the
// connection would have logged.
func (a *app) connect(ctx context.Context, broker string, conn connector, log *dialLog) (hangUp func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- conn.Run(ctx) }()
	hangUp = func() {
		cancel()
		<-ended
	}
	began := time.Now()
	ready, stop := context.WithTimeout(ctx, a.ConnectTimeout)
	defer stop()
	if err := conn.Ready(ready); err != nil {
		hangUp()
		found, next := brokerTrouble(brokerAddress(broker), err, time.Since(began).Round(100*time.Millisecond))
		return nil, &exitError{exitNoAnswer, fmt.Errorf("%s: %s", found, next)}
	}
	log.connected()
	return hangUp, nil
}

// dialLog is the log of a connection that a command of the command line makes. Until the connection stands its troubles are silent, for the command ends with
// them; from then on they are warnings. --log-level overrides both.
type dialLog struct {
	*slog.Logger
	level *slog.LevelVar
}

func (a *app) dialLog() *dialLog {
	l := &dialLog{Logger: a.log, level: new(slog.LevelVar)}
	if !a.given("log-level") {
		l.level.Set(slog.LevelError)
		l.Logger = slog.New(atLeast{a.log.Handler(), l.level})
	}
	return l
}

func (l *dialLog) connected() { l.level.Set(slog.LevelWarn) }

// atLeast passes on what has the level that is now set.
type atLeast struct {
	slog.Handler
	level *slog.LevelVar
}

func (h atLeast) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.level.Level() && h.Handler.Enabled(ctx, level)
}

func (h atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(attrs), h.level}
}

func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.level}
}
