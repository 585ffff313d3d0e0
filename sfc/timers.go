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

// taking says how far this process can take the answers of equipment.
func (e *Engine) taking(now time.Time) jobstore.Intake {
	if e.opt.Intake != nil && !e.opt.Intake() {
		return jobstore.NoIntake
	}
	late, ended := e.standstill.look(e.opt.Behind != nil && e.opt.Behind(), now)
	if ended {
		e.log.Error("messages of equipment wait for their decision for too long: time-outs run on, and an action may time out whose answer waits; look for a station that sends more events than Redis takes, and for messages that cannot be decided",
			"waited", longestStandstill)
	}
	if late {
		return jobstore.LateIntake
	}
	return jobstore.FullIntake
}

// longestStandstill is how long a process that is behind may stop installation time for all, in all. Then it lets time run until it was in time for as long.
const longestStandstill = time.Minute

// standstill bounds how long one process stops time: one station that floods it, or whose messages cannot be decided, must not keep all others from being timed out.
type standstill struct {
	stood time.Duration // less what was in time since
	spent bool
	at    time.Time // of the last look
}

// look says whether time may stand still now, and whether that has just ended though the process is behind.
func (s *standstill) look(behind bool, now time.Time) (late, ended bool) {
	since := min(now.Sub(s.at), time.Second) // a process that hung has not looked
	if s.at.IsZero() {
		since = 0
	}
	s.at = now
	if !behind {
		s.stood = max(s.stood-since, 0)
		s.spent = s.spent && s.stood > 0
		return false, false
	}
	s.stood = min(s.stood+since, longestStandstill)
	ended = !s.spent && s.stood == longestStandstill
	s.spent = s.spent || ended
	return !s.spent, ended
}

// tickDue handles the timers that are due, at most Slots, and says how many there were. A timer whose handling fails
// is due again after TimerHold.
func (e *Engine) tickDue(ctx context.Context) (int, error) {
	due, err := e.store.Due(ctx, e.opt.Slots, e.opt.TimerHold, e.taking(time.Now()))
	if err != nil {
		return 0, err
	}
	var all sync.WaitGroup
	for _, t := range due {
		all.Go(func() {
			if err := again(ctx, func() error { return e.tick(ctx, t.JobOrderID) }); err != nil && ctx.Err() == nil {
				e.timerFailed(ctx, t, err)
			}
		})
	}
	all.Wait()
	return len(due), nil
}

// badTimer is how long the timer of a job order rests whose ticks fail for a reason of its own. Then it is tried again, for an
// operator may have mended the cause.
const badTimer = 10 * time.Minute

// timerFailed: the timer is due again after TimerHold, or rests if it keeps failing. What another process has set meanwhile stands: that one could do what this one cannot.
func (e *Engine) timerFailed(ctx context.Context, t jobstore.Timer, err error) {
	after := e.opt.TimerHold
	if e.store.Failed(ctx, jobstore.Message{Kind: "timer", JobOrderID: t.JobOrderID}, err) == nil {
		e.count(OpTimer, Invalid)
		switch done, offErr := e.store.PutOff(ctx, t, badTimer); {
		case offErr != nil: // after TimerHold
		case done:
			after = badTimer
		default:
			e.log.Info("timer was set by another process meanwhile", "job", t.JobOrderID, "error", err)
			return
		}
	}
	e.log.Warn("timer will be tried again", "job", t.JobOrderID, "after", after, "error", err)
}

// tick does what is due for one job order. A timer that nothing needs is removed.
func (e *Engine) tick(ctx context.Context, id isa95.JobOrderID) error {
	q, sha := e.known(id)
	snap, program, err := e.load(ctx, q, sha)
	var broken *recipeError
	switch {
	case errors.As(err, &broken):
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
