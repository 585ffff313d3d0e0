// Package boardtest is the contract of package board as a suite, which every kind of board must pass: the behaviours that TaskFlow's own tests check and the defects that Takt must not
// have.
package boardtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/testenv"
)

// Kind is a kind of board.
type Kind struct {
	// New makes a new, empty board and returns a function that opens it: each call is another process, as far as the board can tell. The suite closes what it opened.
	New func(t *testing.T) (open func() *board.Board)

	// Expires says that claims end by their time to live; else they end with the session.
	Expires bool
	// Lose ends what keeps the claims of b alive, as if its process had died, without a word to b. Claims end within their time to live.
	Lose func(t *testing.T, b *board.Board)
	// Spoil puts a record on the board that is no posting, and returns its Ref.
	Spoil func(t *testing.T, b *board.Board) (ref string)
	// Entities says that entities of other kinds than conductor are taken, too.
	Entities bool
}

var patience = testenv.Patience

const ttl = 3 * time.Second // of claims that are to expire, and must not while they are kept alive: longer than a busy machine holds a process up

// Run runs the suite.
func Run(t *testing.T, k Kind) {
	for _, group := range []map[string]func(*world){postings, claims, trash, waiting, entities, conductors} {
		for name, test := range group {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				open := k.New(t)
				w := &world{T: t, kind: k, ctx: t.Context(), open: func() *board.Board {
					b := open()
					t.Cleanup(func() {
						if err := b.Close(); err != nil {
							t.Errorf("close: %v", err)
						}
					})
					return b
				}}
				w.b = w.open()
				test(w)
				w.sound()
			})
		}
	}
}

// world is one test: a board, and who opened it first.
type world struct {
	*testing.T
	kind  Kind
	ctx   context.Context
	open  func() *board.Board
	b     *board.Board
	spoil bool // the board is not expected to be sound at the end
}

// sound fails the test if the board is inconsistent at its end.
func (w *world) sound() {
	w.Helper()
	if w.Failed() || w.spoil {
		return
	}
	problems, err := w.open().Check(context.WithoutCancel(w.ctx))
	w.must(err)
	for _, p := range problems {
		w.Errorf("check: %s", p)
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) is(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Fatalf("error is %v, want %v", err, want)
	}
}

func as[E error](w *world, err error) E {
	w.Helper()
	var e E
	if !errors.As(err, &e) {
		w.Fatalf("error is %v (%T), want a %T", err, err, e)
	}
	return e
}

// post posts by name, with the default priority.
func (w *world) post(names ...string) []*board.Posting {
	w.Helper()
	drafts := make([]board.Draft, len(names))
	for i, n := range names {
		drafts[i] = board.Draft{Name: n}
	}
	all, err := w.b.PostBatch(w.ctx, drafts)
	w.must(err)
	return all
}

func (w *world) one() *board.Posting {
	w.Helper()
	return w.post("one")[0]
}

// list is the names on the board, in order.
func (w *world) list(b *board.Board, o board.ListOptions) []string {
	w.Helper()
	rows, err := b.List(w.ctx, o)
	w.must(err)
	names := []string{}
	for _, r := range rows {
		names = append(names, r.Name)
	}
	return names
}

func (w *world) state(p *board.Posting, want board.State) {
	w.Helper()
	got, err := w.b.State(w.ctx, p)
	w.must(err)
	if got != want {
		w.Errorf("state of %s is %v, want %v", p.Name, got, want)
	}
}

// claim has no end that a test would see; expiring ends after ttl if it is not kept alive.
func (w *world) claim(b *board.Board, p *board.Posting, who string) *board.Claim {
	w.Helper()
	return w.claimFor(b, p, who, time.Minute)
}

func (w *world) expiring(b *board.Board, p *board.Posting, who string) *board.Claim {
	w.Helper()
	return w.claimFor(b, p, who, ttl)
}

func (w *world) claimFor(b *board.Board, p *board.Posting, who string, ttl time.Duration) *board.Claim {
	w.Helper()
	c, err := b.Claim(w.ctx, p, who, board.ClaimOptions{TTL: ttl})
	w.must(err)
	return c
}

func (w *world) done(ctx context.Context, what string) {
	w.Helper()
	testenv.Take(w, what, ctx.Done())
}

// within is a context for what must not take longer than patience.
func (w *world) within() context.Context {
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	w.Cleanup(cancel)
	return ctx
}
