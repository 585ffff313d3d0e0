package jobhistory

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/taktworks/takt/chart"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// State is the run of a job order at an instant, for programs.
type State struct {
	JobOrderID   isa95.JobOrderID  `json:"job_order_id"`
	Time         time.Time         `json:"time"`
	Installation time.Time         `json:"installation_time"`
	State        string            `json:"state"`
	Execution    *recipe.Execution `json:"execution"`
	Waits        []recipe.Wait     `json:"waits,omitempty"`
}

// NoRunError says why a run cannot be drawn.
type NoRunError struct{ Reason string }

func (e *NoRunError) Error() string { return e.Reason }

// Drawing draws the runs of one job order. It serves one goroutine.
type Drawing struct {
	Chart *chart.Chart // after Load

	store   *jobstore.Store
	id      isa95.JobOrderID
	order   recipe.Order
	program *recipe.Program
}

// NewDrawing returns a drawing of an order, for Load.
func NewDrawing(store *jobstore.Store, id isa95.JobOrderID) *Drawing {
	return &Drawing{store: store, id: id}
}

// Load finds the recipe that the order runs at e. If there is none, or its text is gone, the error is a *NoRunError.
func (d *Drawing) Load(ctx context.Context, e *jobstore.HistoryEntry) error {
	if e.Execution == nil {
		return &NoRunError{fmt.Sprintf("job order %s was %s at %s, and no recipe was started; see takt job why %s", d.id, e.State, e.Time.UTC().Format(time.RFC3339), d.id)}
	}
	if d.program != nil && d.program.SHA() == e.Execution.Recipe {
		return nil
	}
	snap, err := d.store.Load(ctx, jobstore.Query{JobOrderID: d.id, Recipe: e.Execution.Recipe})
	if err != nil {
		return err
	}
	if snap.RecipeText == nil {
		return &NoRunError{fmt.Sprintf("the text of the recipe %.12s that job order %s runs is gone; see takt check", e.Execution.Recipe, d.id)}
	}
	if d.program, err = recipe.Compile(snap.RecipeText); err != nil {
		return err
	}
	d.Chart = chart.New(d.program.Recipe())
	if snap.Job != nil {
		d.order = snap.Job.RecipeOrder()
	}
	return nil
}

// State is the run after e, at an instant that no other entry comes before.
func (d *Drawing) State(e *jobstore.HistoryEntry, at time.Time) *State {
	installation := InstallationAt(e, at)
	return &State{d.id, at.UTC(), installation.UTC(), e.State.String(), e.Execution, d.program.Waits(d.order, e.Execution, installation)}
}

// InstallationAt is the installation time at an instant that e with an execution comes before, and no other entry does.
func InstallationAt(e *jobstore.HistoryEntry, at time.Time) time.Time {
	switch {
	case e.Installation.IsZero(): // of a commit that left the run alone
		return time.UnixMilli(max(e.Execution.EndedAt, e.Execution.StartedAt))
	case at.After(e.Time):
		return e.Installation.Add(at.Sub(e.Time))
	}
	return e.Installation
}

// Options are those of a drawing of s.
func (d *Drawing) Options(s *State) chart.Options {
	waits := make(map[int]string)
	for _, w := range s.Waits {
		if w.Transition != nil {
			waits[*w.Transition] = w.Blame()
		}
	}
	return chart.Options{
		Live:  &chart.Live{Execution: s.Execution, Now: s.Installation, Waits: waits},
		Title: fmt.Sprintf("Job order %s at %s", d.id, s.Time.Format(time.RFC3339)),
	}
}

// RunBar is a run as one bar of a Gantt chart that begins with it: until now, or until it was over. Its end is zero while it goes on.
func RunBar(x *recipe.Execution, now time.Time) (start, end time.Time, bar chart.Bar) {
	start = time.UnixMilli(cmp.Or(x.BegunAt, x.StartedAt)).UTC()
	bar = chart.Bar{State: "active", To: max(0, now.Sub(start))}
	if x.EndedAt > 0 {
		bar.To = time.Duration(max(0, x.EndedAt-x.StartedAt)) * time.Millisecond
		end, bar.State = start.Add(bar.To), "done"
	}
	switch {
	case x.Failed:
		bar.State = "failed"
	case x.Paused:
		bar.State = "paused"
	}
	return start, end, bar
}

// Bars are the attempts of the actions of the last run in entries, and until at those under way, for a Gantt chart: a lane for each action, in the order in which they began. The name of
// a bar is the iteration of its step, and behind a dot the attempt; the first ones have none.
func Bars(entries []jobstore.HistoryEntry, at time.Time) []chart.Bar {
	var bars []chart.Bar
	var run string // correlation id
	var begin time.Time
	open := make(map[string]int) // action -> index of its bar
	for i := range entries {
		e := &entries[i]
		if e.Execution == nil || e.Installation.IsZero() {
			continue
		}
		if e.Execution.CorrelationID != run {
			run, begin, bars = e.Execution.CorrelationID, e.Installation, nil
			clear(open)
		}
		now := e.Installation.Sub(begin)
		for _, f := range e.Facts {
			switch {
			case f.Kind == recipe.FactCommand || f.Kind == recipe.FactWait:
				open[f.Action] = len(bars)
				name := ""
				switch {
				case f.Attempt > 1:
					name = fmt.Sprintf("%d.%d", f.Iteration, f.Attempt)
				case f.Iteration > 1:
					name = strconv.Itoa(f.Iteration)
				}
				bars = append(bars, chart.Bar{Lane: f.Action, Name: name, State: "active", From: now, To: now})
			case f.Ends():
				if n, ok := open[f.Action]; ok {
					bars[n].To, bars[n].State = now, "failed"
					if f.Kind == recipe.FactAnswer || f.Kind == recipe.FactEvent {
						bars[n].State = "done"
					}
					delete(open, f.Action)
				}
			}
		}
	}
	if len(open) == 0 {
		return bars
	}
	last := &entries[len(entries)-1]
	until := InstallationAt(last, at).Sub(begin)
	if x := last.Execution; x.EndedAt > 0 || x.Paused {
		until = time.UnixMilli(max(x.EndedAt, x.PausedAt)).Sub(begin)
	}
	for _, n := range open {
		bars[n].To = until
	}
	return bars
}
