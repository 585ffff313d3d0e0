//go:build interop

package zkboard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/testenv"
)

// What TaskFlow's own tests check of its ZooKeeper board, by their names.
func TestAsTaskFlowsTests(t *testing.T) {
	t.Parallel()
	e := shared(t)
	for name, test := range map[string]func(t *testing.T, b *board.Board, path string){
		"posting_received_raw": func(t *testing.T, b *board.Board, path string) {
			p, err := b.Post(t.Context(), board.Draft{Name: "test", Book: &board.Book{Name: "book", UUID: "u"}})
			testenv.Must(t, err)
			want := fmt.Sprintf(`{"uuid": %q, "name": "test", "priority": "NORMAL", "details": {}, "book": {"name": "book", "uuid": "u"}}`, p.UUID)
			if data, stat := e.data(t, path+"/"+p.Ref); data != want || stat.EphemeralOwner != 0 {
				t.Errorf("stored %s, want %s", data, want)
			}
		},
		"posting_claim": func(t *testing.T, b *board.Board, path string) {
			p := postOne(t, b)
			if _, err := b.Claim(t.Context(), p, "wö", board.ClaimOptions{ExactOwner: true}); err != nil {
				t.Fatal(err)
			}
			lock := path + "/" + p.Ref + ".lock"
			if data, stat := e.data(t, lock); data != `{"owner": "w\u00f6"}` || stat.EphemeralOwner != e.store(b).Session() {
				t.Errorf("lock is %s, %+v", data, stat)
			}
			for _, node := range []string{path, path + "/" + p.Ref, lock} {
				if acl, _, err := e.Client.GetACL(node); err != nil || !slices.Equal(acl, zk.WorldACL(zk.PermAll)) {
					t.Errorf("%s: anybody may do %+v, %v", node, acl, err)
				}
			}
		},
		"posting_dates": func(t *testing.T, b *board.Board, path string) {
			p := postOne(t, b)
			_, stat := e.data(t, path+"/"+p.Ref)
			want := time.UnixMilli(stat.Ctime).UTC()
			r, err := b.Find(t.Context(), p.Ref)
			if err != nil || p.CreatedOn != want || r.CreatedOn != want || r.LastModified != want || want.Location() != time.UTC {
				t.Errorf("posted %v, found %+v, %v, want %v", p.CreatedOn, r, err, want)
			}
		},
		"posting_owner_lost": func(t *testing.T, b *board.Board, path string) {
			c := claimOne(t, b, postOne(t, b), "w")
			lock := path + "/" + c.Posting().Ref + ".lock"
			if _, err := e.Client.Set(lock, []byte("{}"), -1); err != nil {
				t.Fatal(err)
			}
			if state, err := b.State(t.Context(), c.Posting()); state != board.Unclaimed || err != nil {
				t.Errorf("state is %v, %v", state, err)
			}
			done(t, c.Context(), "a claim without an owner ends")
			problems, err := b.Check(t.Context())
			if err != nil || len(problems) != 1 || !strings.Contains(problems[0], lock) {
				t.Errorf("check finds %q, %v", problems, err)
			}
			if err := b.Consume(t.Context(), c.Posting(), c.Owner()); !errors.Is(err, board.ErrUnowned) {
				t.Errorf("consumed: %v", err)
			}
			finished(t, claimOne(t, b, c.Posting(), "v")) // TaskFlow could not
		},
		"posting_state_lock_lost": func(t *testing.T, b *board.Board, path string) {
			c := claimOne(t, b, postOne(t, b), "w")
			testenv.Must(t, e.Client.Delete(path+"/"+c.Posting().Ref+".lock", -1))
			if state, err := b.State(t.Context(), c.Posting()); state != board.Unclaimed || err != nil {
				t.Errorf("state is %v, %v", state, err)
			}
			done(t, c.Context(), "a claim without a lock ends")
		},
		"trashing_claimed_job": func(t *testing.T, b *board.Board, path string) {
			c := claimOne(t, b, postOne(t, b), "w")
			before, _ := e.data(t, path+"/"+c.Posting().Ref)
			testenv.Must(t, c.Trash(t.Context()))
			trash := strings.TrimSuffix(path, "jobs") + ".trash"
			names, _, err := e.Client.Children(trash)
			if left, _, err2 := e.Client.Children(path); err != nil || err2 != nil || len(left) != 0 || len(names) != 1 {
				t.Fatalf("%v on the board, %v in the trash, %v, %v", left, names, err, err2)
			}
			want := fmt.Sprintf(`%s, "x_board": %q}`, strings.TrimSuffix(before, "}"), path)
			if after, _ := e.data(t, trash+"/"+names[0]); after != want {
				t.Errorf("trashed as %s, want %s", after, want)
			}
			testenv.Must(t, b.Restore(t.Context(), names[0]))
			if after, _ := e.data(t, path+"/"+names[0]); after != before {
				t.Errorf("restored as %s, was %s", after, before)
			}
		},
		"register_entity": func(t *testing.T, b *board.Board, path string) {
			_, err := b.RegisterEntity(t.Context(), board.Entity{Kind: "conductor", Name: "c1@host:123", Metadata: map[string]any{"hostname": "host", "pid": 123}})
			testenv.Must(t, err)
			const want = `{"kind": "conductor", "name": "c1@host:123", "metadata": {"hostname": "host", "pid": 123}}`
			if data, stat := e.data(t, strings.TrimSuffix(path, "jobs")+".entities/conductor/c1@host:123"); data != want || stat.EphemeralOwner != e.store(b).Session() {
				t.Errorf("stored %s, %+v", data, stat)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := e.Path(t) + "/jobs"
			test(t, e.board(t, path, long), path)
		})
	}
}

