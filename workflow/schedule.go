package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/schedule"
)

// Schedule starts instances at the slots of a rule: of the instance NAME-SLOT, with SLOT as 20261122T030000Z, or 20261122T030000.25Z between seconds. Any worker does it, each slot once.
type Schedule struct {
	Name   string          `json:"name"`   // 1 to 100 bytes
	Rule   string          `json:"rule"`   // as schedule.Parse reads it: an interval, a cron expression or a recurrence rule
	Missed schedule.Missed `json:"missed"` // what becomes of slots that passed while no worker ran
	// Exclusive skips a slot while the instance that was started last is active, in whatever execution.
	Exclusive bool  `json:"exclusive,omitempty"`
	Start     Start `json:"start"` // what to start; Instance, Event.ID and Event.Time are set for each slot

	Created time.Time `json:"created,omitzero"` // when it was put first; set by PutSchedule
	Last    time.Time `json:"last,omitzero"`    // slot that was started, or dropped, last; zero = none was
	Started time.Time `json:"started,omitzero"` // slot of the instance that was started last; zero = none was
	Next    time.Time `json:"next,omitzero"`    // slot that is due next; zero = none is left, or it is paused
	Paused  bool      `json:"paused,omitempty"`
	Skipped int64     `json:"skipped,omitempty"` // slots skipped by Exclusive

	// Starting is a slot of a schedule that is Exclusive, which a worker has begun to start; another one will, if that was killed. zero = none is.
	Starting time.Time `json:"starting,omitzero"`
	// LastError is why the last start that a worker tried was refused, or why the schedule cannot be read; "" = it was not. The slot counts as missed until a start is accepted.
	LastError string    `json:"last_error,omitempty"`
	Retry     time.Time `json:"retry,omitzero"` // when it is tried again after that, or what is Starting by another worker; zero = at Next
}

const (
	maxScheduleName = 100
	maxLastError    = 1024                      // bytes
	slotLayout      = "20060102T150405.999999Z" // no fraction on a second
)

func (c *Client) checkSchedule(s Schedule) (schedule.Schedule, error) {
	if err := checkName("Schedule.Name", s.Name); err != nil {
		return nil, err
	}
	if len(s.Name) > maxScheduleName {
		return nil, &NameError{"Schedule.Name", clip(s.Name), fmt.Sprintf("must be at most %d bytes", maxScheduleName)}
	}
	rule, err := schedule.Parse(s.Rule)
	if err != nil {
		return nil, fmt.Errorf("workflow: Schedule.Rule: %w", err)
	}
	start := s.at(time.Unix(0, 0))
	return rule, c.checkStartEvent("Schedule.Start", start)
}

// checkStartEvent refuses a start that would not be sent.
func (c *Client) checkStartEvent(field string, start Start) error {
	if err := c.checkStart(field, start); err != nil {
		return err
	}
	_, err := c.encode(field+".Event", start.Event)
	return err
}

// Instance is that of a slot, and its first execution.
func (s Schedule) Instance(slot time.Time) Instance {
	name := slot.UTC().Format(slotLayout)
	return Instance{ID: s.Name + "-" + name, Execution: name}
}

// at is the start of a slot.
func (s Schedule) at(slot time.Time) Start {
	start := s.Start
	start.Instance = s.Instance(slot)
	start.Event.ID, start.Event.Time = start.Instance.ID, slot
	return start
}

// counted is the rule of a schedule, counted from the second in which it was put first, for short names of its slots.
func (s *Schedule) counted(rule schedule.Schedule) schedule.Schedule {
	return schedule.WithAnchor(rule, s.Created.Truncate(time.Second))
}

// PutSchedule adds a schedule, or replaces the one of that name, which keeps what it knows of its slots unless the rule is another, and what it started last. Slots of another rule count from now on;
// with the same rule, one that passed while no worker ran is made up for as Missed says, and one whose start was refused is tried again at once.
func (c *Client) PutSchedule(ctx context.Context, s Schedule) error {
	rule, err := c.checkSchedule(s)
	if err != nil {
		return err
	}
	return c.changeSchedule(ctx, s.Name, func(old *Schedule, now time.Time) (*Schedule, error) {
		s.Created, s.Last, s.Started, s.Starting, s.Skipped, s.Paused = now, time.Time{}, time.Time{}, time.Time{}, 0, false
		if old != nil {
			s.Started, s.Starting = old.Started, old.Starting // they may be active, whatever the rule
		}
		if old != nil && old.Rule == s.Rule {
			old.notAfter(now)
			s.Created, s.Last, s.Skipped, s.Paused = old.Created, old.Last, old.Skipped, old.Paused
		}
		s.Next, s.LastError, s.Retry = time.Time{}, "", time.Time{}
		if next, ok := s.counted(rule).Next(later(s.Last, s.Created)); ok && !s.Paused {
			s.Next = next
		}
		return &s, nil
	})
}

