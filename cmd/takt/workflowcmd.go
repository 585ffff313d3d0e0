package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/rfc3339"
	"github.com/taktworks/takt/workflow"
	"github.com/taktworks/takt/workflowhistory"
)

type workflowCmd struct {
	List      workflowListCmd      `cmd:"" looks:"" help:"List executions, the newest first."`
	Show      workflowShowCmd      `cmd:"" looks:"" help:"Show one execution: what it waits for, activities, timers, last events."`
	History   workflowHistoryCmd   `cmd:"" looks:"" help:"Show what happened to an execution, event by event."`
	Signal    workflowSignalCmd    `cmd:"" help:"Send a signal to an instance."`
	Cancel    workflowCancelCmd    `cmd:"" help:"Ask an instance to end; its code decides how."`
	Terminate workflowTerminateCmd `cmd:"" help:"End an instance from outside, at once."`
	Remove    workflowRemoveCmd    `cmd:"" help:"Remove an execution that has ended, or all that ended before a time."`
	Pause     workflowPauseCmd     `cmd:"" help:"Keep an instance, or a queue, from running."`
	Resume    workflowResumeCmd    `cmd:"" help:"Let what is paused run again."`
	Stats     workflowStatsCmd     `cmd:"" looks:"" help:"Count instances, timers, and tasks by queue."`
	Watch     workflowWatchCmd     `cmd:"" looks:"" help:"Follow instances as they start and end."`
	Check     workflowCheckCmd     `cmd:"" looks:"" help:"List broken invariants of the stored instances."`
	Schedule  workflowScheduleCmd  `cmd:"" help:"Look at, pause, remove and run schedules of workflows."`
}

// instanceID is the id of an instance on the command line. What cannot be one is a usage error.
type instanceID string

func (i *instanceID) UnmarshalText(text []byte) error {
	*i = instanceID(text)
	return workflow.CheckID(string(text))
}

// workflowQueue is a queue of workflows on the command line. What cannot be one is a usage error.
type workflowQueue string

func (q *workflowQueue) UnmarshalText(text []byte) error {
	*q = workflowQueue(text)
	return workflow.CheckQueue(string(text))
}

// execution is ID or ID:EXECUTION on the command line. An id may have colons itself; one that ends in a colon has no execution behind it.
type execution string

func (e *execution) UnmarshalText(text []byte) error {
	*e = execution(text)
	i, ok := e.instance()
	if ok && workflow.CheckID(i.ID) == nil {
		return nil
	}
	return workflow.CheckID(string(text))
}

// instance is what stands before and behind the last colon; false if there is none.
func (e execution) instance() (workflow.Instance, bool) {
	return workflow.ParseInstance(string(e)), strings.Contains(string(e), ":")
}

// meant is the execution that is named, or the instance with Execution "" if none is: which one that is may change until something is done to it.
func (e execution) meant(ctx context.Context, client *workflow.Client) (workflow.Instance, error) {
	i, named := e.instance()
	if named && workflow.CheckID(i.ID) == nil {
		_, err := client.Info(ctx, i)
		if err == nil || !errors.Is(err, workflow.ErrNotFound) || workflow.CheckID(string(e)) != nil {
			return i, err
		}
	}
	return workflow.Instance{ID: string(e)}, nil
}

// find is the execution that is meant, or the newest of the instance.
func (e execution) find(ctx context.Context, client *workflow.Client) (workflow.Info, error) {
	i, err := e.meant(ctx, client)
	if err != nil {
		return workflow.Info{}, err
	}
	return client.Info(ctx, i)
}

// moment is a time on the command line: RFC 3339, or a duration that ends now.
type moment struct{ time.Time }

func (m *moment) UnmarshalText(text []byte) error {
	if d, err := time.ParseDuration(string(text)); err == nil {
		if d < 0 {
			return fmt.Errorf("%q: must not be negative, it is how long ago", text)
		}
		m.Time = time.Now().Add(-d)
		return nil
	}
	at, err := rfc3339.Parse(string(text))
	if err != nil {
		return fmt.Errorf("%q: must be how long ago, for example 48h, or a time: %w", text, err)
	}
	m.Time = at
	return nil
}

