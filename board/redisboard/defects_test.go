package redisboard_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/board/redisboard"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

// With the comparing of fingerprints switched off, everything that ends a wait is told over the channel.
func TestWaitersAreTold(t *testing.T) {
	t.Parallel()
	w := newBench(t)
	store := w.store()
	store.Deaf()
	peer := board.New(store, nil)
	w.closing(peer)
	var p *board.Posting
	var c *board.Claim
	unclaimed := func() error { return peer.WaitUnclaimed(w.within(patience)) }
	for _, step := range []struct {
		name  string
		first func() // makes the wait necessary
		wait  func() error
		then  func() // ends it
	}{
		{"post", func() {}, unclaimed, func() { p = w.post("a") }},
		{"abandon", func() { c = w.claim(w.b, p, board.ClaimOptions{}) }, unclaimed, func() { w.must(c.Abandon(w.ctx)) }},
		{"restore", func() {
			w.must(w.claim(w.b, p, board.ClaimOptions{}).Trash(w.ctx))
		}, unclaimed, func() { w.must(w.b.Restore(w.ctx, p.Ref)) }},
		{"consume", func() { c = w.claim(w.b, p, board.ClaimOptions{}) }, func() error {
			_, err := peer.WaitFor(w.within(patience), p)
			return err
		}, func() { w.must(c.Consume(w.ctx)) }},
		{"trash", func() { p = w.post("b"); c = w.claim(w.b, p, board.ClaimOptions{}) }, func() error {
			_, err := peer.WaitFor(w.within(patience), p)
			return err
		}, func() { w.must(c.Trash(w.ctx)) }},
	} {
		step.first()
		told := w.waiting(step.wait)
		begin := time.Now()
		step.then()
		w.must(<-told)
		w.Logf("%s: told after %v", step.name, time.Since(begin))
	}
}

// waiting starts wait and returns when it has been shown the board twice, as it is then and as it is once it listens.
func (w *bench) waiting(wait func() error) (told <-chan error) {
	w.Helper()
	lists, ended := w.calls("hgetall"), make(chan error, 1)
	go func() { ended <- wait() }()
	w.soon("the waiter reads and listens", func() bool { return w.calls("hgetall") >= lists+2 })
	return ended
}

// looks counts the fingerprints that are taken of the board from now on, one each 250 ms. What they miss is seen 30 s later, after 120 of them; on a busy machine both take longer.
func (w *bench) looks() (seen func(want string)) {
	w.Helper()
	before := w.calls("evalsha_ro")
	return func(want string) {
		w.Helper()
		if n := w.calls("evalsha_ro") - before; n > 90 {
			w.Errorf("seen after %d fingerprints, %s", n, want)
		}
	}
}

// What TaskFlow does is told to nobody, and found all the same: also when it comes between the first reading and the first fingerprint.
func TestForeignWritesAreSeen(t *testing.T) {
	t.Parallel()
	w := newBench(t)
	const uuid = "0b7da2c7-1235-4ade-86b0-1a569887709b"
	for _, step := range []struct {
		name string
		wait func() error
		then func()
	}{
		{"post", func() error { return w.b.WaitUnclaimed(w.within(patience)) }, func() { w.foreign(uuid, 1) }},
		{"abandon", func() error { return w.b.WaitUnclaimed(w.within(patience)) }, func() { w.do("DEL", w.key(uuid+".owned")) }},
		{"consume", func() error {
			_, err := w.b.WaitFor(w.within(patience), &board.Posting{Ref: uuid})
			return err
		}, func() { w.do("HDEL", w.key("listings"), uuid) }},
	} {
		if step.name == "abandon" {
			w.do("SET", w.key(uuid+".owned"), "worker")
		}
		told := w.waiting(step.wait)
		seen := w.looks()
		step.then()
		w.must(<-told)
		seen("want by the first that differs")
	}
}