// PauseSchedule keeps a schedule from starting anything; slots that pass are dropped. ErrNotFound: there is none of that name.
func (c *Client) PauseSchedule(ctx context.Context, name string) error {
	return c.changeSchedule(ctx, name, func(old *Schedule, _ time.Time) (*Schedule, error) {
		if old == nil {
			return nil, noSchedule(name)
		}
		old.Paused, old.Next, old.Retry = true, time.Time{}, time.Time{}
		return old, nil
	})
}

// ResumeSchedule lets it go on with the first slot after now. ErrNotFound: there is none of that name.
func (c *Client) ResumeSchedule(ctx context.Context, name string) error {
	return c.changeSchedule(ctx, name, func(old *Schedule, now time.Time) (*Schedule, error) {
		if old == nil {
			return nil, noSchedule(name)
		}
		rule, err := schedule.Parse(old.Rule)
		if err != nil {
			return nil, err
		}
		old.notAfter(now)
		old.Paused, old.Last = false, now
		if next, ok := old.counted(rule).Next(now); ok {
			old.Next = next
		}
		return old, nil
	})
}

// RemoveSchedule removes a schedule, also one that cannot be read; instances that it started stay. ErrNotFound: there is none of that name.
func (c *Client) RemoveSchedule(ctx context.Context, name string) error {
	if err := checkName("schedule", name); err != nil {
		return err
	}
	s := c.of(name)
	for {
		_, raw, err := s.schedule(ctx, name)
		switch {
		case err != nil && raw == nil:
			return err
		case raw == nil:
			return noSchedule(name)
		}
		if _, err := s.commitSchedule(ctx, name, raw, nil); !errors.Is(err, commit.ErrConflict) {
			return err
		}
	}
}

// RunSchedule starts what a schedule starts, now and beside its slots, also if it is paused. The instance has the time in the place of the slot, to the microsecond. ErrNotFound: there is none of that name.
// ErrExists: it is Exclusive, and what it started last is active, or about to be. After any other error it is unknown whether it was started; that of an
// exclusive schedule may be, by a worker.
func (c *Client) RunSchedule(ctx context.Context, name string) (Instance, error) {
	if err := checkName("schedule", name); err != nil {
		return Instance{}, err
	}
	s := c.of(name)
	for {
		now, _, _, err := s.due(ctx, 0, time.Time{})
		if err != nil {
			return Instance{}, fmt.Errorf("workflow: schedule %s: %w", name, err)
		}
		one, raw, err := s.schedule(ctx, name)
		switch {
		case err != nil:
			return Instance{}, err
		case one == nil:
			return Instance{}, noSchedule(name)
		}
		slot := now // to the microsecond: no other run has it, nor a slot
		instance := one.Instance(slot)
		if one.Exclusive {
			raw, err = s.claimNow(ctx, one, raw, slot, now)
		}
		if errors.Is(err, commit.ErrConflict) {
			continue
		}
		if err == nil {
			err = s.startNow(ctx, one, slot)
		}
		if err != nil {
			return Instance{}, err
		}
		if one.Exclusive { // after a conflict somebody saw the claim, and has recorded the start
			if _, failed := s.commitSchedule(ctx, name, raw, one); failed != nil && !errors.Is(failed, commit.ErrConflict) {
				err = failed
			}
		}
		return instance, err
	}
}

// claimNow claims a slot that is none of the rule, unless what an exclusive schedule started last is active.
func (s *shard) claimNow(ctx context.Context, one *Schedule, read []byte, slot, now time.Time) ([]byte, error) {
	last, busy := one.Instance(cmp.Or(one.Starting, one.Started)).ID, !one.Starting.IsZero()
	if !busy && !one.Started.IsZero() {
		var err error
		if busy, err = s.c.active(ctx, last); err != nil {
			return nil, fmt.Errorf("workflow: schedule %s: %w", one.Name, err)
		}
	}
	if busy {
		return nil, fmt.Errorf("%w: %s, which schedule %s started last", ErrExists, last, one.Name)
	}
	return s.claim(ctx, one, read, slot, one.Last, now)
}

// Schedule is one of them. ErrNotFound: there is none of that name.
func (c *Client) Schedule(ctx context.Context, name string) (Schedule, error) {
	if err := checkName("schedule", name); err != nil {
		return Schedule{}, err
	}
	one, _, err := c.of(name).schedule(ctx, name)
	switch {
	case err != nil:
		return Schedule{}, err
	case one == nil:
		return Schedule{}, noSchedule(name)
	}
	return *one, nil
}

