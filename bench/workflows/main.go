// Command workflows measures go-workflows programs on Takt beside the same on go-workflows' own Redis backend, on one Redis, in one run. ../README.md says what is measured how.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/taktworks/takt/internal/bench"
)

// plan is what the command line says.
type plan struct {
	N, Activities, InFlight, Idle, Rounds int
	redis                                 string
	json, floor                           bool
}

func main() { bench.Main("workflows", parse, run) }

func parse(args []string, out io.Writer) (plan, error) {
	p := plan{}
	f := flag.NewFlagSet("workflows", flag.ContinueOnError)
	f.SetOutput(out)
	f.IntVar(&p.N, "n", 3000, "workflows of a run")
	f.IntVar(&p.Activities, "activities", 1, "activities of each workflow, one after the other")
	f.IntVar(&p.InFlight, "in-flight", 100, "workflows that are active at once")
	f.IntVar(&p.Idle, "idle", 100, "workflows of which the latency is measured, one at a time; and timers of which the lateness is")
	f.IntVar(&p.Rounds, "rounds", 3, "runs of each measure, of which the median counts")
	f.StringVar(&p.redis, "redis", "", "`URL` of a Redis: redis://host:port (default: a redis-server of its own, in memory)")
	f.BoolVar(&p.json, "json", false, "end with one JSON object instead of a table")
	f.BoolVar(&p.floor, "floor", false, "end with status 1 if a goal is not reached: 3 times the workflows per second, half the memory, timers 20 ms late, and round trips: 14 with 1 activity, 40 with 10")
	if err := f.Parse(args); err != nil {
		return p, err
	}
	if err := cmp.Or(bench.Check("n", p.N, 10, 1_000_000), bench.Check("activities", p.Activities, 0, 1000), bench.Check("in-flight", p.InFlight, 1, 10_000),
		bench.Check("idle", p.Idle, 1, 10_000), bench.Check("rounds", p.Rounds, 1, 100)); err != nil {
		return p, err
	}
	if f.NArg() > 0 {
		return p, fmt.Errorf("%q is not understood", f.Arg(0))
	}
	return p, nil
}

// report is what a run found; medians of its rounds.
type report struct {
	N          int `json:"n"`
	Activities int `json:"activities"`

	Takt     float64 `json:"takt_per_s"` // workflows, at the library's default settings
	Peer     float64 `json:"peer_per_s"`
	Ratio    float64 `json:"ratio"`
	TaktBest float64 `json:"takt_best_per_s"` // with 8 pollers of each kind
	PeerBest float64 `json:"peer_best_per_s"`

	Trips int `json:"takt_round_trips"` // of one workflow, empty polls not counted

	TaktP50 float64 `json:"takt_p50_ms"` // from start to end, one workflow at a time
	TaktP99 float64 `json:"takt_p99_ms"`
	PeerP50 float64 `json:"peer_p50_ms"`
	PeerP99 float64 `json:"peer_p99_ms"`

	TaktLate float64 `json:"takt_timer_late_p50_ms"` // timers of 300 ms, one at a time
	PeerLate float64 `json:"peer_timer_late_p50_ms"`

	TaktBytes float64 `json:"takt_bytes_per_workflow"` // of Redis, once it has finished
	PeerBytes float64 `json:"peer_bytes_per_workflow"`

	Low  map[string]float64 `json:"low"` // of the rounds
	High map[string]float64 `json:"high"`
}

// misses are the goals that were not reached.
func (r report) misses() (all []string) {
	miss := func(missed bool, format string, args ...any) {
		if missed {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	miss(r.Ratio < 3, "%.1f times the workflows per second, want 3", r.Ratio)
	miss(r.TaktBytes > r.PeerBytes/2, "%.0f bytes of a finished workflow, want at most half of %.0f", r.TaktBytes, r.PeerBytes)
	miss(r.TaktLate > 20, "timers are %.1f ms late, want at most 20", r.TaktLate)
	miss(r.Activities == 1 && r.Trips > 14, "%d round trips, want at most 14", r.Trips)
	miss(r.Activities == 10 && r.Trips > 40, "%d round trips, want at most 40", r.Trips)
	return all
}

func run(ctx context.Context, p plan, out, progress io.Writer) (err error) {
	server, err := bench.Open(ctx, strings.TrimSuffix(p.redis, "/"), false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	r, err := measure(ctx, p, server, progress)
	if err != nil {
		return err
	}
	if p.json {
		if err := json.NewEncoder(out).Encode(r); err != nil {
			return err
		}
	} else if err := r.table(out); err != nil {
		return err
	}
	if missed := r.misses(); p.floor && len(missed) > 0 {
		return fmt.Errorf("goals not reached: %s", strings.Join(missed, "; "))
	}
	return nil
}

func (r report) table(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%d workflows of %d activities\tTakt\tgo-workflows' Redis backend\tratio\n", r.N, r.Activities)
	row := func(what string, takt, peer, ratio float64) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%.1f\n", what, bench.Number(takt), bench.Number(peer), ratio)
	}
	row("per second, default settings", r.Takt, r.Peer, r.Ratio)
	row("per second, 8 pollers of each kind", r.TaktBest, r.PeerBest, r.TaktBest/r.PeerBest)
	row("one at a time, p50, ms", r.TaktP50, r.PeerP50, r.PeerP50/r.TaktP50)
	row("one at a time, p99, ms", r.TaktP99, r.PeerP99, r.PeerP99/r.TaktP99)
	row("timer of 300 ms, late, p50, ms", r.TaktLate, r.PeerLate, r.PeerLate/r.TaktLate)
	row("memory of a finished one, bytes", r.TaktBytes, r.PeerBytes, r.PeerBytes/r.TaktBytes)
	fmt.Fprintf(w, "round trips of one\t%d\t%d\t\n", r.Trips, 11*r.Activities+8)
	return w.Flush()
}