// A claim whose answer was lost is an error, and is given back; an end whose answer was lost is known.
func TestClaimWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	e := shared(t)
	path := e.Path(t) + "/jobs"
	b, peer := e.board(t, path, long), e.board(t, path, long)
	p := postOne(t, b)
	if _, err := b.List(t.Context(), board.ListOptions{}); err != nil { // a claim is one request then
		t.Fatal(err)
	}
	e.proxy(b).LoseReplies(1)
	if _, err := b.Claim(t.Context(), p, "w", board.ClaimOptions{}); !errors.Is(err, board.ErrAway) {
		t.Fatalf("claimed: %v", err)
	}
	e.until(t, path+"/"+p.Ref+".lock", false)
	c := claimOne(t, peer, p, "v")
	if c.Attempt() != 2 {
		t.Errorf("attempt %d", c.Attempt())
	}
	e.proxy(peer).LoseReplies(1)
	finished(t, c)
}

// A claim that nobody waits for any more does not keep its posting until the session ends.
func TestClaimThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	e := shared(t)
	path := e.Path(t) + "/jobs"
	b := e.board(t, path, long)
	p := postOne(t, b)
	e.proxy(b).Stall(true)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.Claim(short, p, "w", board.ClaimOptions{}); !errors.Is(err, board.ErrAway) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	e.proxy(b).Stall(false)
	for e.until(t, path+"/"+p.Ref, true).Version == 0 { // until it was claimed
	}
	e.until(t, path+"/"+p.Ref+".lock", false)
	finished(t, claimOne(t, b, p, "w"))
}

// An end that was meant for one claim does not hit the next, though it has the same owner.
func TestEndOfAnotherClaim(t *testing.T) {
	t.Parallel()
	e := shared(t)
	path := e.Path(t) + "/jobs"
	b, peer := e.board(t, path, long), e.board(t, path, long)
	exact := board.ClaimOptions{ExactOwner: true}
	for name, claim := range map[string]func(p *board.Posting){
		"of Takt": func(p *board.Posting) {
			if _, err := peer.Claim(t.Context(), p, "w", exact); err != nil {
				t.Fatal(err)
			}
		},
		"of TaskFlow": func(p *board.Posting) { e.create(t, path+"/"+p.Ref+".lock", `{"owner": "w"}`, zk.FlagEphemeral) },
	} {
		p := postOne(t, b)
		c, err := b.Claim(t.Context(), p, "w", exact)
		testenv.Must(t, err)
		testenv.Must(t, peer.Abandon(t.Context(), p, "w"))
		claim(p)
		if err := c.Consume(t.Context()); !errors.Is(err, board.ErrClaimLost) {
			t.Errorf("%s: consumed: %v", name, err)
		}
		if r, err := peer.Find(t.Context(), p.Ref); err != nil || r.State != board.Claimed {
			t.Errorf("%s: now %+v, %v", name, r, err)
		}
	}
}

