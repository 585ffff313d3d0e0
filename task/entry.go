package task

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/taktworks/takt/schedule"
)

// ScheduleEntry says what is submitted when. Types make theirs with Every, Cron, RRule and Periodic; others are added at run time, also for types that the
// program does not know.
type ScheduleEntry struct {
	// Name of the entry, 1-112 bytes. The tasks of its slots have the id _NAME@SLOT, the slot in Unix milliseconds.
	Name string `json:"name"`
	// Task is the name of the type.
	Task string `json:"task"`
	// Queue is PRIORITY:SIZE; "" = normal:medium.
	Queue Queue `json:"queue,omitempty"`
	// Spec is the schedule, as in "every 5m", "cron TZ=Europe/Berlin 0 6 * * *" or "rrule FREQ=WEEKLY;INTERVAL=2": see schedule.Parse.
	Spec string `json:"spec"`
	// Anchor is what "every" and "rrule" count from if Spec does not say; zero = the time at which the spec was registered.
	Anchor time.Time `json:"anchor,omitzero"`
	// Args are the arguments: a JSON array, or one value that is not an array and then the only argument; nil = none. Those of an entry that a type declares are made by the type.
	Args json.RawMessage `json:"args,omitempty"`
	// VO is the tenant whose entry it is, for the label vo; "" = nobody's.
	VO string `json:"vo,omitempty"`
	// Overlap "" = SkipIfPending, or QueueUp if Missed is RunMissed.
	Overlap Overlap `json:"overlap,omitempty"`
	// Missed "" = RunOnce.
	Missed Missed `json:"missed,omitempty"`
	// MaxMissed is the most slots that RunMissed makes up for; 0 = 100, at most 10,000.
	MaxMissed int `json:"max_missed,omitempty"`
	// Jitter is how much later a slot may fire; in JSON nanoseconds.
	Jitter time.Duration `json:"jitter,omitempty"`
	// Paused entries do not fire, and do not make up for it when they are resumed.
	Paused bool `json:"paused,omitempty"`
}

// ScheduleState is what a schedule has come to.
type ScheduleState string

const (
	ScheduleActive    ScheduleState = "active"
	ScheduleFinished  ScheduleState = "finished"  // it has no slot left
	ScheduleFailed    ScheduleState = "failed"    // its schedule cannot be used, Error says why; others are not concerned
	ScheduleDisabled  ScheduleState = "disabled"  // by the configuration; what passes meanwhile is not missed
	ScheduleUnclaimed ScheduleState = "unclaimed" // the scheduler that leads does not have the type that declared it, or cannot read its rule, as Error says
)

// ScheduleInfo is an entry with what has become of it.
type ScheduleInfo struct {
	ScheduleEntry
	// Declared says that a type, or an entry in code, made it: it comes and goes with the code.
	Declared bool          `json:"declared,omitempty"`
	State    ScheduleState `json:"state"`
	// Error is why it failed, or why its last task could not be made.
	Error string `json:"error,omitempty"`
	// Since is when it was registered, changed or resumed: slots up to then are no concern.
	Since time.Time `json:"since"`
	// Last is the last slot that was fired, skipped or missed, zero = none; Next is the one to wait for, zero = none is left, or not known yet.
	Last time.Time `json:"last_slot,omitzero"`
	Next time.Time `json:"next_slot,omitzero"`
	// LastTask is the id of the task submitted last.
	LastTask string `json:"last_task,omitempty"`
	// Fired, Skipped, Missed and Failed count slots: submitted, left out because of an overlap, not made up for, and those whose task could not be made.
	Fired   int64 `json:"fired"`
	Skipped int64 `json:"skipped"`
	Dropped int64 `json:"dropped"`
	Failed  int64 `json:"failed"`
}

