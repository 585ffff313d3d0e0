package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taktworks/takt/workflow"
)

type workflowStatsCmd struct {
	JSON bool `name:"json" help:"One JSON object."`
}

func (c *workflowStatsCmd) Run(ctx context.Context, a *app, client *workflow.Client) error {
	s, err := client.Stats(ctx)
	if err != nil {
		return err
	}
	paused, err := client.PausedQueues(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.out, struct {
			workflow.Stats
			Paused []string `json:"paused"` // queues
		}{s, append([]string{}, paused...)})
	}
	return a.showWorkflowStats(&s, paused)
}

func (a *app) showWorkflowStats(s *workflow.Stats, paused []string) error {
	t := newTable(a.out, "QUEUE", "WORKFLOW TASKS", "ACTIVITIES", "HELD", "")
	for _, q := range s.Queues(paused) {
		note := ""
		if q.Paused {
			note = "paused"
		}
		t.row(q.Name, q.Workflows, q.Activities, q.Held, note)
	}
	if err := t.flush(); err != nil {
		return err
	}
	_, err := printf(a.out, "\nactive %d; ended and kept %d; timers %d; between shards %d\n", s.Active, s.Ended, s.Timers, s.Outbox)
	if err != nil || len(s.Counters) == 0 {
		return err
	}
	t = newTable(a.out, "\nSINCE THE BEGINNING", "EXECUTIONS")
	for _, name := range slices.Sorted(maps.Keys(s.Counters)) {
		t.row(name, s.Counters[name])
	}
	return t.flush()
}

type workflowWatchCmd struct {
	Queue workflowQueue `help:"Only this queue."`
	Name  string        `help:"Only workflows of this name."`
	JSON  bool          `name:"json" help:"One JSON object per change: the execution, and change: started or ended."`
}

func (c *workflowWatchCmd) Run(ctx context.Context, a *app, client *workflow.Client) error {
	return client.Watch(ctx, func() { fmt.Fprintln(a.err, "takt: watching") }, func(ch workflow.Change) {
		if c.Queue != "" && ch.Queue != string(c.Queue) || c.Name != "" && ch.Name != c.Name {
			return
		}
		// Once the reader of the output is gone, a signal ends the process.
		_ = a.say(c.JSON, ch, "%s  %-7s  %s  %s  %s\n", clock(), ch.Kind, ch.Instance.String(), cmp.Or(ch.Name, "-"), howEnded(&ch.Info))
	})
}

// howEnded is the outcome of an execution and how long it took, "" if it is active.
func howEnded(i *workflow.Info) string {
	if i.Ended == nil {
		return ""
	}
	return fmt.Sprintf("%s after %s", cmp.Or(string(i.Outcome), string(i.State)), i.Ended.Sub(i.Created).Round(time.Millisecond))
}

type workflowCheckCmd struct {
	Grace time.Duration `help:"What is younger counts as work in hand." must:"not be negative" default:"30s"`
	JSON  bool          `name:"json" help:"One JSON object per broken invariant: key, problem, and next, what to do about it."`
}

func (c *workflowCheckCmd) Run(ctx context.Context, a *app, client *workflow.Client) error {
	found, err := client.Check(ctx, c.Grace)
	if err != nil {
		return err
	}
	return violations(a, found, c.JSON, "nothing found: instances, queues, timers and indexes agree")
}
