package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/history"
	peerredis "github.com/cschleiden/go-workflows/backend/redis"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/core"
	"github.com/cschleiden/go-workflows/worker"
	"github.com/cschleiden/go-workflows/workflow"
	goredis "github.com/redis/go-redis/v9"

	"github.com/taktworks/takt/internal/bench"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// side is one of the two: how its backend and its worker are made, under a prefix.
type side struct {
	name string
	open func(ctx context.Context, url, prefix string) (backend.Backend, error)
	work func(b *watched, o worker.Options) *worker.Worker
}

const taktName = "takt"

var sides = []side{
	{taktName, func(ctx context.Context, url, prefix string) (backend.Backend, error) {
		return goworkflows.Open(ctx, url+"?prefix="+prefix, backend.WithLogger(quiet))
	}, func(b *watched, o worker.Options) *worker.Worker {
		o.WorkflowExecutorCache = goworkflows.NewCache(b.Backend.(*goworkflows.Backend), goworkflows.CacheOptions{Size: o.WorkflowExecutorCacheSize, TTL: o.WorkflowExecutorCacheTTL})
		return worker.New(b, &o)
	}},
	{"peer", func(_ context.Context, url, prefix string) (backend.Backend, error) {
		o, err := goredis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		return peerredis.NewRedisBackend(goredis.NewClient(o), peerredis.WithKeyPrefix(prefix), peerredis.WithBackendOptions(backend.WithLogger(quiet)))
	}, func(b *watched, o worker.Options) *worker.Worker { return worker.New(b, &o) }},
}

// quiet says what is wrong, and nothing else.
var quiet = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))

// watched is a backend that tells of each instance that finished.
type watched struct {
	backend.Backend
	finished chan string
}

func (w *watched) CompleteWorkflowTask(ctx context.Context, t *backend.WorkflowTask, state core.WorkflowInstanceState, executed, activities, timers []*history.Event, messages []*history.WorkflowEvent) error {
	err := w.Backend.CompleteWorkflowTask(ctx, t, state, executed, activities, timers, messages)
	if err == nil && state == core.WorkflowInstanceStateFinished {
		w.finished <- t.WorkflowInstance.InstanceID
	}
	return err
}

// chain is the workflow that is measured.
func chain(ctx workflow.Context, activities int) (int, error) {
	sum := 0
	for i := range activities {
		n, err := workflow.ExecuteActivity[int](ctx, workflow.DefaultActivityOptions, echo, i).Get(ctx)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func echo(_ context.Context, n int) (int, error) { return n, nil }

const timerTime = 300 * time.Millisecond

func sleep(ctx workflow.Context) (any, error) { return nil, workflow.Sleep(ctx, timerTime) }

// running is a side at work.
type running struct {
	*watched
	client *client.Client
	stop   func() error
}

func (s side) start(ctx context.Context, url, prefix string, pollers int) (*running, error) {
	b, err := s.open(ctx, url, prefix)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	w := &watched{b, make(chan string, 1)}
	o := worker.DefaultOptions
	if pollers > 0 {
		o.WorkflowPollers, o.ActivityPollers = pollers, pollers
	}
	o.WorkflowExecutorCacheSize = 1024 // the peer's cache may close executors at work below that
	k := s.work(w, o)
	for _, f := range []any{chain, sleep} {
		if err := k.RegisterWorkflow(f); err != nil {
			return nil, err
		}
	}
	if err := k.RegisterActivity(echo); err != nil {
		return nil, err
	}
	run, end := context.WithCancel(ctx)
	if err := k.Start(run); err != nil {
		end()
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return &running{w, client.New(w), sync.OnceValue(func() error {
		end()
		if err := k.WaitForCompletion(); err != nil {
			return err
		}
		return b.Close()
	})}, nil
}

func (r *running) begin(ctx context.Context, id string, wf any, args ...any) error {
	_, err := r.client.CreateWorkflowInstance(ctx, client.WorkflowInstanceOptions{InstanceID: id}, wf, args...)
	return err
}

const tooLong = 2 * time.Minute

// next waits for an instance to finish.
func (r *running) next(ctx context.Context) (string, error) {
	late := time.NewTimer(tooLong)
	defer late.Stop()
	select {
	case id := <-r.finished:
		return id, nil
	case <-late.C:
		return "", fmt.Errorf("no workflow finished within %s", tooLong)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// many runs n workflows, some at once.
func (r *running) many(ctx context.Context, p plan, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, p.InFlight)
	var starters sync.WaitGroup
	defer starters.Wait()
	starters.Go(func() {
		for i := range n {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			starters.Go(func() {
				if err := r.begin(ctx, "rate-"+strconv.Itoa(i), chain, p.Activities); err != nil {
					cancel(err)
				}
			})
		}
	})
	for range n {
		if _, err := r.next(ctx); err != nil {
			cancel(err)
			return err
		}
		<-slots
	}
	return nil
}

// each runs n workflows one at a time and says how long each took.
func (r *running) each(ctx context.Context, n int, id string, wf any, args ...any) (took []time.Duration, err error) {
	for i := range n {
		begun := time.Now()
		if err := r.one(ctx, id+strconv.Itoa(i), wf, args...); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begun))
	}
	return took, nil
}

// one runs a workflow to its end.
func (r *running) one(ctx context.Context, id string, wf any, args ...any) error {
	if err := r.begin(ctx, id, wf, args...); err != nil {
		return err
	}
	_, err := r.next(ctx)
	return err
}

const warmUp = 200 // workflows before those that count

// measure measures all of a side once.
func (s side) measure(ctx context.Context, p plan, server *bench.Server, prefix string) (bench.Figures, error) {
	f := bench.Figures{}
	// with measures with a worker that has so many pollers of each kind, 0 = the default, from an empty store.
	with := func(pollers int, do func(r *running) error) error {
		if err := server.Remove(ctx, prefix+"*"); err != nil {
			return err
		}
		before, err := server.Bytes(ctx)
		if err != nil {
			return err
		}
		r, err := s.start(ctx, server.URL, prefix, pollers)
		if err != nil {
			return err
		}
		if err := errors.Join(do(r), r.stop()); err != nil {
			return err
		}
		after, err := server.Bytes(ctx)
		f["finished_bytes"] = float64(after-before) / float64(p.N)
		return err
	}
	rate := func(name string, n int) func(*running) error {
		return func(r *running) (err error) {
			f[name], err = bench.PerSecond(n, func() error { return r.many(ctx, p, n) })
			return err
		}
	}
	if err := with(0, func(r *running) error { return r.many(ctx, p, min(warmUp, p.N)) }); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	err := with(0, func(r *running) error {
		if err := rate("default_per_s", p.N)(r); err != nil {
			return err
		}
		took, err := r.each(ctx, p.Idle, "idle-", chain, p.Activities)
		if err != nil {
			return err
		}
		late, err := r.each(ctx, p.Timers, "late-", sleep)
		f["idle_p50_ms"], f["idle_p99_ms"] = bench.Milliseconds(bench.Quantile(took, 0.5)), bench.Milliseconds(bench.Quantile(took, 0.99))
		f["timer_late_p50_ms"] = bench.Milliseconds(bench.Quantile(late, 0.5) - timerTime)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := with(8, rate("pollers_8_per_s", p.N)); err != nil { // the last: the memory is that of this run
		return nil, err
	}
	f["round_trips"] = float64(11*p.Activities + 8) // of the peer, from its code
	if s.name == taktName {
		n, err := s.trips(ctx, p, server.URL, prefix)
		f["round_trips"] = float64(n)
		return f, err
	}
	return f, nil
}
