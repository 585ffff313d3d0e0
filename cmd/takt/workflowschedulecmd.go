package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/taktworks/takt/schedule"
	"github.com/taktworks/takt/workflow"
)

type workflowScheduleCmd struct {
	List   workflowScheduleListCmd   `cmd:"" looks:"" help:"List schedules: rule, state, last and next slot."`
	Show   workflowScheduleShowCmd   `cmd:"" looks:"" help:"Show one schedule: what it starts, when, and why it does not."`
	Pause  workflowSchedulePauseCmd  `cmd:"" help:"Let a schedule pass its slots without starting anything."`
	Resume workflowScheduleResumeCmd `cmd:"" help:"Let a paused schedule start again, from now on."`
	Delete workflowScheduleDeleteCmd `cmd:"" help:"Remove a schedule; what it started goes on."`
	Run    workflowScheduleRunCmd    `cmd:"" help:"Start what a schedule starts now, beside its slots."`
}

// withWorkflowSchedules is withWorkflows with errors about schedules.
func (a *app) withWorkflowSchedules(ctx context.Context, f func(*workflow.Client) error) error {
	return a.withWorkflows(ctx, func(client *workflow.Client) error {
		err := f(client)
		switch {
		case errors.Is(err, workflow.ErrNotFound):
			return &exitError{exitRefused, fmt.Errorf("%w: see takt workflow schedule list", err)}
		case errors.Is(err, workflow.ErrExists):
			return &exitError{exitRefused, fmt.Errorf("%w: see takt workflow schedule show", err)}
		}
		return err
	})
}

type workflowScheduleListCmd struct {
	JSON bool `name:"json" help:"One JSON object per schedule."`
}

func (c *workflowScheduleListCmd) Run(ctx context.Context, a *app) error {
	return a.withWorkflowSchedules(ctx, func(client *workflow.Client) error {
		all, err := client.Schedules(ctx)
		if err != nil {
			return err
		}
		t := newTable(a.out, "SCHEDULE", "WORKFLOW", "QUEUE", "RULE", "STATE", "LAST", "NEXT", "SKIPPED")
		for _, s := range all {
			if c.JSON {
				if err := printJSON(a.out, s); err != nil {
					return err
				}
				continue
			}
			t.row(s.Name, cmp.Or(s.Start.Name, "-"), cmp.Or(s.Start.Queue, "-"), cmp.Or(s.Rule, "-"), withError(standingOf(&s), s.LastError), instant(s.Last), instant(s.Next), strconv.FormatInt(s.Skipped, 10))
		}
		if c.JSON {
			return nil
		}
		return t.flush()
	})
}

// standingOf is what a schedule does, in a word.
func standingOf(s *workflow.Schedule) string {
	switch {
	case s.Rule == "":
		return "broken"
	case !s.Starting.IsZero():
		return "starting"
	case s.Paused:
		return "paused"
	case !s.Retry.IsZero():
		return "refused"
	case s.Next.IsZero():
		return "finished"
	}
	return "active"
}

type workflowScheduleShowCmd struct {
	Name string `arg:"" help:"Name of the schedule."`
	JSON bool   `name:"json" help:"One JSON object: the schedule as takt workflow schedule list --json shows it."`
}

func (c *workflowScheduleShowCmd) Run(ctx context.Context, a *app) error {
	return a.withWorkflowSchedules(ctx, func(client *workflow.Client) error {
		s, err := client.Schedule(ctx, c.Name)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(a.out, s)
		}
		return a.showWorkflowSchedule(&s)
	})
}

// whenMissed is what becomes of slots that were missed.
var whenMissed = map[schedule.Missed]string{
	schedule.RunOnce: "the latest is started", schedule.Skip: "dropped, if more than " + schedule.Grace.String() + " late", schedule.RunAll: "all are started, oldest first, at most the latest 100",
}

func (a *app) showWorkflowSchedule(s *workflow.Schedule) error {
	t := newTable(a.out, "FIELD", "VALUE")
	row := func(name, value string) {
		if value != "" && value != "-" {
			t.row(name, value)
		}
	}
	row("name", s.Name)
	row("state", standingOf(s))
	row("error", oneLine(s.LastError, 500))
	row("tried again", instant(s.Retry))
	row("rule", s.Rule)
	row("missed slots", whenMissed[s.Missed])
	if s.Exclusive {
		row("exclusive", fmt.Sprintf("starts nothing while what it started last is active; %d slots were skipped", s.Skipped))
	}
	row("next", instant(s.Next))
	row("starting", instant(s.Starting))
	row("last", instant(s.Last))
	if !s.Started.IsZero() {
		row("last instance", s.Instance(s.Started).ID)
	}
	row("created", instant(s.Created))
	row("workflow", s.Start.Name)
	row("queue", s.Start.Queue)
	row("event", s.Start.Event.Type)
	row("data", shortData(s.Start.Event.Data))
	return t.flush()
}

type workflowSchedulePauseCmd struct {
	Name string `arg:"" help:"Name of the schedule."`
	JSON bool   `name:"json" help:"One JSON object: the schedule as takt workflow schedule list --json shows it."`
}

func (c *workflowSchedulePauseCmd) Run(ctx context.Context, a *app) error {
	return a.changeWorkflowSchedule(ctx, c.Name, c.JSON, (*workflow.Client).PauseSchedule)
}

type workflowScheduleResumeCmd struct {
	Name string `arg:"" help:"Name of the schedule."`
	JSON bool   `name:"json" help:"One JSON object: the schedule as takt workflow schedule list --json shows it."`
}

func (c *workflowScheduleResumeCmd) Run(ctx context.Context, a *app) error {
	return a.changeWorkflowSchedule(ctx, c.Name, c.JSON, (*workflow.Client).ResumeSchedule)
}

// changeWorkflowSchedule changes a schedule, and prints it with --json.
func (a *app) changeWorkflowSchedule(ctx context.Context, name string, asJSON bool, change func(*workflow.Client, context.Context, string) error) error {
	return a.withWorkflowSchedules(ctx, func(client *workflow.Client) error {
		if err := change(client, ctx, name); err != nil || !asJSON {
			return err
		}
		s, err := client.Schedule(ctx, name)
		if err != nil {
			return err
		}
		return printJSON(a.out, s)
	})
}

type workflowScheduleDeleteCmd struct {
	Name string `arg:"" help:"Name of the schedule."`
	JSON bool   `name:"json" help:"One JSON object: name and outcome, removed."`
}

func (c *workflowScheduleDeleteCmd) Run(ctx context.Context, a *app) error {
	return a.withWorkflowSchedules(ctx, func(client *workflow.Client) error {
		if err := client.RemoveSchedule(ctx, c.Name); err != nil || !c.JSON {
			return err
		}
		return printJSON(a.out, changed{Name: c.Name, Outcome: "removed"})
	})
}

type workflowScheduleRunCmd struct {
	Name string `arg:"" help:"Name of the schedule."`
	JSON bool   `name:"json" help:"One JSON object: name of the schedule, instance and execution."`
}

func (c *workflowScheduleRunCmd) Run(ctx context.Context, a *app) error {
	return a.withWorkflowSchedules(ctx, func(client *workflow.Client) error {
		i, err := client.RunSchedule(ctx, c.Name)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(a.out, struct {
				Name      string `json:"name"`
				Instance  string `json:"instance"`
				Execution string `json:"execution"`
			}{c.Name, i.ID, i.Execution})
		}
		_, err = printf(a.out, "%v\n", i.ID)
		return err
	})
}
