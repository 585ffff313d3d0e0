package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/workflow"
	"github.com/taktworks/takt/workflowhistory"
)

const followEvery = 500 * time.Millisecond

type workflowHistoryCmd struct {
	Instance execution `arg:"" name:"id" help:"Instance, its newest execution is shown; or ID:EXECUTION."`
	After    int64     `help:"Only events with a greater sequence number." must:"be 0 (all) or more" default:"0" placeholder:"N"`
	Follow   bool      `short:"f" help:"Go on with what happens, until the execution has ended."`
	JSON     bool      `name:"json" help:"One JSON object per event, whole and as it is stored."`

	reader workflowhistory.Reader
}

func (c *workflowHistoryCmd) Run(ctx context.Context, a *app, client *workflow.Client) error {
	info, err := c.Instance.find(ctx, client)
	if err != nil {
		return err
	}
	events, err := client.History(ctx, info.Instance, c.After)
	if err != nil {
		return err
	}
	if err := c.print(a, events, true); err != nil || !c.Follow {
		return err
	}
	return c.follow(ctx, a, client, info.Instance, events)
}

// follow prints what comes until the execution has ended, over losses of Redis.
func (c *workflowHistoryCmd) follow(ctx context.Context, a *app, client *workflow.Client, i workflow.Instance, events []workflow.Event) error {
	for after := c.After; ; {
		if n := len(events); n > 0 {
			after = events[n-1].Sequence
		}
		info, err := client.Info(ctx, i) // before the history, so that nothing follows what it says
		if err == nil {
			events, err = client.History(ctx, i, after)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, workflow.ErrNotFound): // it ended, and was removed
			return &exitError{exitRefused, fmt.Errorf("%w: it was removed, some of its last events may not have been shown", err)}
		case redis.Away(err):
			a.log.Warn("Redis does not answer, it is asked again", "error", err)
			events = nil
		case err != nil:
			return err
		default:
			if err := c.print(a, events, false); err != nil {
				return err
			}
			if info.State.Ended() {
				return nil
			}
		}
		if len(events) == 0 && !lifecycle.Sleep(ctx, followEvery) {
			return nil
		}
	}
}

// print writes events; head says whether a table begins with them.
func (c *workflowHistoryCmd) print(a *app, events []workflow.Event, head bool) error {
	if c.Follow && !c.JSON {
		return a.eventLines(&c.reader, events, head)
	}
	l := a.list(c.JSON, eventHead...)
	for i := range events {
		l.add(events[i], eventCells(c.reader.Entry(&events[i]))...)
	}
	return l.flush()
}

// eventLines is a table of which more lines follow: its columns do not fit themselves to them.
func (a *app) eventLines(reader *workflowhistory.Reader, events []workflow.Event, head bool) error {
	const format = "%-8s  %-23s  %-30s  %-4s  %-20s  %s\n"
	if head {
		fmt.Fprintf(a.out, format, eventHead...)
	}
	for i := range events {
		if _, err := printf(a.out, format, eventCells(reader.Entry(&events[i]))...); err != nil {
			return err
		}
	}
	return nil
}

var eventHead = []any{"SEQUENCE", "TIME", "TYPE", "REF", "NAME", "VALUE"}

func eventCells(e workflowhistory.Entry) []any {
	ref := "-"
	if e.Ref != 0 {
		ref = strconv.FormatInt(e.Ref, 10)
	}
	return []any{strconv.FormatInt(e.Sequence, 10), toMillisecond(e.Time), shown(e.Type), ref, cmp.Or(shortValue(e.Name), "-"), cmp.Or(shortValue(e.Value), "-")}
}

const shortest = 100 // characters of an event's value that people are shown

// shortValue is a text of an event on a line.
func shortValue(text string) string { return oneLine(shown(text), shortest) }