// Upcoming are the slots that are due next, at most n, in the time zone of the schedule. There are none while it is paused, or does not fire for another reason.
func (i *ScheduleInfo) Upcoming(n int) (slots []time.Time) {
	s, err := i.schedule()
	if err != nil || i.State != ScheduleActive || i.Paused {
		return nil
	}
	for at, ok := i.Next, !i.Next.IsZero(); ok && len(slots) < n; at, ok = s.Next(at) {
		slots = append(slots, at.In(schedule.ZoneOf(s)))
	}
	return slots
}

// scheduleDoc is an entry as it is stored.
type scheduleDoc struct {
	ScheduleInfo
	Entry string  `json:"last_entry,omitempty"` // of LastTask in its stream, if it is known
	Asked []asked `json:"asked,omitempty"`
}

// asked is a task that somebody wants now.
type asked struct {
	ID    string    `json:"id"`
	At    time.Time `json:"at"`
	Yield bool      `json:"yield,omitempty"` // Overlap applies
}

const (
	maxEntryName  = 112 // bytes: with a slot it must be an id
	maxJitter     = 24 * time.Hour
	maxMissed     = 10_000
	maxEntryArgs  = 256 << 10 // bytes of JSON
	maxAsked      = 100
	maxEntryError = 1 << 10 // bytes
)

func (e *ScheduleEntry) defaults() {
	e.Queue = cmp.Or(e.Queue, queueOf(Normal, Medium))
	e.Missed = cmp.Or(e.Missed, RunOnce)
	if e.Overlap == "" {
		e.Overlap = SkipIfPending
		if e.Missed == RunMissed {
			e.Overlap = QueueUp
		}
	}
}

func (e *ScheduleEntry) validate() error {
	if err := errors.Join(checkEntryName(e.Name), checkName("ScheduleEntry.Task", e.Task), e.Queue.validate()); err != nil {
		return err
	}
	if e.VO != "" {
		if err := checkName("ScheduleEntry.VO", e.VO); err != nil {
			return err
		}
	}
	refuse := func(field string, value any, rule string) error {
		return fmt.Errorf("task: schedule %q: %s %v: want %s", e.Name, field, value, rule)
	}
	switch e.Overlap {
	case SkipIfPending, SkipIfRunning, QueueUp:
	default:
		return refuse("Overlap", e.Overlap, "skip_if_pending, skip_if_running or queue_up")
	}
	switch e.Missed {
	case RunOnce, SkipMissed, RunMissed:
	default:
		return refuse("Missed", e.Missed, "run_once, skip or run_all")
	}
	switch {
	case e.MaxMissed < 0 || e.MaxMissed > maxMissed:
		return refuse("MaxMissed", e.MaxMissed, fmt.Sprintf("0 to %d", maxMissed))
	case e.Missed == RunMissed && e.Overlap != QueueUp:
		return refuse("Overlap", e.Overlap, "queue_up with run_all: else all but one would be skipped")
	case e.Jitter < 0 || e.Jitter > maxJitter:
		return refuse("Jitter", e.Jitter, fmt.Sprintf("0 to %v", maxJitter))
	case len(e.Args) > maxEntryArgs:
		return refuse("Args", fmt.Sprintf("of %d bytes", len(e.Args)), fmt.Sprintf("at most %d", maxEntryArgs))
	}
	if _, err := e.args(); err != nil {
		return refuse("Args", clip(string(e.Args), 80), "JSON: "+err.Error())
	}
	return nil
}

func checkEntryName(name string) error {
	if len(name) > maxEntryName {
		return fmt.Errorf("task: schedule name %q: want 1 to %d bytes, has %d", name, maxEntryName, len(name))
	}
	return checkName("schedule name", name)
}

// args are the arguments in msgpack, nil = none.
func (e *ScheduleEntry) args() ([]byte, error) {
	if string(e.Args) == "null" {
		return nil, nil
	}
	return argsFromJSON(e.Args)
}

