package workflow

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/schedule"
)

const (
	schedulePoll = time.Second     // at least that often a worker looks what is due
	duePage      = 100             // schedules that are looked at between two readings of the clock
	slotPage     = 16              // slots of a schedule that are started before it is stored, and others have their turn
	refusedPause = 5 * time.Second // before a schedule is tried again whose start was refused
	claimPause   = 2 * time.Second // after which others start what a worker has claimed
	unreadPause  = 5 * time.Second // for a worker that can read a rule, before one that cannot notes that
)

// errUnread: this worker cannot read the rule. Another one may know its time zone, or is newer.
var errUnread = errors.New("workflow: the rule is left to other workers")

// keeper starts what is scheduled on a shard. Every worker has one for each; an instance of a slot has an id of its own, so it is started once.
type keeper struct {
	s    *shard
	seen time.Time // the server's clock when it looked last; zero = it has not
}

// keepSchedules starts what is due until ctx ends.
func (s *shard) keepSchedules(ctx context.Context) error {
	k := &keeper{s: s}
	for wait := time.Duration(0); lifecycle.Sleep(ctx, wait); {
		var err error
		if wait, err = k.startDue(ctx); err != nil && ctx.Err() == nil {
			s.c.log.Warn("workflow: schedules wait, Redis does not answer as it should", "shard", s.n, "error", err)
			wait = schedulePoll
		}
	}
	return nil
}

// startDue starts what is due and says how long nothing more will be. A schedule that is refused is tried again later, and holds up no other.
func (k *keeper) startDue(ctx context.Context) (time.Duration, error) {
	now, names, wait, err := k.s.due(ctx, duePage, k.seen)
	if err != nil {
		return 0, err
	}
	k.seen = now
	left := 0
	for _, name := range names {
		switch err := k.s.startSlots(ctx, name, now); {
		case errors.Is(err, errUnread):
			left++
		case err != nil:
			return 0, err
		}
	}
	switch {
	case len(names) > left:
		return 0, nil // when they are due next
	case left > 0:
		return schedulePoll, nil
	}
	return wait, nil
}

// due is the server's time, at most so many names of schedules that are due, and how long no others will be, schedulePoll at most. before is when the caller asked last: a clock
// that has been set back since then has all schedules looked at again.
func (s *shard) due(ctx context.Context, most int, before time.Time) (now time.Time, names []string, wait time.Duration, err error) {
	seen := int64(0)
	if !before.IsZero() {
		seen = before.UnixMilli()
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := dueScript.Run(ctx, s.c.rdb, []string{s.keys.Schedules()}, s.base, strconv.Itoa(most), strconv.FormatInt(seen, 10)).AsStrSlice()
	if err != nil {
		return time.Time{}, nil, 0, err
	}
	if len(reply) < 3 {
		return time.Time{}, nil, 0, fmt.Errorf("due.lua replied %q", reply)
	}
	now = time.Unix(parseInt(reply[0]), parseInt(reply[1])*int64(time.Microsecond)).UTC()
	wait = schedulePoll
	if ms := parseInt(reply[2]); ms >= 0 {
		wait = min(wait, time.Duration(ms)*time.Millisecond)
	}
	return now, reply[3:], wait, nil
}

// startSlots starts the instances of the slots of one schedule that are due, slotPage at most, and moves it on. Each call to Redis has callTimeout of its own. errUnread: they are left to other workers.
// Any other error says that Redis does not answer as it should.
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
		if due := one.due(); due != never && now.UnixMilli()-int64(due) < unreadPause.Milliseconds() {
			return errUnread
		}
		return s.refuse(ctx, one, raw, now, err)
	}
	if one.Last.After(now) || one.Created.After(now) { // somebody was quicker since now was read, unless the clock was ahead
		if now, _, _, err = s.due(ctx, 0, time.Time{}); err != nil {
			return err
		}
	}
	one.notAfter(now)
	if !one.Starting.IsZero() { // whether its instance was started only its claimer knows, who may be dead
		if err := s.startNow(ctx, one, one.Starting); err != nil {
			return s.refuse(ctx, one, raw, now, err)
		}
	}
	one.Retry = time.Time{}
	if one.Paused { // since it was found to be due, or with a slot that was claimed
		return s.moveOn(ctx, name, now, raw, one)
	}
	slots, next, ok := schedule.Due(one.counted(rule), later(one.Last, one.Created), now, one.Missed, 0)
	if len(slots) > slotPage {
		slots, next, ok = slots[:slotPage], slots[slotPage], true
	}
	for _, slot := range slots {
		skip, err := s.skips(ctx, one, slot)
		if err == nil && one.Exclusive && !skip {
			raw, err = s.claim(ctx, one, raw, slot, slot, now)
			if errors.Is(err, commit.ErrConflict) {
				return nil
			}
		}
		if err == nil && !skip {
			err = s.startNow(ctx, one, slot)
		}
		if err != nil {
			return s.refuse(ctx, one, raw, now, err)
		}
		one.Last = slot
	}
	one.Next = time.Time{}
	if ok {
		one.Next = next
	}
	return s.moveOn(ctx, name, now, raw, one)
}

