package boardtest

import (
	"context"

	"github.com/taktworks/takt/board"
)

// finishes are the three ways to finish a claim by the owner's name.
func finishes(b *board.Board) []func(context.Context, *board.Posting, string) error {
	return []func(context.Context, *board.Posting, string) error{b.Consume, b.Abandon, b.Trash}
}

func cause(c *board.Claim) error { return context.Cause(c.Context()) }

var trash = map[string]func(*world){
	"trashing_claimed_job: what was put aside can be listed, restored and purged": func(w *world) {
		p, err := w.b.Post(w.ctx, board.Draft{Name: "bad", Priority: board.Low, Details: map[string]any{"n": 1}})
		w.must(err)
		w.must(w.claim(w.b, p, "w").Trash(w.ctx))
		if got := w.list(w.b, board.ListOptions{}); len(got) != 0 {
			w.Errorf("lists %q", got)
		}
		peer := w.open()
		rows, err := peer.TrashList(w.ctx)
		w.must(err)
		if len(rows) != 1 || rows[0].UUID != p.UUID || rows[0].Name != "bad" || rows[0].Priority != board.Low || rows[0].Details["n"] != int64(1) || rows[0].State != board.Trashed {
			w.Fatalf("trash has %+v", rows)
		}
		if r, err := peer.Find(w.ctx, p.UUID); err != nil || r.State != board.Trashed {
			w.Errorf("found %v, %v", r.State, err)
		}
		if state, err := peer.WaitFor(w.within(), p); err != nil || state != board.Trashed {
			w.Errorf("waited for %v, %v", state, err)
		}
		w.must(peer.Restore(w.ctx, rows[0].Ref))
		w.is(peer.Restore(w.ctx, rows[0].Ref), board.ErrNotFound)
		if rows, err = peer.TrashList(w.ctx); len(rows) != 0 || err != nil {
			w.Errorf("trash has %v, %v", rows, err)
		}
		c, err := peer.ClaimNext(w.ctx, "v", board.ClaimOptions{})
		w.must(err)
		if q := c.Posting(); q.UUID != p.UUID || q.Priority != board.Low || q.Details["n"] != int64(1) {
			w.Errorf("restored %+v", q)
		}
		w.must(c.Trash(w.ctx))
		rows, err = peer.TrashList(w.ctx)
		w.must(err)
		w.must(peer.Purge(w.ctx, rows[0].Ref))
		w.is(peer.Purge(w.ctx, rows[0].Ref), board.ErrNotFound)
		as[*board.InvalidError](w, peer.Purge(w.ctx, ""))
	},

	"what has a place in the trash already is put aside beside it": func(w *world) {
		d := board.Draft{Name: "twice", UUID: "0b7da2c7-1235-4ade-86b0-1a569887709b"}
		for range 2 {
			p, err := w.b.Post(w.ctx, d)
			w.must(err)
			w.must(w.claim(w.b, p, "w").Trash(w.ctx))
		}
		rows, err := w.b.TrashList(w.ctx)
		w.must(err)
		if len(rows) == 0 {
			w.Error("the trash is empty")
		}
		w.must(w.b.Restore(w.ctx, rows[0].Ref))
	},
}
