package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/bench"
)

type benchBoardCmd struct {
	boardFlags
	N       int  `short:"n" help:"Postings of each measurement." must:"be 10 to 1000000" default:"10000"`
	Workers int  `help:"Workers that claim and consume." must:"be 1 to 256" default:"4"`
	Batch   int  `help:"Postings that a worker claims and consumes at once." must:"be 1 to 500" default:"64"`
	JSON    bool `name:"json" help:"End with one JSON object instead of a table."`
}

func (c *benchBoardCmd) Run(ctx context.Context, a *app) error {
	started := time.Now()
	found := &benchFound{}
	c.Board = cmp.Or(c.Board, a.Redis)
	store, err := a.benchServer(ctx, &c.Board, "name a board with --board URL")
	if err != nil {
		return err
	}
	err = c.with(ctx, a, func(b *board.Board) error {
		if n, err := b.Count(ctx); err != nil || n > 0 {
			return cmp.Or(err, error(&exitError{exitUsage, fmt.Errorf("the board has %d postings: name an empty one, for example with ?namespace=bench", n)}))
		}
		r := &boardRun{benchBoardCmd: c, b: b, progress: newProgress(a.err), found: found}
		defer r.progress.end()
		for _, step := range []func(context.Context) error{r.single, r.consumeSingle, r.batch, r.list, r.consumeBatch, r.handOver} {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	found.fact("store", store).fact("postings", c.N).fact("workers", c.Workers).fact("seconds", time.Since(started).Seconds())
	return a.showBench(c.JSON, found)
}

// boardRun is one run of the measurements.
type boardRun struct {
	*benchBoardCmd
	b        *board.Board
	progress *progress
	found    *benchFound
}

func (r *boardRun) single(ctx context.Context) error {
	r.progress.say("posting one by one")
	rate, err := bench.PerSecond(r.N, func() error {
		return bench.ForEach(ctx, benchLone, r.N, func(ctx context.Context, _ int) error {
			_, err := r.b.Post(ctx, board.Draft{Name: "bench"})
			return err
		})
	})
	r.found.add("post_per_s", "post, one by one", rate, "per second, 64 goroutines")
	return err
}

func (r *boardRun) batch(ctx context.Context) error {
	r.progress.say("posting in a batch")
	drafts := make([]board.Draft, r.N)
	for i := range drafts {
		drafts[i].Name = "bench"
	}
	rate, err := bench.PerSecond(r.N, func() error {
		for some := range slices.Chunk(drafts, board.MaxBatch) {
			if _, err := r.b.PostBatch(ctx, some); err != nil {
				return err
			}
		}
		return nil
	})
	r.found.add("post_batch_per_s", "post, in a batch", rate, "per second")
	return err
}

func (r *boardRun) list(ctx context.Context) error {
	r.progress.say("listing")
	var took []float64
	for range 9 {
		begin := time.Now()
		rows, err := r.b.List(ctx, board.ListOptions{})
		if err != nil {
			return err
		}
		if len(rows) != r.N {
			return fmt.Errorf("%d postings are listed, %d were posted: somebody else works on this board", len(rows), r.N)
		}
		took = append(took, bench.Milliseconds(time.Since(begin)))
	}
	r.found.add("list_ms", fmt.Sprintf("list %d, with states", r.N), bench.Median(took), "ms")
	return nil
}

func (r *boardRun) consumeSingle(ctx context.Context) error {
	rate, err := r.consume(ctx, 1)
	r.found.add("claim_consume_single_per_s", "claim and consume, one by one", rate, fmt.Sprintf("per second, %d workers", r.Workers))
	return err
}

func (r *boardRun) consumeBatch(ctx context.Context) error {
	rate, err := r.consume(ctx, r.Batch)
	r.found.add("claim_consume_per_s", "claim and consume", rate, fmt.Sprintf("per second, %d workers, %d at once", r.Workers, r.Batch))
	return err
}

// consume empties the board, so many postings at once, and says how many it did per second.
func (r *boardRun) consume(ctx context.Context, batch int) (rate float64, err error) {
	r.progress.say("claiming and consuming")
	var consumed atomic.Int64
	rate, err = bench.PerSecond(r.N, func() error {
		return bench.ForEach(ctx, r.Workers, r.Workers, func(ctx context.Context, _ int) error {
			for {
				claims, err := r.b.ClaimBatch(ctx, "bench", batch, board.ClaimOptions{})
				if errors.Is(err, board.ErrNothing) {
					return nil
				}
				if err == nil {
					err = r.b.ConsumeBatch(ctx, claims)
				}
				if err != nil {
					return err
				}
				consumed.Add(int64(len(claims)))
			}
		})
	})
	if err == nil && consumed.Load() != int64(r.N) {
		err = fmt.Errorf("%d postings were consumed, %d were posted", consumed.Load(), r.N)
	}
	return rate, err
}

// handOver measures how long a posting waits when its owner is not heard of any more.
func (r *boardRun) handOver(ctx context.Context) error {
	const ttl, rounds = time.Second, 3
	if onZooKeeper(r.Board) {
		r.found.fact("hand_over_ms", nil)
		return nil // claims end with the session there
	}
	r.progress.say("handing over")
	var took []float64
	for range rounds {
		p, err := r.b.Post(ctx, board.Draft{Name: "bench"})
		if err != nil {
			return err
		}
		begin := time.Now() // before the claim, whose time begins at the server
		if _, err := r.b.Claim(ctx, p, "dead", board.ClaimOptions{TTL: ttl, NoKeepAlive: true}); err != nil {
			return err
		}
		if err := r.b.WaitUnclaimed(ctx); err != nil {
			return err
		}
		claim, err := r.b.ClaimNext(ctx, "heir", board.ClaimOptions{})
		if err != nil {
			return err
		}
		took = append(took, bench.Milliseconds(time.Since(begin)-ttl))
		if err := claim.Consume(ctx); err != nil {
			return err
		}
	}
	r.found.add("hand_over_ms", "hand-over", bench.Median(took), "ms beyond the time to live")
	return nil
}
