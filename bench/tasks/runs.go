package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/bench"
)

const (
	batchSize       = 256 // tasks of a batch
	batchGoroutines = 4   // that submit batches
	goroutines      = 64  // that submit single tasks

	// A run in which this much time passes is stuck.
	runPatience = 3 * time.Minute

	// resultText is what handlers return if results are kept.
	resultText = "done"
)

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// way says how tasks are submitted.
type way struct {
	goroutines int
	batch      int // tasks in one call
	results    bool
}

// fastest is the way by which e's store fills soonest.
func fastest(e entry, results bool) way {
	if e.Batches {
		return way{batchGoroutines, batchSize, results}
	}
	return way{goroutines, 1, results}
}

// submit stores the tasks first to first+n-1 of t.
func submit(ctx context.Context, p Peer, t *tally, first, n int, w way) error {
	return bench.ForEach(ctx, w.goroutines, (n+w.batch-1)/w.batch, func(ctx context.Context, i int) error {
		from := i * w.batch
		if err := p.Submit(ctx, t.texts(first+from, min(w.batch, n-from)), w.results); err != nil {
			return fmt.Errorf("submit: %w", err)
		}
		return nil
	})
}

// whileWorking calls do while a worker of p runs, and returns when both have ended. If the worker ends first, do's context is cancelled.
func whileWorking(ctx context.Context, p Peer, results bool, t *tally, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	working, stop := context.WithCancel(ctx)
	defer stop()
	worker := make(chan error, 1)
	go func() {
		err := p.Work(working, results, t.handle)
		if working.Err() == nil {
			cancel(fmt.Errorf("the worker ended early: %w", orNothing(err)))
		}
		worker <- err
	}()
	err := do(ctx)
	stop()
	return errors.Join(err, <-worker)
}

func orNothing(err error) error {
	if err == nil {
		return errors.New("without an error")
	}
	return err
}

// done waits until every task of t is handled and the end of the last is written.
func done(ctx context.Context, p Peer, t *tally) error {
	if err := t.await(ctx, t.all); err != nil {
		return err
	}
	return settled(ctx, p)
}

// settled waits until p has nothing waiting or under way.
func settled(ctx context.Context, p Peer) error {
	for {
		n, err := p.Unsettled(ctx)
		if err != nil || n == 0 {
			return err
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("%d tasks are not settled: %w", n, err)
		}
	}
}

// verdict is err, and whether every task of the run was handled exactly once; nobody asks when the program is told to end.
func verdict(ctx context.Context, t *tally, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	return errors.Join(err, t.check())
}

// finish is the end of a run: the verdict, and an empty store for the next peer.
func finish(ctx context.Context, p Peer, t *tally, err error) error {
	if err := verdict(ctx, t, err); err != nil {
		return err
	}
	return p.Reset(ctx)
}

// submitRun measures how fast tasks are stored while nobody works on them.
func submitRun(ctx context.Context, e entry, p Peer, n int, w way) (Run, error) {
	if err := p.Reset(ctx); err != nil {
		return Run{}, err
	}
	t := newTally(n, e.Text)
	m, err := startMeter(ctx, p)
	if err != nil {
		return Run{}, err
	}
	if err := submit(ctx, p, t, 0, n, w); err != nil {
		return Run{}, err
	}
	r, err := m.stop(ctx, n)
	if err != nil {
		return r, err
	}
	stored, err := p.Unsettled(ctx)
	if err == nil && stored != n {
		err = fmt.Errorf("%w: %d tasks were submitted, %d are stored", errInvalid, n, stored)
	}
	return r, errors.Join(err, p.Reset(ctx))
}

// processRun measures how fast a worker works off what has been stored, from its first task to the end of the last being written.
func processRun(ctx context.Context, e entry, p Peer, n int) (r Run, err error) {
	if err := p.Reset(ctx); err != nil {
		return r, err
	}
	t := newTally(n, e.Text)
	if err := submit(ctx, p, t, 0, n, fastest(e, false)); err != nil {
		return r, err
	}
	m, err := startMeter(ctx, p)
	if err != nil {
		return r, err
	}
	err = whileWorking(ctx, p, false, t, func(ctx context.Context) error {
		if err := t.await(ctx, t.first); err != nil {
			return err
		}
		m.began = time.Now() // starting a worker takes some longer than others
		if err := done(ctx, p, t); err != nil {
			return err
		}
		r, err = m.stop(ctx, n)
		return err
	})
	return r, finish(ctx, p, t, err)
}

// warmTasks keep a worker busy until the producers are at work: a library that polls would else sleep through the start.
func warmTasks(n int) int { return min(1000, n/10+1) }

// endToEndRun measures a producer and a worker at once. The clock starts when the worker has begun on a few tasks stored
// before, and the producer starts with it.
func endToEndRun(ctx context.Context, e entry, p Peer, n int, w way) (r Run, err error) {
	if err := p.Reset(ctx); err != nil {
		return r, err
	}
	warm := warmTasks(n)
	t := newTally(warm+n, e.Text)
	if err := submit(ctx, p, t, 0, warm, fastest(e, w.results)); err != nil {
		return r, err
	}
	err = whileWorking(ctx, p, w.results, t, func(ctx context.Context) error {
		if err := t.await(ctx, t.first); err != nil {
			return err
		}
		m, err := startMeter(ctx, p)
		if err != nil {
			return err
		}
		before := int(t.handled.Load())
		if err := submit(ctx, p, t, warm, n, w); err != nil {
			return err
		}
		if err := done(ctx, p, t); err != nil {
			return err
		}
		r, err = m.stop(ctx, warm+n-before)
		return err
	})
	return r, finish(ctx, p, t, err)
}

