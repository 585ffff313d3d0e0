package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/embedded"
)

type benchBoardCmd struct {
	boardFlags
	N       int  `short:"n" help:"Postings of each measurement." default:"10000"`
	Workers int  `help:"Workers that claim and consume." default:"4"`
	Apart   bool `help:"Each worker has a board of its own, as in a process of its own; else they share one, as the slots of a conductor do."`
	Batch   int  `help:"Postings that a worker claims and consumes at once." default:"64"`
	JSON    bool `name:"json" help:"End with one JSON object instead of a table."`
}

func (benchBoardCmd) Help() string {
	return `Posts, lists, claims and consumes on an empty board, or on one in a redis-server that it starts. A board that is not empty is refused: what is measured would take its postings. If it is stopped, its postings stay.

Posting: one by one from 64 goroutines, then all in one batch. Listing: all postings with their states and owners, the median of nine. Claim and consume: each worker takes the next --batch postings and consumes them until none is left; then the same one by one. Hand-over: from the end of a claim's owner, whose claim lives a second, until a waiting worker has it, less that second; on Redis only.

Examples:
  takt bench board
  takt bench board --board redis://127.0.0.1:6379?namespace=bench --n 10000 --workers 4 --json`
}

// boardBench is what was measured.
type boardBench struct {
	PostPerSecond      float64  `json:"post_per_s"`
	PostBatchPerSecond float64  `json:"post_batch_per_s"`
	List               float64  `json:"list_ms"`
	ConsumePerSecond   float64  `json:"claim_consume_per_s"`
	SinglePerSecond    float64  `json:"claim_consume_single_per_s"`
	HandOver           *float64 `json:"hand_over_ms"` // beyond the claim's time to live
	Postings           int      `json:"postings"`
	Workers            int      `json:"workers"`
	Seconds            float64  `json:"seconds"`
	Store              string   `json:"store"`
}

