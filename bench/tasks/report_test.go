package main

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/bench"
)

// Takt runs right before each other library, so that the two that are compared meet the same machine.
func TestOrderOfARound(t *testing.T) {
	name := func(entries []entry) (names []string) {
		for _, e := range entries {
			names = append(names, e.Name)
		}
		return names
	}
	for _, c := range []struct {
		only string
		m    measure
		want []string
	}{
		{"", measure{Paired: true}, []string{"takt", "bare", "takt", "asynq", "asynq_tuned"}},
		{"", measure{}, []string{"takt", "bare", "asynq", "asynq_tuned"}},
		{"", measure{Paired: true, Of: func(e entry) bool { return e.Batches }}, []string{"takt", "bare"}},
		{"takt,asynq", measure{Paired: true}, []string{"takt", "asynq", "asynq_tuned"}},
		{"asynq", measure{Paired: true}, []string{"asynq", "asynq_tuned"}},
		{"takt", measure{Paired: true}, []string{"takt"}},
	} {
		entries, err := choose(c.only)
		if err != nil {
			t.Fatal(err)
		}
		if got := name(order(entries, c.m)); !slices.Equal(got, c.want) {
			t.Errorf("--only %q: %v, want %v", c.only, got, c.want)
		}
	}
}

// example is a report of made-up figures: two rounds.
func example(t *testing.T, takt ...float64) report {
	t.Helper()
	r := report{comparison: &comparison{plan: plan{N: 1000, Rounds: 2, Rate: 5000}, entries: roster, found: newFound()}}
	rates := map[string][]float64{"bare": {250_000, 250_000}, "asynq": {8_000, 10_000}, "asynq_tuned": {10_000, 12_500}}
	for round, ours := range takt {
		add(r.found.values, taktName, "process_per_s", ours)
		for peer, theirs := range rates {
			add(r.found.values, peer, "process_per_s", theirs[round])
			add(r.found.ratios, peer, "process_per_s", bench.Advantage(ours, theirs[round], false))
		}
	}
	return r
}

func TestBestIsTheStrongestSetting(t *testing.T) {
	r := example(t, 100_000, 150_000)
	if peer, ratio := r.best("asynq", "process_per_s"); peer != "asynq_tuned" || ratio != 11 { // 10 and 12
		t.Errorf("%s %v, want asynq_tuned 11", peer, ratio)
	}
	if _, ratio := r.best("asynq", "memory_left_bytes"); !math.IsNaN(ratio) {
		t.Errorf("%v of what was not measured", ratio)
	}
}

func TestTables(t *testing.T) {
	r := example(t, 100_000, 150_000)
	var person, page strings.Builder
	if err := r.table(&person); err != nil {
		t.Fatal(err)
	}
	if err := r.markdown(&page); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(strings.Fields(strings.Split(person.String(), "\n")[1]), " "), "process, tasks/s 125,000 250,000 9,000 11,300 0.50x 11.0x"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for _, want := range []string{
		"|  | takt | bare | asynq | asynq tuned | Takt : bare | Takt : asynq |\n|---|---:|---:|---:|---:|---:|---:|\n",
		"| process, tasks/s | 125,000 | 250,000 | 9,000 | 11,300 | 0.50x | 11.0x |\n",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%s\nlacks %s", page.String(), want)
		}
	}
}
