package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/taktworks/takt/schedule"
	"github.com/taktworks/takt/task"
)

type scheduleCmd struct {
	List   scheduleListCmd   `cmd:"" looks:"" help:"List schedules: rule, state, last and next slot."`
	Add    scheduleAddCmd    `cmd:"" help:"Add a schedule, or change one that was added so."`
	Remove scheduleRemoveCmd `cmd:"" help:"Remove a schedule that was added."`
	Run    scheduleRunCmd    `cmd:"" help:"Submit the task of a schedule now, beside its slots."`
	Pause  scheduleChangeCmd `cmd:"" help:"Let a schedule pass its slots without firing."`
	Resume scheduleChangeCmd `cmd:"" help:"Let a paused schedule fire again, from now on."`
	Serve  scheduleServeCmd  `cmd:"" help:"Be a scheduler for the schedules that are stored."`
}

type scheduleListCmd struct {
	JSON bool `name:"json" help:"One JSON object per schedule."`
}

func (c *scheduleListCmd) Run(ctx context.Context, a *app, client *task.Client) error {
	all, err := client.Schedules(ctx)
	if err != nil {
		return err
	}
	leader, term, err := client.SchedulerLeader(ctx)
	if err != nil {
		return err
	}
	l := a.list(c.JSON, "SCHEDULE", "TASK", "RULE", "STATE", "LAST", "NEXT", "FIRED", "SKIPPED", "MISSED")
	for _, s := range all {
		state := string(s.State)
		if s.Paused {
			state = "paused"
		}
		l.add(s, s.Name, s.Task, s.Spec, withError(state, s.Error), instant(s.Last), instant(s.Next), s.Fired, s.Skipped, s.Dropped)
	}
	if err := l.flush(); err != nil || c.JSON {
		return err
	}
	if leader == "" {
		_, err = fmt.Fprintln(a.out, "\nno scheduler runs: nothing fires until one does, for example takt schedule serve")
	} else {
		_, err = printf(a.out, "\nscheduler %s, term %d\n", leader, term)
	}
	return err
}

// withError is the state of a schedule and what is wrong with it, "" = nothing.
func withError(state, err string) string {
	if err == "" {
		return state
	}
	return state + ": " + oneLine(shown(err), 60)
}

