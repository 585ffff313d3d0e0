package schedule

import (
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// frequency is the FREQ of a rule, from the longest period on.
type frequency int

const (
	yearly frequency = iota
	monthly
	weekly
	daily
	hourly
	minutely
	secondly
)

const (
	maxCount   = 10_000
	countLimit = 1_000_000 // days and periods that may be looked at to count so far
)

// rrule is a rule with its dates, bound to an anchor.
type rrule struct {
	rule       rule
	wall       wall  // its days and times, defaults of the anchor filled in
	anchor     int64 // instant, or 0 if the schedule has none yet
	anchored   bool
	allDay     bool    // DTSTART is a date
	rdate      []int64 // instants, ascending
	exdate     []int64
	day0       int64 // the anchor's day in the zone
	base       int64 // hourly and shorter: the instant at which the anchor's hour, minute or second began
	unit, step int64 // hourly and shorter: length of a period, and from the beginning of one to that of the next; seconds
	end        int64 // instant of the last slot of the rule at most, by COUNT and UNTIL
}

// RRule gives the slots of an RFC 5545 recurrence: a rule such as FREQ=WEEKLY;INTERVAL=2, or its iCalendar lines DTSTART, RRULE,
// RDATE and EXDATE, set apart by white space. The package text says where it departs from the standard. The anchor is DTSTART, else
// the option Anchor, else WithAnchor's; it settles what the rule leaves open (time of day, weekday, day of month), the phase of
// INTERVAL, and where COUNT begins. The zone is that of TZ=, of DTSTART's TZID, or of the option TimeZone, else UTC.
//
// The error is an *Error: the text is malformed, gives the anchor or the zone twice, or has a rule that fits no time
// whatever its anchor. A rule that only its anchor keeps from fitting is exhausted from the start.
func RRule(text string, opts ...Option) (Schedule, error) {
	r, err := readRRule(text, collect(opts))
	if err != nil {
		return nil, err
	}
	if err := r.rule.check(); err != nil {
		return nil, err
	}
	if !r.fitsAny() {
		return nil, refuse("rrule", strings.TrimSpace(text), "fits no time")
	}
	r.bind()
	return r, nil
}

func (r *rrule) withAnchor(t time.Time) Schedule {
	if r.anchored {
		return r
	}
	bound := *r
	bound.anchor, bound.anchored = anchorAt(t).Unix(), true
	bound.bind()
	return &bound
}

// fitsAny says whether the rule has a slot at all, when nothing but its BY parts limits it.
func (r *rrule) fitsAny() bool {
	free := rrule{rule: r.rule, wall: wall{zone: time.UTC}}
	free.rule.interval, free.rule.count, free.rule.until = 1, 0, until{}
	free.bind()
	_, ok := free.nextOfRule(-1, newSearch())
	return ok
}

// bind computes what follows from the anchor.
func (r *rrule) bind() {
	in := newSearch()
	offset, _, _ := in.segment(r.wall.zone, r.anchor)
	reading := r.anchor + offset
	r.day0 = floorDiv(reading, secondsPerDay)
	bound := r.rule.withDefaults(r.day0, mod(reading, secondsPerDay))
	r.wall.hour, r.wall.minute, r.wall.sec = bound.hour, bound.minute, bound.sec
	r.wall.days = (&ruleDays{rule: bound, day0: r.day0}).from
	if r.rule.freq >= hourly {
		r.unit = [...]int64{hourly: 3600, minutely: 60, secondly: 1}[r.rule.freq]
		r.step = r.unit * r.rule.interval
		r.base = r.anchor - mod(reading, r.unit)
	}
	r.end = r.rule.until.instant(&r.wall, in)
	if r.rule.count > 0 {
		r.end = r.lastCounted(in)
	}
}

// lastCounted returns the instant of the slot at which COUNT is reached, or of the last that countLimit allows to reach.
func (r *rrule) lastCounted(in *search) int64 {
	last, left := int64(math.MinInt64), countLimit
	for from, n := r.anchor-1, 0; n < r.rule.count; n++ {
		given := min(left, searchLimit)
		in.left = given
		slot, ok := r.nextOfRule(from, in)
		if !ok {
			break
		}
		left -= given - in.left
		from, last = slot, slot
	}
	return last
}

func (r *rrule) Next(after time.Time) (time.Time, bool) {
	from, in := seconds(after), newSearch()
	for {
		slot, ok := r.nextOfRule(from, in)
		if i, _ := slices.BinarySearch(r.rdate, from+1); i < len(r.rdate) && (!ok || r.rdate[i] < slot) {
			slot, ok = r.rdate[i], true
		}
		if !ok {
			return time.Time{}, false
		}
		if _, excluded := slices.BinarySearch(r.exdate, slot); !excluded {
			return at(slot), true
		}
		from = slot
	}
}

// nextOfRule returns the first slot of the rule after the given instant, from the anchor on and up to the end.
func (r *rrule) nextOfRule(after int64, in *search) (slot int64, ok bool) {
	after = max(after, r.anchor-1)
	switch {
	case len(r.rule.bySetPos) > 0 && r.step > 0:
		slot, ok = r.nextOfHourSet(after, in)
	case len(r.rule.bySetPos) > 0:
		slot, ok = r.nextOfDaySet(after, in)
	case r.step > 0:
		slot, ok = r.nextOfHours(after, in)
	default:
		slot, ok = r.wall.nextOnce(after, in)
	}
	return slot, ok && slot <= r.end
}

// period returns the first period (hour, minute or second) that counts and ends after the given instant, by its beginning.
func (r *rrule) period(at int64) (start int64) {
	start = r.base + floorDiv(at-r.base, r.step)*r.step
	if at >= start+r.unit {
		start += r.step
	}
	return start
}

// nextOfHours is for FREQ=HOURLY and shorter: the first time that the clock shows, within a period that counts.
func (r *rrule) nextOfHours(after int64, in *search) (int64, bool) {
	for from := after + 1; in.spend(); {
		start := r.period(from)
		slot, ok := r.wall.nextShown(max(from, start), in)
		if !ok {
			return 0, false
		}
		if slot < start+r.unit {
			return slot, true
		}
		from = slot
	}
	return 0, false
}

// nextOfHourSet is the same with BYSETPOS: the slots of a period are gathered, and some of them taken.
func (r *rrule) nextOfHourSet(after int64, in *search) (int64, bool) {
	for from := after + 1; in.spend(); {
		start := r.period(from)
		var set []int64
		slot, ok := r.wall.nextShown(start, in)
		for ; ok && slot < start+r.unit && in.spend(); slot, ok = r.wall.nextShown(slot+1, in) {
			set = append(set, slot)
		}
		if in.left < 0 {
			return 0, false // the set is not whole
		}
		for _, i := range r.rule.positions(len(set)) {
			if set[i] > after {
				return set[i], true
			}
		}
		if !ok {
			return 0, false
		}
		from = max(slot, start+r.unit)
	}
	return 0, false
}

// nextOfDaySet is for FREQ=DAILY and longer with BYSETPOS. The set of a period is its days, each with all its times; it is
// counted, not written out, for it may have millions of slots.
func (r *rrule) nextOfDaySet(after int64, in *search) (int64, bool) {
	days := ruleDays{rule: r.rule, day0: r.day0}
	times := bits.OnesCount64(r.wall.hour) * bits.OnesCount64(r.wall.minute) * bits.OnesCount64(r.wall.sec)
	for day := days.period(days.index(floorDiv(r.wall.shownBy(after, in), secondsPerDay))); in.spend(); {
		first, ok := r.wall.days(day, in)
		if !ok {
			return 0, false
		}
		end := days.period(days.index(first) + 1)
		var set []int64
		for d := days.period(days.index(first)); ; d++ {
			if d, ok = r.wall.days(d, in); !ok || d >= end {
				break
			}
			set = append(set, d)
		}
		if in.left < 0 {
			return 0, false // the set is not whole
		}
		for _, i := range r.rule.positions(len(set) * times) {
			if slot := r.wall.instant(set[i/times]*secondsPerDay+r.wall.nthTime(i%times), in); slot > after {
				return slot, true
			}
		}
		day = end
	}
	return 0, false
}

// nthTime returns the n-th allowed second of a day, from 0 on.
func (w *wall) nthTime(n int) int64 {
	secs, minutes := bits.OnesCount64(w.sec), bits.OnesCount64(w.minute)
	return nthBit(w.hour, n/secs/minutes)*3600 + nthBit(w.minute, n/secs%minutes)*60 + nthBit(w.sec, n%secs)
}

func nthBit(mask uint64, n int) int64 {
	for range n {
		mask &= mask - 1
	}
	return firstBit(mask)
}