type workflowListCmd struct {
	State         string            `help:"Only this state: active, continued_as_new or finished." enum:",active,continued_as_new,finished" default:""`
	Outcome       string            `help:"Only what finished like this: completed, failed, canceled or terminated." enum:",completed,failed,canceled,terminated" default:""`
	Queue         workflowQueue     `help:"Only this queue."`
	Name          string            `help:"Only workflows of this name."`
	ID            instanceID        `name:"id" help:"Only executions of this instance."`
	Attr          map[string]string `help:"Only with this attribute, NAME=VALUE; may be repeated, then all must be there." mapsep:"none" placeholder:"NAME=VALUE"`
	CreatedAfter  moment            `help:"Only what was created after this time, RFC 3339, or in the last so long: 2h." placeholder:"TIME"`
	CreatedBefore moment            `help:"Only what was created before this time, RFC 3339, or longer ago than that: 48h." placeholder:"TIME"`
	Limit         int               `help:"At most so many; 0 = all." must:"be 0 (all) or more" default:"100"`
	After         execution         `help:"Go on behind this execution, the last of the page before." placeholder:"ID:EXECUTION"`
	JSON          bool              `name:"json" help:"One JSON object per execution."`
}

func (c *workflowListCmd) filter() (workflow.Filter, error) {
	f := workflow.Filter{
		State: workflow.State(c.State), Outcome: workflow.Outcome(c.Outcome), Queue: string(c.Queue), Name: c.Name, ID: string(c.ID), Attributes: c.Attr,
		CreatedAfter: c.CreatedAfter.Time, CreatedBefore: c.CreatedBefore.Time,
	}
	if c.After != "" {
		var ok bool
		if f.After, ok = c.After.instance(); !ok || f.After.Execution == "" {
			return f, fmt.Errorf("--after is %q: must be ID:EXECUTION, as the list has them", c.After)
		}
	}
	return f, nil
}

func (c *workflowListCmd) Run(ctx context.Context, a *app) error {
	filter, err := c.filter()
	if err != nil {
		return &exitError{exitUsage, err}
	}
	return with(ctx, a.openWorkflows, func(client *workflow.Client) error {
		l := a.list(c.JSON, "ID", "EXECUTION", "NAME", "QUEUE", "STATE", "OUTCOME", "CREATED", "ENDED / AGE")
		var last workflow.Instance
		n := 0
		for i, err := range client.All(ctx, filter) {
			if err != nil {
				return err
			}
			if n++; c.Limit > 0 && n > c.Limit {
				defer printf(a.err, "takt: more than %d; the next page: --after %s\n", c.Limit, last.String())
				break
			}
			last = i.Instance
			l.add(i, i.ID, i.Execution, cmp.Or(i.Name, "-"), i.Queue, i.State, cmp.Or(i.Outcome, "-"), instant(i.Created), endOf(&i))
		}
		return l.flush()
	})
}

// endOf is when an execution ended, or how long it has been active.
func endOf(i *workflow.Info) string {
	if i.Ended != nil {
		return instant(*i.Ended)
	}
	return age(i.Created)
}

type workflowShowCmd struct {
	Instance execution `arg:"" name:"id" help:"Instance, its newest execution is shown; or ID:EXECUTION."`
	Events   int       `help:"How many of the last events are shown; 0 = none." must:"be 0 (none) or more" default:"10"`
	JSON     bool      `name:"json" help:"One JSON object: all that is known of it, and last_events."`
}

// workflowView is an execution for programs.
type workflowView struct {
	workflow.Detail
	Children []workflow.Instance `json:"children,omitempty"` // as far as its history says
	Last     []workflow.Event    `json:"last_events"`

	last     []workflowhistory.Entry // these
	metadata string
}

