package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/bench"
)

// plan says how much is measured.
type plan struct {
	N        int
	Rounds   int
	Idle     int           // tasks of a round whose latency at idle is measured
	IdleMax  time.Duration // longest pause between them
	Rate     int           // tasks per second whose latency is measured
	Seconds  float64       // of that rate that count; two thirds as many before do not
	Measures []measure
}

// share is the part of the plan's tasks that a run of e takes.
func (p plan) share(e entry) int { return max(p.N/e.Share, min(p.N, 200)) }

func (p plan) load() load {
	n := int(float64(p.Rate) * p.Seconds)
	return load{rate: p.Rate, warm: n * 2 / 3, n: n}
}

// figures are what one run found, by key.
type figures map[string]float64

// measure is one kind of run.
type measure struct {
	Name string
	// Paired has a run of Takt right before those of each other library, for the machine may be slower a minute later.
	Paired bool
	// Of says which peers it is for; nil = all.
	Of  func(entry) bool
	run func(ctx context.Context, pl plan, e entry, p Peer) (figures, error)
}

var measures = []measure{
	{Name: "submit_1", Paired: true, run: throughput("submit_1", func(ctx context.Context, pl plan, e entry, p Peer) (Run, error) {
		return submitRun(ctx, e, p, max(pl.share(e)/10, 1), way{1, 1, false})
	})},
	{Name: "submit_64", Paired: true, run: throughput("submit_64", func(ctx context.Context, pl plan, e entry, p Peer) (Run, error) {
		return submitRun(ctx, e, p, pl.share(e), way{goroutines, 1, false})
	})},
	{Name: "submit_batch", Paired: true, Of: func(e entry) bool { return e.Batches },
		run: throughput("submit_batch", func(ctx context.Context, pl plan, e entry, p Peer) (Run, error) {
			return submitRun(ctx, e, p, pl.share(e), way{batchGoroutines, batchSize, false})
		})},
	{Name: "process", Paired: true, run: throughput("process", func(ctx context.Context, pl plan, e entry, p Peer) (Run, error) {
		return processRun(ctx, e, p, pl.share(e))
	})},
	{Name: "end_to_end", Paired: true, run: throughput("end_to_end", func(ctx context.Context, pl plan, e entry, p Peer) (Run, error) {
		return endToEndRun(ctx, e, p, pl.share(e), fastest(e, false))
	})},
	{Name: "end_to_end_single", Paired: true, run: throughput("end_to_end_single", func(ctx context.Context, pl plan, e entry, p Peer) (Run, error) {
		return endToEndRun(ctx, e, p, pl.share(e), way{goroutines, 1, false})
	})},
	{Name: "end_to_end_results", Paired: true, run: throughput("end_to_end_results", func(ctx context.Context, pl plan, e entry, p Peer) (Run, error) {
		return endToEndRun(ctx, e, p, pl.share(e), fastest(e, true))
	})},
	{Name: "latency_idle", run: func(ctx context.Context, pl plan, e entry, p Peer) (figures, error) {
		took, err := idleRun(ctx, e, p, pl.Idle, pl.IdleMax)
		return latencies("latency_idle", took), err
	}},
	{Name: "latency_rate", run: func(ctx context.Context, pl plan, e entry, p Peer) (figures, error) {
		s, err := rateRun(ctx, e, p, pl.load())
		f := latencies("latency_rate", s.took)
		f["latency_rate_reached_per_s"] = s.reached
		return f, err
	}},
	{Name: "memory", Of: func(e entry) bool { return e.Name == e.Library }, run: func(ctx context.Context, pl plan, e entry, p Peer) (figures, error) {
		m, err := memoryRun(ctx, e, p, pl.share(e))
		return figures{
			"memory_waiting_bytes": m.waiting, "memory_message_bytes": m.message, "memory_overhead_bytes": m.waiting - m.message, "memory_left_bytes": m.left,
		}, err
	}},
}

// throughput makes figures of a run.
func throughput(key string, run func(context.Context, plan, entry, Peer) (Run, error)) func(context.Context, plan, entry, Peer) (figures, error) {
	return func(ctx context.Context, pl plan, e entry, p Peer) (figures, error) {
		r, err := run(ctx, pl, e, p)
		if err != nil {
			return nil, err
		}
		f := figures{
			key + "_per_s":         float64(r.Tasks) / r.Elapsed.Seconds(),
			key + "_go_cpu_us":     perTask(r.GoCPU, r.Tasks),
			key + "_server_cpu_us": perTask(r.ServerCPU, r.Tasks),
		}
		if r.Commands >= 0 {
			f[key+"_commands"] = float64(r.Commands) / float64(r.Tasks)
		}
		return f, nil
	}
}

