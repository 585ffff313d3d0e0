// Command boards measures Takt's job boards beside Python's TaskFlow, on one Redis, in one run. ../README.md says what is measured how.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/taktworks/takt/internal/bench"
)

// plan is what the command line says.
type plan struct {
	N, Workers, Rounds int
	Loop               time.Duration // of TaskFlow's documented loop
	redis              string
	json, floor        bool
}

func main() { bench.Main("boards", parse, run) }

func parse(args []string, out io.Writer) (plan, error) {
	p := plan{}
	f := flag.NewFlagSet("boards", flag.ContinueOnError)
	f.SetOutput(out)
	f.IntVar(&p.N, "n", 10_000, "postings of a run")
	f.IntVar(&p.Workers, "workers", 4, "workers that claim and consume: of Takt goroutines of one process, of TaskFlow processes")
	f.IntVar(&p.Rounds, "rounds", 3, "runs of each measure, of which the median counts")
	f.DurationVar(&p.Loop, "loop", 5*time.Second, "how long TaskFlow's documented loop runs, which would take an hour to empty the board")
	f.StringVar(&p.redis, "redis", "", "`URL` of a Redis: redis://host:port (default: a redis-server of its own, in memory)")
	f.BoolVar(&p.json, "json", false, "end with one JSON object instead of a table")
	f.BoolVar(&p.floor, "floor", false, "end with status 1 if a goal is not reached: listing in 60 ms, 20,000 claimed and consumed and 50,000 posted in batches per second, hand-over in 100 ms")
	if err := f.Parse(args); err != nil {
		return p, err
	}
	if err := cmp.Or(bench.Check("n", p.N, 100, 1_000_000), bench.Check("workers", p.Workers, 1, 64), bench.Check("rounds", p.Rounds, 1, 100)); err != nil {
		return p, err
	}
	if p.Loop < time.Second || p.Loop > time.Minute {
		return p, fmt.Errorf("--loop is %v: must be 1s to 1m", p.Loop)
	}
	if f.NArg() > 0 {
		return p, fmt.Errorf("%q is not understood", f.Arg(0))
	}
	return p, nil
}

// figures are the measures of one library; lower is better for those that end with _ms.
type figures map[string][]float64

func (f figures) add(name string, value float64) { f[name] = append(f[name], value) }

// measures are what is shown, with the measure of TaskFlow it is compared with. "hand" is the fastest that TaskFlow can be.
var measures = []struct{ name, text, peer string }{
	{"post_per_s", "posted one by one, per second", "post_per_s"},
	{"post_batch_per_s", "posted in a batch, per second", "post_per_s"},
	{"list_ms", "a listing with states, ms", "list_ms"},
	{"claim_consume_per_s", "claimed and consumed in batches of 64, per second; TaskFlow: jobs in hand", "hand_per_s"},
	{"claim_consume_single_per_s", "claimed and consumed one by one, per second; TaskFlow: jobs in hand", "hand_per_s"},
	{"claim_consume_single_per_s", "the same; TaskFlow: iterating once", "iterate_per_s"},
	{"claim_consume_single_per_s", "the same; TaskFlow: its documented loop", "documented_per_s"},
	{"hand_over_ms", "handed over after a kill, ms beyond the claim's time", ""},
}

// names are the measures of Takt, each once.
func names() (all []string) {
	for _, m := range measures {
		if !slices.Contains(all, m.name) {
			all = append(all, m.name)
		}
	}
	return all
}

func run(ctx context.Context, p plan, out, progress io.Writer) (err error) {
	fmt.Fprintln(progress, "building takt")
	binary, dir, err := build(ctx)
	defer os.RemoveAll(dir)
	if err != nil {
		return err
	}
	server, err := bench.Open(ctx, strings.TrimSuffix(p.redis, "/"), false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	takt, peer := figures{}, figures{}
	for round := range p.Rounds {
		fmt.Fprintf(progress, "round %d of %d: Takt\n", round+1, p.Rounds)
		if err := p.takt(ctx, binary, server, takt); err != nil {
			return fmt.Errorf("takt: %w", err)
		}
		fmt.Fprintf(progress, "round %d of %d: TaskFlow\n", round+1, p.Rounds)
		if err := p.taskflow(ctx, server, peer); err != nil {
			return fmt.Errorf("taskflow: %w", err)
		}
	}
	if err := p.report(out, takt, peer); err != nil {
		return err
	}
	if p.floor {
		return goals(takt)
	}
	return nil
}

// goals are the figures that Takt is to reach on two cores.
func goals(takt figures) error {
	var missed []error
	for name, goal := range map[string]float64{"post_batch_per_s": 50_000, "claim_consume_per_s": 20_000} {
		if got := bench.Median(takt[name]); got < goal {
			missed = append(missed, fmt.Errorf("%s is %.0f, the goal is %.0f", name, got, goal))
		}
	}
	for name, goal := range map[string]float64{"list_ms": 60, "hand_over_ms": 100} {
		if got := bench.Median(takt[name]); got > goal {
			missed = append(missed, fmt.Errorf("%s is %.1f, the goal is %.0f", name, got, goal))
		}
	}
	return errors.Join(missed...)
}

// row is a measure as it is printed.
type row struct {
	Measure  string  `json:"measure"`
	Takt     float64 `json:"takt"`
	Low      float64 `json:"takt_low"`
	High     float64 `json:"takt_high"`
	Peer     string  `json:"peer,omitempty"`
	TaskFlow float64 `json:"taskflow,omitempty"`
	Ratio    float64 `json:"ratio,omitempty"` // how many times Takt is better: the median over the rounds
	text     string
}

func rows(takt, peer figures) (all []row) {
	for _, m := range measures {
		t := takt[m.name]
		r := row{Measure: m.name, Takt: bench.Median(t), Low: slices.Min(t), High: slices.Max(t), Peer: m.peer, text: m.text}
		if m.peer != "" {
			r.TaskFlow = bench.Median(peer[m.peer])
			var ratios []float64
			for i := range t {
				ratio := t[i] / peer[m.peer][i]
				if strings.HasSuffix(m.name, "_ms") {
					ratio = 1 / ratio
				}
				ratios = append(ratios, ratio)
			}
			r.Ratio = bench.Median(ratios)
		}
		all = append(all, r)
	}
	return all
}

func (p plan) report(out io.Writer, takt, peer figures) error {
	all := rows(takt, peer)
	if p.json {
		return json.NewEncoder(out).Encode(map[string]any{"n": p.N, "workers": p.Workers, "rounds": p.Rounds, "measures": all})
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MEASURED\tTAKT (LOW TO HIGH)\tTASKFLOW\tRATIO")
	for _, r := range all {
		other, ratio := "-", "-"
		if r.Peer != "" {
			other, ratio = bench.Number(r.TaskFlow), fmt.Sprintf("%.1fx", r.Ratio)
		}
		fmt.Fprintf(w, "%s\t%s (%s to %s)\t%s\t%s\n", r.text, bench.Number(r.Takt), bench.Number(r.Low), bench.Number(r.High), other, ratio)
	}
	return w.Flush()
}
