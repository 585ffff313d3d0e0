package redisboard_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/taktworks/takt/board"
)

// As many claim from one board as there are postings: each has one, although all share one line.
func TestClaimNextShares(t *testing.T) {
	t.Parallel()
	w := newBench(t)
	for round := range 20 {
		const many = 12
		_, err := w.b.PostBatch(w.ctx, drafts(many))
		w.must(err)
		start, claims := make(chan struct{}), make(chan *board.Claim, many)
		var all sync.WaitGroup
		for range many {
			all.Go(func() {
				<-start
				c, err := w.b.ClaimNext(w.ctx, "w", board.ClaimOptions{})
				if err != nil {
					t.Errorf("round %d: %v", round, err)
					return
				}
				claims <- c
			})
		}
		close(start)
		all.Wait()
		close(claims)
		for c := range claims {
			w.must(c.Consume(w.ctx))
		}
		if t.Failed() {
			return
		}
	}
}

// What is posted while others claim is claimed in its order: within a priority none is overtaken by a younger one that one claimer got before.
func TestClaimNextOrder(t *testing.T) {
	t.Parallel()
	w := newBench(t)
	peer, _ := w.open()
	const many = 300
	posted := make(chan error, 1)
	go func() {
		for range many / 10 {
			all := drafts(10)
			all[0].Priority = board.High
			if _, err := w.b.PostBatch(w.ctx, all); err != nil {
				posted <- err
				return
			}
		}
		posted <- nil
	}()
	var claimed []*board.Posting
	for len(claimed) < many {
		c, err := peer.ClaimNext(w.ctx, "w", board.ClaimOptions{})
		if errors.Is(err, board.ErrNothing) {
			w.must(peer.WaitUnclaimed(w.within(patience)))
			continue
		}
		w.must(err)
		claimed = append(claimed, c.Posting())
		w.must(c.Consume(w.ctx))
	}
	w.must(<-posted)
	for _, priority := range []board.Priority{board.High, board.Normal} {
		var numbers []int64
		for _, p := range claimed {
			if p.Priority == priority {
				numbers = append(numbers, p.Sequence)
			}
		}
		if !slices.IsSorted(numbers) {
			t.Errorf("%v: order is %d", priority, numbers)
		}
	}
}
