package interop_test

import (
	"context"
	"reflect"
	"time"

	"github.com/taktworks/takt/board"
)

const ttl = 6 * time.Second // of claims that are to expire, and not before a few calls of both

var claims = map[string]func(*world){
	"posting_claim_diff_owner: a second claim is refused, and the owner named": func(w *world) {
		for _, post := range w.ways() {
			p := post("one")
			c := w.claim(p, "takt", board.ClaimOptions{})
			w.sees(p, board.Claimed, c.Owner())
			w.refused(p, "python", c.Owner())
			w.refused(p, c.Owner(), c.Owner())
			w.must(c.Abandon(w.ctx))
			w.sees(p, board.Unclaimed, "")

			w.py.claim(p, "pythön")
			w.sees(p, board.Claimed, "pythön")
			for _, o := range []board.ClaimOptions{{}, {ExactOwner: true}} {
				_, err := w.b.Claim(w.ctx, p, "pythön", o)
				if e := as[*board.ClaimedError](w, err); e.Owner != "pythön" {
					w.Errorf("owner is %q", e.Owner)
				}
			}
			_, err := w.b.ClaimNext(w.ctx, "takt", board.ClaimOptions{})
			w.is(err, board.ErrNothing)
			w.must(w.py.finish("consume", p, "pythön"))
			w.sees(p, board.Complete, "")
			_, err = w.b.Claim(w.ctx, p, "takt", board.ClaimOptions{})
			w.is(err, board.ErrNotFound)
		}
	},

	"posting_claim_consume, posting_claim_abandon, trash: by the owner alone": func(w *world) {
		for what, after := range map[string]board.State{"consume": board.Complete, "abandon": board.Unclaimed, "trash": board.Trashed} {
			for _, post := range w.ways() {
				p := post(what)
				finish := map[string]func(context.Context, *board.Posting, string) error{"consume": w.b.Consume, "abandon": w.b.Abandon, "trash": w.b.Trash}[what]
				w.raises(w.py.finish(what, p, "w"), "NotFound")
				w.is(finish(w.ctx, p, "w"), board.ErrUnowned)

				c := w.claim(p, "takt", board.ClaimOptions{})
				for _, who := range []string{"w", "takt"} {
					w.raises(w.py.finish(what, p, who), "JobFailure", who, w.named(c.Owner()))
				}
				w.must(c.Abandon(w.ctx))

				w.py.claim(p, "w")
				if e := as[*board.NotOwnerError](w, finish(w.ctx, p, "v")); e.Owner != "w" || e.Who != "v" {
					w.Errorf("%+v", e)
				}
				w.sees(p, board.Claimed, "w")
				w.must(w.py.finish(what, p, "w"))
				w.sees(p, after, "")
				if after != board.Unclaimed {
					w.is(finish(w.ctx, p, "w"), board.ErrNotFound)
					w.raises(w.py.finish(what, p, "w"), "NotFound")
					continue
				}
				w.must(w.claim(p, "takt", board.ClaimOptions{}).Consume(w.ctx))
				w.sees(p, board.Complete, "")
			}
		}
	},

	"what one claimed under an agreed name the other finishes": func(w *world) {
		const name = "agreed"
		for what, after := range map[string]board.State{"consume": board.Complete, "abandon": board.Unclaimed, "trash": board.Trashed} {
			p := w.post("claimed by Takt")
			w.claim(p, name, board.ClaimOptions{ExactOwner: true})
			w.must(w.py.finish(what, p, name))
			w.sees(p, after, "")
			w.is(w.b.Consume(w.ctx, p, name), map[bool]error{true: board.ErrUnowned, false: board.ErrNotFound}[after == board.Unclaimed])

			p = w.posted("claimed by TaskFlow")
			w.py.claim(p, name)
			owner, ok, err := w.b.FindOwner(w.ctx, p)
			if w.must(err); !ok {
				w.Error("nobody owns it")
			}
			finish := map[string]func(context.Context, *board.Posting, string) error{"consume": w.b.Consume, "abandon": w.b.Abandon, "trash": w.b.Trash}[what]
			w.must(finish(w.ctx, p, owner))
			w.sees(p, after, "")
			w.raises(w.py.finish("consume", p, name), "NotFound")
		}
	},
}

// ways to post.
func (w *world) ways() []func(name string) *board.Posting {
	return []func(string) *board.Posting{w.post, w.posted}
}

