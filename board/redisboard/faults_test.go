package redisboard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/testenv/long"
)

// shortLife is a time to live that is not over before what a test does next: longer than a busy machine holds a process up.
const shortLife = 3 * time.Second

// Fault 7: everything is deleted under a board in use. Claims end, and the board goes on empty.
func TestFlushed(t *testing.T) {
	t.Parallel()
	w := newBench(t)
	p := w.post("a")
	c := w.claim(w.b, p, board.ClaimOptions{TTL: time.Hour})
	told := w.waiting(func() error {
		state, err := w.b.WaitFor(w.within(patience), p)
		if err == nil && state != board.Complete {
			err = fmt.Errorf("state is %v", state)
		}
		return err
	})
	prints := w.calls("evalsha_ro")
	w.soon("the waiter compares", func() bool { return w.calls("evalsha_ro") >= prints+2 }) // with a board that is not empty
	w.do("FLUSHALL")
	w.do("SCRIPT", "FLUSH")
	w.must(<-told)
	w.is(c.Extend(w.ctx, time.Hour), board.ErrClaimLost)
	w.done(c.Context(), "the claim ends")
	w.is(context.Cause(c.Context()), board.ErrClaimLost)
	w.is(c.Consume(w.ctx), board.ErrClaimLost)
	p = w.post("b")
	w.must(w.claim(w.b, p, board.ClaimOptions{}).Consume(w.ctx))
	w.keysAre("fence string", "sequence string")
}

// Fault 10: the network hands on a byte at a time, slowly, or breaks off again and again: every operation does what it does otherwise.
func TestBadNetwork(t *testing.T) {
	long.Test(t, "breaks a link")
	t.Parallel()
	for name, spoil := range map[string]func(*bench) (stop func()){
		"a byte at a time": func(w *bench) func() { w.proxy.Fragment(1); return func() {} },
		"100 kB/s":         func(w *bench) func() { w.proxy.Throttle(100_000); return func() {} },
		"5 ms away":        func(w *bench) func() { w.proxy.Delay(5 * time.Millisecond); return func() {} },
		"cut again and again": func(w *bench) func() {
			end := make(chan struct{})
			var cutter sync.WaitGroup
			cutter.Go(func() {
				ticks := time.Tick(3 * time.Millisecond)
				for {
					select {
					case <-end:
						return
					case <-ticks:
						w.proxy.Cut()
					}
				}
			})
			return func() { close(end); cutter.Wait() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newBench(t)
			peer, _ := w.open()
			stop := spoil(w)
			const many = 20
			_, err := w.b.PostBatch(w.ctx, drafts(many))
			w.must(err)
			done := map[string]int{}
			for finished := 0; finished < many; {
				c, err := w.b.ClaimNext(w.within(patience), "w", board.ClaimOptions{TTL: shortLife})
				if errors.Is(err, board.ErrNothing) { // what was claimed with a reply that got lost is free again later
					w.must(peer.WaitUnclaimed(w.within(patience)))
					continue
				}
				if errors.Is(err, board.ErrAway) {
					continue
				}
				w.must(err)
				finish := c.Consume
				if finished%3 == 1 {
					finish = c.Trash
				}
				err = finish(w.within(patience))
				var lost *board.LostError
				switch gone := errors.As(err, &lost) && lost.Err != nil; {
				case gone: // nobody else is here, so it was us
				case errors.Is(err, board.ErrClaimLost):
					continue
				default:
					w.must(err)
				}
				done[c.Posting().UUID]++
				finished++
			}
			stop()
			for uuid, n := range done {
				if n != 1 {
					t.Errorf("%s was finished %d times", uuid, n)
				}
			}
			rows, err := peer.TrashList(w.ctx)
			w.must(err)
			if n, err := peer.Count(w.ctx); n != 0 || err != nil || len(done) != many || len(rows) == 0 {
				t.Errorf("%d left, %v; %d finished, %d in the trash", n, err, len(done), len(rows))
			}
		})
	}
}

// A reply that fills the shared connection for longer than a claim lives does not end it: it is extended on another one.
func TestClaimOutlivesALargeReply(t *testing.T) {
	long.Test(t, "waits for claims to be extended")
	t.Parallel()
	w := newBench(t)
	b, proxy := w.open()
	p := w.post("a")
	for range 16 {
		_, err := w.b.Post(w.ctx, board.Draft{Name: "large", Details: map[string]any{"x": strings.Repeat("x", 512<<10)}})
		w.must(err)
	}
	c := w.claim(b, p, board.ClaimOptions{TTL: shortLife})
	begun := time.Now()
	proxy.Throttle(1 << 20)
	_, err := b.List(w.ctx, board.ListOptions{})
	proxy.Throttle(0)
	w.must(err)
	if took := time.Since(begun); took < shortLife {
		t.Fatalf("the reply took %v only", took)
	}
	if c.Context().Err() != nil {
		t.Errorf("lost: %v", context.Cause(c.Context()))
	}
	w.must(c.Consume(w.ctx))
}
