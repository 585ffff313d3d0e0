package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/taktworks/takt/task"
)

// queue is a task.Queue of the command line. What cannot be one is a usage error.
type queue task.Queue

func (q *queue) UnmarshalText(text []byte) error {
	parsed, err := task.ParseQueue(string(text))
	*q = queue(parsed)
	return err
}

type taskDrainCmd struct {
	Queue   queue         `arg:"" help:"Queue, for example background:large." placeholder:"PRIORITY:SIZE"`
	Timeout time.Duration `help:"Give up after so long; 0 = never." must:"not be negative" default:"0s"`
	JSON    bool          `name:"json" help:"One JSON object."`
}

func (c *taskDrainCmd) Run(ctx context.Context, a *app, client *task.Client) error {
	if err := hasQueue(ctx, client, c.Queue); err != nil {
		return err
	}
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	err := client.Drain(ctx, task.Queue(c.Queue))
	if err != nil && (ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)) {
		return &exitError{exitFailed, err}
	}
	return a.tell(err, c.JSON, struct {
		Queue queue `json:"queue"`
		Empty bool  `json:"empty"`
	}{c.Queue, true}, "%s is empty\n", c.Queue)
}

// hasQueue names the queues if q is none of them: one of a pool that nobody has used is most likely mistyped.
func hasQueue(ctx context.Context, client *task.Client, q queue) error {
	s, err := client.Stats(ctx)
	if err != nil {
		return err
	}
	var all []string
	for _, one := range s.Queues {
		if one.Queue == task.Queue(q) {
			return nil
		}
		all = append(all, string(one.Queue))
	}
	return &exitError{exitUsage, fmt.Errorf("there is no queue %q; there are %s", q, strings.Join(all, ", "))}
}

type taskPurgeCmd struct {
	Queue queue `arg:"" help:"Queue, for example background:large." placeholder:"PRIORITY:SIZE"`
	Yes   bool  `help:"Say that all tasks that wait in it shall end."`
	JSON  bool  `name:"json" help:"One JSON object."`
}

func (c *taskPurgeCmd) Run(ctx context.Context, a *app) error {
	if !c.Yes {
		return &exitError{exitUsage, fmt.Errorf("this ends all tasks that wait in %s; say --yes if that is what you want", c.Queue)}
	}
	return with(ctx, a.openTasks, func(client *task.Client) error {
		if err := hasQueue(ctx, client, c.Queue); err != nil {
			return err
		}
		n, err := client.Purge(ctx, task.Queue(c.Queue), task.Queue(c.Queue))
		return errors.Join(err, a.say(c.JSON, struct {
			Queue     queue `json:"queue"`
			Cancelled int   `json:"cancelled"`
		}{c.Queue, n}, "%d cancelled\n", n))
	})
}

type taskWorkersCmd struct {
	Running bool `help:"List what runs, in the place of the workers."`
	JSON    bool `name:"json" help:"One JSON object per worker, with all that it says of itself."`
}

func (c *taskWorkersCmd) Run(ctx context.Context, a *app, client *task.Client) error {
	workers, err := client.Workers(ctx)
	if err != nil {
		return err
	}
	if c.Running && !c.JSON {
		t := newTable(a.out, "WORKER", "NAME", "TASK", "ATTEMPT", "FOR", "ENDS")
		for _, w := range workers {
			for _, r := range w.Running {
				t.row(w.ID, r.Name, r.ID, r.Attempt, age(r.Started), instant(r.Deadline))
			}
		}
		return t.flush()
	}
	l := a.list(c.JSON, "WORKER", "VERSION", "ALIVE", "SINCE", "SLOTS", "RUNNING", "ENDED", "TYPES")
	for _, w := range workers {
		l.add(w, w.ID, w.Version, w.Alive, instant(w.Since), slotsOf(w.Slots), w.InHand, w.Ended, oneLine(strings.Join(w.Types, " "), 80))
	}
	return l.flush()
}
