package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/taktworks/takt/schedule"
	"github.com/taktworks/takt/workflow"
	"github.com/taktworks/takt/workflowhistory"
)

type workflowScheduleCmd struct {
	List   workflowScheduleListCmd   `cmd:"" looks:"" help:"List schedules: rule, state, last and next slot."`
	Show   workflowScheduleShowCmd   `cmd:"" looks:"" help:"Show one schedule: what it starts, when, and why it does not."`
	Pause  workflowScheduleChangeCmd `cmd:"" help:"Let a schedule pass its slots without starting anything."`
	Resume workflowScheduleChangeCmd `cmd:"" help:"Let a paused schedule start again, from now on."`
	Delete workflowScheduleDeleteCmd `cmd:"" help:"Remove a schedule; what it started goes on."`
	Run    workflowScheduleRunCmd    `cmd:"" help:"Start what a schedule starts now, beside its slots."`
}

type workflowScheduleListCmd struct {
	JSON bool `name:"json" help:"One JSON object per schedule."`
}

func (c *workflowScheduleListCmd) Run(ctx context.Context, a *app, client *workflow.Client) error {
	all, err := client.Schedules(ctx)
	if err != nil {
		return err
	}
	l := a.list(c.JSON, "SCHEDULE", "WORKFLOW", "QUEUE", "RULE", "STATE", "LAST", "NEXT", "SKIPPED")
	for _, s := range all {
		l.add(s, s.Name, cmp.Or(s.Start.Name, "-"), cmp.Or(s.Start.Queue, "-"), cmp.Or(s.Rule, "-"), withError(s.Standing(), s.LastError), instant(s.Last), instant(s.Next), s.Skipped)
	}
	return l.flush()
}

type workflowScheduleShowCmd struct {
	Name string `arg:"" help:"Name of the schedule."`
	JSON bool   `name:"json" help:"One JSON object: the schedule as takt workflow schedule list --json shows it."`
}

func (c *workflowScheduleShowCmd) Run(ctx context.Context, a *app, client *workflow.Client) error {
	s, err := client.Schedule(ctx, c.Name)
	return show(a, err, c.JSON, &s, a.showWorkflowSchedule)
}

// whenMissed is what becomes of slots that were missed.
var whenMissed = map[schedule.Missed]string{
	schedule.RunOnce: "the latest is started", schedule.Skip: "dropped, if more than " + schedule.Grace.String() + " late", schedule.RunAll: "all are started, oldest first, at most the latest 100",
}

func (a *app) showWorkflowSchedule(s *workflow.Schedule) error {
	t := newFields(a.out)
	t.field("name", s.Name)
	t.field("state", s.Standing())
	t.field("error", oneLine(s.LastError, 500))
	t.field("tried again", instant(s.Retry))
	t.field("rule", s.Rule)
	t.field("missed slots", whenMissed[s.Missed])
	if s.Exclusive {
		t.field("exclusive", fmt.Sprintf("starts nothing while what it started last is active; %d slots were skipped", s.Skipped))
	}
	t.field("next", instant(s.Next))
	t.field("starting", instant(s.Starting))
	t.field("last", instant(s.Last))
	if !s.Started.IsZero() {
		t.field("last instance", s.Instance(s.Started).ID)
	}
	t.field("created", instant(s.Created))
	t.field("workflow", s.Start.Name)
	t.field("queue", s.Start.Queue)
	t.field("event", s.Start.Event.Type)
	t.field("data", shortValue(workflowhistory.Decoded(s.Start.Event.Data)))
	return t.flush()
}

// workflowScheduleChangeCmd is takt workflow schedule pause and resume.
type workflowScheduleChangeCmd struct {
	Name string `arg:"" help:"Name of the schedule."`
	JSON bool   `name:"json" help:"One JSON object: the schedule as takt workflow schedule list --json shows it."`
}

func (c *workflowScheduleChangeCmd) Run(ctx context.Context, a *app, client *workflow.Client) error {
	change := client.PauseSchedule
	if a.kong.Selected().Name == "resume" {
		change = client.ResumeSchedule
	}
	return showChanged(ctx, a, c.JSON, c.Name, client.Schedule, change(ctx, c.Name))
}

type workflowScheduleDeleteCmd struct {
	Name string `arg:"" help:"Name of the schedule."`
	JSON bool   `name:"json" help:"One JSON object: name and outcome, removed."`
}

func (c *workflowScheduleDeleteCmd) Run(ctx context.Context, a *app, client *workflow.Client) error {
	return a.tell(client.RemoveSchedule(ctx, c.Name), c.JSON, changed{Name: c.Name, Outcome: "removed"}, "")
}

type workflowScheduleRunCmd struct {
	Name string `arg:"" help:"Name of the schedule."`
	JSON bool   `name:"json" help:"One JSON object: name of the schedule, instance and execution."`
}

func (c *workflowScheduleRunCmd) Run(ctx context.Context, a *app, client *workflow.Client) error {
	i, err := client.RunSchedule(ctx, c.Name)
	return a.tell(err, c.JSON, struct {
		Name      string `json:"name"`
		Instance  string `json:"instance"`
		Execution string `json:"execution"`
	}{c.Name, i.ID, i.Execution}, "%s\n", i.ID)
}
