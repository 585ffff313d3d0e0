package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/telemetry"
	"github.com/taktworks/takt/station"
)

type devCmd struct {
	ServeConfig
	Example    string `type:"path" help:"Folder of the station to simulate, with recipe.json, station.yaml and equipment.yaml; the built-in example if not given." placeholder:"DIR"`
	MQTTListen string `name:"mqtt-listen" help:"Where a broker that takt starts listens." default:"127.0.0.1:1883" placeholder:"ADDR"`
	InProcess  bool   `help:"Run store and broker inside this process, also where redis-server and mosquitto are installed. For trials only: when the process ends, the store forgets all, and the broker its retained topics and sessions; the broker may lose acknowledged messages when a client takes its session over from an earlier connection."`
	NoStation  bool   `help:"Do not simulate the station: yours does."`
	Exec       string `help:"Command line for /bin/sh to run once Takt is up, with the variables TAKT_REDIS, TAKT_MQTT and so on; Takt ends with it, and has its exit status." placeholder:"CMD"`
}

func (c *devCmd) Run(ctx context.Context, a *app) error {
	ex, err := loadStation(c.Example)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if c.Exec != "" && !a.given("log-level") {
		a.log = newLog(a.err, "warn", a.LogFormat) // the output is that of the command
	}
	instance, release, err := a.claimInstance()
	if err != nil {
		return err
	}
	defer release()
	if err := os.MkdirAll(a.Data, 0o700); err != nil {
		return err
	}
	in, err := startInfra(ctx, a.Config, infraOptions{Listen: c.MQTTListen, Persist: true, InProcess: c.InProcess, Private: true}, a.log)
	if err != nil {
		return err
	}
	defer in.stop()
	if in.InProcess {
		a.log.Warn("the store is inside this process, and all is lost when it ends", "next", "install redis-server, or give --redis URL")
	}
	e := endpoints{Redis: a.Redis, MQTT: a.MQTT, Prefix: a.Prefix, TopicPrefix: a.TopicPrefix, Embedded: in.InProcess, PID: os.Getpid()}
	if err := a.writeEndpoints(e); err != nil {
		return err
	}
	parts := newGroup(ctx)
	address, err := parts.console(a, "console-", cmp.Or(c.Console, "127.0.0.1:0"), c.ConsoleFlags, rulesOf(&c.ServeConfig), in.InProcess)
	if err != nil {
		return err
	}
	err = parts.serve(ctx, a.Config, &c.ServeConfig, instance, in.InProcess, a.log)
	if err == nil {
		err = c.configure(parts.ctx, a, ex, parts)
	}
	switch {
	case err == nil && c.Exec != "":
		err = runBesides(parts.ctx, a, c.Exec, e)
	case err == nil:
		c.welcome(a, in, ex, address)
		<-parts.ctx.Done()
	}
	if stopped := parts.stop(); stopped != nil {
		err = stopped
	}
	if ctx.Err() != nil {
		return nil // told to stop
	}
	return err
}

// configure tells Takt what the station has, and simulates it.
func (c *devCmd) configure(ctx context.Context, a *app, ex *example, parts *group) error {
	client, hangUp, err := a.dialMES(ctx, "takt-dev-"+randomHex(4))
	if err != nil {
		return err
	}
	defer hangUp()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, _, err := applyConfiguration(ctx, client, ex.configuration); err != nil || c.NoStation {
		return err
	}
	return parts.station(ctx, station.Options{
		Equipment: ex.equipment, MQTT: a.mqttOptions("takt-dev-station", time.Hour, a.log), TopicPrefix: a.TopicPrefix,
		LogFile: a.dataFile("station.jsonl"), Log: a.log,
	})
}

// runBesides runs a command line beside Takt, until ctx ends. Its exit status becomes that of takt.
func runBesides(ctx context.Context, a *app, line string, e endpoints) error {
	cmd := shellCommand(ctx, line)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = a.out, a.err, killAfter
	cmd.Env = append(os.Environ(), "TAKT_REDIS="+e.Redis, "TAKT_MQTT="+e.MQTT, "TAKT_PREFIX="+e.Prefix, "TAKT_TOPIC_PREFIX="+e.TopicPrefix)
	if e.Embedded {
		cmd.Env = append(cmd.Env, "TAKT_REDIS_EMBEDDED=1")
	}
	err := cmd.Run()
	if cmd.Process != nil {
		killGroup(cmd) // children that it left behind
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return &exitError{max(exit.ExitCode(), exitFailed), fmt.Errorf("%s: %w", line, err)}
	}
	return err
}

func (c *devCmd) welcome(a *app, in *infra, ex *example, console string) {
	var scopes []string
	for _, s := range ex.configuration.Scopes {
		scopes = append(scopes, string(s))
	}
	weak := ""
	if in.Broker == "mochi" {
		weak = "\n           forgets its retained topics when it ends: Takt publishes them anew at the next start\n           may lose acknowledged messages when a client takes its session over from an earlier connection: install mosquitto, or name a broker with --mqtt"
	}
	fmt.Fprintf(a.out, `Takt is up.
  store    %s  %s
  broker   %s  %s%s
  station  %s%s
  console  %s

Send an order:    mosquitto_pub ... -t %s/%s/commands    (docs/dev.md has the exact lines)
                  takt job store-and-start order.json --scope %s
Watch it:         takt job watch
Stop:             Ctrl-C
`, in.Store, telemetry.Hide(a.Redis), in.Broker, telemetry.Hide(a.MQTT), weak, strings.Join(scopes, ", "), map[bool]string{true: " (not simulated)"}[c.NoStation], console,
		a.TopicPrefix, scopes[0], scopes[0])
}
