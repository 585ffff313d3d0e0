package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/taktworks/takt/console"
	"github.com/taktworks/takt/internal/telemetry"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/workflow"
)

type consoleCmd struct {
	Serve consoleServeCmd `cmd:"" default:"withargs" help:"Serve the web console; takt console alone does it, too."`
	User  struct {
		Add    consoleUserAddCmd    `cmd:"" help:"Add a user with a role and a password."`
		List   consoleUserListCmd   `cmd:"" help:"List the users."`
		Remove consoleUserRemoveCmd `cmd:"" help:"Remove a user, whose sessions end."`
	} `cmd:"" help:"Manage the users of the console."`
	Token struct {
		Add    consoleTokenAddCmd    `cmd:"" help:"Make a token for a program, with a role, and print it once."`
		List   consoleTokenListCmd   `cmd:"" help:"List the tokens, without what is secret in them."`
		Remove consoleTokenRemoveCmd `cmd:"" help:"Remove a token, which ends at once."`
	} `cmd:"" help:"Manage the tokens of programs that use /api/v1."`
}

type consoleServeCmd struct {
	Listen       string `help:"Address; port 0 is a free one. One that other machines reach takes --users, and --tls-cert or --trusted-proxy." default:"127.0.0.1:8420" placeholder:"ADDR"`
	consoleFlags `embed:""`
	checkRules   `embed:""`
}

// consoleFlags are the names and the users of a console, and what it shows beside job orders.
type consoleFlags struct {
	Host            []string `help:"Names beside localhost and those of the certificate that a browser may call the console by." placeholder:"NAME"`
	TLSCert         string   `name:"tls-cert" type:"path" help:"PEM file of the certificate of the console, with its chain; read anew when it changes. Without it the console speaks plain HTTP." placeholder:"FILE"`
	TLSKey          string   `name:"tls-key" type:"path" help:"PEM file of its key." placeholder:"FILE"`
	Users           string   `type:"path" help:"File of users and tokens, who must log in: takt console user add makes it. Without it each visitor from this machine is an operator." placeholder:"FILE"`
	TrustedProxy    []string `help:"Addresses of proxies with TLS, each a network such as 10.0.0.5/32, that may name the user and alone may use plain HTTP." placeholder:"CIDR"`
	Board           []string `sep:"none" help:"Job board to show, as takt board has it: redis://host:port/db?namespace=taskflow, or zookeeper://host1,host2/taskflow/jobs; may be repeated." placeholder:"URL"`
	ProxyUserHeader string   `help:"Header in which they name the user." default:"X-Forwarded-User" placeholder:"HEADER"`
}

// proxies are the networks of the trusted proxies.
func (c *consoleFlags) proxies() (all []netip.Prefix, err error) {
	for _, text := range c.TrustedProxy {
		p, err := netip.ParsePrefix(text)
		if err != nil || p != p.Masked() {
			return nil, &console.OptionError{Option: "trusted-proxy", Value: text, Rule: "must be the network of a proxy such as 10.0.0.5/32 or fd00:0:0:1::/64, without bits behind its length"}
		}
		all = append(all, p)
	}
	return all, nil
}

func (c *consoleServeCmd) Run(ctx context.Context, a *app) error {
	embedded := a.useEndpoints()
	if err := a.needRedis(); err != nil {
		return &exitError{exitUsage, err}
	}
	if err := a.needMQTT(); err != nil {
		return &exitError{exitUsage, err}
	}
	parts := newGroup(ctx)
	url, err := parts.console(a, "", c.Listen, c.consoleFlags, c.checkRules, embedded)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.out, url)
	<-parts.ctx.Done()
	return parts.stop()
}

// consoleSource is the CloudEvents source of the job methods that consoles send: a command is the same whichever of them sends it.
const consoleSource = "urn:takt:console"

// console starts the web console as a part, and returns where it is. What its flags begin with, in errors, is "" or "console-".
func (g *group) console(a *app, prefix, listen string, flags consoleFlags, rules checkRules, embedded bool) (url string, err error) {
	cfg, log := a.Config, a.log
	name := "takt-console-" + randomHex(4)
	client, err := mes.New(mes.Options{MQTT: cfg.mqttOptions(name, 0, log), TopicPrefix: cfg.TopicPrefix, Source: consoleSource, Log: log})
	if err != nil {
		return "", &exitError{exitUsage, err}
	}
	proxies, err := flags.proxies()
	if err != nil {
		return "", consoleError(err, prefix)
	}
	shown, err := cfg.consoleBoards(prefix+"board", flags.Board, log)
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
		Listen: listen, Hosts: flags.Host, TLSCert: flags.TLSCert, TLSKey: flags.TLSKey, Users: flags.Users, TrustedProxies: proxies, ProxyUserHeader: flags.ProxyUserHeader,
		MES: client, TopicPrefix: cfg.TopicPrefix,
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
	if err != nil {
		return "", consoleError(err, prefix)
	}
	g.start("console", c.Run)
	return c.URL(), nil
}

// consoleError names the flags of an option that a console does not take.
func consoleError(err error, prefix string) error {
	wrong, ok := errors.AsType[*console.OptionError](err)
	if !ok {
		return err
	}
	name := prefix + wrong.Option
	if name == "console-listen" {
		name = "console"
	}
	return &exitError{exitUsage, fmt.Errorf("--%s is %q: %s", name, wrong.Value, strings.ReplaceAll(wrong.Rule, "--", "--"+prefix))}
}

// looking are settings for a client whose pages need rights to look alone; what buttons do needs more.
func looking(cfg *Config) *Config {
	c := *cfg
	c.looks = true
	return &c
}
