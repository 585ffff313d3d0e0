package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis/script"
)

var (
	// ErrNoSchedule: no schedule has that name.
	ErrNoSchedule = errors.New("task: no such schedule")
	// ErrScheduleExists: a schedule has that name already. Update it, or remove it.
	ErrScheduleExists = errors.New("task: the schedule exists already")
	// ErrDeclared: code declares the schedule, and would restore it. Pause it, change the code, or set another Schedule in the Config.
	ErrDeclared = errors.New("task: the schedule is declared in code")
)

// Schedules lists all entries by name, also those that no scheduler can read: they have failed. One round trip.
func (c *Client) Schedules(ctx context.Context) ([]ScheduleInfo, error) {
	all, err := c.rdb.Do(ctx, c.rdb.B().Hgetall().Key(c.keys.SchedulerEntries()).Build()).AsStrMap()
	if err != nil {
		return nil, fmt.Errorf("task: schedules: %w", err)
	}
	list := make([]ScheduleInfo, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d, err := decodeSchedule(name, all[name])
		if err != nil {
			d.Name, d.State, d.Error = name, ScheduleFailed, err.Error()
		}
		list = append(list, d.ScheduleInfo)
	}
	return list, nil
}

// Schedule is the entry of that name. ErrNoSchedule: there is none. One round trip.
func (c *Client) Schedule(ctx context.Context, name string) (ScheduleInfo, error) {
	_, d, err := c.schedule(ctx, name)
	return d.ScheduleInfo, err
}

func (c *Client) schedule(ctx context.Context, name string) (raw string, d scheduleDoc, err error) {
	raw, err = c.rdb.Do(ctx, c.rdb.B().Hget().Key(c.keys.SchedulerEntries()).Field(name).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", d, fmt.Errorf("%w: %q", ErrNoSchedule, name)
	}
	if err != nil {
		return "", d, fmt.Errorf("task: schedule %q: %w", name, err)
	}
	d, err = decodeSchedule(name, raw)
	return raw, d, err
}

// AddSchedule adds an entry, also for a type that this program does not know. The scheduler that leads begins with it at once; if there is none, the next one
// makes up for what passed, as Missed says. ErrScheduleExists: the name is taken; that is also what a repetition gets whose first reply was lost.
func (c *Client) AddSchedule(ctx context.Context, e ScheduleEntry) error {
	d, err := c.newSchedule(ctx, e)
	if err != nil {
		return err
	}
	text, err := d.encode()
	if err != nil {
		return err
	}
	done, err := c.reschedule(ctx, e.Name, "", text)
	if err == nil && !done {
		err = fmt.Errorf("%w: %q", ErrScheduleExists, e.Name)
	}
	return err
}

// newSchedule checks an entry and registers it by the server's clock. One round trip.
func (c *Client) newSchedule(ctx context.Context, e ScheduleEntry) (d scheduleDoc, err error) {
	e.defaults()
	if err := e.validate(); err != nil {
		return d, err
	}
	plan, err := e.schedule()
	if err != nil {
		return d, err
	}
	e.Spec = plan.String()
	if !e.Anchor.IsZero() { // the text has it now
		e.Anchor = e.Anchor.UTC()
	}
	now, err := c.Now(ctx)
	if err != nil {
		return d, err
	}
	d.ScheduleEntry = e
	d.register(plan, now)
	return d, d.begin(now)
}

// begin computes the next slot. A schedule without one is refused: it would be finished before it begins.
func (d *scheduleDoc) begin(now time.Time) error {
	plan, err := d.schedule()
	if err != nil {
		return err
	}
	p, err := d.decide(plan, now)
	if err != nil {
		return err
	}
	if d.Next = p.next; len(p.slots) > 0 {
		d.Next = p.slots[0]
	}
	if d.Next.IsZero() {
		return fmt.Errorf("task: schedule %q: %s has no slot from now on", d.Name, d.Spec)
	}
	return nil
}

