package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/taktworks/takt/chart"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/jobhistory"
	"github.com/taktworks/takt/jobstore"
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

// chartOf draws the runs of one order.
type chartOf struct {
	*app
	*jobhistory.Drawing
	store *jobstore.Store
}

func (c *jobChartCmd) Run(ctx context.Context, a *app, store *jobstore.Store) error {
	h, err := readHistory(ctx, store, c.ID, jobhistory.Read)
	if err != nil {
		return err
	}
	last, at := h.Last(), store.Now()
	if c.At.isSet {
		if last, at, err = c.At.of(h); err != nil {
			return err
		}
	}
	d := &chartOf{a, jobhistory.NewDrawing(store, h.ID), store}
	if err := d.load(ctx, last); err != nil || !c.Watch {
		return c.once(d, last, at, err)
	}
	return c.watch(ctx, d, h.Reader, last)
}

// load is Load, with an exit code.
func (d *chartOf) load(ctx context.Context, e *jobstore.HistoryEntry) error {
	err := d.Load(ctx, e)
	if _, ok := errors.AsType[*jobhistory.NoRunError](err); ok {
		return &exitError{exitFailed, err}
	}
	return err
}

// options are those of a drawing of s for a terminal.
func (d *chartOf) options(s *jobhistory.State) chart.Options {
	o := d.Options(s)
	o.Width, o.Color = terminal(d.out)
	return o
}

func chartHead(s *jobhistory.State) string {
	return fmt.Sprintf("job order %s is %s, %s\n\n", s.JobOrderID, s.State, s.Time.Format("2006-01-02 15:04:05.000"))
}

func (c *jobChartCmd) once(d *chartOf, e *jobstore.HistoryEntry, at time.Time, err error) error {
	if err != nil {
		return err
	}
	s := d.State(e, at)
	switch {
	case c.JSON:
		return printJSON(d.out, s)
	case strings.EqualFold(filepath.Ext(c.Output), ".svg"):
		return os.WriteFile(c.Output, d.Chart.SVG(d.options(s)), 0o644)
	case c.Output != "":
		o := d.options(s)
		o.Width, o.Color = 0, false
		return os.WriteFile(c.Output, []byte(chartHead(s)+d.Chart.Text(o)), 0o644)
	}
	_, err = fmt.Fprint(d.out, chartHead(s), d.Chart.Text(d.options(s)))
	return err
}

// redraw is how often a chart that is watched is drawn without a change, for the times in it.
const redraw = time.Second

// watch draws each change as soon as it is committed.
func (c *jobChartCmd) watch(ctx context.Context, d *chartOf, r *jobstore.HistoryReader, last *jobstore.HistoryEntry) error {
	for {
		s := d.State(last, d.store.Now())
		var err error
		switch {
		case c.JSON:
			err = printJSON(d.out, s)
		case isTerminal(d.out):
			_, err = fmt.Fprint(d.out, "\x1b[H\x1b[2J", chartHead(s), d.Chart.Text(d.options(s)))
		default:
			_, err = fmt.Fprint(d.out, chartHead(s), d.Chart.Text(d.options(s)), "\n")
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
