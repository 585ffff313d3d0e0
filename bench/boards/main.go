// Command boards measures Takt's job boards beside Python's TaskFlow, on one Redis, in one run. ../README.md says what is measured how.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/bench"
)

// plan is what the command line says.
type plan struct {
	bench.Plan
	Workers int           // that claim and consume: of Takt goroutines of one process, of TaskFlow processes
	Loop    time.Duration // of TaskFlow's documented loop, which would take an hour to empty the board
}

func main() { bench.Main("boards", parse, run) }

func parse(args []string, said io.Writer) (plan, error) {
	p := plan{Workers: 4, Loop: 5 * time.Second}
	f := p.Flags("boards", 10_000, "postings")
	return p, cmp.Or(bench.Parse(f, args, said), bench.Check("n", p.N, 100, 1_000_000), bench.Check("rounds", p.Rounds, 1, 100))
}

// rows are what is shown. Each figure is compared of Takt with one of TaskFlow, of which "hand" is the fastest that it can be; "" = none.
var rows = []struct {
	bench.Row
	takt, taskflow string
}{
	{bench.Row{Figure: "post_per_s", Title: "posted one by one, per second"}, "post_per_s", "post_per_s"},
	{bench.Row{Figure: "post_batch_per_s", Title: "posted in a batch, per second"}, "post_batch_per_s", "post_per_s"},
	{bench.Row{Figure: "list_ms", Title: "a listing with states, ms"}, "list_ms", "list_ms"},
	{bench.Row{Figure: "claim_consume_per_s", Title: "claimed and consumed 64 at once, per second; TaskFlow: jobs in hand"}, "claim_consume_per_s", "hand_per_s"},
	{bench.Row{Figure: "single_hand_per_s", Title: "claimed and consumed one by one; TaskFlow: jobs in hand"}, "claim_consume_single_per_s", "hand_per_s"},
	{bench.Row{Figure: "single_iterate_per_s", Title: "the same; TaskFlow: iterating once"}, "claim_consume_single_per_s", "iterate_per_s"},
	{bench.Row{Figure: "single_documented_per_s", Title: "the same; TaskFlow: its documented loop"}, "claim_consume_single_per_s", "documented_per_s"},
	{bench.Row{Figure: "hand_over_ms", Title: "handed over, ms beyond the claim's time"}, "hand_over_ms", ""},
}

func run(ctx context.Context, p plan, out, said io.Writer) (err error) {
	fmt.Fprintln(said, "building takt")
	binary, dir, err := build(ctx)
	defer os.RemoveAll(dir)
	if err != nil {
		return err
	}
	server, err := bench.Open(ctx, strings.TrimSuffix(p.Redis, "/"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	c := bench.Comparison{
		Sides: []bench.Side{{Name: "takt", Library: "takt"}, {Name: "taskflow", Library: "taskflow"}},
		Notes: []string{fmt.Sprintf("Medians of %d rounds of %d postings and %d workers.", p.Rounds, p.N, p.Workers), server.Machine()},
		Facts: map[string]any{"n": p.N, "workers": p.Workers, "rounds": p.Rounds},
	}
	for _, r := range rows {
		c.Rows = append(c.Rows, r.Row)
	}
	for round := range p.Rounds {
		fmt.Fprintf(said, "round %d of %d: Takt\n", round+1, p.Rounds)
		takt, err := p.takt(ctx, binary, server)
		if err != nil {
			return fmt.Errorf("takt: %w", err)
		}
		fmt.Fprintf(said, "round %d of %d: TaskFlow\n", round+1, p.Rounds)
		taskflow, err := p.taskflow(ctx, server)
		if err != nil {
			return fmt.Errorf("taskflow: %w", err)
		}
		ours, theirs := bench.Figures{}, bench.Figures{}
		for _, r := range rows {
			ours[r.Figure] = takt[r.takt]
			if r.taskflow != "" {
				theirs[r.Figure] = taskflow[r.taskflow]
			}
		}
		c.Add("takt", ours, nil)
		c.Add("taskflow", theirs, ours)
	}
	return c.Write(out, p.JSON)
}
