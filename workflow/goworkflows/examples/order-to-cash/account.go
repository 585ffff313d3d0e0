package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/cschleiden/go-workflows/backend/history"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/workflow"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// account tells what an instance has done, from its history: what Takt keeps of it is all that anybody needs to go on with it, or to understand it.
func account(ctx context.Context, out io.Writer, b *goworkflows.Backend, o Order) error {
	info, err := b.Client().Info(ctx, workflow.Instance{ID: o.Number})
	if err != nil {
		return err
	}
	events, err := b.GetWorkflowInstanceHistory(ctx, &gowf.Instance{InstanceID: o.Number, ExecutionID: info.Execution}, nil)
	if err != nil {
		return err
	}
	var parts []string
	for _, l := range o.Lines {
		parts = append(parts, fmt.Sprintf("%d %s", l.Quantity, l.Product))
	}
	fmt.Fprintf(out, "\n%s  %s: %s\n", o.Number, o.Customer, strings.Join(parts, ", "))
	names := map[int64]string{} // of activities and timers, by the event that scheduled them
	for _, e := range events {
		at, what, text := e.Timestamp, "", ""
		if fired, ok := e.Attributes.(*history.TimerFiredAttributes); ok {
			at, what, text = fired.At, "(timer)", names[e.ScheduleEventID]
		} else {
			what, text = step(e, names)
		}
		if what != "" {
			fmt.Fprintf(out, "  %6.2f s  %-14s %s\n", at.Sub(info.Created).Seconds(), what, text)
		}
	}
	return nil
}

// step is an event in words, "" for one that says nothing new.
func step(e *history.Event, names map[int64]string) (what, text string) {
	switch at := e.Attributes.(type) {
	case *history.ActivityScheduledAttributes:
		names[e.ScheduleEventID] = at.Name
	case *history.ActivityCompletedAttributes:
		_ = json.Unmarshal(at.Result, &text) // all of ours return text
		return names[e.ScheduleEventID], text
	case *history.ActivityFailedAttributes:
		return names[e.ScheduleEventID], "failed: " + at.Error.Error()
	case *history.TimerScheduledAttributes:
		names[e.ScheduleEventID] = at.Name
	case *history.SignalReceivedAttributes:
		var r Result
		if json.Unmarshal(at.Arg, &r) != nil || r.JobOrder == "" {
			return "(signal)", at.Name
		}
		if r.Made {
			return "(result)", r.JobOrder + " is made"
		}
		return "(result)", r.JobOrder + " is not made: " + r.Why
	case *history.ExecutionCanceledAttributes:
		return "(cancelled)", "told to end"
	}
	return "", ""
}