func instant(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

type scheduleAddCmd struct {
	Name    string        `arg:"" help:"Name of the schedule."`
	Task    string        `arg:"" help:"Name of the task's type."`
	Rule    string        `arg:"" help:"'every 5m', 'cron 0 6 * * *', 'cron TZ=Europe/Berlin 0 6 * * *' or 'rrule FREQ=WEEKLY;INTERVAL=2'."`
	Args    string        `help:"Arguments: a JSON array, or one value that is not an array and then the only argument." default:"[]"`
	Queue   queue         `help:"Queue of the tasks." default:"normal:medium" placeholder:"PRIORITY:SIZE"`
	Anchor  time.Time     `help:"What every and rrule count from, RFC 3339; now if not given." placeholder:"TIME"`
	Overlap string        `help:"If the task before has not begun (pending) or ended (running), or never mind (queue): pending, running or queue." default:"pending" enum:"pending,running,queue"`
	Missed  string        `help:"After an outage fire once, skip what was missed, or fire all: once, skip or all." default:"once" enum:"once,skip,all"`
	Jitter  time.Duration `help:"Fire up to so much later." placeholder:"DURATION"`
	Update  bool          `help:"Change the schedule of that name; its slots go on from the last."`
	JSON    bool          `name:"json" help:"One JSON object: the schedule as takt schedule list --json shows it."`
}

var (
	overlaps = map[string]task.Overlap{"pending": task.SkipIfPending, "running": task.SkipIfRunning, "queue": task.QueueUp}
	misses   = map[string]task.Missed{"once": task.RunOnce, "skip": task.SkipMissed, "all": task.RunMissed}
)

func (c *scheduleAddCmd) Run(ctx context.Context, a *app) error {
	if !json.Valid([]byte(c.Args)) {
		return &exitError{exitUsage, fmt.Errorf("--args %q: no JSON", oneLine(c.Args, 60))}
	}
	if _, err := schedule.Parse(c.Rule); err != nil {
		return &exitError{exitUsage, err}
	}
	e := task.ScheduleEntry{
		Name: c.Name, Task: c.Task, Spec: c.Rule, Args: json.RawMessage(c.Args), Queue: task.Queue(c.Queue), Anchor: c.Anchor,
		Overlap: overlaps[c.Overlap], Missed: misses[c.Missed], Jitter: c.Jitter,
	}
	return with(ctx, a.openTasks, func(client *task.Client) error {
		change := client.AddSchedule
		if c.Update {
			change = client.UpdateSchedule
		}
		return showChanged(ctx, a, c.JSON, c.Name, client.Schedule, change(ctx, e))
	})
}

type scheduleRemoveCmd struct {
	Name string `arg:"" help:"Name of the schedule."`
	JSON bool   `name:"json" help:"One JSON object: name and outcome, removed."`
}

func (c *scheduleRemoveCmd) Run(ctx context.Context, a *app, client *task.Client) error {
	return a.tell(client.RemoveSchedule(ctx, c.Name), c.JSON, changed{Name: c.Name, Outcome: "removed"}, "")
}

type scheduleRunCmd struct {
	Name string `arg:"" help:"Name of the schedule."`
	JSON bool   `name:"json" help:"One JSON object: name of the schedule and id of the task."`
}

func (c *scheduleRunCmd) Run(ctx context.Context, a *app, client *task.Client) error {
	leader, _, err := client.SchedulerLeader(ctx)
	if err != nil {
		return err
	}
	id, err := client.RunScheduleNow(ctx, c.Name)
	if err != nil {
		return err
	}
	if leader == "" {
		fmt.Fprintln(a.err, "takt: no scheduler runs; the task is submitted when one does")
	}
	return a.say(c.JSON, struct {
		Name string `json:"name"`
		ID   string `json:"id"`
	}{c.Name, id}, "%s\n", id)
}

// scheduleChangeCmd is takt schedule pause and resume.
type scheduleChangeCmd struct {
	Name string `arg:"" help:"Name of the schedule."`
	JSON bool   `name:"json" help:"One JSON object: the schedule as takt schedule list --json shows it."`
}

func (c *scheduleChangeCmd) Run(ctx context.Context, a *app, client *task.Client) error {
	change := client.PauseSchedule
	if a.kong.Selected().Name == "resume" {
		change = client.ResumeSchedule
	}
	return showChanged(ctx, a, c.JSON, c.Name, client.Schedule, change(ctx, c.Name))
}

type scheduleServeCmd struct {
	Lease time.Duration `help:"Another scheduler takes over after this time, if this one dies." default:"30s"`
	HTTP  string        `name:"http" help:"Address for /metrics, /livez and /readyz, for example 127.0.0.1:9466; not served if empty." placeholder:"ADDR"`
}

func (c *scheduleServeCmd) Run(ctx context.Context, a *app) error {
	traces, err := a.traces(ctx, "", a.log)
	if err != nil {
		return err
	}
	defer traces.Close()
	return with(ctx, a.openTasks, func(client *task.Client) error {
		web := a.web(c.HTTP, client)
		push, err := a.push(ctx, web.Metrics, "", a.log)
		if err != nil {
			return err
		}
		defer push.Close()
		s, err := client.Scheduler(task.SchedulerOptions{
			Lease: c.Lease, Metrics: task.NewMetrics(web.Metrics.Registerer()), Tracer: traces.Provider(), Log: a.log,
		})
		if err != nil {
			return &exitError{exitUsage, err}
		}
		a.log.Info("scheduler is up", "scheduler", s.ID())
		return runBeside(ctx, web, 0, "scheduler", s.Run)
	})
}
