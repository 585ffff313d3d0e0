package main

import (
	"context"
	"math"
	"time"

	"github.com/taktworks/takt/internal/bench"
)

// Run is what a number of tasks took. Negative values are not known.
type Run struct {
	Tasks     int
	Elapsed   time.Duration
	GoCPU     time.Duration // of this process: library, handlers, and the little that the measuring takes
	ServerCPU time.Duration // of Redis
	Commands  int64         // of Redis, those inside scripts included
}

// meter measures from its start to its stop.
type meter struct {
	p      Peer
	began  time.Time
	own    time.Duration
	server bench.Usage
}

func startMeter(ctx context.Context, p Peer) (*meter, error) {
	m := &meter{p: p}
	var err error
	if m.server, err = p.Usage(ctx); err != nil {
		return nil, err
	}
	if m.own, err = ownCPU(); err != nil {
		return nil, err
	}
	m.began = time.Now()
	return m, nil
}

// stop ends the measurement of so many tasks.
func (m *meter) stop(ctx context.Context, tasks int) (Run, error) {
	r := Run{Tasks: tasks, Elapsed: time.Since(m.began), ServerCPU: -1, Commands: -1}
	own, err := ownCPU()
	if err != nil {
		return r, err
	}
	server, err := m.p.Usage(ctx)
	if err != nil {
		return r, err
	}
	r.GoCPU = own - m.own
	if server.CPU >= 0 {
		r.ServerCPU = server.CPU - m.server.CPU
	}
	if server.Commands >= 0 {
		r.Commands = server.Commands - m.server.Commands
	}
	return r, nil
}

// perTask is a time for all of n tasks in microseconds for each; a negative one is not known.
func perTask(d time.Duration, n int) float64 {
	if d < 0 || n == 0 {
		return math.NaN()
	}
	return d.Seconds() * 1e6 / float64(n)
}