func (c *workflowShowCmd) Run(ctx context.Context, a *app, client *workflow.Client) error {
	info, err := c.Instance.find(ctx, client)
	if err != nil {
		return err
	}
	h, err := workflowhistory.Read(ctx, client, info.Instance, 0)
	if err != nil {
		return err
	}
	from := max(len(h.Last)-c.Events, 0)
	v := workflowView{Detail: h.Detail, Children: workflow.Children(h.Last), Last: h.Last[from:], last: h.Lines[from:], metadata: h.Metadata}
	if c.JSON {
		return printJSON(a.out, v)
	}
	return a.showWorkflow(&v)
}

func (a *app) showWorkflow(v *workflowView) error {
	t := newFields(a.out)
	t.field("id", v.ID)
	t.field("execution", v.Execution)
	t.field("name", v.Name)
	t.field("queue", v.Queue)
	t.field("state", strings.TrimSpace(string(v.State)+" "+string(v.Outcome)))
	t.field("now", standing(&v.Detail))
	if v.State == workflow.Active {
		t.row("events not handled", v.Pending)
	}
	if v.Gate != nil {
		t.row("gate", fmt.Sprintf("%s, at most %d at once", v.Gate.Key, v.Gate.Max))
	}
	t.row("created", toMillisecond(v.Created))
	if v.Ended != nil {
		t.row("ended", toMillisecond(*v.Ended))
	}
	for _, name := range slices.Sorted(maps.Keys(v.Attributes)) {
		t.row("attribute", name+"="+v.Attributes[name])
	}
	if v.Parent != nil {
		t.row("parent", v.Parent)
	}
	for _, child := range v.Children {
		t.row("child", child)
	}
	t.field("metadata", oneLine(v.metadata, 200))
	t.row("history", fmt.Sprintf("%d events", v.LastSequence))
	if err := t.flush(); err != nil {
		return err
	}
	if err := a.showOpen(&v.Detail); err != nil || len(v.last) == 0 {
		return err
	}
	fmt.Fprintln(a.out)
	h := newTable(a.out, eventHead...)
	for _, e := range v.last {
		h.row(eventCells(e)...)
	}
	return h.flush()
}

// showOpen lists activities and timers.
func (a *app) showOpen(d *workflow.Detail) error {
	if len(d.Activities) > 0 {
		t := newTable(a.out, "\nACTIVITY", "NAME", "QUEUE", "PLACE", "WORKER", "DELIVERIES", "SINCE", "VALUE")
		for i := range d.Activities {
			o := &d.Activities[i]
			e := workflowhistory.EntryOf(&o.Event)
			t.row(o.Ref, cmp.Or(shortValue(e.Name), "-"), o.Queue, o.Place, cmp.Or(o.Worker, "-"), o.Deliveries, age(o.Event.Time), cmp.Or(shortValue(e.Value), "-"))
		}
		if err := t.flush(); err != nil {
			return err
		}
		a.more(int64(len(d.Activities)), d.ManyOpen, "activities")
	}
	if len(d.Timers) > 0 {
		t := newTable(a.out, "\nTIMER", "DUE", "IN")
		for _, due := range d.Timers {
			in := due.At.Sub(d.Now).Round(time.Millisecond).String()
			if due.At.Before(d.Now) {
				in = "is due"
			}
			t.row(due.Ref, toMillisecond(due.At), in)
		}
		if err := t.flush(); err != nil {
			return err
		}
		a.more(int64(len(d.Timers)), d.ManyTimers, "timers")
	}
	return nil
}

func (a *app) more(shown, all int64, what string) {
	if all > shown {
		printf(a.out, "and %d more %s\n", all-shown, what)
	}
}

// standing is what an execution does or waits for, with the command that lets it go on; "" if it has ended.
func standing(d *workflow.Detail) string {
	text := shown(d.Standing())
	switch {
	case text == "" || d.Task == workflow.Running && !d.AtGate:
	case d.Paused:
		text += ": takt workflow resume " + shown(d.ID)
	case d.Task == workflow.Held:
		text += ": takt workflow resume --queue " + d.Queue
	}
	return text
}

// toMillisecond is a time for people, who compare it with a log.
func toMillisecond(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05.000") }
