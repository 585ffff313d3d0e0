package boardtest

import (
	"context"
	"errors"
	"time"

	"github.com/taktworks/takt/board"
)

var waiting = map[string]func(*world){
	"wait_timeout": func(w *world) {
		ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
		defer cancel()
		w.is(w.b.Wait(ctx), context.DeadlineExceeded)
	},

	"wait_arrival: who waits is told": func(w *world) {
		peer := w.open()
		told := make(chan error, 1)
		begin := time.Now()
		go func() { told <- peer.Wait(w.within()) }()
		w.one()
		w.must(<-told)
		w.Logf("told after %v", time.Since(begin))
	},

	"who waits for work is not woken by what is claimed": func(w *world) {
		c := w.claim(w.b, w.one(), "w")
		peer := w.open()
		w.must(peer.Wait(w.within())) // as TaskFlow
		short, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
		defer cancel()
		w.is(peer.WaitUnclaimed(short), context.DeadlineExceeded)
		told := make(chan error, 1)
		go func() { told <- peer.WaitUnclaimed(w.within()) }()
		w.must(c.Abandon(w.ctx))
		w.must(<-told)
	},

	"posting_consume_wait": func(w *world) {
		p := w.one()
		peer := w.open()
		told := make(chan board.State, 1)
		go func() {
			state, err := peer.WaitFor(w.within(), p)
			if err != nil {
				w.Error(err)
			}
			told <- state
		}()
		w.must(w.claim(w.b, p, "w").Consume(w.ctx))
		if state := <-told; state != board.Complete {
			w.Errorf("state is %v", state)
		}
	},

	"posting_no_consume_wait": func(w *world) {
		p := w.one()
		short, cancel := context.WithTimeout(w.ctx, 100*time.Millisecond)
		defer cancel()
		_, err := w.b.WaitFor(short, p)
		w.is(err, context.DeadlineExceeded)
	},

	"watch: what happens is told": func(w *world) {
		events := make(chan board.Event, 100)
		ctx, cancel := context.WithCancel(w.ctx)
		ended := make(chan struct{})
		peer := w.open()
		go func() {
			defer close(ended)
			for e, err := range peer.Watch(ctx) {
				if err != nil {
					w.Error(err)
					return
				}
				events <- e
			}
		}()
		next := func(kind board.EventKind) board.Row {
			w.Helper()
			select {
			case e := <-events:
				if e.Kind != kind {
					w.Fatalf("told %s of %v, want %s", e.Kind, e.Row.Name, kind)
				}
				return e.Row
			case <-time.After(patience):
				w.Fatalf("never told: %s", kind)
				return board.Row{}
			}
		}
		p := w.one()
		if r := next(board.EventPosted); r.UUID != p.UUID {
			w.Errorf("told of %v", r)
		}
		c := w.claim(w.b, p, "w")
		if r := next(board.EventClaimed); r.Owner != c.Owner() {
			w.Errorf("told of %v", r)
		}
		w.must(c.Abandon(w.ctx))
		next(board.EventReleased)
		c = w.claim(w.b, p, "w")
		next(board.EventClaimed)
		w.must(c.Consume(w.ctx))
		if r := next(board.EventRemoved); r.UUID != p.UUID {
			w.Errorf("told of %v", r)
		}
		cancel()
		<-ended
	},
}

var entities = map[string]func(*world){
	"register_entity": func(w *world) {
		e := board.Entity{Kind: "conductor", Name: "c1@host:7", Metadata: map[string]any{"hostname": "host", "pid": int64(7)}}
		peer := w.open()
		release, err := peer.RegisterEntity(w.ctx, e)
		w.must(err)
		all, err := w.b.Entities(w.ctx, "")
		w.must(err)
		if len(all) != 1 || all[0].Kind != e.Kind || all[0].Name != e.Name || all[0].Metadata["hostname"] != "host" {
			w.Errorf("entities are %+v", all)
		}
		if some, err := w.b.Entities(w.ctx, "other"); len(some) != 0 || err != nil {
			w.Errorf("others are %v, %v", some, err)
		}
		w.must(release(w.ctx))
		if all, err = w.b.Entities(w.ctx, "conductor"); len(all) != 0 || err != nil {
			w.Errorf("after the release there are %v, %v", all, err)
		}
		for _, bad := range []board.Entity{{Kind: "", Name: "n"}, {Kind: "k", Name: ""}, {Kind: "k", Name: "a/b"}, {Kind: "..", Name: "n"}} {
			_, err := w.b.RegisterEntity(w.ctx, bad)
			as[*board.InvalidError](w, err)
		}
		_, err = w.b.RegisterEntity(w.ctx, board.Entity{Kind: "other", Name: "n"})
		if w.kind.Entities != (err == nil) || err != nil && !errors.Is(err, board.ErrUnsupported) {
			w.Errorf("another kind: %v", err)
		}
	},
}
