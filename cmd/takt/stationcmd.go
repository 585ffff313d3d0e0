package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/station"
)

type stationCmd struct {
	Apply    stationApplyCmd    `cmd:"" help:"Tell Takt what stations have: equipment, material, personnel, work masters with recipes."`
	Diff     stationDiffCmd     `cmd:"" looks:"" help:"Compare such a file with what is applied."`
	List     stationListCmd     `cmd:"" looks:"" help:"List stations."`
	Show     stationShowCmd     `cmd:"" looks:"" help:"Show what one station has."`
	Simulate stationSimulateCmd `cmd:"" help:"Be a station: answer commands and send events as a file says."`
	Retire   stationRetireCmd   `cmd:"" help:"Take a station that is not used any more out of the active scopes."`
}

type stationApplyCmd struct {
	File    string        `arg:"" type:"existingfile" help:"YAML file; recipes are looked for beside it."`
	Timeout time.Duration `help:"How long to wait for all answers." default:"1m"`
	JSON    bool          `name:"json" help:"One JSON object."`
}

// loadConfiguration reads what stations are to have.
func (a *app) loadConfiguration(file string) (*station.Configuration, error) {
	conf, err := station.LoadConfiguration(file, a.recipeOptions())
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	for _, w := range conf.Warnings {
		a.log.Warn(w)
	}
	return conf, nil
}

func (c *stationApplyCmd) Run(ctx context.Context, a *app) error {
	conf, err := a.loadConfiguration(c.File)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	client, hangUp, err := a.dialMES(ctx, "takt-cli-"+randomHex(4))
	if err != nil {
		return err
	}
	defer hangUp()
	sent, deliveries, err := applyConfiguration(ctx, client, conf)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.out, map[string]any{"applied": sent, "scopes": conf.Scopes, "work_masters": deliveries})
	}
	for _, d := range deliveries {
		if _, err := printf(a.out, "%v\n", d); err != nil {
			return err
		}
	}
	_, err = printf(a.out, "%d configuration events applied to %v\n", sent, conf.Scopes)
	return err
}

// delivery is what the delivery of one thing changed at one station, or would change.
type delivery struct {
	Scope       isa95.Scope      `json:"scope"`
	Kind        isa95.ConfigKind `json:"kind,omitempty"` // "": a work master
	ID          string           `json:"id,omitempty"`
	Change      string           `json:"change"`           // new, changed, unchanged; extra: no delivery of the file is of it
	Before      string           `json:"before,omitempty"` // SHA-256 of the recipe, or the limit of job orders
	After       string           `json:"after,omitempty"`
	OtherScopes int              `json:"other_scopes,omitempty"`
}

// value says what was and what is, "" if there is nothing to say.
func (d delivery) value() string {
	name := "recipe "
	if d.Kind == isa95.ConfigJobAcceptance {
		name = "limit "
	}
	switch {
	case d.Before != d.After && d.Before != "" && d.After != "":
		return fmt.Sprintf("%s%.12s -> %.12s", name, d.Before, d.After)
	case d.Change == jobstore.DeliveryChanged && d.Before == d.After && d.After != "":
		return fmt.Sprintf("%s%.12s as before", name, d.After)
	case d.After != "":
		return fmt.Sprintf("%s%.12s", name, d.After)
	case d.Change == jobstore.DeliveryExtra && d.Before != "":
		return name + d.Before
	}
	return ""
}

func (d delivery) String() string {
	text := fmt.Sprintf("%s: %s %s", d.Scope, d.ID, cmp.Or(d.Change, "delivered"))
	if value := d.value(); value != "" && d.Change != "" {
		text += ", " + value
	}
	switch d.OtherScopes {
	case 0:
		return text
	case 1:
		return text + "; 1 other scope lists this work master and keeps its own"
	}
	return text + fmt.Sprintf("; %d other scopes list this work master and keep theirs", d.OtherScopes)
}

// applyConfiguration sends what the stations have, in order, and returns how many events it sent and what became of the work masters.
func applyConfiguration(ctx context.Context, client *mes.Client, conf *station.Configuration) (sent int, deliveries []delivery, err error) {
	events, err := conf.Events("urn:takt:station-apply", time.Now())
	if err != nil {
		return 0, nil, err
	}
	for _, e := range events {
		result, err := client.Deliver(ctx, e)
		if is[*mes.RefusedError](err) {
			return sent, deliveries, &exitError{exitRefused, fmt.Errorf("%s for %s: %w", e.Type, e.Subject, err)}
		}
		if err != nil {
			return sent, deliveries, &exitError{exitNoAnswer, fmt.Errorf("%w; is `takt serve` running?", err)}
		}
		sent++
		if e.Type == isa95.ConfigWorkMaster.TypeID() {
			var body isa95.WorkMaster
			if err := isa95.Unmarshal(e.Data, &body); err != nil {
				return sent, deliveries, err
			}
			deliveries = append(deliveries, delivery{isa95.Scope(e.Subject), "", body.ID, result.Change, result.Before, result.After, result.OtherScopes})
		}
	}
	return sent, deliveries, nil
}

type stationSimulateCmd struct {
	File string `arg:"" type:"existingfile" help:"YAML file that says how the equipment behaves."`
	JSON bool   `name:"json" help:"Print what it does as one JSON object per line, as --log keeps it."`
	Log  string `type:"path" help:"Where the station keeps what it did, one JSON object per line; it goes on from there after a restart." placeholder:"FILE"`
}

func (c *stationSimulateCmd) Run(ctx context.Context, a *app) error {
	equipment, err := station.LoadEquipment(c.File)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if err := a.findBroker(); err != nil {
		return err
	}
	s, err := station.New(station.Options{
		Equipment: equipment, MQTT: a.mqttOptions("takt-station-"+string(equipment.Scopes[0]), 24*time.Hour, a.log), TopicPrefix: a.TopicPrefix, LogFile: c.Log, Log: a.log,
		OnLog: func(e station.Entry) {
			if c.JSON {
				e.ResponseTopic, e.CorrelationData = "", nil // with them, anyone could answer for the station
				_ = printJSON(a.out, e)                      // as below, what is not seen stops no machine
				return
			}
			printf(a.out, "%s  %-9s %-12s %-12s %s %s\n", e.Time.Format("15:04:05.000"), e.Kind, e.Scope, e.Order, e.Action, e.Type)
		},
	})
	if err != nil {
		return &exitError{exitUsage, err}
	}
	return s.Run(ctx)
}