// UpdateSchedule replaces what an entry asks for. It keeps its counts, its last slot, and whether it is paused; another Spec is counted from now on, unless Anchor is given. ErrNoSchedule,
// ErrDeclared: nothing is changed.
func (c *Client) UpdateSchedule(ctx context.Context, e ScheduleEntry) error {
	fresh, err := c.newSchedule(ctx, e)
	if err != nil {
		return err
	}
	return c.changeSchedule(ctx, e.Name, func(d *scheduleDoc) error {
		if d.Declared {
			return fmt.Errorf("%w: %q", ErrDeclared, e.Name)
		}
		old := *d
		d.ScheduleEntry, d.Paused = fresh.ScheduleEntry, old.Paused
		if old.Spec == fresh.Spec && e.Anchor.IsZero() && old.State != ScheduleFailed {
			d.Anchor = old.Anchor
			return nil
		}
		d.Since, d.Next, d.State, d.Error = fresh.Since, fresh.Next, ScheduleActive, ""
		return nil
	})
}

// RemoveSchedule removes an entry; tasks that it submitted stay. ErrNoSchedule: there is none. ErrDeclared: code declares it, and a scheduler that leads has that code.
func (c *Client) RemoveSchedule(ctx context.Context, name string) error {
	return swapUntil(ctx, fmt.Sprintf("schedule %q", name), func() (bool, error) {
		raw, d, err := c.schedule(ctx, name)
		switch {
		case raw == "":
			return false, err
		case err == nil && d.Declared && d.State != ScheduleUnclaimed:
			return false, fmt.Errorf("%w: %q", ErrDeclared, name)
		}
		return c.reschedule(ctx, name, script.SHA1(raw), "")
	})
}

// PauseSchedule lets an entry fire no more, over restarts too, until ResumeSchedule. ErrNoSchedule: there is none.
func (c *Client) PauseSchedule(ctx context.Context, name string) error {
	return c.changeSchedule(ctx, name, func(d *scheduleDoc) error { d.Paused = true; return nil })
}

// ResumeSchedule lets a paused entry fire again, from its next slot on: what passed meanwhile was not missed. ErrNoSchedule: there is none.
func (c *Client) ResumeSchedule(ctx context.Context, name string) error {
	now, err := c.Now(ctx)
	if err != nil {
		return err
	}
	return c.changeSchedule(ctx, name, func(d *scheduleDoc) error {
		if !d.Paused {
			return nil
		}
		d.Paused, d.Since, d.Next = false, now.UTC().Truncate(time.Millisecond), time.Time{}
		if plan, err := d.schedule(); err == nil && d.State == ScheduleActive {
			d.Next, _ = plan.Next(d.Since)
		}
		return nil
	})
}

// RunScheduleNow asks the scheduler that leads, or the next one, to submit one task of an entry at once, paused or not, whatever its Overlap says; its slots are not concerned.
// It returns the id of that task. ErrNoSchedule: there is none.
func (c *Client) RunScheduleNow(ctx context.Context, name string) (id string, err error) {
	now, err := c.Now(ctx)
	if err != nil {
		return "", err
	}
	if len(name) > maxEntryName {
		return "", fmt.Errorf("%w: %q", ErrNoSchedule, name)
	}
	id = fmt.Sprintf(ownName+"%s@now%08x", name, rand.Uint32())
	return id, c.changeSchedule(ctx, name, func(d *scheduleDoc) error {
		if len(d.Asked) >= maxAsked {
			return fmt.Errorf("task: schedule %q: %d tasks were asked for already, and no scheduler has submitted them", name, len(d.Asked))
		}
		if !slices.ContainsFunc(d.Asked, func(a asked) bool { return a.ID == id }) {
			d.Asked = append(d.Asked, asked{ID: id, At: now.UTC().Truncate(time.Millisecond)})
		}
		return nil
	})
}

// changeSchedule changes one entry, however often others change it meanwhile. A lost reply is an error of the connection; all changes may be repeated.
func (c *Client) changeSchedule(ctx context.Context, name string, change func(*scheduleDoc) error) error {
	return swapUntil(ctx, fmt.Sprintf("schedule %q", name), func() (bool, error) {
		raw, d, err := c.schedule(ctx, name)
		if err == nil {
			err = change(&d)
		}
		if err != nil {
			return false, err
		}
		text, err := d.encode()
		if err != nil {
			return false, err
		}
		return c.reschedule(ctx, name, script.SHA1(raw), text)
	})
}

func (c *Client) reschedule(ctx context.Context, name, read, text string) (bool, error) {
	k := c.keys.SchedulerEntries()
	done, err := c.swap(ctx, k, name, read, text, k)
	if err != nil {
		return false, fmt.Errorf("task: schedule %q: %w", name, err)
	}
	return done, nil
}