// Owners of TaskFlow are seen, named, and can be helped.
func TestClaimOfTaskFlow(t *testing.T) {
	t.Parallel()
	e := shared(t)
	path := e.Path(t) + "/jobs"
	b := e.board(t, path, long)
	p := postOne(t, b)
	lock := e.create(t, path+"/"+p.Ref+".lock", `{"owner": "py\u00f6"}`, zk.FlagEphemeral)
	_, err := b.Claim(t.Context(), p, "w", board.ClaimOptions{})
	if claimed, ok := errors.AsType[*board.ClaimedError](err); !ok || claimed.Owner != "pyö" {
		t.Errorf("claimed: %v", err)
	}
	if rows, err := b.List(t.Context(), board.ListOptions{}); err != nil || len(rows) != 1 || rows[0].Owner != "pyö" || rows[0].State != board.Claimed {
		t.Errorf("listed %+v, %v", rows, err)
	}
	if err := b.Consume(t.Context(), p, "pyö"); err != nil {
		t.Error(err)
	}
	e.until(t, lock, false)
	e.until(t, path+"/"+p.Ref, false)
}

// Somebody has written to a posting, which nobody should.
func TestPostingThatWasChanged(t *testing.T) {
	t.Parallel()
	e := shared(t)
	path := e.Path(t) + "/jobs"
	b := e.board(t, path, long)
	p := postOne(t, b)
	set := func(data string) {
		t.Helper()
		if _, err := e.Client.Set(path+"/"+p.Ref, []byte(data), -1); err != nil {
			t.Fatal(err)
		}
	}
	set(fmt.Sprintf(`{"uuid": %q, "name": "other"}`, p.UUID))
	c := claimOne(t, b, p, "w")
	if err := c.Abandon(t.Context()); err != nil {
		t.Error(err)
	}
	set(`{"uuid": "of another", "name": "n"}`)
	if _, err := b.Claim(t.Context(), p, "w", board.ClaimOptions{}); !errors.Is(err, board.ErrNotFound) {
		t.Errorf("claimed what is another posting now: %v", err)
	}
}

// What was posted without an answer is posted once, in another session, too, if it is still there when that is found out.
func TestPostWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	e := shared(t)
	for name, meanwhile := range map[string]func(t *testing.T, b *board.Board){
		"still there":        func(*testing.T, *board.Board) {},
		"in another session": func(t *testing.T, b *board.Board) { e.ExpireSession(t, e.store(b).Session()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := e.Path(t) + "/jobs"
			b, peer := e.board(t, path, long), e.board(t, path, long)
			e.proxy(b).LoseReplies(1)
			e.proxy(b).Refuse(true)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			posted := make(chan error, 1)
			var p *board.Posting
			go func() {
				var err error
				p, err = b.Post(ctx, board.Draft{Name: "one"})
				posted <- err
			}()
			testenv.Must(t, peer.WaitUnclaimed(ctx))
			meanwhile(t, b)
			e.proxy(b).Refuse(false)
			testenv.Must(t, <-posted)
			rows, err := peer.List(t.Context(), board.ListOptions{})
			if err != nil || len(rows) != 1 || rows[0].Ref != p.Ref || rows[0].UUID != p.UUID {
				t.Errorf("%+v, %v; posted %+v", rows, err, p)
			}
		})
	}
}

func TestManyAreInOrder(t *testing.T) {
	t.Parallel()
	e := shared(t)
	b := e.board(t, e.Path(t)+"/jobs", long)
	drafts := make([]board.Draft, 1200)
	for i := range drafts {
		drafts[i] = board.Draft{Name: fmt.Sprint(i), Details: map[string]any{"text": strings.Repeat("x", 1000)}} // several transactions
	}
	all, err := b.PostBatch(t.Context(), drafts)
	testenv.Must(t, err)
	rows, err := b.List(t.Context(), board.ListOptions{})
	if err != nil || len(rows) != len(all) {
		t.Fatalf("%d listed, %v", len(rows), err)
	}
	for i, r := range rows {
		if r.Name != fmt.Sprint(i) || r.UUID != all[i].UUID || i > 0 && r.Sequence <= rows[i-1].Sequence {
			t.Fatalf("%d is %s with number %d", i, r.Name, r.Sequence)
		}
	}
}

