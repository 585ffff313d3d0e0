package jobhistory_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/chart"
	"github.com/taktworks/takt/jobhistory"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// A bar is one attempt of an action: from its command or the begin of its wait until its answer, event, refusal or time-out, or until now. Bars are of the last run alone, and stand still
// while it is paused and once it is over.
func TestBars(t *testing.T) {
	began := time.UnixMilli(1_000_000)
	entry := func(run string, second int, x recipe.Execution, facts ...recipe.Fact) jobstore.HistoryEntry {
		x.CorrelationID = run
		at := began.Add(time.Duration(second) * time.Second)
		return jobstore.HistoryEntry{Time: at, Installation: at, Execution: &x, Facts: facts}
	}
	fact := func(kind recipe.FactKind, action string, iteration, attempt int) recipe.Fact {
		return recipe.Fact{Kind: kind, Action: action, Iteration: iteration, Attempt: attempt}
	}
	entries := []jobstore.HistoryEntry{
		{Time: began}, // stored: no run
		entry("a", 0, recipe.Execution{}, fact(recipe.FactCommand, "old", 1, 1)),
		entry("b", 10, recipe.Execution{}, fact(recipe.FactCommand, "cut", 1, 1), fact(recipe.FactWait, "part", 1, 0)),
		entry("b", 12, recipe.Execution{}, fact(recipe.FactRefused, "cut", 1, 1), fact(recipe.FactCommand, "cut", 1, 2)),
		entry("b", 13, recipe.Execution{}, fact(recipe.FactRepeat, "cut", 1, 2)),
		entry("b", 15, recipe.Execution{}, fact(recipe.FactAnswer, "cut", 1, 2), fact(recipe.FactCommand, "cut", 2, 1)),
		entry("b", 16, recipe.Execution{}, fact(recipe.FactTimeout, "cut", 2, 1), fact(recipe.FactCommand, "mark", 1, 1)),
	}
	want := []chart.Bar{
		{Lane: "cut", State: "failed", To: 2 * time.Second},
		{Lane: "part", State: "active", To: 20 * time.Second},
		{Lane: "cut", Name: "1.2", State: "done", From: 2 * time.Second, To: 5 * time.Second},
		{Lane: "cut", Name: "2", State: "failed", From: 5 * time.Second, To: 6 * time.Second},
		{Lane: "mark", State: "active", From: 6 * time.Second, To: 20 * time.Second},
	}
	if diff := cmp.Diff(want, jobhistory.Bars(entries, began.Add(30*time.Second))); diff != "" {
		t.Error(diff)
	}
	for name, x := range map[string]recipe.Execution{
		"paused": {Paused: true, PausedAt: began.Add(18 * time.Second).UnixMilli()}, "over": {EndedAt: began.Add(18 * time.Second).UnixMilli()},
	} {
		bars := jobhistory.Bars(append(entries[:len(entries):len(entries)], entry("b", 18, x)), began.Add(30*time.Second))
		if bars[1].To != 8*time.Second || bars[4].To != 8*time.Second {
			t.Errorf("%s: %v", name, bars)
		}
	}
	if bars := jobhistory.Bars(entries[:1], began); bars != nil {
		t.Errorf("without a run: %v", bars)
	}
}