// schedule reads the spec. Its anchor is the entry's, unless it has its own.
func (e *ScheduleEntry) schedule() (schedule.Schedule, error) {
	s, err := schedule.Parse(e.Spec)
	if err != nil {
		return nil, fmt.Errorf("task: schedule %q: %w", e.Name, err)
	}
	return schedule.WithAnchor(s, e.Anchor), nil
}

// same says whether two entries ask for the same, apart from what Redis adds.
func (e *ScheduleEntry) same(other *ScheduleEntry) bool {
	a, b := *e, *other
	a.Anchor, b.Anchor, a.Paused, b.Paused = time.Time{}, time.Time{}, false, false
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// register begins a schedule at now: what is counted from then on, and which slots are its concern. The anchor of a rule counts as its first slot, that of an interval
// does not.
func (d *scheduleDoc) register(s schedule.Schedule, now time.Time) {
	now = now.UTC().Truncate(time.Millisecond)
	d.State, d.Error, d.Since, d.Next = ScheduleActive, "", now, time.Time{}
	if !d.Anchor.IsZero() {
		return
	}
	d.Anchor = now
	if anchored := schedule.WithAnchor(s, now).String(); strings.HasPrefix(anchored, "rrule ") && anchored != s.String() {
		d.Since = now.Truncate(time.Second).Add(-1)
	}
}

// plan is what is to be done with an entry now.
type plan struct {
	slots   []time.Time // to fire, oldest first
	last    time.Time   // the latest slot that is dealt with; zero = none
	next    time.Time   // zero = no slot is left
	dropped int64       // slots that are not made up for
}

const (
	maxUnripe  = 100  // slots that wait for their jitter at once
	maxCounted = 1000 // slots that are counted as dropped at once
)

// decide says which slots are due at now. It is pure, but for a panic of a schedule that is not ours, which is an error.
func (d *scheduleDoc) decide(s schedule.Schedule, now time.Time) (p plan, err error) {
	defer func() {
		if v := recover(); v != nil {
			p, err = plan{}, fmt.Errorf("task: the schedule panics: %v", v)
		}
	}()
	from, until := d.Since, now
	if d.Last.After(from) {
		from = d.Last
	}
	for range maxUnripe {
		latest, next, ok := schedule.Due(s, from, until, schedule.RunOnce, 1)
		if ok {
			p.next = next
		}
		if len(latest) == 0 {
			return p, nil
		}
		if p.last = latest[0]; !d.wake(p.last).After(now) {
			break
		}
		until, p.last = p.last.Add(-1), time.Time{}
	}
	if p.last.IsZero() {
		return p, nil
	}
	p.slots, _, _ = schedule.Due(s, from, until, d.Missed.policy(), d.MaxMissed)
	p.dropped = int64(schedule.Count(s, from, p.last, maxCounted+len(p.slots)) - len(p.slots))
	return p, nil
}

func (m Missed) policy() schedule.Missed {
	switch m {
	case SkipMissed:
		return schedule.Skip
	case RunMissed:
		return schedule.RunAll
	}
	return schedule.RunOnce
}

// wake is when a slot fires.
func (d *scheduleDoc) wake(slot time.Time) time.Time { return schedule.Jitter(slot, d.Name, d.Jitter) }

// taskID is the id of the task of a slot.
func (d *scheduleDoc) taskID(slot time.Time) string {
	return fmt.Sprintf(ownName+"%s@%d", d.Name, slot.UnixMilli())
}

func (d *scheduleDoc) encode() (string, error) {
	b, err := json.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("task: schedule %q: %w", d.Name, err)
	}
	return string(b), nil
}

// decodeSchedule reads what is stored under a name.
func decodeSchedule(name, raw string) (scheduleDoc, error) {
	var d scheduleDoc
	if err := json.Unmarshal([]byte(raw), &d); err != nil {
		return scheduleDoc{}, fmt.Errorf("task: schedule %q cannot be read: %w", name, err)
	}
	d.Name = name
	d.defaults()
	if err := d.validate(); err != nil {
		return scheduleDoc{}, err
	}
	return d, nil
}
