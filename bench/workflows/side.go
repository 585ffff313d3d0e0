package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
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

var sides = []side{
	{"takt", func(ctx context.Context, url, prefix string) (backend.Backend, error) {
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

// sleep returns when its timer was to fire, in Unix nanoseconds.
func sleep(ctx workflow.Context) (int64, error) {
	due := workflow.Now(ctx).Add(timerTime)
	return due.UnixNano(), workflow.Sleep(ctx, timerTime)
}

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

// rate runs n workflows, some at once, and returns how many finished in a second.
func (r *running) rate(ctx context.Context, p plan, n int) (float64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, p.InFlight)
	var starters sync.WaitGroup
	defer starters.Wait()
	begun := time.Now()
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
			return 0, err
		}
		<-slots
	}
	return float64(n) / time.Since(begun).Seconds(), nil
}

// idle runs workflows one at a time and returns what each took, in ms.
func (r *running) idle(ctx context.Context, p plan) (took []float64, err error) {
	for i := range p.Idle {
		begun := time.Now()
		if err := r.begin(ctx, "idle-"+strconv.Itoa(i), chain, p.Activities); err != nil {
			return nil, err
		}
		if _, err := r.next(ctx); err != nil {
			return nil, err
		}
		took = append(took, bench.Milliseconds(time.Since(begun)))
	}
	return took, nil
}

// late runs timers one at a time and returns how late each was, in ms.
func (r *running) late(ctx context.Context, n int) (late []float64, err error) {
	for i := range n {
		begun := time.Now()
		if err := r.begin(ctx, "late-"+strconv.Itoa(i), sleep); err != nil {
			return nil, err
		}
		if _, err := r.next(ctx); err != nil {
			return nil, err
		}
		late = append(late, bench.Milliseconds(time.Since(begun)-timerTime))
	}
	return late, nil
}

// measure measures all, both sides in turns.
func measure(ctx context.Context, p plan, server *bench.Server, progress io.Writer) (report, error) {
	all := map[string][]float64{}
	prefix := "bench" + strconv.FormatInt(time.Now().UnixNano(), 36)
	for round := range p.Rounds {
		for _, s := range sides {
			fmt.Fprintf(progress, "round %d of %d: %s\n", round+1, p.Rounds, s.name)
			mine := prefix + s.name + strconv.Itoa(round)
			err := s.measure(ctx, p, server, mine, all)
			if err = cmp.Or(err, server.Remove(context.WithoutCancel(ctx), mine+"*")); err != nil {
				return report{}, err
			}
		}
	}
	fmt.Fprintln(progress, "round trips")
	n, err := trips(ctx, p, server.URL, prefix+"trips")
	if err = cmp.Or(err, server.Remove(context.WithoutCancel(ctx), prefix+"trips*")); err != nil {
		return report{}, err
	}
	r := report{N: p.N, Activities: p.Activities, Trips: n, Low: map[string]float64{}, High: map[string]float64{}}
	for name, to := range map[string]*float64{"takt_per_s": &r.Takt, "peer_per_s": &r.Peer, "takt_best_per_s": &r.TaktBest, "peer_best_per_s": &r.PeerBest, "takt_p50_ms": &r.TaktP50, "takt_p99_ms": &r.TaktP99,
		"peer_p50_ms": &r.PeerP50, "peer_p99_ms": &r.PeerP99, "takt_timer_late_p50_ms": &r.TaktLate, "peer_timer_late_p50_ms": &r.PeerLate, "takt_bytes_per_workflow": &r.TaktBytes, "peer_bytes_per_workflow": &r.PeerBytes} {
		*to = bench.Median(all[name])
		r.Low[name], r.High[name] = slices.Min(all[name]), slices.Max(all[name])
	}
	r.Ratio = r.Takt / r.Peer
	return r, nil
}

const warmUp = 200 // workflows before those that count

func (s side) measure(ctx context.Context, p plan, server *bench.Server, prefix string, all map[string][]float64) error {
	add := func(name string, v float64) { all[s.name+name] = append(all[s.name+name], v) }
	r, err := s.start(ctx, server.URL, prefix, 0)
	if err != nil {
		return err
	}
	defer func() { _ = r.stop() }()
	if _, err := r.rate(ctx, p, min(warmUp, p.N)); err != nil {
		return fmt.Errorf("%s: warm up: %w", s.name, err)
	}
	if err := r.stop(); err != nil {
		return err
	}
	for _, c := range []struct {
		name    string
		pollers int
	}{{"_best_per_s", 8}, {"_per_s", 0}} {
		if err := server.Remove(ctx, prefix+"*"); err != nil {
			return err
		}
		before, err := server.Bytes(ctx)
		if err != nil {
			return err
		}
		if r, err = s.start(ctx, server.URL, prefix, c.pollers); err != nil {
			return err
		}
		rate, err := r.rate(ctx, p, p.N)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		add(c.name, rate)
		if c.pollers > 0 {
			if err := r.stop(); err != nil {
				return err
			}
			after, err := server.Bytes(ctx)
			if err != nil {
				return err
			}
			add("_bytes_per_workflow", float64(after-before)/float64(p.N))
		}
	}
	took, err := r.idle(ctx, p)
	if err != nil {
		return err
	}
	add("_p50_ms", bench.Median(took))
	add("_p99_ms", bench.Quantile(took, 0.99))
	late, err := r.late(ctx, min(p.Idle, 10))
	if err != nil {
		return err
	}
	add("_timer_late_p50_ms", bench.Median(late))
	return r.stop()
}
