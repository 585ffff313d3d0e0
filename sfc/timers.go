package sfc

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// runTimers looks for timers that are due: time-outs, commands to send again, conditions over time. They lie in Redis
// and are judged by installation time, so they outlive every process and no outage counts.
func (e *Engine) runTimers(ctx context.Context) error {
	var said time.Time // an outage is logged once a minute: after a failure the next look is one that writes nothing, which a full Redis lets pass
	for {
		wait := e.opt.TimerEvery
		found, err := e.tickDue(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (said.IsZero() || time.Since(said) >= time.Minute):
			e.log.Warn("timers: trying again until it works", "error", err)
			said = time.Now()
		case err == nil && found == e.opt.Slots:
			wait = 0 // there are more
		}
		if pause(ctx, wait) != nil {
			return nil
		}
	}
}

// tickDue handles the timers that are due, at most Slots, and says how many there were. A timer whose handling fails
// is due again after TimerHold.
func (e *Engine) tickDue(ctx context.Context) (int, error) {
	due, err := e.store.Due(ctx, e.opt.Slots, e.opt.TimerHold, e.opt.Intake == nil || e.opt.Intake())
	if err != nil {
		return 0, err
	}
	var all sync.WaitGroup
	for _, id := range due {
		all.Go(func() {
			if err := again(ctx, func() error { return e.tick(ctx, id) }); err != nil && ctx.Err() == nil {
				e.count(OpTimer, Invalid)
				e.log.Warn("timer will be tried again", "job", id, "after", e.opt.TimerHold, "error", err)
			}
		})
	}
	all.Wait()
	return len(due), nil
}

// tick does what is due for one job order. A timer that nothing needs is removed.
func (e *Engine) tick(ctx context.Context, id isa95.JobOrderID) error {
	if command, ok := jobstore.StationTimer(id); ok {
		return e.repeatStation(ctx, command)
	}
	q, sha := e.known(id)
	snap, program, err := e.load(ctx, q, sha)
	switch {
	case errors.Is(err, errBroken):
		return e.abort(ctx, id, err.Error(), nil)
	case err != nil:
		return err
	case snap.Job == nil || snap.Execution == nil || snap.Execution.Terminal():
		e.count(OpTimer, Dropped)
		return e.store.Forget(ctx, snap)
	}
	return e.decide(ctx, &event{
		query: q, rearm: true, // it was put off when it was handed out
		decide: func(s situation) recipe.Outcome { return s.program.Tick(s.order, s.docs, s.now) },
	}, snap, program)
}
