package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/taktworks/takt/internal/bench"
	"github.com/taktworks/takt/internal/lifecycle"
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

// attempt has do run n tasks, from an empty store to an empty store. It is an error unless each was handled exactly once.
func attempt(ctx context.Context, e entry, p Peer, n int, do func(t *tally) error) error {
	if err := p.Reset(ctx); err != nil {
		return err
	}
	t := newTally(n, e.Text)
	err := do(t)
	if !errors.Is(ctx.Err(), context.Canceled) { // the program was not told to end
		err = errors.Join(err, t.check())
	}
	if err != nil {
		return err
	}
	return p.Reset(ctx)
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
			cancel(fmt.Errorf("the worker ended early: %w", cmp.Or(err, errNothing)))
		}
		worker <- err
	}()
	err := do(ctx)
	stop()
	return errors.Join(err, <-worker)
}

var errNothing = errors.New("without an error")

// done waits until every task of t is handled and p has nothing waiting or under way: the end of the last is written.
func done(ctx context.Context, p Peer, t *tally) error {
	if err := t.await(ctx, t.all); err != nil {
		return err
	}
	for {
		n, err := p.Unsettled(ctx)
		if err != nil || n == 0 {
			return err
		}
		if !lifecycle.Sleep(ctx, time.Millisecond) {
			return fmt.Errorf("%d tasks are not settled: %w", n, context.Cause(ctx))
		}
	}
}

// submitRun measures how fast tasks are stored while nobody works on them.
func submitRun(ctx context.Context, e entry, p Peer, n int, w way) (bench.Figures, error) {
	if err := p.Reset(ctx); err != nil {
		return nil, err
	}
	m, err := startMeter(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := submit(ctx, p, newTally(n, e.Text), 0, n, w); err != nil {
		return nil, err
	}
	f, err := m.stop(ctx, n)
	if err != nil {
		return nil, err
	}
	stored, err := p.Unsettled(ctx)
	if err == nil && stored != n {
		err = fmt.Errorf("%w: %d tasks were submitted, %d are stored", errInvalid, n, stored)
	}
	return f, errors.Join(err, p.Reset(ctx))
}

// processRun measures how fast a worker works off what has been stored, from its first task to the end of the last being written.
func processRun(ctx context.Context, e entry, p Peer, n int) (f bench.Figures, err error) {
	err = attempt(ctx, e, p, n, func(t *tally) error {
		if err := submit(ctx, p, t, 0, n, fastest(e, false)); err != nil {
			return err
		}
		m, err := startMeter(ctx, p)
		if err != nil {
			return err
		}
		return whileWorking(ctx, p, false, t, func(ctx context.Context) error {
			if err := t.await(ctx, t.first); err != nil {
				return err
			}
			m.began = time.Now() // starting a worker takes some longer than others
			if err := done(ctx, p, t); err != nil {
				return err
			}
			f, err = m.stop(ctx, n)
			return err
		})
	})
	return f, err
}

// endToEndRun measures a producer and a worker at once. The clock starts when the worker has begun on a few tasks stored before, which keep it busy until
// the producers are at work: a library that polls would else sleep through the start.
func endToEndRun(ctx context.Context, e entry, p Peer, n int, w way) (f bench.Figures, err error) {
	warm := min(1000, n/10+1)
	err = attempt(ctx, e, p, warm+n, func(t *tally) error {
		if err := submit(ctx, p, t, 0, warm, fastest(e, w.results)); err != nil {
			return err
		}
		return whileWorking(ctx, p, w.results, t, func(ctx context.Context) error {
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
			f, err = m.stop(ctx, warm+n-before)
			return err
		})
	})
	return f, err
}

// idleRun measures how long a task waits for its handler when it is alone: from the call that submits it to the call of its
// handler. The pauses are random and as long as the longest poll, so that none is hit or missed by its rhythm.
func idleRun(ctx context.Context, e entry, p Peer, n int, longest time.Duration) (took []time.Duration, err error) {
	err = attempt(ctx, e, p, n+1, func(t *tally) error {
		t.each = make(chan int, 2*(n+1))
		return whileWorking(ctx, p, false, t, func(ctx context.Context) error {
			for i := range n + 1 {
				if !lifecycle.Sleep(ctx, longest/20+rand.N(longest)) {
					return context.Cause(ctx)
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
			return done(ctx, p, t)
		})
	})
	return took, err
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
	due := make([]time.Duration, l.warm+l.n)
	err = attempt(ctx, e, p, len(due), func(t *tally) error {
		err := whileWorking(ctx, p, false, t, func(ctx context.Context) error {
			ready := make(chan int, len(due))
			go pace(ctx, t.began, due, l.rate, ready)
			err := bench.ForEach(ctx, goroutines, len(due), func(ctx context.Context, _ int) error {
				i, ok := <-ready
				if !ok {
					return context.Cause(ctx)
				}
				return p.Submit(ctx, t.texts(i, 1), false)
			})
			if err != nil {
				return fmt.Errorf("submit: %w", err)
			}
			return done(ctx, p, t)
		})
		if err != nil {
			return err
		}
		var last time.Duration
		for i := l.warm; i < len(due); i++ {
			s.took = append(s.took, t.at[i]-due[i])
			last = max(last, t.at[i])
		}
		s.reached = float64(l.n) / (last - due[l.warm]).Seconds()
		return nil
	})
	return s, err
}

// pace hands out the indices at their due times, counted from zero, and writes these down.
func pace(ctx context.Context, zero time.Time, due []time.Duration, rate int, ready chan<- int) {
	defer close(ready)
	onOwnThread(func(sleepUntil func(time.Time)) {
		start := time.Since(zero) + 10*time.Millisecond
		for i := range due {
			due[i] = start + time.Duration(i)*time.Second/time.Duration(rate)
			sleepUntil(zero.Add(due[i]))
			if ctx.Err() != nil {
				return
			}
			ready <- i
		}
	})
}

// memoryRun measures what a task takes in the store, in bytes: while it waits, of that its message, and when all are done. A few tasks go through before, so
// that connections, which take memory of the server too, are open.
func memoryRun(ctx context.Context, e entry, p Peer, n int) (f bench.Figures, err error) {
	w := fastest(e, false)
	workOff := func(t *tally) error {
		return whileWorking(ctx, p, false, t, func(ctx context.Context) error { return done(ctx, p, t) })
	}
	some := w.goroutines * w.batch
	err = attempt(ctx, e, p, some, func(t *tally) error {
		if err := submit(ctx, p, t, 0, some, w); err != nil {
			return err
		}
		return workOff(t)
	})
	if err != nil {
		return nil, err
	}
	before, err := p.Bytes(ctx)
	if err != nil {
		return nil, err
	}
	err = attempt(ctx, e, p, n, func(t *tally) error {
		if err := submit(ctx, p, t, 0, n, w); err != nil {
			return err
		}
		full, err := p.Bytes(ctx)
		if err != nil {
			return err
		}
		message, err := p.Message(ctx)
		if err != nil {
			return err
		}
		if err := workOff(t); err != nil {
			return err
		}
		after, err := p.Bytes(ctx)
		waiting := float64(full-before) / float64(n)
		f = bench.Figures{
			"waiting_bytes": waiting, "message_bytes": float64(message), "overhead_bytes": waiting - float64(message), "left_bytes": float64(after-before) / float64(n),
		}
		return err
	})
	return f, err
}
