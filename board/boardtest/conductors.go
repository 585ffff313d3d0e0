package boardtest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

// conduct runs a conductor in the background; stop ends it and waits.
func (w *world) conduct(b *board.Board, handler board.Handler, o board.ConductorOptions) (stop func()) {
	w.Helper()
	c, err := b.Conductor(handler, o)
	w.must(err)
	ctx, cancel := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("conductor: %v", err)
		}
	})
}

var conductors = map[string]func(*world){
	"run_empty": func(w *world) {
		stop := w.conduct(w.b, func(context.Context, *board.Claim) error { return errors.New("called") }, board.ConductorOptions{Name: "c"})
		testenv.Eventually(w, "the conductor is registered", func() bool {
			all, err := w.b.Entities(w.ctx, "conductor")
			return err == nil && len(all) == 1
		})
		stop()
		if all, err := w.b.Entities(w.ctx, ""); len(all) != 0 || err != nil {
			w.Errorf("left behind: %v, %v", all, err)
		}
	},

	"run: outcomes of a handler": func(w *world) {
		boom := errors.New("boom")
		outcomes := make(chan board.ConductorEvent, 100)
		w.post("fine", "failed", "useless", "again", "panics", "error")
		var tries atomic.Int32
		stop := w.conduct(w.b, func(_ context.Context, c *board.Claim) error {
			switch c.Posting().Name {
			case "failed":
				return board.ConsumeWith(boom)
			case "useless":
				return board.TrashWith(boom)
			case "again":
				if tries.Add(1) == 1 {
					return board.AbandonWith(boom)
				}
			case "panics":
				panic(boom)
			case "error":
				if c.Attempt() == 1 {
					return boom
				}
			}
			return nil
		}, board.ConductorOptions{MaxConcurrent: 2, Backoff: time.Millisecond, Observe: func(e board.ConductorEvent) { outcomes <- e }})
		got := map[string][]board.Outcome{}
		for ended := 0; ended < 6; {
			e := <-outcomes
			got[e.Claim.Posting().Name] = append(got[e.Claim.Posting().Name], e.Outcome)
			if e.Outcome != board.Started && e.Outcome != board.Abandoned {
				ended++
			}
		}
		stop()
		for name, want := range map[string][]board.Outcome{
			"fine": {board.Started, board.Consumed}, "failed": {board.Started, board.Consumed}, "useless": {board.Started, board.PutAside}, "panics": {board.Started, board.PutAside},
			"again": {board.Started, board.Abandoned, board.Started, board.Consumed}, "error": {board.Started, board.Abandoned, board.Started, board.Consumed},
		} {
			if len(got[name]) != len(want) || got[name][len(want)-1] != want[len(want)-1] {
				w.Errorf("%s: %v, want %v", name, got[name], want)
			}
		}
		rows, err := w.b.TrashList(w.ctx)
		w.must(err)
		if len(rows) != 2 {
			w.Errorf("trash has %v", rows)
		}
	},

	"fail_run: what fails is consumed, if asked as TaskFlow does": func(w *world) {
		p := w.one()
		stop := w.conduct(w.b, func(context.Context, *board.Claim) error { return errors.New("boom") }, board.ConductorOptions{ConsumeOnError: true})
		state, err := w.b.WaitFor(w.within(), p)
		w.must(err)
		stop()
		if state != board.Complete {
			w.Errorf("state is %v", state)
		}
	},

	"run_max_dispatches: exactly as many as asked, and then again": func(w *world) {
		w.post("a", "b", "c", "d", "e")
		var ran atomic.Int32
		c, err := w.b.Conductor(func(context.Context, *board.Claim) error { ran.Add(1); return nil }, board.ConductorOptions{MaxDispatches: 2, MaxConcurrent: 3})
		w.must(err)
		for _, want := range []int32{2, 4} {
			w.must(c.Run(w.within()))
			if ran.Load() != want {
				w.Errorf("%d ran, want %d", ran.Load(), want)
			}
		}
		if n, err := w.b.Count(w.ctx); n != 1 || err != nil {
			w.Errorf("%d left, %v", n, err)
		}
	},

	"what is given back is not tried at once, and not for ever": func(w *world) {
		p := w.one()
		var ran atomic.Int32
		begin := time.Now()
		stop := w.conduct(w.b, func(context.Context, *board.Claim) error { ran.Add(1); return board.AbandonWith(errors.New("no book")) },
			board.ConductorOptions{MaxAttempts: 3, Backoff: 40 * time.Millisecond})
		state, err := w.b.WaitFor(w.within(), p)
		w.must(err)
		stop()
		if took := time.Since(begin); state != board.Trashed || ran.Load() != 3 || took < 60*time.Millisecond { // half of 40 ms and half of 80 ms at least
			w.Errorf("%v after %d tries in %v", state, ran.Load(), took)
		}
	},

	"stop_aborts_engine: what runs at a stop is given back": func(w *world) {
		p := w.one()
		started := make(chan struct{})
		stop := w.conduct(w.b, func(ctx context.Context, _ *board.Claim) error {
			close(started)
			<-ctx.Done()
			return ctx.Err()
		}, board.ConductorOptions{Drain: time.Millisecond})
		<-started
		w.state(p, board.Claimed)
		stop()
		w.state(p, board.Unclaimed)
	},

	"a stop lets what runs end": func(w *world) {
		p := w.one()
		started, end := make(chan struct{}), make(chan struct{})
		stop := w.conduct(w.b, func(ctx context.Context, _ *board.Claim) error {
			close(started)
			<-end
			return ctx.Err()
		}, board.ConductorOptions{Drain: patience})
		<-started
		ended := make(chan struct{})
		go func() { stop(); close(ended) }()
		close(end)
		<-ended
		w.state(p, board.Complete)
	},

	"a handler whose claim is lost is told, and finishes nothing": func(w *world) {
		long.Test(w, "waits for a claim to end")
		p := w.one()
		dying := w.open()
		outcome := make(chan board.ConductorEvent, 10)
		started := make(chan struct{}, 10)
		stop := w.conduct(dying, func(ctx context.Context, _ *board.Claim) error {
			started <- struct{}{}
			<-ctx.Done()
			return nil // as if it had not noticed
		}, board.ConductorOptions{TTL: ttl, MaxDispatches: 1, Observe: func(e board.ConductorEvent) { outcome <- e }})
		<-started
		w.kind.Lose(w.T, dying)
		for e := range outcome {
			if e.Outcome == board.Started {
				continue
			}
			if e.Outcome != board.Lost || !errors.Is(e.Err, board.ErrClaimLost) && !errors.Is(e.Err, board.ErrAway) {
				w.Errorf("outcome is %s, %v", e.Outcome, e.Err)
			}
			break
		}
		stop()
		w.must(w.b.WaitUnclaimed(w.within()))
		c := w.claim(w.b, p, "v")
		w.must(c.Consume(w.ctx))
	},

	"bad_wait_timeout, bad_factory: options are checked": func(w *world) {
		handler := func(context.Context, *board.Claim) error { return nil }
		_, err := w.b.Conductor(nil, board.ConductorOptions{})
		as[*board.InvalidError](w, err)
		for _, o := range []board.ConductorOptions{
			{MaxConcurrent: -1}, {TTL: 1}, {TTL: board.NoTTL}, {MaxDispatches: -1}, {MaxAttempts: -2}, {Backoff: -1}, {Backoff: time.Minute, MaxBackoff: time.Second}, {Name: "\xff"}, {Drain: -time.Second},
		} {
			_, err := w.b.Conductor(handler, o)
			as[*board.InvalidError](w, err)
		}
	},
}
