package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taktworks/takt/task"
)

type taskDeadCmd struct {
	List    taskDeadListCmd    `cmd:"" looks:"" help:"List dead letters, oldest first."`
	Show    taskDeadShowCmd    `cmd:"" looks:"" help:"Show one dead letter: why, its history, its message."`
	Requeue taskDeadRequeueCmd `cmd:"" help:"Give dead tasks another life."`
	Delete  taskDeadDeleteCmd  `cmd:"" help:"Delete dead letters for good."`
}

// deadFlags say which letters are meant.
type deadFlags struct {
	Name   string    `help:"Only tasks of this type."`
	Reason string    `help:"Only letters with this reason: the type of the last error, or deliveries, unknown, timeout, undecodable."`
	Queue  queue     `help:"Only this queue." placeholder:"PRIORITY:SIZE"`
	Since  time.Time `help:"Died then or later, RFC 3339." placeholder:"TIME"`
	Until  time.Time `help:"Died before, RFC 3339." placeholder:"TIME"`
}

func (f *deadFlags) filter() task.DeadFilter {
	return task.DeadFilter{Name: f.Name, Reason: f.Reason, Queue: task.Queue(f.Queue), Since: f.Since, Until: f.Until}
}

type taskDeadListCmd struct {
	deadFlags `embed:""`
	Limit     int  `help:"At most so many; 0 = all." must:"be 0 (all) or more" default:"100"`
	JSON      bool `name:"json" help:"One JSON object per letter."`
}

func (c *taskDeadListCmd) Run(ctx context.Context, a *app, client *task.Client) error {
	table := a.list(c.JSON, "DIED", "NAME", "REASON", "TASK", "ERROR")
	filter, n := c.filter(), 0
	for {
		page, err := client.DeadLetters().List(ctx, filter)
		if err != nil {
			return err
		}
		for _, l := range page.Letters {
			if n++; c.Limit > 0 && n > c.Limit {
				page.Next = ""
				a.moreThan(c.Limit)
				break
			}
			message := ""
			if l.Error != nil {
				message = oneLine(l.Error.Message, 80)
			}
			table.add(l, l.Died.Local().Format(time.DateTime), l.Name, l.Reason, l.ID, message)
		}
		if filter.After = page.Next; filter.After == "" {
			return table.flush()
		}
	}
}

type taskDeadShowCmd struct {
	ID   string `arg:"" help:"Task id."`
	JSON bool   `name:"json" help:"One JSON object."`
}

func (c *taskDeadShowCmd) Run(ctx context.Context, a *app, client *task.Client) error {
	l, err := client.DeadLetters().Show(ctx, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.out, l)
	}
	return a.showTask(&shownTask{Task: l.Task})
}

type taskDeadRequeueCmd struct {
	IDs       []string `arg:"" optional:"" name:"id" help:"Task ids."`
	All       bool     `help:"All that the flags mean, in the place of ids."`
	JSON      bool     `name:"json" help:"One JSON object per letter: id and outcome, requeued."`
	deadFlags `embed:""`
}

func (c *taskDeadRequeueCmd) Run(ctx context.Context, a *app) error {
	return a.someDead(ctx, "requeued", c.IDs, c.All, c.JSON, c.filter(), task.DeadLetters.Requeue, task.RequeueAll)
}

type taskDeadDeleteCmd struct {
	IDs       []string `arg:"" optional:"" name:"id" help:"Task ids."`
	All       bool     `help:"All that the flags mean, in the place of ids."`
	JSON      bool     `name:"json" help:"One JSON object per letter: id and outcome, deleted. They are deleted one by one."`
	deadFlags `embed:""`
}

func (c *taskDeadDeleteCmd) Run(ctx context.Context, a *app) error {
	return a.someDead(ctx, "deleted", c.IDs, c.All, c.JSON, c.filter(), task.DeadLetters.Delete, task.DeleteAll)
}

// someDead does something with the letters that are named, or with all that a filter means.
func (a *app) someDead(ctx context.Context, word string, ids []string, all, asJSON bool, f task.DeadFilter,
	some func(task.DeadLetters, context.Context, ...string) (int, error), every func(context.Context, task.DeadLetters, task.DeadFilter) (int, error)) error {
	if all == (len(ids) > 0) {
		return &exitError{exitUsage, errors.New("name ids, or say --all with the flags that tell which")}
	}
	return with(ctx, a.openTasks, func(client *task.Client) error {
		var letters task.DeadLetters = client.DeadLetters()
		if asJSON {
			letters = oneByOne{letters, func(id string) error { return printJSON(a.out, changed{ID: id, Outcome: word}) }}
		}
		var n int
		var err error
		if all {
			n, err = every(ctx, letters, f)
		} else {
			n, err = some(letters, ctx, ids...)
		}
		if !asJSON {
			printf(a.out, "%d %s\n", n, word)
		}
		if err != nil {
			return err
		}
		if !all && n < len(ids) {
			return &exitError{exitRefused, fmt.Errorf("%d of %d are no dead letters", len(ids)-n, len(ids))}
		}
		return nil
	})
}

// oneByOne tells of each letter that something was done with.
type oneByOne struct {
	task.DeadLetters
	tell func(id string) error
}

func (o oneByOne) Requeue(ctx context.Context, ids ...string) (int, error) {
	return o.each(ctx, ids, o.DeadLetters.Requeue)
}

func (o oneByOne) Delete(ctx context.Context, ids ...string) (int, error) {
	return o.each(ctx, ids, o.DeadLetters.Delete)
}

func (o oneByOne) each(ctx context.Context, ids []string, do func(context.Context, ...string) (int, error)) (n int, err error) {
	var errs []error
	for _, id := range ids {
		m, err := do(ctx, id)
		if n += m; m > 0 {
			err = errors.Join(err, o.tell(id))
		}
		errs = append(errs, err)
	}
	return n, errors.Join(errs...)
}
