package schedule

import (
	"math"
	"math/bits"
	"time"
)

const secondsPerDay = 24 * 60 * 60

// Days are counted from 1970-01-01, local times in seconds from its midnight: a reading of the clock on the wall,
// which some instants share and some readings miss.
var (
	firstDay = dayNumber(1, 1, 1)
	lastDay  = dayNumber(9999, 12, 30) // no zone is further from UTC than the day left
)

func dayNumber(year int, month time.Month, day int) int64 {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / secondsPerDay
}

func dateOf(day int64) (year int, month time.Month, dayOfMonth int) {
	return time.Unix(day*secondsPerDay, 0).UTC().Date()
}

func weekdayOf(day int64) time.Weekday { return time.Weekday(mod(day+4, 7)) } // day 0 was a Thursday

func daysIn(year int, month time.Month) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// floorDiv and mod round towards minus infinity, for days before 1970. b > 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func mod(a, b int64) int64 { return a - b*floorDiv(a, b) }

// A wall is a set of readings of the clock in a zone: some days, and some times that are the same on each of them.
type wall struct {
	zone              *time.Location
	hour, minute, sec uint64 // bit n: allowed; none is empty

	// days returns the first day of the set from day on, or false when there is none or b is used up.
	days func(day int64, in *search) (int64, bool)
}

// reading returns the first reading of the set from the given one on.
func (w *wall) reading(from int64, in *search) (int64, bool) {
	day, time := floorDiv(from, secondsPerDay), mod(from, secondsPerDay)
	for {
		found, ok := w.days(day, in)
		if !ok {
			return 0, false
		}
		if found > day {
			time = 0
		}
		if t, ok := w.timeOfDay(time); ok {
			return found*secondsPerDay + t, true
		}
		day, time = found+1, 0
	}
}

// timeOfDay returns the first allowed second of a day from the given one on.
func (w *wall) timeOfDay(from int64) (int64, bool) {
	h, m, s := from/3600, from/60%60, from%60
	if w.hour>>h&1 == 1 {
		if w.minute>>m&1 == 1 {
			if n, ok := nextBit(w.sec, s); ok {
				return h*3600 + m*60 + n, true
			}
		}
		if n, ok := nextBit(w.minute, m+1); ok {
			return h*3600 + n*60 + firstBit(w.sec), true
		}
	}
	if n, ok := nextBit(w.hour, h+1); ok {
		return n*3600 + firstBit(w.minute)*60 + firstBit(w.sec), true
	}
	return 0, false
}

func nextBit(mask uint64, from int64) (int64, bool) {
	mask = mask >> from << from
	return firstBit(mask), mask != 0
}

func firstBit(mask uint64) int64 { return int64(bits.TrailingZeros64(mask)) }

// nextOnce returns the first slot after the given instant when each reading of the set runs once: at its first instant, or, if
// clocks skip it, at the first instant after the gap. Later readings never run earlier, so the first reading that the clock has
// not shown by then is where to look.
func (w *wall) nextOnce(after int64, in *search) (int64, bool) {
	from := w.shownBy(after, in) + 1
	for {
		reading, ok := w.reading(from, in)
		if !ok {
			return 0, false
		}
		if slot := w.instant(reading, in); slot > after {
			return slot, true
		}
		from = reading + 1
	}
}

// shownBy returns the latest reading that the clock has shown by the given instant: just after it was set back, that is
// the one before it was.
func (w *wall) shownBy(at int64, in *search) int64 {
	offset, start, _ := in.segment(w.zone, at)
	if start == math.MinInt64 {
		return at + offset
	}
	before, _, _ := in.segment(w.zone, start-1)
	return max(at+offset, start-1+before)
}

// instant returns the first instant at which the clock shows the reading, or, if it is skipped, the first after the gap.
func (w *wall) instant(reading int64, in *search) int64 {
	const farthest = 16 * 60 * 60 // more than any zone was ever ahead of UTC
	at := reading - farthest
	for {
		offset, start, end := in.segment(w.zone, at)
		if reading-offset < end {
			return max(reading-offset, start)
		}
		at = end
	}
}

// nextShown returns the first instant, from the given one on, at which the clock shows a reading of the set.
func (w *wall) nextShown(at int64, in *search) (int64, bool) {
	offset, _, end := in.segment(w.zone, at)
	from := at + offset
	reading, ok := w.reading(from, in)
	for ok {
		if reading-offset < end {
			return reading - offset, true
		}
		at = end
		offset, _, end = in.segment(w.zone, at)
		// No reading of the set lies between from and the one found, so a new search is needed only outside.
		if shown := at + offset; shown < from || shown > reading {
			from = shown
			reading, ok = w.reading(from, in)
		}
	}
	return 0, false
}

// A search is the work of finding one slot. It bounds that work, and remembers what it last asked the zone.
type search struct {
	left               int // days and periods that may still be looked at
	known              bool
	offset, start, end int64
}

// searchLimit keeps a search that finds nothing below a fraction of a second.
const searchLimit = 250_000

func newSearch() *search { return &search{left: searchLimit} }

// unlimited is for sets that are known to have a next slot nearby, or none before the end of the calendar.
func unlimited() *search { return &search{left: math.MaxInt} }

func (s *search) spend() bool {
	s.left--
	return s.left >= 0
}

// segment returns the seconds by which the clock in a zone is ahead of UTC at an instant, and the instants between which it
// is so. One search is about one zone.
func (s *search) segment(zone *time.Location, at int64) (offset, start, end int64) {
	if !s.known || at < s.start || at >= s.end {
		s.known, s.offset, s.start, s.end = true, 0, math.MinInt64, math.MaxInt64
		if zone != time.UTC {
			s.lookUp(time.Unix(at, 0).In(zone))
		}
	}
	return s.offset, s.start, s.end
}

func (s *search) lookUp(t time.Time) {
	_, ahead := t.Zone()
	s.offset = int64(ahead)
	from, to := t.ZoneBounds()
	if !from.IsZero() {
		s.start = from.Unix()
	}
	if to.IsZero() {
		return
	}
	// Beyond the years that the zone lists, package time gives the end of the year as a bound, and gives it a day too early in
	// leap years.
	if s.end = to.Unix(); s.end <= t.Unix() {
		s.end = dayNumber(t.UTC().Year()+1, 1, 1) * secondsPerDay
	}
}
