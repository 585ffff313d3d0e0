// Command tasks measures Takt's tasks beside asynq and what Redis can do at all, in one run on one machine. ../README.md says what is measured how.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/bench"
)

// plan is what the command line says, and how much else is measured.
type plan struct {
	bench.Plan
	Idle     int           // tasks of a round whose latency at idle is measured
	IdleMax  time.Duration // longest pause between them
	Rate     int           // tasks per second whose latency is measured
	Seconds  float64       // of that rate that count; two thirds as many before do not
	entries  []entry
	measures []measure
}

// share is the part of the plan's tasks that a run of e takes.
func (p plan) share(e entry) int { return max(p.N/e.Share, min(p.N, 200)) }

func main() { bench.Main("tasks", parse, run) }

func parse(args []string, said io.Writer) (plan, error) {
	p := plan{Idle: 20, IdleMax: 1200 * time.Millisecond, Rate: 5000, Seconds: 3}
	f := p.Flags("tasks", 100_000, "tasks, of which peers that are slow by nature take a part,")
	only := f.String("only", "", "libraries, separated by commas, for example takt,asynq (default all)")
	some := f.String("measures", "", "measures, separated by commas, for example process,end_to_end (default all)")
	err := cmp.Or(bench.Parse(f, args, said), bench.Check("n", p.N, 100, 10_000_000), bench.Check("rounds", p.Rounds, 1, 100))
	if err != nil {
		return p, err
	}
	if p.entries, err = choose("only", *only, roster, func(e entry) string { return e.Library }); err != nil {
		return p, err
	}
	p.measures, err = choose("measures", *some, measures, func(m measure) string { return m.Name })
	return p, err
}

// choose picks from all by names separated by commas; "" = all.
func choose[T any](flag, names string, all []T, name func(T) string) (chosen []T, err error) {
	if names == "" {
		return all, nil
	}
	wanted := strings.Split(names, ",")
	var known []string
	for _, one := range all {
		if !slices.Contains(known, name(one)) {
			known = append(known, name(one))
		}
		if slices.Contains(wanted, name(one)) {
			chosen = append(chosen, one)
		}
	}
	for _, w := range wanted {
		if !slices.Contains(known, w) {
			return nil, fmt.Errorf("--%s names %q: it takes %s, separated by commas", flag, w, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

var rows = []bench.Row{
	{Figure: "submit_1_per_s", Title: "submit, 1 goroutine, tasks/s"},
	{Figure: "submit_64_per_s", Title: "submit, 64 goroutines, tasks/s"},
	{Figure: "submit_batch_per_s", Title: "submit, batches of 256, tasks/s"},
	{Figure: "process_per_s", Title: "process, tasks/s"},
	{Figure: "process_go_cpu_us", Title: "– CPU of the Go process, µs/task"},
	{Figure: "process_server_cpu_us", Title: "– CPU of Redis, µs/task"},
	{Figure: "process_commands", Title: "– Redis commands per task"},
	{Figure: "end_to_end_per_s", Title: "end to end, batch submit, tasks/s"},
	{Figure: "end_to_end_go_cpu_us", Title: "– CPU of the Go process, µs/task"},
	{Figure: "end_to_end_server_cpu_us", Title: "– CPU of Redis, µs/task"},
	{Figure: "end_to_end_commands", Title: "– Redis commands per task"},
	{Figure: "end_to_end_single_per_s", Title: "end to end, 64 goroutines, tasks/s"},
	{Figure: "end_to_end_results_per_s", Title: "end to end, results kept, tasks/s"},
	{Figure: "latency_idle_p50_ms", Title: "latency at idle, p50, ms"},
	{Figure: "latency_idle_p99_ms", Title: "latency at idle, p99, ms"},
	{Figure: "latency_rate_p50_ms", Title: "latency at 5000/s, p50, ms"},
	{Figure: "latency_rate_p99_ms", Title: "latency at 5000/s, p99, ms"},
	{Figure: "latency_rate_reached_per_s", Title: "– rate reached, tasks/s"},
	{Figure: "memory_waiting_bytes", Title: "memory of a waiting task, bytes"},
	{Figure: "memory_message_bytes", Title: "– of that its encoded message"},
	{Figure: "memory_overhead_bytes", Title: "– of that what the store adds"},
	{Figure: "memory_left_bytes", Title: "– left of it when done"},
}

func run(ctx context.Context, p plan, out, said io.Writer) (err error) {
	server, err := bench.Open(ctx, p.Redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	peers := map[string]Peer{}
	defer func() {
		for _, peer := range peers {
			err = errors.Join(err, peer.Close())
		}
	}()
	c := &bench.Comparison{
		Rows: rows,
		Notes: []string{
			fmt.Sprintf("Medians of %d rounds of up to %s tasks with a payload of %d bytes and a handler that does nothing.", p.Rounds, bench.Thousands(float64(p.N)), payloadBytes),
			"Takt : x says how many times better Takt is than the best setting of x, by the runs next to each other.",
			server.Machine(),
		},
		Facts: map[string]any{"n": p.N, "rounds": p.Rounds, "machine": server.Machine()},
	}
	for _, e := range p.entries {
		if peers[e.Name], err = e.open(ctx, servers{server, said}); err != nil {
			delete(peers, e.Name)
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		c.Sides = append(c.Sides, e.Side)
		c.Notes = append(c.Notes, strings.ReplaceAll(e.Name, "_", " ")+": "+e.About+".")
	}
	for _, m := range p.measures {
		for round := range p.Rounds {
			fmt.Fprintf(said, "round %d of %d: %s\n", round+1, p.Rounds, m.Name)
			if err := p.round(ctx, m, peers, c, said); err != nil {
				return err
			}
		}
	}
	return c.Write(out, p.JSON)
}

// round runs a measure once for each peer, one after the other.
func (p plan) round(ctx context.Context, m measure, peers map[string]Peer, c *bench.Comparison, said io.Writer) error {
	var takt bench.Figures // of its latest run
	for _, e := range order(p.entries, m) {
		runtime.GC() // what the run before left is not this one's
		ctx, cancel := context.WithTimeoutCause(ctx, runPatience, fmt.Errorf("not done in %v", runPatience))
		f, err := m.figures(ctx, p, e, peers[e.Name])
		cancel()
		if err != nil {
			return fmt.Errorf("%s of %s: %w", m.Name, e.Name, err)
		}
		ours := takt
		if e.Library == taktName {
			takt, ours = f, nil
		}
		c.Add(e.Name, f, ours)
		fmt.Fprintf(said, "  %-12s", e.Name)
		for _, name := range slices.Sorted(maps.Keys(f)) {
			fmt.Fprintf(said, " %s %s", strings.TrimPrefix(name, m.Name+"_"), bench.Number(f[name]))
		}
		fmt.Fprintln(said)
	}
	return nil
}

// order is that of the runs of one round: Takt first, and with paired measures again before each other library.
func order(entries []entry, m measure) []entry {
	var all []entry
	takt := slices.IndexFunc(entries, func(e entry) bool { return e.Library == taktName })
	before := ""
	for _, e := range entries {
		if m.Of != nil && !m.Of(e) {
			continue
		}
		if m.Paired && takt >= 0 && e.Library != before && e.Library != taktName && before != taktName {
			all = append(all, entries[takt])
		}
		all, before = append(all, e), e.Library
	}
	return all
}