// The reply to a post is lost, and it is posted once: also when it is consumed before it is sent again.
func TestPostOnceAfterLostReply(t *testing.T) {
	t.Parallel()
	w := newBench(t)
	peer, _ := w.open()
	w.post("warm") // the script is known
	w.must(w.claim(w.b, w.first(), board.ClaimOptions{}).Consume(w.ctx))
	for _, consumed := range []bool{false, true} {
		w.proxy.DropReplies(true)
		posted := make(chan error, 1)
		var p *board.Posting
		go func() {
			var err error
			p, err = w.b.Post(w.ctx, board.Draft{Name: "once"})
			posted <- err
		}()
		w.soon("it is posted", func() bool { return w.do("HLEN", w.key("listings")) == "1" })
		want := 1
		if consumed {
			c, err := peer.ClaimNext(w.ctx, "v", board.ClaimOptions{})
			w.must(err)
			w.must(c.Consume(w.ctx))
			want = 0
		}
		w.proxy.DropReplies(false)
		w.must(<-posted)
		if n := w.count(); n != want {
			t.Errorf("consumed %v: %d postings, want %d", consumed, n, want)
		}
		if p.Sequence == 0 || p.CreatedOn.IsZero() {
			t.Errorf("posted as %+v", p)
		}
		if !consumed {
			w.must(w.claim(w.b, p, board.ClaimOptions{}).Consume(w.ctx))
		}
	}
}

// first is the first row of a listing.
func (w *bench) first() *board.Posting {
	w.Helper()
	rows, err := w.b.List(w.ctx, board.ListOptions{})
	w.must(err)
	if len(rows) == 0 {
		w.Fatal("the board is empty")
	}
	return rows[0].Posting
}

// A batch goes out in one pipeline, without waiting for replies between its scripts, and is posted once although all of them are lost.
func TestBatchOncePipelined(t *testing.T) {
	t.Parallel()
	w := newBench(t)
	const many = 10_000
	w.must(w.claim(w.b, w.post("the script is known"), board.ClaimOptions{}).Consume(w.ctx))
	w.proxy.DropReplies(true)
	posted := make(chan error, 1)
	var all []*board.Posting
	go func() {
		var err error
		all, err = w.b.PostBatch(w.ctx, drafts(many))
		posted <- err
	}()
	w.soon("all is posted", func() bool { return w.do("HLEN", w.key("listings")) == "10000" })
	w.proxy.DropReplies(false)
	w.must(<-posted)
	if n := w.count(); n != many {
		t.Errorf("%d postings", n)
	}
	for i, p := range all {
		if p.Sequence != int64(i+2) {
			t.Fatalf("posting %d has number %d", i, p.Sequence)
		}
	}
}

func drafts(n int) []board.Draft {
	all := make([]board.Draft, n)
	for i := range all {
		all[i] = board.Draft{Name: "n", Details: map[string]any{"i": i}}
	}
	return all
}

