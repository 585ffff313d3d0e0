package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taktworks/takt/internal/bench"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/task"
)

type benchTasksCmd struct {
	N           int  `short:"n" help:"Tasks of each measurement." must:"be 100 to 10000000" default:"100000"`
	Payload     int  `help:"Bytes of each task's argument." must:"be 0 to 100000" default:"100"`
	Concurrency int  `help:"Tasks that run at once." must:"be 1 to 10000" default:"50"`
	JSON        bool `name:"json" help:"End with one JSON object instead of a table."`
}

func (c *benchTasksCmd) Run(ctx context.Context, a *app) error {
	started := time.Now()
	cfg := *a.Config
	cfg.Prefix += "-bench-" + randomHex(4)
	b := &tasksRun{benchTasksCmd: c, progress: newProgress(a.err)}
	defer b.progress.end()
	store, err := a.benchServer(ctx, &cfg.Redis, "name a server with --redis URL")
	if err != nil {
		return err
	}
	client, err := cfg.taskClient(ctx, false, task.Options{Log: a.log})
	if err != nil {
		return storeError(err)
	}
	defer client.Close()
	b.client = client
	defer func() {
		cleanCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		if err := client.Drop(cleanCtx); err != nil {
			a.log.Warn("something of the benchmark may be left", "prefix", cfg.Prefix, "error", err)
		}
	}()
	for _, step := range []func(context.Context) error{b.alone, b.withResults, b.together, b.idle, b.leftOver} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	b.found.fact("store", store).fact("tasks", c.N).fact("seconds", time.Since(started).Seconds())
	b.progress.end()
	return a.showBench(c.JSON, &b.found)
}

type benchPayload struct{ Text string }

var (
	benchNoop   = task.Define[benchPayload, task.None]("bench:Noop", task.Small, task.Positional())
	benchResult = task.Define[benchPayload, int]("bench:Result", task.Small, task.Positional(), task.Retention(benchKeep))
)

const (
	benchKeep  = 20 * time.Second // longer than the longest measurement between two results
	benchBatch = 256
	benchLone  = 64 // goroutines that submit one by one
)

// tasksRun is one run of the benchmark.
type tasksRun struct {
	*benchTasksCmd
	progress *progress
	client   *task.Client
	found    benchFound
}

func (b *tasksRun) payload() benchPayload { return benchPayload{strings.Repeat("x", b.Payload)} }

// alone measures tasks without results: submitted one by one, then run.
func (b *tasksRun) alone(ctx context.Context) error {
	b.progress.say(fmt.Sprintf("submitting %d tasks one by one", b.N))
	before, err := b.client.Usage(ctx)
	if err != nil {
		return err
	}
	rate, err := bench.PerSecond(b.N, func() error { return b.submitSingly(ctx) })
	if err != nil {
		return err
	}
	b.found.add("submit_per_s", "submit, one by one", rate, "per second, 64 goroutines")
	waiting, err := b.client.Usage(ctx)
	if err != nil {
		return err
	}
	message, err := benchNoop.MessageSize(b.client, b.payload())
	if err != nil {
		return err
	}
	b.found.add("redis_bytes_per_waiting_task", "memory per waiting task", float64(waiting.Bytes-before.Bytes)/float64(b.N)-float64(message), "bytes beside the message")
	b.progress.say(fmt.Sprintf("running %d tasks", b.N))
	if rate, err = b.drain(ctx, false, nil); err != nil {
		return err
	}
	b.found.add("process_per_s", "run", rate, "per second")
	after, err := b.client.Usage(ctx)
	if err != nil {
		return err
	}
	b.found.add("commands_per_task", "Redis commands per task", float64(after.Commands-before.Commands)/float64(b.N), "inside scripts included")
	return nil
}

// withResults measures tasks with results: submitted in batches, then run.
func (b *tasksRun) withResults(ctx context.Context) error {
	b.progress.say(fmt.Sprintf("submitting %d tasks in batches", b.N))
	rate, err := bench.PerSecond(b.N, func() error { return submitBatches(ctx, b, benchResult) })
	if err != nil {
		return err
	}
	b.found.add("submit_batch_per_s", "submit, in batches", rate, "per second")
	b.progress.say(fmt.Sprintf("running %d tasks with results", b.N))
	rate, err = b.drain(ctx, true, nil)
	b.found.add("process_with_result_per_s", "run, with results", rate, "per second")
	return err
}

