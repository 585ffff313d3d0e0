package tasktest

import (
	"testing/synctest"
	"time"

	"github.com/taktworks/takt/schedule"
	"github.com/taktworks/takt/task"
)

const (
	// A stretch in which nothing is due is skipped if it is longer: more than halt takes.
	shortStretch = 5 * time.Second

	forever = 100 * 365 * 24 * time.Hour

	settleAtMost = 5 * time.Minute
	settlePause  = time.Millisecond // after the end of a run
)

// Settle lets as much time pass as it takes until no task runs, nor waits in a queue that is not paused; often that is none. What is delayed stays delayed, unless it becomes due
// meanwhile. The test fails if there is no worker, or after five minutes.
func (e *Env) Settle() {
	e.t.Helper()
	pause := settlePause
	for end := time.Now().Add(settleAtMost); ; {
		synctest.Wait()
		waiting, running := e.load(e.stats())
		switch {
		case waiting+running == 0:
			return
		case !e.working:
			e.t.Fatalf("tasktest: Settle: %d tasks wait, and there is no worker: call Work before", waiting)
		case time.Now().After(end):
			e.t.Fatalf("tasktest: Settle: after %v %d tasks wait and %d run still", settleAtMost, waiting, running)
		}
		select {
		case <-e.ended:
			pause = settlePause // the end may be in Redis a little later
		case <-time.After(pause):
			pause = min(2*pause, time.Minute)
		}
	}
}

// Advance lets d pass: whatever becomes due meanwhile is run at its time. Stretches in which nothing runs or is due are skipped; others take some milliseconds for each second. When it
// returns it is exactly d later, and what became due at that very time has begun: call Settle to see it end. It fails the test if d is negative.
func (e *Env) Advance(d time.Duration) {
	e.t.Helper()
	if d < 0 {
		e.t.Fatalf("tasktest: Advance: %v is negative: time does not go back", d)
	}
	e.AdvanceTo(time.Now().Add(d))
}

// AdvanceTo is Advance up to a time, which must not have passed.
func (e *Env) AdvanceTo(at time.Time) {
	e.t.Helper()
	if now := time.Now(); at.Before(now) {
		e.t.Fatalf("tasktest: AdvanceTo: %v has passed, it is %v: time does not go back", at, now)
	}
	for {
		synctest.Wait()
		left := time.Until(at)
		if left <= 0 {
			return
		}
		if quiet := min(e.quiet(), left); quiet > shortStretch {
			e.skip(quiet)
		} else {
			time.Sleep(min(left, shortStretch))
		}
	}
}

// quiet is how long workers and scheduler will have nothing to do; 0 or less = they have.
func (e *Env) quiet() time.Duration {
	stats := e.stats()
	waiting, running := e.load(stats)
	if running > 0 || waiting > 0 && e.working {
		return 0
	}
	quiet := forever
	for _, due := range append(e.slots(), stats.NextDue, e.collectionDue()) {
		if !due.IsZero() {
			quiet = min(quiet, time.Until(due))
		}
	}
	return quiet
}

// skip lets d pass while nothing lives, for whatever lives looks around all the time. It ends earlier when somebody wants something of Redis: another goroutine of the test may
// submit a task.
func (e *Env) skip(d time.Duration) {
	until := time.Now().Add(d)
	e.halt()
	synctest.Wait()
	select {
	case <-e.touched:
	default:
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.touched:
	}
	e.resume()
}

func (e *Env) stats() task.Stats {
	e.t.Helper()
	stats, err := e.Client.Stats(e.t.Context())
	if err != nil {
		e.t.Fatal(err)
	}
	return stats
}

// load is how many tasks run, and how many wait in queues that are not paused. Of a paused queue a worker may hold some that it does not begin.
func (e *Env) load(s task.Stats) (waiting, running int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, q := range s.Queues {
		if q.Paused {
			running += e.calls[q.Queue]
			continue
		}
		waiting += q.Waiting
		running += q.Running
	}
	return waiting, running
}

// slots are when schedules fire next.
func (e *Env) slots() (all []time.Time) {
	if !e.scheduled {
		return nil
	}
	infos, err := e.Client.Schedules(e.t.Context())
	if err != nil {
		e.t.Fatal(err)
	}
	for _, i := range infos {
		if i.State == task.ScheduleActive && !i.Paused && !i.Next.IsZero() {
			all = append(all, schedule.Jitter(i.Next, i.Name, i.Jitter))
		}
	}
	return all
}

// collectionDue is when the first collection of an aggregated type is handed over, zero if there is none.
func (e *Env) collectionDue() time.Time {
	first, err := e.rdb.Do(e.t.Context(), e.rdb.B().Zrange().Key(e.keys.TaskCollecting()).Min("0").Max("0").Withscores().Build()).AsZScores()
	if err != nil {
		e.t.Fatal(err)
	}
	if len(first) == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(first[0].Score * 1000))
}
