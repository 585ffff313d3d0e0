package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/taktworks/takt/chart"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

type jobChartCmd struct {
	ID     string       `arg:"" help:"Job order id."`
	At     historyPoint `help:"As it stood at this instant: a time of RFC 3339, or +DURATION from the start." placeholder:"TIME"`
	Watch  bool         `help:"Draw it anew at each change, until the order is over." short:"w"`
	Output string       `help:"File for the chart: .svg is a picture, all else text." short:"o" placeholder:"FILE"`
	JSON   bool         `name:"json" help:"One JSON object with the state of the run, with --watch one for each change."`
}

func (c *jobChartCmd) check(*app) error {
	switch {
	case c.Watch && c.At.isSet:
		return fmt.Errorf("--at and --watch exclude each other: --watch shows the chart as it stands now")
	case c.Output != "" && (c.Watch || c.JSON):
		return fmt.Errorf("--output takes one chart, neither --watch nor --json")
	}
	return nil
}

// chartState is a run at an instant, for programs.
type chartState struct {
	JobOrderID   isa95.JobOrderID  `json:"job_order_id"`
	Time         time.Time         `json:"time"`
	Installation time.Time         `json:"installation_time"`
	State        string            `json:"state"`
	Execution    *recipe.Execution `json:"execution"`
	Waits        []recipe.Wait     `json:"waits,omitempty"`
}

// chartOf draws the runs of one order.
type chartOf struct {
	*app
	id      isa95.JobOrderID
	store   *jobstore.Store
	order   recipe.Order
	program *recipe.Program
	chart   *chart.Chart
}

func (c *jobChartCmd) Run(ctx context.Context, a *app, store *jobstore.Store) error {
	h, err := a.readHistory(ctx, store, c.ID)
	if err != nil {
		return err
	}
	last, at := &h.entries[len(h.entries)-1], store.Now()
	if c.At.isSet {
		if last, at, err = h.at(c.At); err != nil {
			return err
		}
	}
	d := &chartOf{app: a, id: h.id, store: store}
	if err := d.load(ctx, last); err != nil || !c.Watch {
		return c.once(d, last, at, err)
	}
	return c.watch(ctx, d, h.reader, last)
}

// load finds the recipe that the order runs at e.
func (d *chartOf) load(ctx context.Context, e *jobstore.HistoryEntry) error {
	if e.Execution == nil {
		return &exitError{exitFailed, fmt.Errorf("job order %s was %s at %s, and no recipe was started; see takt job why %s", d.id, e.State, e.Time.UTC().Format(time.RFC3339), d.id)}
	}
	if d.program != nil && d.program.SHA() == e.Execution.Recipe {
		return nil
	}
	snap, err := d.store.Load(ctx, jobstore.Query{JobOrderID: d.id, Recipe: e.Execution.Recipe})
	if err != nil {
		return err
	}
	if snap.RecipeText == nil {
		return &exitError{exitFailed, fmt.Errorf("the text of the recipe %.12s that job order %s runs is gone; see takt check", e.Execution.Recipe, d.id)}
	}
	if d.program, err = recipe.Compile(snap.RecipeText); err != nil {
		return err
	}
	d.chart = chart.New(d.program.Recipe())
	if snap.Job != nil {
		d.order = snap.Job.RecipeOrder()
	}
	return nil
}

// state is the run after e, at an instant that no other entry comes before.
func (d *chartOf) state(e *jobstore.HistoryEntry, at time.Time) *chartState {
	installation := e.Installation
	if installation.IsZero() { // of a commit that left the run alone
		installation = time.UnixMilli(max(e.Execution.EndedAt, e.Execution.StartedAt))
	} else if at.After(e.Time) {
		installation = installation.Add(at.Sub(e.Time))
	}
	return &chartState{d.id, at.UTC(), installation.UTC(), e.State.String(), e.Execution, d.program.Waits(d.order, e.Execution, installation)}
}

// options are those of a drawing of s.
func (d *chartOf) options(s *chartState) chart.Options {
	waits := make(map[int]string)
	for _, w := range s.Waits {
		if w.Transition != nil {
			waits[*w.Transition] = w.Blame()
		}
	}
	width, color := terminal(d.out)
	return chart.Options{
		Live:  &chart.Live{Execution: s.Execution, Now: s.Installation, Waits: waits},
		Width: width, Color: color, Title: fmt.Sprintf("Job order %s at %s", d.id, s.Time.Format(time.RFC3339)),
	}
}

func (s *chartState) head() string {
	return fmt.Sprintf("job order %s is %s, %s\n\n", s.JobOrderID, s.State, s.Time.Format("2006-01-02 15:04:05.000"))
}

func (c *jobChartCmd) once(d *chartOf, e *jobstore.HistoryEntry, at time.Time, err error) error {
	if err != nil {
		return err
	}
	s := d.state(e, at)
	switch {
	case c.JSON:
		return printJSON(d.out, s)
	case strings.EqualFold(filepath.Ext(c.Output), ".svg"):
		return os.WriteFile(c.Output, d.chart.SVG(d.options(s)), 0o644)
	case c.Output != "":
		o := d.options(s)
		o.Width, o.Color = 0, false
		return os.WriteFile(c.Output, []byte(s.head()+d.chart.Text(o)), 0o644)
	}
	_, err = fmt.Fprint(d.out, s.head(), d.chart.Text(d.options(s)))
	return err
}

// redraw is how often a chart that is watched is drawn without a change, for the times in it.
const redraw = time.Second

// watch draws each change as soon as it is committed.
func (c *jobChartCmd) watch(ctx context.Context, d *chartOf, r *jobstore.HistoryReader, last *jobstore.HistoryEntry) error {
	for {
		s := d.state(last, d.store.Now())
		var err error
		switch {
		case c.JSON:
			err = printJSON(d.out, s)
		case isTerminal(d.out):
			_, err = fmt.Fprint(d.out, "\x1b[H\x1b[2J", s.head(), d.chart.Text(d.options(s)))
		default:
			_, err = fmt.Fprint(d.out, s.head(), d.chart.Text(d.options(s)), "\n")
		}
		if err != nil || last.State.Clearable() || last.State.IsEnd() {
			return err
		}
		for changed := false; !changed; {
			more, err := r.Next(ctx, redraw)
			switch {
			case ctx.Err() != nil:
				return nil
			case jobstore.Away(err):
				d.log.Warn("Redis does not answer", "err", err)
				lifecycle.Sleep(ctx, redraw)
			case err != nil:
				return err
			case len(more) > 0:
				last, changed = &more[len(more)-1], true
				if err := d.load(ctx, last); err != nil {
					return err
				}
			default:
				changed = isTerminal(d.out) && !c.JSON
			}
		}
	}
}
