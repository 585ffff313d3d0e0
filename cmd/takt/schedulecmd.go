package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/taktworks/takt/task"
)

type scheduleCmd struct {
	List   scheduleListCmd   `cmd:"" help:"List schedules: rule, state, last and next slot."`
	Add    scheduleAddCmd    `cmd:"" help:"Add a schedule, or change one that was added so."`
	Remove scheduleRemoveCmd `cmd:"" help:"Remove a schedule that was added."`
	Run    scheduleRunCmd    `cmd:"" help:"Submit the task of a schedule now, beside its slots."`
	Pause  schedulePauseCmd  `cmd:"" help:"Let a schedule pass its slots without firing."`
	Resume scheduleResumeCmd `cmd:"" help:"Let a paused schedule fire again, from now on."`
	Serve  scheduleServeCmd  `cmd:"" help:"Be a scheduler for the schedules that are stored."`
}

type scheduleListCmd struct {
	JSON bool `name:"json" help:"One JSON object per schedule."`
}

func (scheduleListCmd) Help() string {
	return `Examples:
  takt schedule list
  takt schedule list --json`
}

func (c *scheduleListCmd) Run(ctx context.Context, a *app) error {
	return a.withTasks(ctx, func(client *task.Client) error {
		all, err := client.Schedules(ctx)
		if err != nil {
			return err
		}
		leader, term, err := client.SchedulerLeader(ctx)
		if err != nil {
			return err
		}
		t := newTable(a.out, "SCHEDULE", "TASK", "RULE", "STATE", "LAST", "NEXT", "FIRED", "SKIPPED", "MISSED")
		for _, s := range all {
			if c.JSON {
				if err := printJSON(a.out, s); err != nil {
					return err
				}
				continue
			}
			state := string(s.State)
			if s.Paused {
				state = "paused"
			}
			if s.Error != "" {
				state += ": " + oneLine(s.Error, 60)
			}
			t.row(s.Name, s.Task, s.Spec, state, instant(s.Last), instant(s.Next), strconv.FormatInt(s.Fired, 10), strconv.FormatInt(s.Skipped, 10), strconv.FormatInt(s.Dropped, 10))
		}
		if c.JSON {
			return nil
		}
		if err := t.flush(); err != nil {
			return err
		}
		if leader == "" {
			_, err = fmt.Fprintln(a.out, "\nno scheduler runs: nothing fires until one does, for example takt schedule serve")
		} else {
			_, err = fmt.Fprintf(a.out, "\nscheduler %s, term %d\n", leader, term)
		}
		return err
	})
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
	Args    string        `help:"JSON array of the arguments." default:"[]"`
	Queue   string        `help:"Queue of the tasks." default:"normal:medium" placeholder:"PRIORITY:SIZE"`
	Anchor  time.Time     `help:"What every and rrule count from, RFC 3339; now if not given." placeholder:"TIME"`
	Overlap string        `help:"If the task before has not begun (pending) or ended (running), or never mind (queue): pending, running or queue." default:"pending" enum:"pending,running,queue"`
	Missed  string        `help:"After an outage fire once, skip what was missed, or fire all: once, skip or all." default:"once" enum:"once,skip,all"`
	Jitter  time.Duration `help:"Fire up to so much later." placeholder:"DURATION"`
	Update  bool          `help:"Change the schedule of that name; its slots go on from the last."`
}

func (scheduleAddCmd) Help() string {
	return `The schedule is kept in Redis and fires while any scheduler runs: one of a program, or takt schedule serve. Each slot is one task with the id NAME@SLOT, whatever number of schedulers there are.

Examples:
  takt schedule add nightly report:Nightly 'cron TZ=Europe/Berlin 0 2 * * *' --queue background:large
  takt schedule add ping net:Ping 'every 30s' --args '["10.0.0.1"]' --overlap running
  takt schedule add nightly report:Nightly 'cron 30 2 * * *' --update`
}

var (
	overlaps = map[string]task.Overlap{"pending": task.SkipIfPending, "running": task.SkipIfRunning, "queue": task.QueueUp}
	misses   = map[string]task.Missed{"once": task.RunOnce, "skip": task.SkipMissed, "all": task.RunMissed}
)

func (c *scheduleAddCmd) Run(ctx context.Context, a *app) error {
	if !json.Valid([]byte(c.Args)) {
		return &exitError{exitUsage, fmt.Errorf("--args %q: no JSON", oneLine(c.Args, 60))}
	}
	e := task.ScheduleEntry{
		Name: c.Name, Task: c.Task, Spec: c.Rule, Args: json.RawMessage(c.Args), Queue: task.Queue(c.Queue), Anchor: c.Anchor,
		Overlap: overlaps[c.Overlap], Missed: misses[c.Missed], Jitter: c.Jitter,
	}
	return a.withTasks(ctx, func(client *task.Client) error {
		if c.Update {
			return client.UpdateSchedule(ctx, e)
		}
		return client.AddSchedule(ctx, e)
	})
}

type scheduleRemoveCmd struct {
	Name string `arg:"" help:"Name of the schedule."`
}

func (scheduleRemoveCmd) Help() string {
	return `Its tasks that were submitted stay.

Examples:
  takt schedule remove nightly`
}

func (c *scheduleRemoveCmd) Run(ctx context.Context, a *app) error {
	return a.withTasks(ctx, func(client *task.Client) error { return client.RemoveSchedule(ctx, c.Name) })
}

type scheduleRunCmd struct {
	Name string `arg:"" help:"Name of the schedule."`
}

func (scheduleRunCmd) Help() string {
	return `A scheduler must run: it submits the task, with an id of its own.

Examples:
  takt schedule run nightly`
}

func (c *scheduleRunCmd) Run(ctx context.Context, a *app) error {
	return a.withTasks(ctx, func(client *task.Client) error {
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
		_, err = fmt.Fprintln(a.out, id)
		return err
	})
}

type schedulePauseCmd struct {
	Name string `arg:"" help:"Name of the schedule."`
}

func (schedulePauseCmd) Help() string {
	return `Examples:
  takt schedule pause nightly`
}

func (c *schedulePauseCmd) Run(ctx context.Context, a *app) error {
	return a.withTasks(ctx, func(client *task.Client) error { return client.PauseSchedule(ctx, c.Name) })
}

type scheduleResumeCmd struct {
	Name string `arg:"" help:"Name of the schedule."`
}

func (scheduleResumeCmd) Help() string {
	return `Examples:
  takt schedule resume nightly`
}

func (c *scheduleResumeCmd) Run(ctx context.Context, a *app) error {
	return a.withTasks(ctx, func(client *task.Client) error { return client.ResumeSchedule(ctx, c.Name) })
}

type scheduleServeCmd struct {
	Lease time.Duration `help:"Another scheduler takes over after this time, if this one dies." default:"30s"`
}

func (scheduleServeCmd) Help() string {
	return `Run as many as you like: one of them fires, the others stand by. It moves delayed tasks to their queues, too.

Examples:
  takt schedule serve`
}

func (c *scheduleServeCmd) Run(ctx context.Context, a *app) error {
	return a.withTasks(ctx, func(client *task.Client) error {
		s, err := client.Scheduler(task.SchedulerOptions{Lease: c.Lease, Log: a.log})
		if err != nil {
			return &exitError{exitUsage, err}
		}
		a.log.Info("scheduler is up", "scheduler", s.ID())
		err = s.Run(ctx)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	})
}
