// Command workflows measures go-workflows programs on Takt beside the same on go-workflows' own Redis backend, on one Redis, in one run. ../README.md says what is measured how.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/bench"
)

// plan is what the command line says, and how much else is measured.
type plan struct {
	bench.Plan
	Activities int
	InFlight   int // workflows that are active at once
	Idle       int // workflows whose latency is measured, one at a time
	Timers     int // of which the lateness is measured, one at a time
}

func main() { bench.Main("workflows", parse, run) }

func parse(args []string, said io.Writer) (plan, error) {
	p := plan{InFlight: 100, Idle: 100, Timers: 10}
	f := p.Flags("workflows", 3000, "workflows")
	f.IntVar(&p.Activities, "activities", 1, "activities of each workflow, one after the other")
	return p, cmp.Or(bench.Parse(f, args, said), bench.Check("n", p.N, 10, 1_000_000), bench.Check("rounds", p.Rounds, 1, 100), bench.Check("activities", p.Activities, 0, 1000))
}

var rows = []bench.Row{
	{Figure: "default_per_s", Title: "workflows per second, default settings"},
	{Figure: "pollers_8_per_s", Title: "with 8 pollers of each kind"},
	{Figure: "idle_p50_ms", Title: "one at a time, p50, ms"},
	{Figure: "idle_p99_ms", Title: "one at a time, p99, ms"},
	{Figure: "timer_late_p50_ms", Title: "timer of 300 ms, late, p50, ms"},
	{Figure: "finished_bytes", Title: "memory of a finished one, bytes"},
	{Figure: "round_trips", Title: "round trips of one"},
}

func run(ctx context.Context, p plan, out, said io.Writer) (err error) {
	server, err := bench.Open(ctx, strings.TrimSuffix(p.Redis, "/"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	c := bench.Comparison{
		Rows:  rows,
		Notes: []string{fmt.Sprintf("Medians of %d rounds of %d workflows of %d activities. peer is go-workflows' Redis backend.", p.Rounds, p.N, p.Activities), server.Machine()},
		Facts: map[string]any{"n": p.N, "activities": p.Activities, "rounds": p.Rounds},
	}
	for _, s := range sides {
		c.Sides = append(c.Sides, bench.Side{Name: s.name, Library: s.name})
	}
	prefix := "bench" + strconv.FormatInt(time.Now().UnixNano(), 36)
	for round := range p.Rounds {
		var takt bench.Figures
		for _, s := range sides {
			fmt.Fprintf(said, "round %d of %d: %s\n", round+1, p.Rounds, s.name)
			mine := prefix + s.name + strconv.Itoa(round)
			f, err := s.measure(ctx, p, server, mine)
			if err = cmp.Or(err, server.Remove(context.WithoutCancel(ctx), mine+"*")); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			c.Add(s.name, f, takt)
			if takt == nil {
				takt = f
			}
		}
	}
	return c.Write(out, p.JSON)
}
