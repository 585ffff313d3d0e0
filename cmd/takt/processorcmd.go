package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/telemetry"
	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/processor"
)

type processorCmd struct {
	Run  processorRunCmd  `cmd:"" help:"Handle CloudEvents of your own types by a command, in any language."`
	Send processorSendCmd `cmd:"" help:"Send a CloudEvent to a processor and print the reply."`
}

type processorSendCmd struct {
	Type    string        `arg:"" help:"CloudEvent type."`
	Body    string        `arg:"" optional:"" help:"Body in JSON."`
	Name    string        `help:"Name of the processor; the type if not given."`
	Scope   string        `short:"s" help:"The station; needed unless you may send events without one."`
	ID      string        `name:"id" help:"CloudEvents id: the same id again gets the same reply and does nothing."`
	Timeout time.Duration `help:"How long to wait for the reply." default:"30s"`
}

func (c *processorSendCmd) Run(ctx context.Context, a *app) error {
	if c.Body != "" && !json.Valid([]byte(c.Body)) {
		return &exitError{exitUsage, fmt.Errorf("body %.80q is no JSON", c.Body)}
	}
	topic := topics.Prefix(a.TopicPrefix).Processor(cmp.Or(c.Name, c.Type))
	if c.Scope != "" {
		scope, err := scopeOf(c.Scope)
		if err != nil {
			return err
		}
		topic += "/" + string(scope)
	}
	client, hangUp, err := a.dialMES(ctx, "takt-cli-"+randomHex(4))
	if err != nil {
		return err
	}
	defer hangUp()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	e := cloudevent.New(c.Type, commandLine, c.Scope, time.Now()).WithData([]byte(c.Body), "")
	e.ID = cmp.Or(c.ID, e.ID)
	reply, err := client.Request(ctx, topic, e)
	if err != nil {
		return &exitError{exitNoAnswer, fmt.Errorf("%s on %s: %w; does a processor of that name run, or does an earlier event of this subject hold it up? See its log", c.Type, topic, err)}
	}
	if why := reply.Err(); why != nil {
		return &exitError{exitRefused, why}
	}
	if len(reply.Data) > 0 {
		fmt.Fprintf(a.out, "%s\n", reply.Data)
	}
	return nil
}

type processorRunCmd struct {
	Type        []string      `required:"" help:"CloudEvent types that the command handles."`
	Exec        string        `required:"" help:"Command line for /bin/sh: the body of the event on standard input, the body of the reply on standard output."`
	Name        string        `help:"Name of the processor, the same for all its replicas: it takes what is published on {topic-prefix}/processors/{name}/{scope}; the first --type if not given."`
	Filter      []string      `help:"Topics to read instead, as filters with + and #; they are shared among the replicas." placeholder:"FILTER"`
	ReplyTopics []string      `name:"reply-topics" help:"Topics outside the topic prefix that an event may name for its reply, as filters; * = any." default:"mes/#" placeholder:"FILTER"`
	Concurrency int           `help:"How many events are handled at once; those of one subject one after the other." default:"4"`
	Timeout     time.Duration `help:"How long the command may take for one event." default:"30s"`
	Drain       time.Duration `help:"How long a stop waits for what runs." default:"10s"`
	HTTP        string        `name:"http" help:"Address for /metrics, /livez and /readyz, for example 127.0.0.1:9466; not served if empty." placeholder:"ADDR"`
}

func (c *processorRunCmd) Run(ctx context.Context, a *app) error {
	if err := c.validate(a); err != nil {
		return &exitError{exitUsage, err}
	}
	embedded := a.useEndpoints()
	if err := a.findBroker(); err != nil {
		return err
	}
	instance, release, err := a.claimInstance()
	if err != nil {
		return err
	}
	defer release()
	traces, err := a.traces(ctx, instance, a.log)
	if err != nil {
		return err
	}
	defer traces.Close()
	o := a.storeOptions(embedded, a.log)
	o.Instance = instance
	if a.Redis == "" {
		return &exitError{exitUsage, a.needRedis()}
	}
	store, err := openWhenUp(ctx, o, a.log)
	if err != nil {
		return storeError(err)
	}
	defer store.Close()
	metrics := telemetry.NewMetrics(readBuild().Version)
	push, err := a.push(ctx, metrics, instance, a.log)
	if err != nil {
		return err
	}
	defer push.Close()
	mo := a.mqttOptions("takt-"+c.Name+"-"+instance, time.Hour, a.log)
	p, err := processor.New(processor.Options{
		Name: c.Name, Store: store, MQTT: mo, TopicPrefix: a.TopicPrefix, Filters: c.Filter, ReplyTopics: c.ReplyTopics, Slots: c.Concurrency, Drain: c.Drain, Log: a.log,
		Observe: func(o jobcontrol.Observation) { metrics.Command(o.Type, observed(o), o.Tries, o.Took) },
	})
	if err != nil {
		return &exitError{exitUsage, err}
	}
	for _, typ := range c.Type {
		p.HandleJSON(typ, c.call)
	}
	web := &telemetry.Server{Addr: c.HTTP, Metrics: metrics, Log: a.log, Info: map[string]any{"instance": instance, "name": c.Name}, Ready: map[string]func(context.Context) error{"redis": store.Ping, "mqtt": p.Ready}}
	return runBeside(ctx, web, c.Drain, "processor", p.Run)
}

func (c *processorRunCmd) validate(a *app) error {
	seen := make(map[string]bool)
	for _, typ := range c.Type {
		if typ == "" || seen[typ] {
			return fmt.Errorf("--type %q is empty or named twice", typ)
		}
		seen[typ] = true
	}
	switch {
	case len(c.Type) == 0:
		return errors.New("--type is empty: name at least one type of CloudEvents")
	case c.Concurrency < 1 || c.Concurrency > 1000:
		return fmt.Errorf("--concurrency is %d: must be 1 to 1000", c.Concurrency)
	case c.Timeout <= 0 || c.Drain < 0:
		return fmt.Errorf("--timeout is %v, --drain is %v: --timeout must be more than 0, --drain not negative", c.Timeout, c.Drain)
	}
	if c.Name == "" {
		c.Name = c.Type[0]
	}
	for i, f := range c.Filter {
		if err := mqtt.CheckFilter(f); err != nil || strings.HasPrefix(f, "$") {
			return fmt.Errorf("--filter is %q: must be a filter of topics, without $share, which takt puts before it", f)
		}
		c.Filter[i] = "$share/" + c.Name + "/" + f
	}
	return jobcontrol.CheckReplyTopics(a.TopicPrefix, c.ReplyTopics)
}

// call runs the command for one event.
func (c *processorRunCmd) call(ctx context.Context, tx *processor.Tx, body json.RawMessage) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	e := tx.Event
	env := []string{"TAKT_EVENT_ID=" + e.ID, "TAKT_EVENT_TYPE=" + e.Type, "TAKT_EVENT_SOURCE=" + e.Source, "TAKT_EVENT_SUBJECT=" + e.Subject, "TAKT_EVENT_TIME=" + e.Time}
	out, err := shell(ctx, c.Exec, append(env, toEnvironment(ctx)...), body)
	if exit, ok := errors.AsType[*shellError](err); ok && exit.Code == exitNoRetry {
		return nil, cloudevent.Errorf(cloudevent.KindPayloadInvalid, "%s", exit.Text)
	}
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("%s: the command took longer than --timeout %v", e.Type, c.Timeout)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", e.Type, err)
	}
	return resultOf(out), nil
}