// moveOn replaces a schedule that was read, nil = none. Where somebody else was quicker, or changed it, that holds.
func (s *shard) moveOn(ctx context.Context, name string, now time.Time, read []byte, after *Schedule) error {
	_, err := s.commitSchedule(ctx, name, read, after)
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
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return s.c.rdb.Do(ctx, s.c.rdb.B().Zadd().Key(s.keys.Schedules()).Xx().ScoreMember().ScoreMember(float64(now.Add(refusedPause).UnixMilli()), name).Build()).Error()
}

// skips says whether a slot is skipped: that of a schedule that is Exclusive while what it started last is active, whatever execution of it.
func (s *shard) skips(ctx context.Context, one *Schedule, slot time.Time) (bool, error) {
	if !one.Exclusive || one.Started.IsZero() {
		return false, nil
	}
	if one.Started.Equal(slot) { // before the clock was set back
		return true, nil
	}
	active, err := s.c.active(ctx, one.Instance(one.Started).ID)
	if active {
		one.Skipped++
	}
	return active, err
}

// active says whether any execution of an instance is active.
func (c *Client) active(ctx context.Context, id string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	home := c.of(id)
	err := c.rdb.Do(ctx, c.rdb.B().Hget().Key(home.keys.Run(id)).Field("x").Build()).Error()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	return err == nil, err
}

// claim notes that a slot is going to be started, before it is: whoever finds that later starts it, too, before anything else. So no other slot is started in ignorance of this one, and this one is
// not lost. A start that this worker would not send is not claimed. last is Schedule.Last then. It returns what is stored then; commit.ErrConflict: another was quicker.
func (s *shard) claim(ctx context.Context, one *Schedule, read []byte, slot, last, now time.Time) ([]byte, error) {
	if err := s.c.checkStartEvent("Start", one.at(slot)); err != nil {
		return read, err
	}
	claimed := *one
	claimed.Starting, claimed.Last, claimed.Retry = slot, last, now.Add(claimPause)
	stored, err := s.commitSchedule(ctx, one.Name, read, &claimed)
	if err != nil {
		return read, err
	}
	*one = claimed
	return stored, nil
}

// startNow starts the instance of a slot, and notes in one that it was. It may be repeated: the instance of a slot is started once within Options.KnownFor, also if it has ended and was removed.
// After an error one is as it was.
func (s *shard) startNow(ctx context.Context, one *Schedule, slot time.Time) error {
	start := one.at(slot)
	err := s.c.start(ctx, once(start.Instance.ID, start.Event), start)
	if errors.Is(err, ErrExists) {
		err = nil
	}
	if err != nil {
		return err
	}
	one.Started, one.Starting, one.LastError, one.Retry = slot, time.Time{}, "", time.Time{}
	return nil
}
