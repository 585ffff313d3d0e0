package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taktworks/takt/task"
)

type taskPauseCmd struct {
	Queue queue   `arg:"" optional:"" help:"Queue, for example background:large; with --rate it is bounded, not paused." placeholder:"PRIORITY:SIZE"`
	Type  string  `help:"A type of task in the place of a queue: its tasks are set aside until it is resumed."`
	Rate  float64 `help:"Let all workers together begin at most so many tasks of the queue per second; 0 = pause it."`
	JSON  bool    `name:"json" help:"One JSON object: what was set."`
}

func (c *taskPauseCmd) Run(ctx context.Context, a *app) error {
	if (c.Queue == "") == (c.Type == "") || !(c.Rate >= 0) || c.Rate > 0 && c.Queue == "" {
		return &exitError{exitUsage, errors.New("name a queue or a --type; --rate is a number above 0, and of queues only")}
	}
	return with(ctx, a.openTasks, func(client *task.Client) error {
		set := ordered{Queue: c.Queue, Name: c.Type}
		var err error
		switch {
		case c.Type != "":
			set.Paused, err = new(true), client.PauseType(ctx, c.Type)
		case c.Rate > 0:
			set.Rate, err = &c.Rate, client.SetRate(ctx, task.Queue(c.Queue), c.Rate)
		default:
			set.Paused, err = new(true), client.PauseQueue(ctx, task.Queue(c.Queue))
		}
		return a.tell(err, c.JSON, set, "")
	})
}

// ordered is what pause and resume set of a queue or a type, as JSON; nil = it stays as it was.
type ordered struct {
	Queue  queue    `json:"queue,omitempty"`
	Name   string   `json:"name,omitempty"` // of a type
	Paused *bool    `json:"paused,omitempty"`
	Rate   *float64 `json:"rate,omitempty"` // 0 = no bound
}

type taskResumeCmd struct {
	Queue queue  `arg:"" optional:"" help:"Queue; its rate is lifted, too." placeholder:"PRIORITY:SIZE"`
	Type  string `help:"A type of task in the place of a queue."`
	JSON  bool   `name:"json" help:"One JSON object: what was set, and of a type how many tasks were moved to those that are due."`
}

func (c *taskResumeCmd) Run(ctx context.Context, a *app) error {
	if (c.Queue == "") == (c.Type == "") {
		return &exitError{exitUsage, errors.New("name a queue or a --type")}
	}
	return with(ctx, a.openTasks, func(client *task.Client) error {
		set := ordered{Queue: c.Queue, Name: c.Type, Paused: new(false)}
		var err error
		if c.Type != "" {
			err = client.ResumeType(ctx, c.Type)
		} else {
			set.Rate, err = new(0.0), errors.Join(client.ResumeQueue(ctx, task.Queue(c.Queue)), client.SetRate(ctx, task.Queue(c.Queue), 0))
		}
		return a.tell(err, c.JSON, set, "")
	})
}

type taskStatsCmd struct {
	JSON bool `name:"json" help:"One JSON object."`
}

func (c *taskStatsCmd) Run(ctx context.Context, a *app, client *task.Client) error {
	s, err := client.Stats(ctx)
	if err != nil {
		return err
	}
	workers, err := client.Workers(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.out, struct {
			task.Stats
			Registry any `json:"registry"`
		}{s, workers})
	}
	config, err := client.Config(ctx) // if it cannot be read, the rest is shown
	return errors.Join(a.showStats(&s, workers, config), err)
}

