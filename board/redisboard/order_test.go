package redisboard_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/testenv/long"
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

// What is urgent does not wait until all that was listed before it is claimed.
func TestUrgentIsSeen(t *testing.T) {
	long.Test(t, "compares times of the machine")
	t.Parallel()
	w := newBench(t)
	peer, _ := w.open()
	_, err := w.b.PostBatch(w.ctx, drafts(5000))
	w.must(err)
	_, err = peer.ClaimNext(w.ctx, "w", board.ClaimOptions{})
	w.must(err)
	_, err = w.b.Post(w.ctx, board.Draft{Name: "urgent", Priority: board.VeryHigh})
	w.must(err)
	pace := time.NewTicker(10 * time.Millisecond) // the list is read again when ten times the reading has passed, which is long on a busy machine
	defer pace.Stop()
	for n := 1; ; n++ {
		<-pace.C
		c, err := peer.ClaimNext(w.ctx, "w", board.ClaimOptions{TTL: time.Hour, NoKeepAlive: true})
		w.must(err)
		if c.Posting().Name == "urgent" {
			t.Logf("the urgent one came after %d others", n-1)
			if n > 4000 { // what was listed before it is claimed while it is not seen
				t.Errorf("the urgent one came after %d others", n-1)
			}
			break
		}
	}
}
