package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taktworks/takt/console"
	"github.com/taktworks/takt/internal/telemetry"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/workflow"
)

type consoleCmd struct {
	Listen string   `help:"Address of this machine; port 0 is a free one." default:"127.0.0.1:8420" placeholder:"ADDR"`
	Host   []string `help:"Names beside localhost that a browser may call the console by, of a tunnel or a proxy on this machine." placeholder:"NAME"`
	Board  []string `sep:"none" help:"Job board to show, as takt board has it: redis://host:port/db?namespace=taskflow, or zookeeper://host1,host2/taskflow/jobs; may be repeated." placeholder:"URL"`

	checkRules `embed:""`
}

func (c *consoleCmd) Run(ctx context.Context, a *app) error {
	embedded := a.useEndpoints()
	if err := a.needRedis(); err != nil {
		return &exitError{exitUsage, err}
	}
	if err := a.needMQTT(); err != nil {
		return &exitError{exitUsage, err}
	}
	parts := newGroup(ctx)
	url, err := parts.console(a, "listen", c.Listen, c.Host, c.Board, c.checkRules, embedded)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.out, url)
	<-parts.ctx.Done()
	return parts.stop()
}

// consoleSource is the CloudEvents source of the job methods that consoles send: a command is the same whichever of them sends it.
const consoleSource = "urn:takt:console"

// console starts the web console as a part, on the address of a flag, and returns where it is.
func (g *group) console(a *app, flag, listen string, hosts, boards []string, rules checkRules, embedded bool) (url string, err error) {
	cfg, log := a.Config, a.log
	name := "takt-console-" + randomHex(4)
	client, err := mes.New(mes.Options{MQTT: cfg.mqttOptions(name, 0, log), TopicPrefix: cfg.TopicPrefix, Source: consoleSource, Log: log})
	if err != nil {
		return "", &exitError{exitUsage, err}
	}
	boardFlag := "board"
	if flag != "listen" {
		boardFlag = flag + "-board"
	}
	shown, err := cfg.consoleBoards(boardFlag, boards, log)
	if err != nil {
		return "", err
	}
	var settings []console.Setting
	for _, s := range a.inForce() {
		if (s.Name == "redis" || s.Name == "mqtt") && s.Origin == "default" { // neither has one
			s.Origin = "started by takt"
		}
		settings = append(settings, console.Setting(s))
	}
	c, err := console.New(console.Options{
		Listen: listen, Hosts: hosts, MES: client, TopicPrefix: cfg.TopicPrefix,
		Open: func(ctx context.Context) (*jobstore.Store, error) {
			o := cfg.storeOptions(embedded, log)
			o.Instance, o.Looks = name, true
			ctx, cancel := context.WithTimeout(ctx, openTimeout)
			defer cancel()
			return jobstore.Open(ctx, o)
		},
		Boards: shown,
		Tasks: func(ctx context.Context) (*task.Client, error) {
			return looking(cfg).taskClient(ctx, embedded, task.Options{Log: log})
		},
		Workflows: func(ctx context.Context) (*workflow.Client, error) {
			return looking(cfg).workflowClient(ctx, embedded, workflow.Options{Log: log})
		},
		Doctor: func(ctx context.Context) ([]jobstore.Diagnosis, error) {
			return (&doctorCmd{Timeout: 2 * time.Second}).examine(ctx, looking(cfg), embedded).rows, ctx.Err()
		},
		Check: func(ctx context.Context, store *jobstore.Store) ([]jobstore.Violation, error) {
			return rules.standing(ctx, a, store)
		},
		Settings: settings,
		Redis:    telemetry.Hide(cfg.Redis), Broker: telemetry.Hide(cfg.MQTT), Version: readBuild().Version, Log: log,
	})
	if wrong, ok := errors.AsType[*console.AddressError](err); ok {
		return "", &exitError{exitUsage, fmt.Errorf("--%s is %q: %s", flag, wrong.Address, wrong.Rule)}
	}
	if err != nil {
		return "", err
	}
	g.start("console", c.Run)
	return c.URL(), nil
}

// looking are settings for a client whose pages need rights to look alone; what buttons do needs more.
func looking(cfg *Config) *Config {
	c := *cfg
	c.looks = true
	return &c
}
