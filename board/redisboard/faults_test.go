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
	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

// shortLife is a time to live that is not over before what a test does next: longer than a busy machine holds a process up.
const shortLife = 3 * time.Second

// Fault 3: an owner that hears and says nothing for longer than its claim lives. Its work is told to stop before another has the posting, which is soon after the end of the claim, and what it finishes then is refused.
func TestStoppedOwner(t *testing.T) {
	long.Test(t, "waits for claims to end")
	t.Parallel()
	w := newBench(t)
	peer, _ := w.open()
	p := w.post("a")
	for range 3 {
		c := w.claim(w.b, p, board.ClaimOptions{TTL: shortLife})
		w.proxy.Stall(true)
		var ended time.Time
		stopped := make(chan struct{})
		go func() {
			<-c.Context().Done()
			ended = time.Now()
			close(stopped)
		}()
		seen := w.looks()
		w.must(peer.WaitUnclaimed(w.within(patience)))
		other := w.claim(peer, p, board.ClaimOptions{})
		taken := time.Now()
		seen("want once the claim is over, after 12 of them")
		w.done(c.Context(), "the context of the stopped owner ends")
		<-stopped
		if !ended.Before(taken) {
			t.Errorf("ended %v after another had the posting", ended.Sub(taken))
		}
		if other.Fence() <= c.Fence() {
			t.Errorf("fence %d after %d", other.Fence(), c.Fence())
		}
		w.proxy.Stall(false)
		w.is(c.Consume(w.within(patience)), board.ErrClaimLost)
		w.is(c.Abandon(w.within(patience)), board.ErrClaimLost)
		if r := w.find(p); r.Owner != other.Owner() {
			t.Errorf("owner is %q, want %q", r.Owner, other.Owner())
		}
		w.must(other.Abandon(w.ctx))
	}
}

// Fault 5: Redis is killed and comes back with all it had acknowledged, and boards go on by themselves.
func TestRedisKilled(t *testing.T) {
	long.Test(t, "kills Redis")
	t.Parallel()
	server := testenv.StartRedis(t, embedded.RedisOptions{Persist: true, Config: []string{"appendfsync always"}})
	w := benchOn(t, server, "")
	peer, _ := w.open()
	kept, trashed, claimed := w.post("kept"), w.post("trashed"), w.post("claimed")
	w.must(w.claim(w.b, trashed, board.ClaimOptions{}).Trash(w.ctx))
	c := w.claim(w.b, claimed, board.ClaimOptions{TTL: time.Minute})
	hold := w.claim(peer, kept, board.ClaimOptions{TTL: time.Minute})
	told := w.waiting(func() error { return peer.WaitUnclaimed(w.within(patience)) })

	w.must(server.Server.Kill())
	posted := make(chan error, 1)
	go func() {
		_, err := w.b.Post(w.within(patience), board.Draft{Name: "during"})
		posted <- err
	}()
	w.must(server.Server.Restart(w.ctx))
	begin := time.Now()
	w.must(<-posted)
	w.must(<-told)
	w.Logf("posted and told %v after the restart", time.Since(begin))
	if r := w.find(claimed); r.Owner != c.Owner() || r.ExpiresIn <= 0 {
		t.Errorf("the claim is %q, expires in %v", r.Owner, r.ExpiresIn)
	}
	if rows, err := w.b.TrashList(w.ctx); err != nil || len(rows) != 1 || rows[0].UUID != trashed.UUID {
		t.Errorf("the trash has %v, %v", rows, err)
	}
	w.must(c.Consume(w.ctx))
	w.must(hold.Consume(w.ctx))
	if n := w.count(); n != 1 {
		t.Errorf("%d postings", n)
	}
}

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
				ticks := time.NewTicker(3 * time.Millisecond)
				defer ticks.Stop()
				for {
					select {
					case <-end:
						return
					case <-ticks.C:
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

// Fault 25: many claim one posting, and one has it. All others are told who.
func TestManyClaimOne(t *testing.T) {
	t.Parallel()
	w := newBench(t)
	peer, _ := w.open()
	const many = 200
	for range 3 {
		p := w.post("a")
		won := make(chan *board.Claim, many)
		owners := make(chan string, many)
		start := make(chan struct{})
		var all sync.WaitGroup
		for i := range many {
			b := []*board.Board{w.b, peer}[i%2]
			all.Go(func() {
				<-start
				c, err := b.Claim(w.ctx, p, "w", board.ClaimOptions{})
				if err == nil {
					won <- c
					return
				}
				var claimed *board.ClaimedError
				if !errors.As(err, &claimed) {
					t.Error(err)
					return
				}
				owners <- claimed.Owner
			})
		}
		close(start)
		all.Wait()
		if len(won) != 1 || len(owners) != many-1 {
			t.Fatalf("%d have it, %d were refused", len(won), len(owners))
		}
		c := <-won
		for range many - 1 {
			if owner := <-owners; owner != c.Owner() {
				t.Fatalf("refused for %q, %q has it", owner, c.Owner())
			}
		}
		w.must(c.Consume(w.ctx))
	}
}

// Extend says how long from then on: the keep-alive follows, whether there was a time to live before or not, and the end does.
func TestExtendDecides(t *testing.T) {
	long.Test(t, "waits for a claim to be kept alive")
	t.Parallel()
	w := newBench(t)
	p := w.post("a")
	c := w.claim(w.b, p, board.ClaimOptions{TTL: shortLife})
	w.must(c.Extend(w.ctx, time.Hour))
	w.do("CONFIG", "RESETSTAT")
	late := time.After(shortLife / 2) // what is tested is that time does nothing: a keep-alive every third would show
	<-late
	if r := w.find(p); r.ExpiresIn < 59*time.Minute {
		t.Errorf("expires in %v", r.ExpiresIn)
	}
	w.must(c.Extend(w.ctx, board.NoTTL))
	if ttl := w.do("PTTL", w.key(p.Ref+".owned")); ttl != "-1" {
		t.Errorf("has %s ms", ttl)
	}
	w.must(c.Extend(w.ctx, shortLife))
	w.soon("it is kept alive again", func() bool { return w.calls("pexpire") >= 3 })
	w.must(c.Abandon(w.ctx))

	for _, first := range []time.Duration{board.NoTTL, time.Hour} {
		c = w.claim(w.b, p, board.ClaimOptions{TTL: first, NoKeepAlive: true})
		w.must(c.Extend(w.ctx, 100*time.Millisecond))
		w.done(c.Context(), "the context of a claim that was shortened ends")
		w.must(w.b.WaitUnclaimed(w.within(patience)))
	}
	b, _ := w.open()
	c = w.claim(b, p, board.ClaimOptions{TTL: board.NoTTL})
	w.must(b.Close())
	w.done(c.Context(), "the context of a claim ends with its board")
	w.is(context.Cause(c.Context()), board.ErrClosed)
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