// The reply to a finish is lost; it is done once and no error.
func TestFinishAfterLostReply(t *testing.T) {
	t.Parallel()
	w := newBench(t)
	for name, step := range map[string]struct {
		do   func(*board.Claim) error
		want board.State
	}{
		"consume": {func(c *board.Claim) error { return c.Consume(w.ctx) }, board.Complete},
		"abandon": {func(c *board.Claim) error { return c.Abandon(w.ctx) }, board.Unclaimed},
		"trash":   {func(c *board.Claim) error { return c.Trash(w.ctx) }, board.Trashed},
	} {
		p := w.post(name)
		w.must(w.claim(w.b, p, board.ClaimOptions{}).Abandon(w.ctx)) // the script is known
		c := w.claim(w.b, p, board.ClaimOptions{})
		w.proxy.LoseReplies(1)
		if err := step.do(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s, err := w.b.State(w.ctx, p); err != nil || s != step.want {
			t.Errorf("%s: state is %v, %v", name, s, err)
		}
		if c.Context().Err() == nil {
			t.Errorf("%s: the context of the claim has not ended", name)
		}
	}
}

// A finish that was held up until the claim had run out was refused by the server; that nobody heard of that makes no success of it.
func TestLateFinishIsNoSuccess(t *testing.T) {
	long.Test(t, "waits for a claim to end")
	t.Parallel()
	w := newBench(t)
	peer, _ := w.open()
	for name, theirs := range map[string]func(*board.Claim) error{
		"still has it":    func(*board.Claim) error { return nil },
		"has finished it": func(c *board.Claim) error { return c.Consume(w.ctx) },
	} {
		p := w.post("a")
		w.must(w.claim(w.b, p, board.ClaimOptions{}).Abandon(w.ctx))
		c := w.claim(w.b, p, board.ClaimOptions{TTL: shortLife})
		w.proxy.Stall(true)
		finished := make(chan error, 1)
		go func() { finished <- c.Consume(w.within(patience)) }()
		w.must(peer.WaitUnclaimed(w.within(patience)))
		other := w.claim(peer, p, board.ClaimOptions{})
		w.must(theirs(other))
		w.proxy.Cut() // what is held up is lost, too
		w.proxy.Stall(false)
		if err := <-finished; !errors.Is(err, board.ErrClaimLost) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "still has it" {
			w.must(other.Consume(w.ctx))
		}
	}
}

// A key of another type under a name of the board is an error, and nothing is half done.
func TestKeysOfAnotherType(t *testing.T) {
	t.Parallel()
	w := newBench(t)
	p := w.post("a")
	for _, key := range []string{"fence", "attempts"} {
		w.do("DEL", w.key(key))
		w.do("RPUSH", w.key(key), "x")
		if _, err := w.b.Claim(w.ctx, p, "w", board.ClaimOptions{}); err == nil {
			t.Errorf("%s: claimed", key)
		}
		if r := w.find(p); r.State != board.Unclaimed {
			t.Errorf("%s: a claim that failed is %v of %q", key, r.State, r.Owner)
		}
		w.do("DEL", w.key(key))
	}
	w.do("RPUSH", w.key(p.Ref+".owned"), "x")
	_, err := w.b.Claim(w.ctx, p, "w", board.ClaimOptions{})
	as[*board.ClaimedError](w, err)
	w.do("DEL", w.key(p.Ref+".owned"))

	c := w.claim(w.b, p, board.ClaimOptions{})
	for key, finish := range map[string]func(context.Context) error{"attempts": c.Consume, "trash": c.Trash} {
		w.do("DEL", w.key(key))
		w.do("RPUSH", w.key(key), "x")
		if err := finish(w.ctx); err == nil {
			t.Errorf("%s: finished", key)
		}
		w.do("DEL", w.key(key))
		if r := w.find(p); r.Owner != c.Owner() {
			t.Errorf("%s: a finish that failed left it to %q", key, r.Owner)
		}
	}
	w.must(c.Consume(w.ctx))
}

// Entities of processes that were killed do not pile up, although nobody lists them: who comes next removes them.
func TestKilledEntitiesAreRemoved(t *testing.T) {
	t.Parallel()
	w := newBench(t)
	w.do("HSET", w.key("entities"), "conductor/killed", `1000 {"kind": "conductor", "name": "killed"}`)
	release, err := w.b.RegisterEntity(w.ctx, board.Entity{Kind: "conductor", Name: "next"})
	w.must(err)
	if fields := w.do("HLEN", w.key("entities")); fields != "1" {
		t.Errorf("%s entities are kept", fields)
	}
	w.must(release(w.ctx))
}

// The reply to a claim is lost; that is an error, and who waits has the posting soon after the time of the claim is over.
func TestClaimAfterLostReply(t *testing.T) {
	t.Parallel()
	w := newBench(t)
	p := w.post("a")
	w.must(w.claim(w.b, p, board.ClaimOptions{}).Abandon(w.ctx))
	w.proxy.LoseReplies(1)
	_, err := w.b.Claim(w.ctx, p, "w", board.ClaimOptions{TTL: time.Hour})
	w.is(err, board.ErrAway)
	if r := w.find(p); r.State != board.Claimed || r.ExpiresIn <= 0 {
		t.Errorf("is %v, expires in %v", r.State, r.ExpiresIn)
	}
	told := w.waiting(func() error { return w.b.WaitUnclaimed(w.within(patience)) })
	seen := w.looks()
	w.Expire(t, w.key(p.Ref+".owned"))
	w.must(<-told)
	seen("want by the first that differs")
}

// The counter of sequence numbers is lost, and numbers go on above the highest in use: at once with a post, and after a listing for posts of TaskFlow.
func TestSequenceIsHealed(t *testing.T) {
	t.Parallel()
	w := newBench(t)
	_, err := w.b.PostBatch(w.ctx, drafts(5))
	w.must(err)
	lose := func() { w.do("DEL", w.key("sequence")) }
	for name, step := range map[string]func(*testing.T, int64){
		"post": func(t *testing.T, highest int64) {
			if p := w.post("next"); p.Sequence <= highest {
				t.Errorf("%d follows %d", p.Sequence, highest)
			}
		},
		"batch of another board": func(t *testing.T, highest int64) {
			b, _ := w.open()
			all, err := b.PostBatch(w.ctx, drafts(600))
			w.must(err)
			for _, p := range all {
				if p.Sequence <= highest {
					t.Fatalf("%d follows %d", p.Sequence, highest)
				}
				highest = p.Sequence
			}
		},
		"listing": func(t *testing.T, highest int64) {
			w.first()
			if n := w.do("INCR", w.key("sequence")); n == "1" {
				t.Errorf("TaskFlow would post number %s after %d", n, highest)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := w.b.List(w.ctx, board.ListOptions{})
			w.must(err)
			highest := int64(0)
			for _, r := range rows {
				highest = max(highest, r.Sequence)
			}
			lose()
			step(t, highest)
		})
	}
	// A number that nobody could count on from is left alone.
	w.foreign("0b7da2c7-1235-4ade-86b0-1a569887709b", 1<<62)
	w.first()
	if p := w.post("next"); p.Sequence > 10_000 {
		t.Errorf("number %d", p.Sequence)
	}
}

// Owner and time to live are set by one command, and no time to live leaves a claim for ever.
func TestClaimInOneCommand(t *testing.T) {
	t.Parallel()
	w := newBench(t)
	p := w.post("a")
	for _, c := range []struct {
		ttl  time.Duration
		want time.Duration // 0 = refused, nothing claimed
	}{
		{0, board.DefaultTTL}, {time.Microsecond, 0}, {9 * time.Millisecond, 0}, {-2, 0}, {1 << 62, 0}, {1<<63 - 1, 0},
		{time.Hour + 7*time.Microsecond, time.Hour}, {10 * 365 * 24 * time.Hour, 10 * 365 * 24 * time.Hour},
	} {
		w.do("CONFIG", "RESETSTAT")
		claim, err := w.b.Claim(w.ctx, p, "w", board.ClaimOptions{TTL: c.ttl})
		if c.want == 0 {
			as[*board.InvalidError](w, err)
			if n := w.calls("evalsha"); n != 0 {
				t.Errorf("%v: %d scripts were sent", c.ttl, n)
			}
			continue
		}
		w.must(err)
		if set, expire := w.calls("set"), w.calls("pexpire"); set != 1 || expire != 0 { // last_modified is set by MSET
			t.Errorf("%v: %d SET, %d PEXPIRE", c.ttl, set, expire)
		}
		if r := w.find(p); r.ExpiresIn > c.want || r.ExpiresIn < c.want-time.Minute {
			t.Errorf("%v: expires in %v", c.ttl, r.ExpiresIn)
		}
		as[*board.InvalidError](w, claim.Extend(w.ctx, 1<<62))
		w.must(claim.Abandon(w.ctx))
	}
	c := w.claim(w.b, p, board.ClaimOptions{TTL: board.NoTTL})
	forever := func() {
		t.Helper()
		if ttl := w.do("PTTL", w.key(p.Ref+".owned")); ttl != "-1" {
			t.Errorf("NoTTL has %s ms", ttl)
		}
	}
	forever()
	w.must(c.Extend(w.ctx, time.Hour))
	if r := w.find(p); r.ExpiresIn < 59*time.Minute {
		t.Errorf("expires in %v", r.ExpiresIn)
	}
	w.must(c.Extend(w.ctx, board.NoTTL))
	forever()
	w.must(c.Consume(w.ctx))
}

// On a cluster the namespace must have a hash tag, and the error says how.
func TestCluster(t *testing.T) {
	long.Test(t, "runs a cluster")
	t.Parallel()
	c := testenv.RedisCluster(t)
	for _, namespace := range []string{"", "?namespace=", "?namespace=jobs"} {
		_, err := board.Open(t.Context(), c.URL+namespace)
		if err == nil || !strings.Contains(err.Error(), "?namespace={") {
			t.Errorf("%q: %v", namespace, err)
		}
	}
	w := &bench{T: t, RedisServer: c, ctx: t.Context(), namespace: c.Prefix(t)}
	open := func() *board.Board {
		b, err := board.Open(t.Context(), c.URL+"?namespace="+w.namespace)
		w.must(err)
		w.closing(b)
		return b
	}
	w.b = open()
	w.walkKeys()
	peer := open()
	told := make(chan error, 1)
	go func() { told <- peer.WaitUnclaimed(w.within(patience)) }()
	_, err := w.b.PostBatch(w.ctx, drafts(1200))
	w.must(err)
	w.must(<-told)
	for range 20 {
		claim, err := peer.ClaimNext(w.ctx, "w", board.ClaimOptions{})
		w.must(err)
		w.must(claim.Consume(w.ctx))
	}
	if n := w.count(); n != 1180 {
		t.Errorf("%d postings", n)
	}
	problems, err := peer.Check(w.ctx)
	if err != nil || len(problems) != 0 {
		t.Errorf("check: %q, %v", problems, err)
	}
}

// Times in records are the server's, also when our own clock is wrong.
func TestTimesAreTheServers(t *testing.T) {
	t.Parallel()
	w := newBench(t)
	s := w.store()
	b := board.New(s, slog.New(slog.DiscardHandler))
	w.closing(b)
	near := func(what string, got, want time.Time) {
		t.Helper()
		if d := got.Sub(want); d < -time.Minute || d > time.Minute {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	now := time.Now() // which is the server's, too
	s.Ahead(time.Hour)
	p, err := b.Post(w.ctx, board.Draft{Name: "a"})
	w.must(err)
	near("created, by what the server was believed to say", p.CreatedOn, now.Add(time.Hour))
	p, err = b.Post(w.ctx, board.Draft{Name: "b"}) // the reply to the first told better
	w.must(err)
	near("created", p.CreatedOn, now)
	s.Ahead(-time.Hour)
	_, err = b.List(w.ctx, board.ListOptions{})
	w.must(err)
	w.must(w.claim(b, p, board.ClaimOptions{}).Abandon(w.ctx))
	at, err := redisboard.DecodeTime([]byte(w.do("GET", w.key(p.Ref+".last_modified"))))
	w.must(err)
	near("modified", at, now)
	if r := w.find(p); r.LastModified.Before(r.CreatedOn) {
		t.Errorf("modified %v, created %v", r.LastModified, r.CreatedOn)
	}
}

// Namespaces that begin alike are different boards, also to a check.
func TestCheckKeepsToItsNamespace(t *testing.T) {
	t.Parallel()
	w := newBench(t)
	inner := benchOn(t, w.RedisServer, w.namespace+":b")
	c := inner.claim(inner.b, inner.post("a"), board.ClaimOptions{})
	problems, err := w.b.Check(w.ctx)
	w.must(err)
	if len(problems) != 0 {
		t.Errorf("found %q", problems)
	}
	w.do("SET", w.key("lost.owned"), "w")
	problems, err = w.b.Check(w.ctx)
	w.must(err)
	if len(problems) != 1 || !strings.Contains(problems[0], "lost.owned") {
		t.Errorf("found %q", problems)
	}
	w.must(c.Consume(w.ctx))
}
