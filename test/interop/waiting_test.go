package interop_test

import (
	"context"
	"errors"
	"time"

	"github.com/taktworks/takt/board"
)

// unheard is less than after what time boards are read although nothing was heard, which is 30 s.
const unheard = 20 * time.Second

var waiting = map[string]func(*world){
	"wait_arrival: TaskFlow is told what Takt posts": func(w *world) {
		c := w.py.start("wait", map[string]any{"timeout": patience.Seconds()})
		c.event(w.T, "waiting", nil)
		p := w.post("one")
		var seen []string
		w.must(c.finish(w.T, &seen))
		if len(seen) != 1 || seen[0] != p.UUID {
			w.Errorf("TaskFlow is told of %q, posted %s", seen, p.UUID)
		}
	},

	"posting_consume_wait: TaskFlow is told when Takt has finished": func(w *world) {
		for _, finish := range []func(*board.Claim) error{
			func(c *board.Claim) error { return c.Consume(w.ctx) },
			func(c *board.Claim) error { return c.Trash(w.ctx) },
		} {
			p := w.posted("one")
			c := w.py.start("job_wait", map[string]any{"uuid": p.UUID, "timeout": patience.Seconds()})
			c.event(w.T, "waiting", nil)
			claim := w.claim(p, "takt", board.ClaimOptions{})
			w.must(claim.Abandon(w.ctx)) // is not the end
			w.must(finish(w.claim(p, "takt", board.ClaimOptions{})))
			done := false
			if w.must(c.finish(w.T, &done)); !done {
				w.Error("TaskFlow is not told")
			}
		}
	},

	"wait_arrival: Takt is told what TaskFlow posts, abandons and finishes": func(w *world) {
		wait := w.beginTold(w.b.Wait)
		p := w.posted("one")
		w.must(<-wait)

		w.py.claim(p, "python")
		wait = w.beginTold(w.b.WaitUnclaimed)
		w.must(w.py.finish("abandon", p, "python"))
		w.must(<-wait)

		for what, want := range map[string]board.State{"consume": board.Complete, "trash": board.Trashed} {
			p := w.posted(what)
			var state board.State
			wait = w.beginTold(func(ctx context.Context) (err error) {
				state, err = w.b.WaitFor(ctx, p)
				return err
			})
			w.py.claim(p, "python")
			w.must(w.py.finish(what, p, "python"))
			if w.must(<-wait); state != want {
				w.Errorf("after %s, Takt is told %v", what, state)
			}
		}
	},

	"watch: Takt sees what TaskFlow does": func(w *world) {
		events := make(chan board.Event)
		ctx, cancel := context.WithCancel(w.ctx)
		watching := w.begin(func(context.Context) error {
			for e, err := range w.b.Watch(ctx) {
				if err != nil {
					return err
				}
				select {
				case events <- e:
				case <-ctx.Done():
				}
			}
			return nil
		})
		p := w.posted("one")
		for _, step := range []struct {
			do   string
			want board.EventKind
		}{{"", board.EventPosted}, {"claim", board.EventClaimed}, {"abandon", board.EventReleased}, {"claim", board.EventClaimed}, {"consume", board.EventRemoved}} {
			if step.do != "" {
				w.must(w.py.finish(step.do, p, "python"))
			}
			select {
			case e := <-events:
				if e.Kind != step.want || e.Row.UUID != p.UUID || step.do == "claim" && e.Row.Owner != "python" {
					w.Errorf("%s: told %s of %+v", step.do, e.Kind, e.Row)
				}
			case <-time.After(unheard):
				w.Fatalf("%q: not told", step.do)
			}
		}
		cancel()
		w.must(<-watching)
	},
}

// begin lets somebody wait for what happens.
func (w *world) begin(wait func(context.Context) error) <-chan error {
	told := make(chan error, 1)
	go func() { told <- wait(w.ctx) }()
	return told
}

// beginTold is begin for who must be told: not as late as boards are read although nothing was heard.
func (w *world) beginTold(wait func(context.Context) error) <-chan error {
	return w.begin(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeoutCause(ctx, unheard, errors.New("not told"))
		defer cancel()
		return wait(ctx)
	})
}
