//go:build interop

package zkboard_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/testenv"
)

var patience = testenv.Patience

func done(t *testing.T, ctx context.Context, what string) {
	t.Helper()
	testenv.Take(t, what, ctx.Done())
}

// until waits until a node is there, or not; it returns what it was.
func (e *env) until(t *testing.T, path string, there bool) *zk.Stat {
	t.Helper()
	late := time.After(patience)
	for {
		found, stat, changed, err := e.Client.ExistsW(path)
		testenv.Must(t, err)
		if found == there {
			return stat
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("never: %s there: %v", path, there)
		}
	}
}

func postOne(t *testing.T, b *board.Board) *board.Posting {
	t.Helper()
	p, err := b.Post(t.Context(), board.Draft{Name: "one"})
	testenv.Must(t, err)
	return p
}

func claimOne(t *testing.T, b *board.Board, p *board.Posting, who string) *board.Claim {
	t.Helper()
	c, err := b.Claim(t.Context(), p, who, board.ClaimOptions{})
	testenv.Must(t, err)
	return c
}

// finished consumes what must still be ours.
func finished(t *testing.T, c *board.Claim) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	testenv.Must(t, c.Consume(ctx))
}

// TaskFlow notices nothing, and its entities are gone for good.
func TestAfterTheSessionAnotherBegins(t *testing.T) {
	t.Parallel()
	e := shared(t)
	path := e.Path(t) + "/jobs"
	b, peer := e.board(t, path, long), e.board(t, path, long)
	entity := path[:strings.LastIndexByte(path, '/')] + "/.entities/conductor/c"
	release, err := b.RegisterEntity(t.Context(), board.Entity{Kind: "conductor", Name: "c"})
	testenv.Must(t, err)
	before := e.until(t, entity, true)
	events := make(chan board.EventKind, 100)
	watching, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event, err := range b.Watch(watching) {
			if err != nil {
				t.Error(err)
			}
			events <- event.Kind
		}
	}()
	told := func(what board.EventKind) {
		t.Helper()
		late := time.After(patience)
		for {
			select {
			case kind := <-events:
				if kind == what {
					return
				}
			case <-late:
				t.Fatalf("never told of %s", what)
			}
		}
	}
	p := postOne(t, b)
	told(board.EventPosted)
	c := claimOne(t, b, p, "w")
	old := e.store(b).Session()
	e.expire(t, b)
	done(t, c.Context(), "the claim's context ends with the session")
	if err := context.Cause(c.Context()); !errors.Is(err, board.ErrClaimLost) {
		t.Errorf("cause is %v", err)
	}
	again := claimOne(t, peer, p, "v")
	e.until(t, entity, false)
	after := e.until(t, entity, true)
	if after.Czxid == before.Czxid || after.EphemeralOwner == old || after.EphemeralOwner != e.store(b).Session() {
		t.Errorf("entity of session %#x, then %#x", before.EphemeralOwner, after.EphemeralOwner)
	}
	finished(t, again)
	told(board.EventRemoved)
	stop()
	<-ended
	finished(t, claimOne(t, b, postOne(t, b), "w"))
	if err := release(t.Context()); err != nil {
		t.Error(err)
	}
	e.until(t, entity, false)
}

// An entity that somebody else has registered, too, is there until both have gone.
func TestEntityOfTwo(t *testing.T) {
	t.Parallel()
	e := shared(t)
	path := e.Path(t)
	one, two := e.board(t, path+"/jobs", long), e.board(t, path+"/jobs", long)
	entity := board.Entity{Kind: "conductor", Name: "c"}
	node := path + "/.entities/conductor/c"
	releaseOne, err := one.RegisterEntity(t.Context(), entity)
	testenv.Must(t, err)
	releaseTwo, err := two.RegisterEntity(t.Context(), entity)
	testenv.Must(t, err)
	first := e.until(t, node, true)
	testenv.Must(t, releaseOne(t.Context()))
	for e.until(t, node, true).Czxid == first.Czxid {
		e.until(t, node, false)
	}
	testenv.Must(t, releaseTwo(t.Context()))
	e.until(t, node, false)
}

func TestSessionSurvivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	e := newEnv(testenv.ZooKeeper(t))
	b := e.board(t, e.Path(t)+"/jobs", long)
	id := e.store(b).Session()
	c := claimOne(t, b, postOne(t, b), "w")
	e.Kill(t)
	if _, err := b.Count(t.Context()); !errors.Is(err, board.ErrAway) {
		t.Errorf("count while the server is away: %v", err)
	}
	e.Restart(t)
	finished(t, c)
	if now := e.store(b).Session(); now != id || c.Context().Err() == nil || errors.Is(context.Cause(c.Context()), board.ErrClaimLost) {
		t.Errorf("session %#x became %#x; claim ended with %v", id, now, context.Cause(c.Context()))
	}
	if n, err := b.Count(t.Context()); n != 0 || err != nil {
		t.Errorf("%d left, %v", n, err)
	}
}

