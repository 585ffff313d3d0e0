package main

import (
	"context"
	"runtime"
	"syscall"
	"time"

	"github.com/taktworks/takt/internal/bench"
)

// measure is one kind of run.
type measure struct {
	Name string
	// Paired has a run of Takt right before those of each other library, for the machine may be slower a minute later.
	Paired bool
	// Of says which peers it is for; nil = all.
	Of  func(entry) bool
	run func(ctx context.Context, pl plan, e entry, p Peer) (bench.Figures, error)
}

// figures runs it. The names of the figures begin with that of the measure.
func (m measure) figures(ctx context.Context, pl plan, e entry, p Peer) (bench.Figures, error) {
	found, err := m.run(ctx, pl, e, p)
	f := bench.Figures{}
	for name, v := range found {
		f[m.Name+"_"+name] = v
	}
	return f, err
}

var measures = []measure{
	{Name: "submit_1", Paired: true, run: func(ctx context.Context, pl plan, e entry, p Peer) (bench.Figures, error) {
		return submitRun(ctx, e, p, max(pl.share(e)/10, 1), way{1, 1, false})
	}},
	{Name: "submit_64", Paired: true, run: func(ctx context.Context, pl plan, e entry, p Peer) (bench.Figures, error) {
		return submitRun(ctx, e, p, pl.share(e), way{goroutines, 1, false})
	}},
	{Name: "submit_batch", Paired: true, Of: func(e entry) bool { return e.Batches }, run: func(ctx context.Context, pl plan, e entry, p Peer) (bench.Figures, error) {
		return submitRun(ctx, e, p, pl.share(e), fastest(e, false))
	}},
	{Name: "process", Paired: true, run: func(ctx context.Context, pl plan, e entry, p Peer) (bench.Figures, error) {
		return processRun(ctx, e, p, pl.share(e))
	}},
	{Name: "end_to_end", Paired: true, run: func(ctx context.Context, pl plan, e entry, p Peer) (bench.Figures, error) {
		return endToEndRun(ctx, e, p, pl.share(e), fastest(e, false))
	}},
	{Name: "end_to_end_single", Paired: true, run: func(ctx context.Context, pl plan, e entry, p Peer) (bench.Figures, error) {
		return endToEndRun(ctx, e, p, pl.share(e), way{goroutines, 1, false})
	}},
	{Name: "end_to_end_results", Paired: true, run: func(ctx context.Context, pl plan, e entry, p Peer) (bench.Figures, error) {
		return endToEndRun(ctx, e, p, pl.share(e), fastest(e, true))
	}},
	{Name: "latency_idle", run: func(ctx context.Context, pl plan, e entry, p Peer) (bench.Figures, error) {
		took, err := idleRun(ctx, e, p, pl.Idle, pl.IdleMax)
		return latencies(took), err
	}},
	{Name: "latency_rate", run: func(ctx context.Context, pl plan, e entry, p Peer) (bench.Figures, error) {
		n := int(float64(pl.Rate) * pl.Seconds)
		s, err := rateRun(ctx, e, p, load{rate: pl.Rate, warm: n * 2 / 3, n: n})
		f := latencies(s.took)
		f["reached_per_s"] = s.reached
		return f, err
	}},
	{Name: "memory", Of: func(e entry) bool { return e.Name == e.Library }, run: func(ctx context.Context, pl plan, e entry, p Peer) (bench.Figures, error) {
		return memoryRun(ctx, e, p, pl.share(e))
	}},
}

func latencies(took []time.Duration) bench.Figures {
	return bench.Figures{"p50_ms": bench.Milliseconds(bench.Quantile(took, 0.5)), "p99_ms": bench.Milliseconds(bench.Quantile(took, 0.99))}
}

// meter measures from its start to its stop: the time, the CPU of this process, which is that of library, handlers and the little that the measuring takes, and
// what the server spends.
type meter struct {
	p      Peer
	began  time.Time
	own    time.Duration
	server bench.Usage
}

func startMeter(ctx context.Context, p Peer) (*meter, error) {
	server, err := p.Usage(ctx)
	return &meter{p, time.Now(), ownCPU(), server}, err
}

// stop ends the measurement of so many tasks.
func (m *meter) stop(ctx context.Context, tasks int) (bench.Figures, error) {
	n, elapsed, own := float64(tasks), time.Since(m.began), ownCPU()-m.own
	server, err := m.p.Usage(ctx)
	return bench.Figures{
		"per_s":         n / elapsed.Seconds(),
		"go_cpu_us":     own.Seconds() * 1e6 / n,
		"server_cpu_us": (server.CPU - m.server.CPU).Seconds() * 1e6 / n,
		"commands":      float64(server.Commands-m.server.Commands) / n,
	}, err
}

// ownCPU is the CPU time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails for wrong arguments only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// onOwnThread calls do with a sleep that is in the kernel, for a timer of the runtime may be a millisecond late when the process is idle.
func onOwnThread(do func(sleepUntil func(due time.Time))) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	do(func(due time.Time) {
		for left := time.Until(due); left > 0; left = time.Until(due) {
			t := syscall.NsecToTimespec(left.Nanoseconds())
			_ = syscall.Nanosleep(&t, nil) // interrupted: once more
		}
	})
}