// Schedules are all of them, by name. One that cannot be read has its Name and LastError alone. It takes two round trips for each shard.
func (c *Client) Schedules(ctx context.Context) (all []Schedule, err error) {
	for _, s := range c.shards {
		names, err := c.rdb.Do(ctx, c.rdb.B().Zrange().Key(s.keys.Schedules()).Min("0").Max("-1").Build()).AsStrSlice()
		if err != nil {
			return nil, fmt.Errorf("workflow: schedules: %w", err)
		}
		if len(names) == 0 {
			continue
		}
		documents := make([]string, len(names))
		for n, name := range names {
			documents[n] = s.keys.Schedule(name)
		}
		texts, err := c.rdb.Do(ctx, c.rdb.B().Mget().Key(documents...).Build()).ToArray()
		if err != nil {
			return nil, fmt.Errorf("workflow: schedules: %w", err)
		}
		for n, name := range names {
			var one *Schedule
			if raw, none := texts[n].AsBytes(); none != nil { // gone since, or no text, which it then says
				one, _, err = s.schedule(ctx, name)
			} else {
				one, err = decodeSchedule(name, raw)
			}
			if ctx.Err() != nil || redis.Away(err) {
				return nil, err
			}
			if err != nil {
				one = &Schedule{Name: name, LastError: refusal(err)}
			}
			if one != nil {
				all = append(all, *one)
			}
		}
	}
	slices.SortFunc(all, func(a, b Schedule) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// Standing is what a schedule does, in a word: active, starting, paused, refused, finished, or broken if it cannot be read.
func (s Schedule) Standing() string {
	switch {
	case s.Rule == "":
		return "broken"
	case !s.Starting.IsZero():
		return "starting"
	case s.Paused:
		return "paused"
	case !s.Retry.IsZero():
		return "refused"
	case s.Next.IsZero():
		return "finished"
	}
	return "active"
}

// Upcoming are the slots that are due next, at most n. There are none while it is paused.
func (s Schedule) Upcoming(n int) (slots []time.Time) {
	rule, err := schedule.Parse(s.Rule)
	if err != nil {
		return nil
	}
	rule = s.counted(rule)
	for at, ok := s.Next, !s.Next.IsZero(); ok && len(slots) < n; at, ok = rule.Next(at) {
		slots = append(slots, at)
	}
	return slots
}

// notAfter takes back what the server's clock noted while it was ahead of now: else nothing would be started until it comes there again. Slots that were started then have their instances, and
// are not started a second time. now must have been read after the schedule was, else what another has noted since is taken for that.
func (s *Schedule) notAfter(now time.Time) {
	if s.Last.After(now) {
		s.Last = now
	}
	if s.Created.After(now) {
		s.Created = now
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// schedule reads one; nil if there is none. Of one that cannot be understood there are the bytes, and an error.
func (s *shard) schedule(ctx context.Context, name string) (*Schedule, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	raw, err := s.c.rdb.Do(ctx, s.c.rdb.B().Get().Key(s.keys.Schedule(name)).Build()).AsBytes()
	if rueidis.IsRedisNil(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("workflow: schedule %s: %w", name, err)
	}
	one, err := decodeSchedule(name, raw)
	return one, raw, err
}

func decodeSchedule(name string, raw []byte) (*Schedule, error) {
	var one Schedule
	if err := json.Unmarshal(raw, &one); err != nil {
		return nil, fmt.Errorf("workflow: schedule %s cannot be read: %w", name, err)
	}
	return &one, nil
}

// changeSchedule loads, decides and commits; change returns nil to remove it.
func (c *Client) changeSchedule(ctx context.Context, name string, change func(old *Schedule, now time.Time) (*Schedule, error)) error {
	if err := checkName("schedule", name); err != nil {
		return err
	}
	s := c.of(name)
	for {
		old, raw, err := s.schedule(ctx, name)
		if err != nil {
			return err
		}
		now, _, _, err := s.due(ctx, 0, time.Time{}) // after it was read, for notAfter
		if err != nil {
			return fmt.Errorf("workflow: schedule %s: %w", name, err)
		}
		after, err := change(old, now)
		if err != nil {
			return err
		}
		if _, err := s.commitSchedule(ctx, name, raw, after); !errors.Is(err, commit.ErrConflict) {
			return err
		}
	}
}

// commitSchedule replaces the document that was read, nil = none, and returns what is stored then.
func (s *shard) commitSchedule(ctx context.Context, name string, read []byte, after *Schedule) (stored []byte, err error) {
	key := s.keys.Schedule(name)
	b := commit.New()
	b.Expect(key, read)
	if after == nil {
		b.Del(key)
		b.ZRem(s.keys.Schedules(), name)
	} else {
		if stored, err = json.Marshal(after); err != nil {
			return nil, fmt.Errorf("workflow: schedule %s: %w", name, err)
		}
		b.Set(key, stored, 0)
		b.ZAdd(s.keys.Schedules(), after.due(), name)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := b.Run(ctx, s.c.rdb); err != nil {
		return nil, fmt.Errorf("workflow: schedule %s: %w", name, err)
	}
	return stored, nil
}

// due is when a worker looks at a schedule, in Unix ms.
func (s *Schedule) due() float64 {
	for _, at := range []time.Time{s.Retry, s.Starting, s.Next} {
		if !at.IsZero() {
			return float64(at.UnixMilli())
		}
	}
	return never
}

// never is when schedules are due that have no slot left: in the year 9999, in Unix ms.
const never = 253_402_300_799_000

// refusal is an error as Schedule.LastError has it.
func refusal(err error) string {
	text := strings.ToValidUTF8(err.Error(), "?")
	if len(text) > maxLastError {
		text = strings.ToValidUTF8(text[:maxLastError], "") + "..."
	}
	return text
}
