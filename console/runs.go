package console

import (
	"context"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/taktworks/takt/chart"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobhistory"
)

// Runs are the recipes in execution over time, of one station or of all.
type Runs struct {
	*Frame
	Scope  string   `json:"scope,omitempty"` // "" = all
	Scopes []string `json:"scopes"`
	Runs   []Run    `json:"runs"`  // by their start
	Older  int      `json:"older"` // runs that are left out

	Gantt template.HTML `json:"-"`
	Begin time.Time     `json:"-"` // of the chart
}

// Run is one recipe in execution, or one that is over and not yet cleared.
type Run struct {
	Scope isa95.Scope `json:"scope"`
	ID    string      `json:"id"`
	State string      `json:"state"`
	Start time.Time   `json:"start"`
	End   time.Time   `json:"end,omitzero"`
	Step  string      `json:"step"`

	bar chart.Bar
}

// runsShown is how many runs are shown: the newest.
const runsShown = 100

func (c *Console) runs(ctx context.Context, r *http.Request) (shown, error) {
	o := &Runs{Frame: c.newFrame("Runs", "Runs"), Scope: r.FormValue("scope"), Runs: []Run{}}
	g := c.look(o.Frame)
	o.Scopes = scopesOf(g.orders)
	orders := slices.Clone(g.orders)
	orders = slices.DeleteFunc(orders, func(one Order) bool {
		return o.Scope != "" && o.Scope != string(one.Scope) || one.state.Top == isa95.NotAllowedToStart || one.state.Top == isa95.AllowedToStart
	})
	slices.SortStableFunc(orders, func(a, b Order) int { return b.Since.Compare(a.Since) })
	if o.Older = max(0, len(orders)-runsShown); o.Older > 0 {
		orders = orders[:runsShown]
	}
	store, err := c.needStore()
	if err != nil {
		return nil, err
	}
	ids := make([]isa95.JobOrderID, len(orders))
	for i, one := range orders {
		ids[i] = isa95.JobOrderID(one.ID)
	}
	runs, err := store.Executions(ctx, ids)
	if runs == nil {
		return nil, away(err)
	}
	o.note(err)
	now := store.Now()
	for _, one := range orders {
		if x := runs[isa95.JobOrderID(one.ID)]; x != nil {
			run := Run{Scope: one.Scope, ID: one.ID, State: one.State, Step: x.CurrentStep}
			run.Start, run.End, run.bar = jobhistory.RunBar(x, now)
			o.Runs = append(o.Runs, run)
		}
	}
	slices.SortStableFunc(o.Runs, func(a, b Run) int { return a.Start.Compare(b.Start) })
	if len(o.Runs) == 0 {
		return o, nil
	}
	o.Begin = o.Runs[0].Start
	var bars []chart.Bar
	for _, one := range o.Runs {
		b := one.bar
		b.Lane, b.Name = string(one.Scope), one.ID
		if o.Scope != "" {
			b.Lane, b.Name = one.ID, ""
		}
		b.From = one.Start.Sub(o.Begin)
		b.To += b.From
		bars = append(bars, b)
	}
	o.Gantt = template.HTML(chart.GanttFragment(bars, "")) // package chart escapes all texts
	return o, nil
}