// together measures tasks that are submitted while the worker runs.
func (b *tasksRun) together(ctx context.Context) error {
	b.progress.say(fmt.Sprintf("submitting and running %d tasks, in batches", b.N))
	rate, err := b.drain(ctx, false, func() error { return submitBatches(ctx, b, benchNoop) })
	if err != nil {
		return err
	}
	b.found.add("end_to_end_batch_per_s", "end to end, in batches", rate, "per second")
	b.progress.say(fmt.Sprintf("submitting and running %d tasks, one by one", b.N))
	rate, err = b.drain(ctx, false, func() error { return b.submitSingly(ctx) })
	b.found.add("end_to_end_single_per_s", "end to end, one by one", rate, "per second, 64 goroutines")
	return err
}

func (b *tasksRun) submitSingly(ctx context.Context) error {
	p := b.payload()
	return bench.ForEach(ctx, benchLone, b.N, func(ctx context.Context, _ int) error {
		_, err := benchNoop.Submit(ctx, b.client, p)
		return err
	})
}

func submitBatches[R any](ctx context.Context, b *tasksRun, t *task.Type[benchPayload, R]) error {
	args := slices.Repeat([]benchPayload{b.payload()}, benchBatch)
	return bench.ForEach(ctx, 2, (b.N+benchBatch-1)/benchBatch, func(ctx context.Context, i int) error {
		_, err := t.SubmitMany(ctx, b.client, args[:min(benchBatch, b.N-i*benchBatch)])
		return err
	})
}

// drain runs a worker until N tasks have run and are gone, and says how many that were per second. submit, if it is given, runs beside it.
func (b *tasksRun) drain(ctx context.Context, results bool, submit func() error) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var ran atomic.Int64
	all := make(chan struct{})
	one := func() {
		if ran.Add(1) == int64(b.N) {
			close(all)
		}
	}
	handler := benchNoop.Handle(func(context.Context, *task.Job[benchPayload]) (task.None, error) { one(); return task.None{}, nil })
	if results {
		handler = benchResult.Handle(func(context.Context, *task.Job[benchPayload]) (int, error) { one(); return 1, nil })
	}
	w, err := b.client.Worker(task.WorkerOptions{Concurrency: map[task.Size]int{task.Small: b.Concurrency}}, handler)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	work, stop := context.WithCancel(ctx)
	defer stop()
	var parts sync.WaitGroup
	ends := make(chan error, 2)
	parts.Go(func() { ends <- w.Run(work) })
	if submit != nil {
		parts.Go(func() {
			if err := submit(); err != nil {
				ends <- err
				cancel()
			}
		})
	}
	select {
	case <-all:
	case <-ctx.Done():
	}
	stop() // Run returns when everything that ran is settled
	parts.Wait()
	rate := float64(b.N) / time.Since(began).Seconds()
	close(ends)
	for err := range ends {
		if err != nil {
			return 0, err
		}
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if n := ran.Load(); n != int64(b.N) {
		return 0, fmt.Errorf("%d runs of %d tasks: the figures are worth nothing", n, b.N)
	}
	return rate, nil
}

const (
	idleWarm  = 20 // that do not count
	idleTasks = 500
	idlePause = 5 * time.Millisecond
)

// idle measures how long a task waits when there is nothing else to do.
func (b *tasksRun) idle(ctx context.Context) error {
	b.progress.say(fmt.Sprintf("latency of %d tasks, one every %v", idleTasks, idlePause))
	started := make(chan time.Time, 1)
	w, err := b.client.Worker(task.WorkerOptions{Concurrency: map[task.Size]int{task.Small: b.Concurrency}},
		benchNoop.Handle(func(context.Context, *task.Job[benchPayload]) (task.None, error) {
			started <- time.Now()
			return task.None{}, nil
		}))
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	end := make(chan error, 1)
	go func() { end <- w.Run(work) }()
	took := make([]time.Duration, idleWarm+idleTasks)
	for i := range took {
		if !lifecycle.Sleep(ctx, idlePause) {
			err = ctx.Err()
			break
		}
		begun := time.Now()
		if _, err = benchNoop.Submit(ctx, b.client, b.payload()); err != nil {
			break
		}
		select {
		case at := <-started:
			took[i] = at.Sub(begun)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	stop()
	if err := errors.Join(err, <-end); err != nil {
		return err
	}
	took = took[idleWarm:]
	b.found.add("idle_p50_ms", "latency at idle, p50", bench.Milliseconds(bench.Quantile(took, 0.5)), "ms from submit to start")
	b.found.add("idle_p99_ms", "latency at idle, p99", bench.Milliseconds(bench.Quantile(took, 0.99)), "ms")
	return nil
}

// leftOver waits until the results have expired and measures what is still there.
func (b *tasksRun) leftOver(ctx context.Context) error {
	b.progress.say("waiting until the results have expired")
	for {
		u, err := b.client.Usage(ctx)
		if err != nil {
			return err
		}
		if u.Results == 0 {
			b.found.add("redis_bytes_left", "memory left", float64(u.Bytes), "bytes in all")
			return nil
		}
		if !lifecycle.Sleep(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
}
