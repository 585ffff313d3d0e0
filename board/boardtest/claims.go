package boardtest

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/testenv/long"
)

var claims = map[string]func(*world){
	"posting_claim": func(w *world) {
		p := w.one()
		w.state(p, board.Unclaimed)
		if owner, ok, err := w.b.FindOwner(w.ctx, p); ok || owner != "" || err != nil {
			w.Errorf("owner %q, %v, %v", owner, ok, err)
		}
		c := w.claim(w.b, p, "worker-1")
		w.state(p, board.Claimed)
		owner, ok, err := w.open().FindOwner(w.ctx, p)
		w.must(err)
		if !ok || owner != c.Owner() || !strings.HasPrefix(owner, "worker-1/") {
			w.Errorf("owner is %q, %v", owner, ok)
		}
		if c.Context().Err() != nil || c.Attempt() != 1 || c.Fence() == 0 {
			w.Errorf("claim: %v, attempt %d, fence %d", c.Context().Err(), c.Attempt(), c.Fence())
		}
		w.must(c.Abandon(w.ctx))
	},

	"posting_claim_consume": func(w *world) {
		p := w.one()
		c := w.claim(w.b, p, "w")
		w.must(c.Consume(w.ctx))
		w.state(p, board.Complete)
		if n, err := w.b.Count(w.ctx); n != 0 || err != nil {
			w.Errorf("count is %d, %v", n, err)
		}
		w.is(w.b.Consume(w.ctx, p, c.Owner()), board.ErrNotFound)
		w.is(c.Consume(w.ctx), board.ErrClaimLost)
		if c.Context().Err() == nil {
			w.Error("the context of a finished claim has not ended")
		}
		_, err := w.b.Claim(w.ctx, p, "w", board.ClaimOptions{})
		w.is(err, board.ErrNotFound)
		_, err = w.b.Find(w.ctx, p.UUID)
		w.is(err, board.ErrNotFound)
	},

	"posting_claim_abandon": func(w *world) {
		p := w.one()
		c := w.claim(w.b, p, "w")
		w.must(c.Abandon(w.ctx))
		w.state(p, board.Unclaimed)
		again := w.claim(w.open(), p, "v")
		if again.Attempt() != 2 || again.Fence() <= c.Fence() {
			w.Errorf("attempt %d, fence %d after %d", again.Attempt(), again.Fence(), c.Fence())
		}
		w.is(c.Abandon(w.ctx), board.ErrClaimLost)
		w.state(p, board.Claimed)
		w.must(again.Consume(w.ctx))
	},

	"posting_claim_diff_owner: the second is told who has it": func(w *world) {
		p := w.one()
		c := w.claim(w.b, p, "w")
		peer := w.open()
		_, err := peer.Claim(w.ctx, p, "v", board.ClaimOptions{})
		if e := as[*board.ClaimedError](w, err); e.Owner != c.Owner() || e.Ref != p.Ref {
			w.Errorf("told %+v, owner is %s", e, c.Owner())
		}
		if got := w.list(peer, board.ListOptions{}); len(got) != 1 {
			w.Errorf("lists %q", got)
		}
		_, err = peer.ClaimNext(w.ctx, "v", board.ClaimOptions{})
		w.is(err, board.ErrNothing)
		w.must(c.Consume(w.ctx))
	},

	"posting_claim_same_owner: the same owner is refused, and changes nothing": func(w *world) {
		p := w.one()
		exact := board.ClaimOptions{TTL: time.Minute, ExactOwner: true}
		c, err := w.b.Claim(w.ctx, p, "w", exact)
		w.must(err)
		before, err := w.b.Find(w.ctx, p.Ref)
		w.must(err)
		exact.TTL = time.Hour
		_, err = w.open().Claim(w.ctx, p, "w", exact)
		if e := as[*board.ClaimedError](w, err); e.Owner != "w" {
			w.Errorf("told %+v", e)
		}
		after, err := w.b.Find(w.ctx, p.Ref)
		w.must(err)
		if after.LastModified != before.LastModified || after.ExpiresIn > before.ExpiresIn {
			w.Errorf("changed from %+v to %+v", before, after)
		}
		exact.Reclaim = true // as TaskFlow before 2.12
		again, err := w.open().Claim(w.ctx, p, "w", exact)
		if w.kind.Expires {
			w.must(err)
			w.must(again.Abandon(w.ctx))
			w.is(c.Consume(w.ctx), board.ErrClaimLost)
		} else {
			as[*board.ClaimedError](w, err) // a claim that hangs on another session cannot be taken over
			w.must(c.Consume(w.ctx))
		}
	},

	"posting_abandon_no_owner: what nobody has cannot be finished": func(w *world) {
		p := w.one()
		for _, finish := range finishes(w.b) {
			w.is(finish(w.ctx, p, "w"), board.ErrUnowned)
		}
		w.state(p, board.Unclaimed)
	},

	"only the owner finishes": func(w *world) {
		p := w.one()
		c := w.claim(w.b, p, "w")
		for _, finish := range finishes(w.open()) {
			if e := as[*board.NotOwnerError](w, finish(w.ctx, p, "v")); e.Owner != c.Owner() || e.Who != "v" {
				w.Errorf("told %+v", e)
			}
			as[*board.InvalidError](w, finish(w.ctx, p, ""))
		}
		w.state(p, board.Claimed)
		w.must(w.open().Consume(w.ctx, p, c.Owner())) // by the name alone: an operator, for example
		w.is(c.Consume(w.ctx), board.ErrClaimLost)
	},

	"a claim that somebody else finished ends": func(w *world) {
		long.Test(w, "waits until a claim is looked after")
		p := w.one()
		c := w.expiring(w.b, p, "w") // every third of its time
		w.must(w.open().Consume(w.ctx, p, c.Owner()))
		w.done(c.Context(), "the context of the claim ends")
	},

	"who and time to live are checked before anything is sent": func(w *world) {
		p := w.one()
		for _, bad := range []struct {
			who string
			o   board.ClaimOptions
		}{
			{"", board.ClaimOptions{}}, {"\xff", board.ClaimOptions{}}, {strings.Repeat("w", board.MaxOwner+1), board.ClaimOptions{}},
			{"w", board.ClaimOptions{TTL: time.Microsecond}}, {"w", board.ClaimOptions{TTL: -5}}, {"w", board.ClaimOptions{TTL: 1 << 62}},
			{"w", board.ClaimOptions{Reclaim: true}},
		} {
			_, err := w.b.Claim(w.ctx, p, bad.who, bad.o)
			as[*board.InvalidError](w, err)
		}
		w.state(p, board.Unclaimed)
	},

	"posting_claim_expiry, posting_state_lock_lost: the claim of a dead owner ends, and its context": func(w *world) {
		long.Test(w, "waits for a claim to end")
		p := w.one()
		dying := w.open()
		c := w.expiring(dying, p, "w")
		begin := time.Now()
		w.kind.Lose(w.T, dying)
		w.done(c.Context(), "the context of a lost claim ends")
		var lost *board.LostError
		if err := cause(c); !errors.As(err, &lost) || !errors.Is(err, board.ErrClaimLost) {
			w.Errorf("cause is %v", err)
		}
		w.must(w.b.WaitUnclaimed(w.within()))
		w.Logf("unclaimed after %v", time.Since(begin))
		again := w.claim(w.b, p, "w")
		if again.Fence() <= c.Fence() {
			w.Errorf("fence %d follows %d", again.Fence(), c.Fence())
		}
		w.must(again.Consume(w.ctx))
	},

	"a claim is kept alive": func(w *world) {
		long.Test(w, "waits longer than a claim lives")
		p := w.one()
		c := w.expiring(w.b, p, "w")
		late := time.After(2 * ttl) // what is tested is that time does nothing
		select {
		case <-c.Context().Done():
			w.Fatalf("lost: %v", cause(c))
		case <-late:
		}
		w.must(c.Consume(w.ctx))
	},

	"only the owner extends": func(w *world) {
		if !w.kind.Expires {
			return // there is nothing to extend: see "the claim of a dead owner ends"
		}
		p := w.one()
		c, err := w.b.Claim(w.ctx, p, "w", board.ClaimOptions{TTL: time.Minute, NoKeepAlive: true})
		w.must(err)
		w.must(c.Extend(w.ctx, time.Hour))
		r, err := w.b.Find(w.ctx, p.Ref)
		w.must(err)
		if r.ExpiresIn < 59*time.Minute {
			w.Errorf("expires in %v", r.ExpiresIn)
		}
		w.must(w.b.Abandon(w.ctx, p, c.Owner()))
		other := w.claim(w.open(), p, "v")
		w.is(c.Extend(w.ctx, 2*time.Hour), board.ErrClaimLost)
		w.done(c.Context(), "a claim that cannot be extended ends")
		r, err = w.b.Find(w.ctx, p.Ref)
		w.must(err)
		if r.ExpiresIn > time.Minute {
			w.Errorf("the claim of another expires in %v", r.ExpiresIn)
		}
		w.must(other.Consume(w.ctx))
	},

	"a stale owner of the same name finishes nothing": func(w *world) {
		long.Test(w, "waits for a claim to end")
		p := w.one()
		dying := w.open()
		stale := w.expiring(dying, p, "w")
		w.kind.Lose(w.T, dying)
		w.must(w.b.WaitUnclaimed(w.within()))
		fresh := w.claim(w.b, p, "w")
		for _, finish := range finishes(w.open()) { // under the stale claim's text: its own process may be beyond reach
			as[*board.NotOwnerError](w, finish(w.ctx, p, stale.Owner()))
		}
		w.state(p, board.Claimed)
		w.must(fresh.Consume(w.ctx))
	},

	"many claim, each gets another": func(w *world) {
		const workers, count = 4, 60
		w.post(slices.Repeat([]string{"n"}, count)...)
		var mu sync.Mutex
		consumed := map[string]int{}
		var all sync.WaitGroup
		for range workers {
			b := w.open()
			all.Go(func() {
				for {
					c, err := b.ClaimNext(w.ctx, "w", board.ClaimOptions{})
					if errors.Is(err, board.ErrNothing) {
						return
					}
					if err == nil {
						err = c.Consume(w.ctx)
					}
					if err != nil {
						w.Error(err)
						return
					}
					mu.Lock()
					consumed[c.Posting().UUID]++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		for uuid, n := range consumed {
			if n != 1 {
				w.Errorf("%s was consumed %d times", uuid, n)
			}
		}
		if len(consumed) != count {
			w.Errorf("%d consumed, of %d", len(consumed), count)
		}
	},

	"ClaimBatch, ConsumeBatch: many at once, in order": func(w *world) {
		w.post("a", "b", "c", "d", "e")
		first, err := w.b.ClaimBatch(w.ctx, "w", 3, board.ClaimOptions{})
		w.must(err)
		peer := w.open()
		rest, err := peer.ClaimBatch(w.ctx, "v", 10, board.ClaimOptions{})
		w.must(err)
		var names []string
		for _, c := range slices.Concat(first, rest) {
			names = append(names, c.Posting().Name)
		}
		if !slices.Equal(names, []string{"a", "b", "c", "d", "e"}) || len(first) != 3 {
			w.Errorf("claimed %q, %d of them first", names, len(first))
		}
		if first[0].Fence() >= first[1].Fence() || first[2].Fence() >= rest[0].Fence() {
			w.Errorf("fences do not rise")
		}
		_, err = w.b.ClaimBatch(w.ctx, "w", 1, board.ClaimOptions{})
		w.is(err, board.ErrNothing)
		for _, n := range []int{0, -1, board.MaxClaims + 1} {
			_, err := w.b.ClaimBatch(w.ctx, "w", n, board.ClaimOptions{})
			as[*board.InvalidError](w, err)
		}
		w.must(peer.Abandon(w.ctx, first[1].Posting(), first[1].Owner())) // by somebody else
		err = w.b.ConsumeBatch(w.ctx, first)
		w.is(err, board.ErrClaimLost)
		if lost := as[*board.LostError](w, err); lost.Ref != first[1].Posting().Ref {
			w.Errorf("lost %v", lost)
		}
		if got := w.list(w.b, board.ListOptions{OnlyUnclaimed: true}); !slices.Equal(got, []string{"b"}) {
			w.Errorf("left are %q", got)
		}
		w.must(peer.ConsumeBatch(w.ctx, rest))
		w.must(peer.ConsumeBatch(w.ctx, nil))
		if n, err := w.b.Count(w.ctx); n != 1 || err != nil {
			w.Errorf("%d left, %v", n, err)
		}
	},
}