func (c *benchBoardCmd) Run(ctx context.Context, a *app) error {
	if c.N < 10 || c.N > 1_000_000 {
		return &exitError{exitUsage, fmt.Errorf("--n is %d: must be 10 to 1000000", c.N)}
	}
	if c.Workers < 1 || c.Workers > 256 {
		return &exitError{exitUsage, fmt.Errorf("--workers is %d: must be 1 to 256", c.Workers)}
	}
	started := time.Now()
	if c.Batch < 1 || c.Batch > board.MaxClaims {
		return &exitError{exitUsage, fmt.Errorf("--batch is %d: must be 1 to %d", c.Batch, board.MaxClaims)}
	}
	found := boardBench{Postings: c.N, Workers: c.Workers, Store: "external"}
	if c.Board == "" && a.Redis == "" {
		server, err := embedded.StartRedis(ctx, embedded.RedisOptions{})
		if err != nil {
			return &exitError{exitUsage, fmt.Errorf("%w; name a board with --board URL", err)}
		}
		defer func() { _ = server.Stop() }() // it ends with this process at the latest
		c.Board, found.Store = server.URL(), server.Kind
	}
	err := c.with(ctx, a, func(b *board.Board) error {
		if n, err := b.Count(ctx); err != nil || n > 0 {
			return cmp.Or(err, error(&exitError{exitUsage, fmt.Errorf("the board has %d postings: name an empty one, for example with ?namespace=bench", n)}))
		}
		r := &boardRun{benchBoardCmd: c, a: a, b: b, progress: newProgress(a.err), found: &found}
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
	found.Seconds = time.Since(started).Seconds()
	if c.JSON {
		return printJSON(a.out, found)
	}
	t := newTable(a.out, "MEASURED", "VALUE", "")
	t.row("post, one by one", fmt.Sprintf("%.0f", found.PostPerSecond), "per second, 64 goroutines")
	t.row("post, in a batch", fmt.Sprintf("%.0f", found.PostBatchPerSecond), "per second")
	t.row(fmt.Sprintf("list %d, with states", c.N), fmt.Sprintf("%.1f", found.List), "ms")
	t.row("claim and consume", fmt.Sprintf("%.0f", found.ConsumePerSecond), fmt.Sprintf("per second, %d workers, %d at once", c.Workers, c.Batch))
	t.row("claim and consume, one by one", fmt.Sprintf("%.0f", found.SinglePerSecond), fmt.Sprintf("per second, %d workers", c.Workers))
	if found.HandOver != nil {
		t.row("hand-over", fmt.Sprintf("%.1f", *found.HandOver), "ms beyond the time to live")
	}
	return t.flush()
}

// boardRun is one run of the measurements.
type boardRun struct {
	*benchBoardCmd
	a        *app
	b        *board.Board
	progress *progress
	found    *boardBench
}

// perSecond measures how often a second n things are done by do.
func perSecond(n int, do func() error) (float64, error) {
	begin := time.Now()
	err := do()
	return float64(n) / time.Since(begin).Seconds(), err
}

func (r *boardRun) single(ctx context.Context) (err error) {
	r.progress.say("posting one by one")
	var next atomic.Int64
	r.found.PostPerSecond, err = perSecond(r.N, func() error {
		return together(benchLone, func() error {
			for next.Add(1) <= int64(r.N) {
				if _, err := r.b.Post(ctx, board.Draft{Name: "bench"}); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return err
}

func (r *boardRun) batch(ctx context.Context) (err error) {
	r.progress.say("posting in a batch")
	drafts := make([]board.Draft, r.N)
	for i := range drafts {
		drafts[i].Name = "bench"
	}
	r.found.PostBatchPerSecond, err = perSecond(r.N, func() error {
		for some := range slices.Chunk(drafts, board.MaxBatch) {
			if _, err := r.b.PostBatch(ctx, some); err != nil {
				return err
			}
		}
		return nil
	})
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
		took = append(took, float64(time.Since(begin))/float64(time.Millisecond))
	}
	slices.Sort(took)
	r.found.List = took[len(took)/2]
	return nil
}

func (r *boardRun) consumeSingle(ctx context.Context) (err error) {
	r.found.SinglePerSecond, err = r.consume(ctx, 1)
	return err
}

func (r *boardRun) consumeBatch(ctx context.Context) (err error) {
	r.found.ConsumePerSecond, err = r.consume(ctx, r.Batch)
	return err
}

// consume empties the board, so many postings at once, and says how many it did per second.
func (r *boardRun) consume(ctx context.Context, batch int) (rate float64, err error) {
	r.progress.say("claiming and consuming")
	var boards []*board.Board
	for len(boards) < r.Workers {
		if len(boards) > 0 && !r.Apart {
			boards = append(boards, boards[0])
			continue
		}
		opened := make(chan *board.Board, 1)
		end := make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			ended <- r.with(ctx, r.a, func(b *board.Board) error {
				opened <- b
				<-end
				return nil
			})
		}()
		select {
		case b := <-opened:
			boards = append(boards, b)
		case err := <-ended:
			return 0, err
		}
		defer func() { close(end); <-ended }()
	}
	var consumed atomic.Int64
	var next atomic.Int64
	rate, err = perSecond(r.N, func() error {
		return together(r.Workers, func() error {
			b := boards[next.Add(1)-1]
			for {
				claims, err := b.ClaimBatch(ctx, "bench", batch, board.ClaimOptions{})
				if errors.Is(err, board.ErrNothing) {
					return nil
				}
				if err == nil {
					err = b.ConsumeBatch(ctx, claims)
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
		took = append(took, float64(time.Since(begin)-ttl)/float64(time.Millisecond))
		if err := claim.Consume(ctx); err != nil {
			return err
		}
	}
	slices.Sort(took)
	r.found.HandOver = &took[len(took)/2]
	return nil
}

// together runs n workers and returns the errors.
func together(n int, work func() error) error {
	var all sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		all.Go(func() { errs[i] = work() })
	}
	all.Wait()
	return errors.Join(errs...)
}