// The server closes the connection of who sends more than jute.maxbuffer.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	e := shared(t)
	b := e.board(t, e.Path(t)+"/jobs", long)
	text := strings.Repeat("x", 1<<20-2000)
	_, err := b.Post(t.Context(), board.Draft{Name: "n", Details: map[string]any{"text": text}})
	if invalid, ok := errors.AsType[*board.InvalidError](err); !ok || !strings.Contains(invalid.Rule, "jute.maxbuffer") {
		t.Errorf("posted %d bytes: %v", len(text), err)
	}
	p, err := b.Post(t.Context(), board.Draft{Name: "n", Details: map[string]any{"text": text[:len(text)-4000]}})
	testenv.Must(t, err)
	if err := claimOne(t, b, p, "w").Trash(t.Context()); err != nil {
		t.Error(err)
	}
	_, err = b.Post(t.Context(), board.Draft{Name: "n", Details: map[string]any{"a": []any{[]byte("x")}}})
	if invalid, ok := errors.AsType[*board.InvalidError](err); !ok || invalid.Field != "Details.a[0]" {
		t.Errorf("posted bytes: %v", err)
	}
}

// Boards in one folder share their trash.
func TestTrashOfSiblings(t *testing.T) {
	t.Parallel()
	e := shared(t)
	folder := e.Path(t)
	one, two := e.board(t, folder+"/one", long), e.board(t, folder+"/two", long)
	var refs []string
	for _, b := range []*board.Board{one, two} {
		p := postOne(t, b)
		testenv.Must(t, claimOne(t, b, p, "w").Trash(t.Context()))
		refs = append(refs, p.Ref)
		if state, err := b.State(t.Context(), p); state != board.Trashed || err != nil {
			t.Errorf("state is %v, %v", state, err)
		}
		rows, err := b.TrashList(t.Context())
		if err != nil || len(rows) != 1 || rows[0].UUID != p.UUID {
			t.Errorf("trash has %+v, %v", rows, err)
		}
	}
	if refs[0] != refs[1] {
		t.Fatalf("%q do not collide", refs)
	}
	rows, err := two.TrashList(t.Context())
	if err != nil || len(rows) != 1 || rows[0].Ref != refs[1]+"-"+rows[0].UUID {
		t.Fatalf("%+v, %v", rows, err)
	}
	if err := two.Purge(t.Context(), refs[0]); !errors.Is(err, board.ErrNotFound) {
		t.Errorf("purged from the trash of a sibling: %v", err)
	}
	e.create(t, folder+"/.trash/job0000000099", `{"uuid": "of TaskFlow", "name": "n"}`, 0)
	for _, b := range []*board.Board{one, two} {
		if rows, err := b.TrashList(t.Context()); err != nil || len(rows) != 2 {
			t.Errorf("trash has %+v, %v", rows, err)
		}
	}
	testenv.Must(t, two.Restore(t.Context(), rows[0].UUID))
	if r, err := two.Find(t.Context(), refs[1]); err != nil || r.UUID != rows[0].UUID || r.Sequence != rows[0].Sequence || r.State != board.Unclaimed {
		t.Errorf("restored %+v, %v", r, err)
	}
	problems, err := two.Check(t.Context())
	if err != nil || len(problems) != 1 || !strings.Contains(problems[0], folder+"/.trash/"+refs[0]) { // TaskFlow could not trash it now
		t.Errorf("check finds %q, %v", problems, err)
	}
	// A number that the board has not given out yet would be in the way of the posting that gets it.
	testenv.Must(t, one.Restore(t.Context(), "job0000000099"))
	listed, err := one.List(t.Context(), board.ListOptions{})
	if err != nil || len(listed) != 1 || listed[0].Sequence >= 99 {
		t.Errorf("listed %+v, %v", listed, err)
	}
	e.create(t, folder+"/.trash/"+listed[0].Ref, `{"uuid": "v", "name": "n"}`, 0)
	if err := one.Restore(t.Context(), listed[0].Ref); !errors.Is(err, board.ErrExists) {
		t.Errorf("restored over another: %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	e := shared(t)
	path := e.Path(t) + "/jobs"
	b := e.board(t, path, long)
	e.create(t, path+"/jobs", "{}", 0)
	e.create(t, path+"/other", "x", 0) // of somebody else
	e.create(t, path+"/job0000000090.lock", `{"owner": "w"}`, 0)
	for i, lock := range []string{"x", `{"owner": "w"}`} {
		name := fmt.Sprintf("%s/job%010d", path, i+50)
		e.create(t, name, `{"uuid": "u", "name": "n"}`, 0)
		e.create(t, name+".lock", lock, 0)
	}
	problems, err := b.Check(t.Context())
	want := []string{path + "/jobs is no posting", path + "/job0000000050.lock is a lock that cannot be read", path + "/job0000000051.lock is a lock that will not go", path + "/job0000000090.lock is a lock without a posting"}
	if err != nil || len(problems) != len(want) {
		t.Fatalf("check finds %q, %v", problems, err)
	}
	for i, p := range problems {
		if !strings.Contains(p, want[i]) {
			t.Errorf("problem %d is %s, want %s", i, p, want[i])
		}
	}
	if err := b.Quarantine(t.Context(), "jobs"); err != nil {
		t.Error(err)
	}
	if n, err := b.Count(t.Context()); n != 2 || err != nil {
		t.Errorf("count is %d, %v", n, err)
	}
}

// In TaskFlow each board reads all names after each change of anybody. 50 postings consumed elsewhere are 200 changes.
func TestNoHerd(t *testing.T) {
	t.Parallel()
	e := shared(t)
	path := e.Path(t) + "/jobs"
	worker, b := e.board(t, path, long), e.board(t, path, long)
	work := func() {
		t.Helper()
		for range 50 {
			finished(t, claimOne(t, worker, postOne(t, worker), "w"))
		}
	}
	const alive = 10 // questions that keep the session
	e.proxy(b).Reset()
	work()
	if n := e.proxy(b).Trips(); n > alive {
		t.Errorf("a board without listeners asked %d times", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan struct{}, 10_000)
	ended := make(chan error, 1)
	e.proxy(b).Reset()
	begun := time.Now()
	go func() { ended <- e.store(b).Watch(ctx, func(bool) { told <- struct{}{} }) }()
	<-told
	work()
	for len(told) > 0 {
		<-told
	}
	postOne(t, worker)
	testenv.Take(t, "the last change is told", told)
	cancel()
	<-ended
	if n, most := e.proxy(b).Trips(), int(time.Since(begun)/(50*time.Millisecond))+2+alive; n < 2 || n > most {
		t.Errorf("%d readings, want at most %d", n, most)
	}
}

// A board that is only looked at makes no node, and needs no right to write.
func TestLooking(t *testing.T) {
	t.Parallel()
	e := shared(t)
	folder := e.Path(t)
	if _, err := e.Client.Create(folder, nil, zk.FlagPersistent, zk.WorldACL(zk.PermRead)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		t.Fatal(err)
	}
	b, err := board.Connect{URL: "zookeeper://" + e.Addr + folder + "/jobs", Looks: true}.Open(t.Context())
	testenv.Must(t, err)
	defer b.Close()
	if n, err := b.Count(t.Context()); n != 0 || err != nil {
		t.Errorf("count is %d, %v", n, err)
	}
	if there, _, err := e.Client.Exists(folder + "/jobs"); there || err != nil {
		t.Errorf("there is a node now: %v, %v", there, err)
	}
}

// Somebody deletes the board while it is in use.
func TestBoardIsMadeAgain(t *testing.T) {
	t.Parallel()
	e := shared(t)
	folder := e.Path(t)
	b := e.board(t, folder+"/jobs", long)
	finished(t, claimOne(t, b, postOne(t, b), "w"))
	for _, path := range []string{"/jobs", "/.trash", "/.takt/jobs"} {
		testenv.Must(t, e.Client.Delete(folder+path, -1))
	}
	if n, err := b.Count(t.Context()); n != 0 || err != nil {
		t.Errorf("count is %d, %v", n, err)
	}
	c := claimOne(t, b, postOne(t, b), "w")
	if err := c.Trash(t.Context()); err != nil {
		t.Error(err)
	}
}

// The order of TaskFlow, for those who must have it.
func TestOrderOfTaskFlow(t *testing.T) {
	t.Parallel()
	e := shared(t)
	b := e.board(t, e.Path(t)+"/jobs", long)
	if _, err := b.PostBatch(t.Context(), []board.Draft{{Name: "1"}, {Name: "2", Priority: board.VeryHigh}, {Name: "3", Priority: board.VeryLow}, {Name: "4"}}); err != nil {
		t.Fatal(err)
	}
	rows, err := b.List(t.Context(), board.ListOptions{AsTaskFlow: true})
	testenv.Must(t, err)
	got := ""
	for _, r := range rows {
		got += r.Name
	}
	if got != "3142" {
		t.Errorf("order is %s", got)
	}
}