// idleRun measures how long a task waits for its handler when it is alone: from the call that submits it to the call of its
// handler. The pauses are random and as long as the longest poll, so that none is hit or missed by its rhythm.
func idleRun(ctx context.Context, e entry, p Peer, n int, longest time.Duration) ([]time.Duration, error) {
	if err := p.Reset(ctx); err != nil {
		return nil, err
	}
	t := newTally(n+1, e.Text)
	t.each = make(chan int, 2*(n+1))
	took := make([]time.Duration, 0, n)
	err := whileWorking(ctx, p, false, t, func(ctx context.Context) error {
		for i := range n + 1 {
			if err := pause(ctx, longest/20+rand.N(longest)); err != nil {
				return err
			}
			began := time.Since(t.began)
			if err := p.Submit(ctx, t.texts(i, 1), false); err != nil {
				return err
			}
			select {
			case <-t.each:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if i > 0 { // the first one opens connections
				took = append(took, t.at[i]-began)
			}
		}
		return settled(ctx, p)
	})
	return took, finish(ctx, p, t, err)
}

// load is a steady rate of tasks, of which the first ones do not count.
type load struct {
	rate    int // per second
	warm, n int // tasks
}

// steady is what became of a load.
type steady struct {
	took    []time.Duration // from the time each task was due to the call of its handler
	reached float64         // tasks handled per second
}

// rateRun submits single tasks at their due times, whether or not those before are stored: a submit that has to wait counts as
// waiting of its task.
func rateRun(ctx context.Context, e entry, p Peer, l load) (s steady, err error) {
	if err := p.Reset(ctx); err != nil {
		return s, err
	}
	t := newTally(l.warm+l.n, e.Text)
	due := make([]time.Duration, l.warm+l.n)
	err = whileWorking(ctx, p, false, t, func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		ready := make(chan int, len(due))
		var wait sync.WaitGroup
		for range goroutines {
			wait.Go(func() {
				for i := range ready {
					if err := p.Submit(ctx, t.texts(i, 1), false); err != nil {
						cancel(fmt.Errorf("submit: %w", err))
					}
				}
			})
		}
		pace(ctx, t.began, due, l.rate, ready)
		wait.Wait()
		if err := done(ctx, p, t); err != nil {
			return err
		}
		return nil
	})
	if err = finish(ctx, p, t, err); err != nil {
		return s, err
	}
	var last time.Duration
	for i := l.warm; i < len(due); i++ {
		s.took = append(s.took, t.at[i]-due[i])
		last = max(last, t.at[i])
	}
	s.reached = float64(l.n) / (last - due[l.warm]).Seconds()
	return s, nil
}

// pace hands out the indices at their due times, counted from zero, and writes these down.
func pace(ctx context.Context, zero time.Time, due []time.Duration, rate int, ready chan<- int) {
	defer close(ready)
	defer ownThread()()
	start := time.Since(zero) + 10*time.Millisecond
	for i := range due {
		due[i] = start + time.Duration(i)*time.Second/time.Duration(rate)
		sleepUntil(zero.Add(due[i]))
		if ctx.Err() != nil {
			return
		}
		ready <- i
	}
}

// memory is what tasks take in the store, in bytes.
type memory struct {
	waiting float64 // per task while it waits
	message float64 // of that, the encoded message
	left    float64 // per task when all are done
}

func memoryRun(ctx context.Context, e entry, p Peer, n int) (mem memory, err error) {
	if err := once(ctx, e, p); err != nil {
		return mem, err
	}
	before, err := p.Bytes(ctx)
	if err != nil {
		return mem, err
	}
	t := newTally(n, e.Text)
	if err := submit(ctx, p, t, 0, n, fastest(e, false)); err != nil {
		return mem, err
	}
	full, err := p.Bytes(ctx)
	if err != nil {
		return mem, err
	}
	message, err := p.Message(ctx)
	if err != nil {
		return mem, err
	}
	if err := workOff(ctx, p, t); err != nil {
		return mem, err
	}
	after, err := p.Bytes(ctx)
	mem = memory{waiting: float64(full-before) / float64(n), message: float64(message), left: float64(after-before) / float64(n)}
	return mem, errors.Join(err, p.Reset(ctx))
}

// once lets a few tasks through, so that connections, which take memory of the server too, are open.
func once(ctx context.Context, e entry, p Peer) error {
	if err := p.Reset(ctx); err != nil {
		return err
	}
	w := fastest(e, false)
	n := w.goroutines * w.batch
	t := newTally(n, e.Text)
	if err := submit(ctx, p, t, 0, n, w); err != nil {
		return err
	}
	return errors.Join(workOff(ctx, p, t), p.Reset(ctx))
}

// workOff runs a worker until all tasks of t are done.
func workOff(ctx context.Context, p Peer, t *tally) error {
	err := whileWorking(ctx, p, false, t, func(ctx context.Context) error {
		return done(ctx, p, t)
	})
	return verdict(ctx, t, err)
}