func (a *app) showStats(s *task.Stats, workers []task.WorkerInfo, config task.Config) error {
	t := newTable(a.out, "QUEUE", "WAITING", "RUNNING", "OLDEST", "")
	for _, q := range s.Queues {
		note := ""
		if q.Paused {
			note = "paused"
		}
		if q.Rate > 0 {
			note = strings.TrimSpace(note + fmt.Sprintf(" at most %g/s", q.Rate))
		}
		if q.Unserved {
			note = strings.TrimSpace(note + " no worker has slots for it")
		}
		oldest := "-"
		if q.Waiting > 0 {
			oldest = q.Oldest.Round(time.Millisecond).String()
		}
		t.row(q.Queue, q.Waiting, q.Running, oldest, note)
	}
	if err := t.flush(); err != nil {
		return err
	}
	due := ""
	if !s.NextDue.IsZero() {
		due = ", the next due " + instant(s.NextDue)
	}
	printf(a.out, "\ndelayed %d%s; blocked %d; dead %d\n", s.Delayed, due, s.Blocked, s.Dead)
	if types := task.Types(s, workers, config); len(types) > 0 {
		printf(a.out, "\n")
		t = newTable(a.out, "TYPE", "DONE", "DEAD", "CANCELLED", "RETRIED", "BLOCKED", "LIMITS SET", "")
		for _, one := range types {
			t.row(one.Name, one.Done, one.Dead, one.Cancelled, one.Retried, one.Blocked, one.Limits, one.State())
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	if len(workers) == 0 {
		_, err := fmt.Fprintln(a.out, "\nno workers")
		return err
	}
	printf(a.out, "\n")
	t = newTable(a.out, "WORKER", "HOST", "PID", "SINCE", "SLOTS", "RUNNING")
	for _, w := range workers {
		t.row(w.ID, w.Host, w.PID, instant(w.Since), slotsOf(w.Slots), w.InHand)
	}
	return t.flush()
}

func slotsOf(slots map[task.Size]int) string {
	sizes := slices.AppendSeq(task.Sizes(), maps.Keys(slots))
	slices.Sort(sizes[len(task.Sizes()):])
	var parts []string
	for i, size := range sizes {
		if n := slots[size]; n > 0 && slices.Index(sizes, size) == i {
			parts = append(parts, fmt.Sprintf("%d %s", n, size))
		}
	}
	return strings.Join(parts, ", ")
}

type taskWatchCmd struct {
	Name  string        `help:"Only tasks of this type."`
	Final bool          `help:"Only ends of tasks, not of runs that are tried again."`
	Every time.Duration `help:"Show rates so often beside the list, on standard error; 0 = never." default:"0s"`
	JSON  bool          `name:"json" help:"One JSON object per run."`
}

func (c *taskWatchCmd) Run(ctx context.Context, a *app, client *task.Client) error {
	var mu sync.Mutex
	counts := make(map[task.Outcome]int)
	if c.Every > 0 {
		go func() {
			tick := time.NewTicker(c.Every)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				mu.Lock()
				line := ""
				for _, o := range slices.Sorted(maps.Keys(counts)) {
					line += fmt.Sprintf("  %s %.1f/s", o, float64(counts[o])/c.Every.Seconds())
				}
				clear(counts)
				mu.Unlock()
				printf(a.err, "%s%s\n", time.Now().Format(time.TimeOnly), line)
			}
		}()
	}
	return client.Watch(ctx, func(e task.Ended) {
		if c.Name != "" && e.Name != c.Name || c.Final && !e.Final() {
			return
		}
		mu.Lock()
		counts[e.Outcome]++
		mu.Unlock()
		// Once the reader of the output is gone, a signal ends the process.
		_ = a.say(c.JSON, e, "%s  %-9s  %s  %s  %v  %s\n", clock(), e.Outcome, e.Name, e.ID, e.Took.Round(time.Microsecond), oneLine(e.Error, 100))
	})
}

type taskGroupCmd struct {
	ID     string `arg:"" help:"Group id."`
	Cancel bool   `help:"Cancel the children that have not ended."`
	JSON   bool   `name:"json" help:"One JSON object."`
}

func (c *taskGroupCmd) Run(ctx context.Context, a *app) error {
	a.looks = !c.Cancel
	return with(ctx, a.openTasks, func(client *task.Client) error {
		if c.Cancel {
			if err := client.CancelGroup(ctx, c.ID); err != nil {
				return err
			}
		}
		g, err := client.Group(ctx, c.ID)
		return a.tell(err, c.JSON, g, "%d children, %d ended: %d done, %d failed; followed by: %s\n", g.Children, g.Children-g.Remaining, g.OK, g.Failed, cmp.Or(g.Fired, "nothing yet"))
	})
}

type taskCheckCmd struct {
	Grace time.Duration `help:"What is younger counts as work in hand." must:"not be negative" default:"30s"`
	JSON  bool          `name:"json" help:"One JSON object per broken invariant."`
}

func (c *taskCheckCmd) Run(ctx context.Context, a *app, client *task.Client) error {
	report, found, err := task.Audit(ctx, client, c.Grace)
	if err != nil {
		return err
	}
	return violations(a, found, c.JSON, fmt.Sprintf("nothing found; %d tasks have not ended", report.Unfinished()))
}
