package workflow

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/schedule"
)

const (
	schedulePoll = time.Second     // at least that often a worker looks what is due
	duePage      = 100             // schedules that are looked at between two readings of the clock
	refusedPause = 5 * time.Second // before a schedule is tried again whose start was refused
)

// keepSchedules starts what is due until ctx ends. Every worker does it; an instance of a slot has an id of its own, so it is started once.
func (s *shard) keepSchedules(ctx context.Context) error {
	for wait := time.Duration(0); lifecycle.Sleep(ctx, wait); {
		var err error
		if wait, err = s.startDue(ctx); err != nil && ctx.Err() == nil {
			s.c.log.Warn("workflow: schedules wait, Redis does not answer as it should", "shard", s.n, "error", err)
			wait = schedulePoll
		}
	}
	return nil
}

// startDue starts what is due and says how long nothing more will be. A schedule that is refused is tried again later, and holds up no other.
func (s *shard) startDue(ctx context.Context) (time.Duration, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	first, err := s.c.rdb.Do(call, s.c.rdb.B().Zrange().Key(s.keys.Schedules()).Min("0").Max(strconv.Itoa(duePage-1)).Withscores().Build()).AsZScores()
	if err != nil || len(first) == 0 {
		return schedulePoll, err
	}
	now, err := redis.ServerTime(call, s.c.rdb)
	if err != nil {
		return 0, err
	}
	for _, due := range first {
		if wait := time.UnixMilli(int64(due.Score)).Sub(now); wait > 0 {
			return min(wait, schedulePoll), nil
		}
		if err := s.startSlots(call, due.Member, now); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// startSlots starts the instances of the slots of one schedule that are due, and moves it on. An error says that Redis does not answer as it should.
func (s *shard) startSlots(ctx context.Context, name string, now time.Time) error {
	one, raw, err := s.schedule(ctx, name)
	if err != nil {
		return s.putOff(ctx, name, now, err)
	}
	if one == nil { // removed since, or deleted by somebody
		return s.moveOn(ctx, name, now, nil, nil)
	}
	rule, err := schedule.Parse(one.Rule)
	if err != nil {
		return s.refuse(ctx, one, raw, now, err)
	}
	slots, next, ok := schedule.Due(schedule.WithAnchor(rule, one.Created), later(one.Last, one.Created), now, one.Missed, 0)
	for _, slot := range slots {
		if err := s.startSlot(ctx, one, slot); err != nil {
			return s.refuse(ctx, one, raw, now, err)
		}
		one.Last, one.LastError = slot, ""
	}
	one.Next, one.Retry = time.Time{}, time.Time{}
	if ok {
		one.Next = next
	}
	return s.moveOn(ctx, name, now, raw, one)
}

// moveOn replaces a schedule that was read, nil = none. Where somebody else was quicker, or changed it, that holds.
func (s *shard) moveOn(ctx context.Context, name string, now time.Time, read []byte, after *Schedule) error {
	err := s.commitSchedule(ctx, name, read, after)
	switch {
	case err == nil, errors.Is(err, commit.ErrConflict):
		return nil
	case ctx.Err() != nil || redis.Away(err):
		return err
	}
	return s.putOff(ctx, name, now, err)
}

// refuse notes why a schedule could not start what is due, and when it is tried again. What Redis could not be asked is not the schedule's fault: it is returned.
func (s *shard) refuse(ctx context.Context, one *Schedule, read []byte, now time.Time, err error) error {
	if ctx.Err() != nil || redis.Away(err) {
		return err
	}
	if text := refusal(err); text != one.LastError {
		s.c.log.Error("workflow: a schedule cannot start what is due, and is tried again", "schedule", one.Name, "every", refusedPause, "error", err)
		one.LastError = text
	}
	one.Retry = now.Add(refusedPause)
	return s.moveOn(ctx, one.Name, now, read, one)
}

// putOff looks at a schedule later that cannot be read, or written, and leaves it as it is.
func (s *shard) putOff(ctx context.Context, name string, now time.Time, err error) error {
	if ctx.Err() != nil || redis.Away(err) {
		return err
	}
	s.c.log.Error("workflow: a schedule does not start anything, and is looked at again: remove it, or DEL its key", "schedule", name, "every", refusedPause, "error", err)
	return s.c.rdb.Do(ctx, s.c.rdb.B().Zadd().Key(s.keys.Schedules()).Xx().ScoreMember().ScoreMember(float64(now.Add(refusedPause).UnixMilli()), name).Build()).Error()
}

func (s *shard) startSlot(ctx context.Context, one *Schedule, slot time.Time) error {
	if one.Exclusive && !one.Started.IsZero() {
		before, err := s.c.Info(ctx, one.at(one.Started).Instance)
		if err == nil && before.State == Active {
			one.Skipped++
			return nil
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	if err := s.c.Start(ctx, one.at(slot)); err != nil && !errors.Is(err, ErrExists) {
		return err
	}
	one.Started = slot
	return nil
}
