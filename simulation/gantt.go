package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/taktworks/takt/chart"
	"github.com/taktworks/takt/recipe"
)

// Bars are the attempts and waits of actions over time, for a Gantt chart. Of one order each action has a lane, of several each order.
func Bars(entries []Entry, results []Result) []chart.Bar {
	var bars []chart.Bar
	open := map[[2]string]int{} // bars that have no end yet, by order and action
	for _, e := range entries {
		if e.Fact == nil || e.Fact.Action == "" {
			continue
		}
		of := [2]string{e.Order, e.Fact.Action}
		i, begun := open[of]
		if !begun && e.Fact.Kind != recipe.FactRepeat {
			i = len(bars)
			open[of] = i
			bar := chart.Bar{Lane: e.Fact.Action, Name: round(e.Fact), State: "active", From: e.At}
			if len(results) > 1 {
				bar.Lane, bar.Name = e.Order, strings.TrimSpace(e.Fact.Action+" "+bar.Name)
			}
			bars = append(bars, bar)
		}
		if e.Fact.Ends() {
			bars[i].To, bars[i].State = e.At, "failed"
			if e.Fact.Kind == recipe.FactAnswer || e.Fact.Kind == recipe.FactEvent {
				bars[i].State = "done"
			}
			delete(open, of)
		}
	}
	for of, i := range open {
		at := slices.IndexFunc(results, func(r Result) bool { return r.Order == of[0] })
		bars[i].To = results[at].Took
	}
	slices.SortStableFunc(bars, func(a, b chart.Bar) int { return cmp.Compare(a.From, b.From) })
	return bars
}

// round tells a bar from those before it of the same action: its iteration and attempt, if they are not the first.
func round(f *recipe.Fact) string {
	var parts []string
	if f.Iteration > 1 {
		parts = append(parts, fmt.Sprintf("iteration %d", f.Iteration))
	}
	if f.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", f.Attempt))
	}
	return strings.Join(parts, ", ")
}
