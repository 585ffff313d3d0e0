package interop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/board"
)

const (
	shared        = 1000
	pythonWorkers = 3
	goWorkers     = 2
)

// Three workers of TaskFlow, each a process, and two of Takt share a board: each posting is consumed exactly once. All claim one first, and go on together; then those of Takt, which would be done soon, take one for each that
// TaskFlow has consumed.
func share(t *testing.T, k kind) {
	t.Helper()
	peers := startPeers(t, pythonWorkers)
	w := newWorld(t, k, peers[0])
	ctx, stop := context.WithTimeout(t.Context(), 3*patience) // TaskFlow does some 60 a second on ZooKeeper
	defer stop()
	w.ctx = ctx
	drafts := make([]board.Draft, shared)
	for i := range drafts {
		drafts[i].Name = fmt.Sprint("job ", i)
	}
	all, err := w.b.PostBatch(w.ctx, drafts)
	w.must(err)
	unfinished := w.watchRemovals()

	begin := time.Now()
	calls := make([]*call, pythonWorkers)
	for i, p := range peers {
		py := w.py
		if i > 0 {
			py = w.openIn(p)
		}
		calls[i] = py.start("worker", map[string]any{"who": fmt.Sprint("python ", i)})
	}
	working, finish := context.WithCancel(ctx)
	defer finish()
	workers := make([]*worker, goWorkers)
	var first, running sync.WaitGroup
	turns := make(chan struct{}, len(all))
	for i := range workers {
		workers[i] = &worker{b: w.open(), who: fmt.Sprint("takt ", i), asTaskFlow: i > 0}
		first.Add(1)
		running.Go(func() { workers[i].run(working, t, first.Done, turns) })
	}
	for _, c := range calls {
		c.event(t, "claimed", nil)
	}
	first.Wait()
	for range workers {
		turns <- struct{}{}
	}
	for _, c := range calls {
		c.tell(t, "go")
		running.Go(func() { c.pass(working, turns) })
	}
	w.must(<-unfinished)
	took := time.Since(begin)
	finish()
	running.Wait()

	by := map[string][]string{}
	for i, c := range calls {
		c.tell(t, "stop")
		var said struct {
			Consumed, Failed []string
			Lost             int
		}
		w.must(c.finish(t, &said))
		name := fmt.Sprint("python ", i)
		t.Logf("%s consumed %d, lost %d races", name, len(said.Consumed), said.Lost)
		by[name] = said.Consumed
		for _, f := range said.Failed {
			t.Errorf("%s: %s", name, f)
		}
	}
	for _, v := range workers {
		t.Logf("%s consumed %d, lost %d races", v.who, len(v.consumed), v.lost)
		by[v.who] = v.consumed
	}
	t.Logf("%d postings in %v", len(all), took)

	var consumed, posted []string
	for name, some := range by {
		if len(some) == 0 {
			t.Errorf("%s consumed nothing", name)
		}
		consumed = append(consumed, some...)
	}
	for _, p := range all {
		posted = append(posted, p.UUID)
	}
	slices.Sort(consumed)
	slices.Sort(posted)
	if !slices.Equal(consumed, posted) {
		t.Errorf("%d were consumed, %d of them different, %d posted", len(consumed), len(slices.Compact(slices.Clone(consumed))), len(posted))
	}
	w.py.count(0)
	w.sound()
}

// watchRemovals tells when all that is posted is gone.
func (w *world) watchRemovals() <-chan error {
	return w.begin(func(ctx context.Context) error {
		left := 0
		for e, err := range w.b.Watch(ctx) {
			switch {
			case err != nil:
				return err
			case e.Kind == board.EventPosted:
				left++
			case e.Kind == board.EventRemoved:
				left--
			}
			if left == 0 {
				return nil
			}
		}
		return fmt.Errorf("%d are left: %w", left, context.Cause(ctx))
	})
}

// pass gives a turn for each posting that a worker of TaskFlow consumes.
func (c *call) pass(ctx context.Context, turns chan<- struct{}) {
	for {
		select {
		case <-c.events:
		case <-ctx.Done():
			return
		}
		select {
		case turns <- struct{}{}:
		default: // there are more turns than postings
		}
	}
}

// worker is one of Takt.
type worker struct {
	b          *board.Board
	who        string
	asTaskFlow bool // goes through listings in the order of TaskFlow, so that it is after what the others are after
	listed     []board.Row
	consumed   []string
	lost       int
}

// run claims one and calls first; then it consumes one for each turn until ctx ends. While it waits for a turn it has none but the first, so that the others can go on.
func (v *worker) run(ctx context.Context, t *testing.T, first func(), turns <-chan struct{}) {
	c, err := v.await(ctx)
	for first(); err == nil; c = nil {
		select {
		case <-turns:
		case <-ctx.Done():
			return
		}
		if c == nil {
			c, err = v.await(ctx)
		}
		if err == nil {
			err = c.Consume(ctx)
		}
		if err == nil {
			v.consumed = append(v.consumed, c.Posting().UUID)
		}
	}
	if ctx.Err() == nil {
		t.Errorf("%s: %v", v.who, err)
	}
}

// await claims one, if need be later.
func (v *worker) await(ctx context.Context) (*board.Claim, error) {
	for {
		c, err := v.next(ctx)
		if !errors.Is(err, board.ErrNothing) {
			return c, err
		}
		if err := v.b.WaitUnclaimed(ctx); err != nil {
			return nil, err
		}
	}
}

// next claims one.
func (v *worker) next(ctx context.Context) (*board.Claim, error) {
	if !v.asTaskFlow {
		return v.b.ClaimNext(ctx, v.who, board.ClaimOptions{})
	}
	if len(v.listed) == 0 {
		var err error
		if v.listed, err = v.b.List(ctx, board.ListOptions{OnlyUnclaimed: true, AsTaskFlow: true}); err != nil {
			return nil, err
		}
	}
	for len(v.listed) > 0 {
		p := v.listed[0].Posting
		v.listed = v.listed[1:]
		c, err := v.b.Claim(ctx, p, v.who, board.ClaimOptions{})
		if err == nil {
			return c, nil
		}
		var claimed *board.ClaimedError
		if !errors.As(err, &claimed) && !errors.Is(err, board.ErrNotFound) {
			return nil, err
		}
		v.lost++
	}
	return nil, board.ErrNothing
}
