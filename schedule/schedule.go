package schedule

import (
	"fmt"
	"time"

	"github.com/taktworks/takt/internal/zones"
)

// A Schedule yields slots. It is a pure function of the slot before, the anchor and the rule; any number of goroutines may
// use it at once.
type Schedule interface {
	// Next returns the first slot strictly after the given time, in UTC. ok is false when no slot is left: the schedule is
	// exhausted for good, and the caller marks its entry finished.
	Next(after time.Time) (slot time.Time, ok bool)

	// String is the canonical text. Parse of it gives the same schedule, its anchor included if it has one.
	String() string
}

// Error says which part of a schedule is wrong. The schedule was not made; the text must be mended.
type Error struct {
	Field string // which part, such as "cron hour" or "rrule COUNT"
	Value string // what was given, cut to 80 bytes
	Rule  string // what is asked for
}

func (e *Error) Error() string { return fmt.Sprintf("schedule: %s %q: %s", e.Field, e.Value, e.Rule) }

func refuse(field, value, rule string, args ...any) error {
	if len(value) > 80 {
		value = value[:80]
	}
	return &Error{Field: field, Value: value, Rule: fmt.Sprintf(rule, args...)}
}

// An Option sets what a schedule is counted from, or in which time zone it is read.
type Option func(*options)

type options struct {
	anchor time.Time
	zone   *time.Location
}

// Anchor is the time that Every and RRule count from. Zero: the schedule has none of its own and gets it by WithAnchor. A
// time outside the years 1900 to 9999 is moved to the nearer end; RRule cuts it to the second. Cron has no use for it.
func Anchor(t time.Time) Option { return func(o *options) { o.anchor = t } }

// TimeZone is the zone whose clocks and calendar Cron and RRule go by; nil is UTC. Only zones of the time zone database can
// be named in a text, so Cron and RRule refuse time.Local and fixed zones. Every has no use for it.
func TimeZone(loc *time.Location) Option { return func(o *options) { o.zone = loc } }

func collect(opts []Option) options {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithAnchor returns s counted from t, cut to the second for a rule. It returns s itself if s has an anchor of its own, needs
// none, or t is zero. The scheduler calls it with the time of first registration, which it keeps beside the text.
func WithAnchor(s Schedule, t time.Time) Schedule {
	a, ok := s.(interface{ withAnchor(time.Time) Schedule })
	if !ok || t.IsZero() {
		return s
	}
	return a.withAnchor(t)
}

// ZoneOf is the time zone whose clocks and calendar s goes by, UTC if it has none.
func ZoneOf(s Schedule) *time.Location {
	switch s := s.(type) {
	case *cron:
		return s.wall.zone
	case *rrule:
		return s.wall.zone
	}
	return time.UTC
}

// The years in which anchors may lie. Earlier ones have no use, and their local times are not those of clocks.
var (
	firstAnchor = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)
	lastAnchor  = time.Date(9999, 12, 30, 0, 0, 0, 0, time.UTC)
	epoch       = time.Unix(0, 0).UTC()
)

func anchorAt(t time.Time) time.Time {
	switch {
	case t.Before(firstAnchor):
		return firstAnchor
	case t.After(lastAnchor):
		return lastAnchor
	}
	return t.Round(0).UTC() // without the monotonic reading
}

// seconds returns t in whole seconds, rounded down, and held within the years that are searched.
func seconds(t time.Time) int64 {
	return min(max(t.Unix(), firstDay*secondsPerDay), (lastDay+2)*secondsPerDay)
}

func at(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }

// loadZone returns the zone of a name; it must be one that every process finds by this name.
func loadZone(field, name string) (*time.Location, error) {
	loc, err := zones.Load(name)
	if err != nil {
		return nil, refuse(field, name, "unknown time zone: want a name of the time zone database, such as Europe/Berlin; takt doctor shows which release this host has")
	}
	return loc, nil
}

// location returns the zone of the option TimeZone, as a process that reads its name would have it.
func (o options) location(field string) (*time.Location, error) {
	if o.zone == nil {
		return time.UTC, nil
	}
	loc, err := loadZone(field, o.zone.String())
	if err != nil {
		return nil, err
	}
	for month := range time.Month(10 * 12) { // a fixed zone may have the name of one with summer time
		t := time.Date(2020, month, 1, 0, 0, 0, 0, time.UTC)
		_, given := t.In(o.zone).Zone()
		if _, loaded := t.In(loc).Zone(); given != loaded {
			return nil, refuse(field, o.zone.String(), "is another zone in the time zone database")
		}
	}
	return loc, nil
}