// A server that hangs cannot end the session by its word. board-D19
func TestClaimEndsBeforeAnotherCanBegin(t *testing.T) {
	t.Parallel()
	e := newEnv(testenv.ZooKeeper(t))
	path := e.Path(t) + "/jobs"
	const session = 20 * time.Second // a tenth of it is what a busy machine may be late
	b := e.board(t, path, session)
	release, err := b.RegisterEntity(t.Context(), board.Entity{Kind: "conductor", Name: "c"})
	testenv.Must(t, err)
	c := claimOne(t, b, postOne(t, b), "w")
	paused := time.Now()
	e.Pause(t)
	var heard time.Time // the server counts from then on, or later
	for {               // it takes a moment to stop
		asked := time.Now()
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := b.Count(short)
		cancel()
		if err == nil {
			heard = asked
			continue
		}
		if !errors.Is(err, board.ErrAway) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("asked a server that hangs: %v", err)
		}
		break
	}
	done(t, c.Context(), "the context of the claim ends")
	if heard.IsZero() {
		heard = paused
	}
	if took := time.Since(heard); took >= session {
		t.Errorf("lost after %v, when another could have it", took)
	}
	if err := context.Cause(c.Context()); !errors.Is(err, board.ErrClaimLost) {
		t.Errorf("cause is %v", err)
	}
	e.Continue(t)
	peer := e.board(t, path, long)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	testenv.Must(t, peer.WaitUnclaimed(ctx))
	again, err := peer.ClaimNext(ctx, "v", board.ClaimOptions{})
	if err != nil || again.Fence() <= c.Fence() || again.Attempt() != 2 {
		t.Fatalf("%+v, %v", again, err)
	}
	if err := c.Consume(t.Context()); !errors.Is(err, board.ErrClaimLost) && !errors.Is(err, board.ErrAway) {
		t.Errorf("the former owner consumes: %v", err)
	}
	finished(t, again)
	if err := release(t.Context()); err != nil && !errors.Is(err, board.ErrAway) {
		t.Error(err)
	}
}

func TestAwayIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	e := shared(t)
	b := e.board(t, e.Path(t)+"/jobs", long)
	p := postOne(t, b)
	e.proxy(b).Refuse(true)
	e.proxy(b).Cut()
	for { // until the client has noticed, too
		_, err := b.List(t.Context(), board.ListOptions{})
		if errors.Is(err, board.ErrAway) {
			break
		}
		testenv.Must(t, err)
	}
	_, err := b.Claim(t.Context(), p, "w", board.ClaimOptions{})
	if !errors.Is(err, board.ErrAway) {
		t.Errorf("claim: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.Post(short, board.Draft{Name: "n"}); !errors.Is(err, board.ErrAway) {
		t.Errorf("post: %v", err)
	}
	closed := make(chan error, 1)
	go func() { closed <- b.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Errorf("close: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("Close waits for a server that is away")
	}
	if _, err := b.Count(t.Context()); !errors.Is(err, board.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.Must(t, err)
	addr := l.Addr().String()
	testenv.Must(t, l.Close())
	_, err = board.Open(t.Context(), "zookeeper://"+addr+"/p")
	if !errors.Is(err, board.ErrAway) || !strings.Contains(err.Error(), addr) {
		t.Errorf("%v does not name %s", err, addr)
	}
}

// One that takes connections and says nothing.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.Must(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = board.Open(ctx, "zookeeper://"+l.Addr().String())
	if !errors.Is(err, board.ErrAway) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// The first server of two is dead: the other is used, also when it is the one that dies later.
func TestSeveralServers(t *testing.T) {
	t.Parallel()
	e := shared(t)
	one, two := testenv.CountingProxy(t, e.Addr), testenv.CountingProxy(t, e.Addr)
	one.Refuse(true)
	s := openStore(t, "zookeeper://"+one.Addr+","+two.Addr+e.Path(t)+"/jobs", long)
	b := board.New(s, nil)
	defer b.Close()
	p := postOne(t, b)
	id := s.Session()
	c := claimOne(t, b, p, "w")
	one.Refuse(false)
	two.Refuse(true)
	two.Cut()
	finished(t, c)
	if one.Conns() == 0 || s.Session() != id {
		t.Errorf("%d connections to the first, session %#x after %#x", one.Conns(), s.Session(), id)
	}
}

func TestUserAndPassword(t *testing.T) {
	t.Parallel()
	e := shared(t)
	path := e.Path(t) + "/jobs"
	if _, err := e.Client.Create(path, nil, 0, append(zk.DigestACL(zk.PermAll, "u", "p:w"), zk.WorldACL(zk.PermRead)...)); err != nil {
		t.Fatal(err)
	}
	b := board.New(openStore(t, "zookeeper://u:p%3Aw@"+e.Addr+path, long), nil)
	defer b.Close()
	p := postOne(t, b)
	// posting_no_post: who must not post is told, and nothing is posted
	stranger := e.board(t, path, long)
	if _, err := stranger.Post(t.Context(), board.Draft{Name: "n"}); !errors.Is(err, zk.ErrNoAuth) || !strings.Contains(err.Error(), path) {
		t.Errorf("posted without the right to: %v", err)
	}
	if n, err := stranger.Count(t.Context()); n != 1 || err != nil {
		t.Errorf("count is %d, %v", n, err)
	}
	finished(t, claimOne(t, b, p, "w"))
}

// The client repeats user and password after a lost connection, and the store in another session.
func TestUserAndPasswordAgain(t *testing.T) {
	t.Parallel()
	e := shared(t)
	path := e.Path(t) + "/jobs"
	if _, err := e.Client.Create(path, nil, 0, zk.DigestACL(zk.PermAll, "u", "p")); err != nil {
		t.Fatal(err)
	}
	p := testenv.CountingProxy(t, e.Addr)
	s := openStore(t, "zookeeper://u:p@"+p.Addr+path, long)
	b := board.New(s, nil)
	defer b.Close()
	p.Cut()
	postOne(t, b)
	p.Refuse(true)
	p.Cut()
	e.ExpireSession(t, s.Session())
	p.Refuse(false)
	postOne(t, b)
}