// refused expects TaskFlow not to get p, and to say who has it.
func (w *world) refused(p *board.Posting, who, owner string) {
	w.Helper()
	w.raises(w.py.finish("claim", p, who), "UnclaimableJob", w.named(owner))
}

// named is what TaskFlow says of the owner when it refuses something: nothing on ZooKeeper.
func (w *world) named(owner string) string {
	if w.json {
		return ""
	}
	return owner
}

var expiry = map[string]func(*world){
	"posting_claim_expiry: Takt gets what TaskFlow's claim leaves": func(w *world) {
		p := w.posted("one")
		w.must(w.py.do("claim", map[string]any{"uuid": p.UUID, "who": "python", "expiry": ttl.Seconds()}, nil))
		if r := w.find(p.UUID); r.ExpiresIn <= 0 || r.ExpiresIn > ttl {
			w.Errorf("expires in %v", r.ExpiresIn)
		}
		w.must(w.b.WaitUnclaimed(w.ctx))
		c, err := w.b.ClaimNext(w.ctx, "takt", board.ClaimOptions{})
		w.must(err)
		w.raises(w.py.finish("consume", p, "python"), "JobFailure", c.Owner())
		w.sees(p, board.Claimed, c.Owner())
		w.must(c.Consume(w.ctx))
	},

	"what TaskFlow claimed without an expiry stays until somebody gives it back": func(w *world) {
		p := w.posted("one")
		w.py.claim(p, "gone")
		r := w.find(p.UUID)
		if r.State != board.Claimed || r.ExpiresIn != 0 {
			w.Errorf("%v, expires in %v", r.State, r.ExpiresIn)
		}
		as[*board.NotOwnerError](w, w.b.Abandon(w.ctx, p, "other"))
		w.must(w.b.Abandon(w.ctx, p, r.Owner))
		w.must(w.claim(p, "takt", board.ClaimOptions{}).Consume(w.ctx))
	},

	"a claim under its owner's name is not given again, and not prolonged by Takt": func(w *world) {
		p := w.posted("one")
		w.must(w.py.do("claim", map[string]any{"uuid": p.UUID, "who": "w", "expiry": 60}, nil))
		before := w.find(p.UUID)
		_, err := w.b.Claim(w.ctx, p, "w", board.ClaimOptions{ExactOwner: true, TTL: time.Hour})
		as[*board.ClaimedError](w, err)
		if after := w.find(p.UUID); after.ExpiresIn > before.ExpiresIn || !after.LastModified.Equal(before.LastModified) {
			w.Errorf("it expires in %v, before in %v; changed %v, before %v", after.ExpiresIn, before.ExpiresIn, after.LastModified, before.LastModified)
		}
	},
}

var trash = map[string]func(*world){
	"trashing_claimed_job: what TaskFlow trashes Takt lists, restores and purges": func(w *world) {
		details := map[string]any{"n": int64(1)}
		j := w.py.post(draft{Name: "bad", Priority: "HIGH", Details: details, Book: book})
		p := w.find(j.UUID).Posting
		w.py.claim(p, "python")
		w.must(w.py.finish("trash", p, "python"))
		w.sees(p, board.Trashed, "")

		rows, err := w.b.TrashList(w.ctx)
		w.must(err)
		if len(rows) != 1 || rows[0].UUID != p.UUID || rows[0].Priority != board.High || rows[0].State != board.Trashed || !reflect.DeepEqual(rows[0].Details, details) || *rows[0].Book != *book {
			w.Fatalf("the trash has %+v", rows)
		}
		w.must(w.b.Restore(w.ctx, rows[0].Ref))
		r := w.find(p.UUID)
		w.same(r, w.py.find(p.UUID))
		w.py.claim(r.Posting, "python")
		w.must(w.py.finish("trash", r.Posting, "python"))
		if rows, err = w.b.TrashList(w.ctx); err != nil || len(rows) != 1 {
			w.Fatalf("the trash has %+v, %v", rows, err)
		}
		w.must(w.b.Purge(w.ctx, rows[0].Ref))
		if rows, err = w.b.TrashList(w.ctx); err != nil || len(rows) != 0 {
			w.Errorf("the trash has %+v, %v", rows, err)
		}
		w.sees(r.Posting, board.Complete, "")
		w.sound()
	},
}

// sound expects nothing inconsistent on the board.
func (w *world) sound() {
	w.Helper()
	problems, err := w.b.Check(w.ctx)
	w.must(err)
	for _, p := range problems {
		w.Errorf("check: %s", p)
	}
}
