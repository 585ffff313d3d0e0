package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
)

// jobCmd: the methods go over MQTT as an MES' do, so they tell what an MES would be told. The tag done says what one that was carried out did to the order.
type jobCmd struct {
	Store         jobOrderCmd   `cmd:"" method:"Store" done:"stored" help:"Hand an order over without starting it."`
	StoreAndStart jobOrderCmd   `cmd:"" method:"StoreAndStart" done:"stored and started" name:"store-and-start" help:"Hand an order over and let it start."`
	Update        jobOrderCmd   `cmd:"" method:"Update" done:"updated" help:"Replace an order that does not run yet."`
	Start         jobIDCmd      `cmd:"" method:"Start" done:"started" help:"Let a stored order start."`
	RevokeStart   jobIDCmd      `cmd:"" method:"RevokeStart" done:"start revoked" name:"revoke-start" help:"Take a start back while the order does not run yet."`
	Pause         jobIDCmd      `cmd:"" method:"Pause" done:"paused" help:"Interrupt a running order."`
	Resume        jobIDCmd      `cmd:"" method:"Resume" done:"resumed" help:"Go on with an interrupted order."`
	Stop          jobIDCmd      `cmd:"" method:"Stop" done:"stopped" help:"End a running order early, with the results so far."`
	Abort         jobIDCmd      `cmd:"" method:"Abort" done:"aborted" help:"End an order as failed."`
	Cancel        jobIDCmd      `cmd:"" method:"Cancel" done:"canceled" help:"Take an order back that does not run yet."`
	Clear         jobIDCmd      `cmd:"" method:"Clear" done:"cleared" help:"Forget an order that is over, and its result."`
	Show          jobShowCmd    `cmd:"" looks:"" help:"Show an order, its recipe and its response."`
	Why           jobWhyCmd     `cmd:"" looks:"" help:"Say what an order waits for, or why it failed."`
	History       jobHistoryCmd `cmd:"" looks:"" help:"Show all that an order and its recipe did, and why."`
	Chart         jobChartCmd   `cmd:"" looks:"" help:"Draw the recipe of an order as it stands, or stood."`
	Replay        jobReplayCmd  `cmd:"" looks:"" help:"Run what is recorded of an order against another recipe, and show where it parts."`
	List          jobListCmd    `cmd:"" looks:"" help:"List job orders."`
	Watch         jobWatchCmd   `cmd:"" looks:"" help:"Print changes as they happen."`
}

// sendFlags are those of every method.
type sendFlags struct {
	Scope   string        `short:"s" help:"The station." required:"" scope:""`
	ID      string        `name:"id" help:"CloudEvents id of the command: the same id again gets the same answer and does nothing."`
	Comment string        `help:"A word for the people at the station."`
	Timeout time.Duration `help:"How long to wait for the answer." default:"30s"`
	JSON    bool          `name:"json" help:"One JSON object."`
}

type jobOrderCmd struct {
	File string `arg:"" help:"JSON file with a job order (ISA95JobOrderDataType); - is standard input."`
	sendFlags
}

func (c *jobOrderCmd) Run(ctx context.Context, a *app) error {
	text, err := a.readInput(c.File, 1<<20)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	var order isa95.JobOrder
	if err := isa95.Receive(text, &order, isa95.UnknownMembers(a.UnknownMembers)); err != nil {
		if unknown, ok := errors.AsType[*isa95.UnknownMembersError](err); ok {
			return &exitError{exitUsage, fmt.Errorf("%s:%d: %w", c.File, unknown.Members[0].Line, err)}
		}
		return &exitError{exitUsage, fmt.Errorf("%s: %w", c.File, err)}
	}
	return a.send(ctx, c.sendFlags, mes.Call{JobOrder: &order, JobOrderID: isa95.JobOrderID(order.JobOrderID)})
}

type jobIDCmd struct {
	Job string `arg:"" help:"Job order id."`
	sendFlags
}

func (c *jobIDCmd) Run(ctx context.Context, a *app) error {
	return a.send(ctx, c.sendFlags, mes.Call{JobOrderID: isa95.JobOrderID(c.Job)})
}

func (a *app) send(ctx context.Context, f sendFlags, call mes.Call) error {
	tags := a.kong.Selected().Tag
	call.Method = isa95.Method(tags.Get("method"))
	call.Scope, call.ID = isa95.Scope(f.Scope), f.ID
	if f.Comment != "" {
		call.Comment = []isa95.LocalizedText{{Text: f.Comment}}
	}
	ctx, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	client, hangUp, err := a.dialMES(ctx, "takt-cli-"+randomHex(4))
	if err != nil {
		return err
	}
	defer hangUp()
	status, err := client.Call(ctx, call)
	var refused *mes.RefusedError
	if err != nil && !errors.As(err, &refused) {
		return &exitError{exitNoAnswer, fmt.Errorf("%s %s: %w; is `takt serve` running, with this topic prefix?", call.Method, call.JobOrderID, err)}
	}
	s := call.Outcome(status, refused)
	if refused == nil {
		return a.say(f.JSON, s, "%s %s\n", s.JobOrderID, tags.Get("done"))
	}
	if err := a.say(f.JSON, s, ""); err != nil {
		return err
	}
	return &exitError{exitRefused, errors.New(s.String())}
}

// commandLine is the source of all commands typed in: with --id the same command is the same whoever types it .
const commandLine = "urn:takt:command-line"

// dialMES runs an MES client until hangUp is called.
func (a *app) dialMES(ctx context.Context, clientID string) (client *mes.Client, hangUp func(), err error) {
	if err := a.findBroker(); err != nil {
		return nil, nil, err
	}
	log := a.dialLog()
	client, err = mes.New(mes.Options{MQTT: a.mqttOptions(clientID, 0, log.Logger), TopicPrefix: a.TopicPrefix, Source: commandLine, Log: log.Logger})
	if err != nil {
		return nil, nil, &exitError{exitUsage, err}
	}
	hangUp, err = a.connect(ctx, a.MQTT, client, log)
	return client, hangUp, err
}