func latencies(key string, took []time.Duration) figures {
	return figures{
		key + "_p50_ms": bench.Milliseconds(bench.Quantile(took, 0.5)),
		key + "_p99_ms": bench.Milliseconds(bench.Quantile(took, 0.99)),
	}
}

// lowerIsBetter says so of a figure by its key.
func lowerIsBetter(key string) bool { return !strings.HasSuffix(key, "_per_s") }

// chooseMeasures picks by names separated by commas; "" = all.
func chooseMeasures(names string) ([]measure, error) {
	if names == "" {
		return measures, nil
	}
	var chosen []measure
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(measures, func(m measure) bool { return m.Name == name })
		if i < 0 {
			var all []string
			for _, m := range measures {
				all = append(all, m.Name)
			}
			return nil, fmt.Errorf("--measures names %q: it takes %s, separated by commas", name, strings.Join(all, ", "))
		}
		chosen = append(chosen, measures[i])
	}
	return chosen, nil
}

// found is everything that was measured: by peer and figure, one value per run.
type found struct {
	values map[string]map[string][]float64
	ratios map[string]map[string][]float64 // how many times better Takt's run right before was; not for Takt
}

func newFound() *found {
	return &found{values: map[string]map[string][]float64{}, ratios: map[string]map[string][]float64{}}
}

func add(to map[string]map[string][]float64, peer, key string, v float64) {
	if math.IsNaN(v) {
		return
	}
	if to[peer] == nil {
		to[peer] = map[string][]float64{}
	}
	to[peer][key] = append(to[peer][key], v)
}

// value is the median of a figure, NaN if there is none.
func (f *found) value(peer, key string) float64 { return bench.Median(f.values[peer][key]) }

// ratio is the median of how many times better Takt was in the same round, NaN if there is none.
func (f *found) ratio(peer, key string) float64 { return bench.Median(f.ratios[peer][key]) }

// comparison measures peers side by side.
type comparison struct {
	plan
	entries []entry
	peers   map[string]Peer // open, by name
	found   *found
	said    io.Writer // progress
}

// openPeers connects all entries; closing the comparison disconnects them.
func openPeers(ctx context.Context, pl plan, entries []entry, s servers) (*comparison, error) {
	b := &comparison{plan: pl, entries: entries, peers: map[string]Peer{}, found: newFound(), said: s.log}
	for _, e := range entries {
		p, err := e.open(ctx, s)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", e.Name, err), b.close())
		}
		b.peers[e.Name] = p
	}
	return b, nil
}

func (b *comparison) close() (err error) {
	for name, p := range b.peers {
		if closing := p.Close(); closing != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, closing))
		}
	}
	return err
}

// run measures everything: each measure round by round, and in a round the peers one after the other.
func (b *comparison) run(ctx context.Context) error {
	for _, m := range b.Measures {
		for round := range b.Rounds {
			if err := b.round(ctx, m, round); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *comparison) round(ctx context.Context, m measure, round int) error {
	var takt figures // of its latest run
	for _, e := range order(b.entries, m) {
		f, err := b.one(ctx, m, round, e)
		if err != nil {
			return fmt.Errorf("%s of %s: %w", m.Name, e.Name, err)
		}
		for key, v := range f {
			add(b.found.values, e.Name, key, v)
			if e.Library != taktName && takt != nil {
				if ours, ok := takt[key]; ok {
					add(b.found.ratios, e.Name, key, bench.Advantage(ours, v, lowerIsBetter(key)))
				}
			}
		}
		if e.Library == taktName {
			takt = f
		}
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

// one runs a measure once for one peer.
func (b *comparison) one(ctx context.Context, m measure, round int, e entry) (figures, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runPatience, fmt.Errorf("not done in %v", runPatience))
	defer cancel()
	runtime.GC() // what the run before left is not this one's
	f, err := m.run(ctx, b.plan, e, b.peers[e.Name])
	if err == nil {
		fmt.Fprintf(b.said, "round %d of %d  %-19s %-12s %s\n", round+1, b.Rounds, m.Name, e.Name, brief(m.Name, f))
	}
	return f, err
}
