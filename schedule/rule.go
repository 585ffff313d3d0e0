package schedule

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// rule is the RRULE line. An empty list or mask is a part that was not given.
type rule struct {
	freq              frequency
	interval          int64
	count             int // 0: not given
	until             until
	weekStart         time.Weekday
	month             uint64
	weekNo            []int // negative: from the end
	yearDay           []int
	dayOfMonth        []int
	weekday           []weekdayNum
	hour, minute, sec uint64
	bySetPos          []int
}

// weekdayNum is MO, or its n-th of the month or year; n < 0: from the end.
type weekdayNum struct {
	day time.Weekday
	n   int
}

// until is the bound of a rule, as it was written: instants, and readings in the zone of the rule.
type until struct {
	kind  timeKind // none: no bound
	value int64    // an instant, a reading, or the reading of the day's midnight
}

func (u until) instant(w *wall, in *search) int64 {
	switch u.kind {
	case utcTime:
		return u.value
	case localTime:
		return w.instant(u.value, in)
	case localDate:
		return w.instant(u.value+secondsPerDay, in) - 1
	}
	return math.MaxInt64
}

// check refuses the combinations that RFC 5545, 3.3.10 has no meaning for.
func (r *rule) check() error {
	for _, wrong := range []struct {
		part  string
		is    bool
		rules string
	}{
		{"COUNT", r.count > 0 && r.until.kind != noTime, "COUNT and UNTIL exclude each other"},
		{"BYWEEKNO", len(r.weekNo) > 0 && r.freq != yearly, "goes with FREQ=YEARLY alone"},
		{"BYYEARDAY", len(r.yearDay) > 0 && (r.freq == monthly || r.freq == weekly || r.freq == daily), "does not go with FREQ=MONTHLY, WEEKLY, DAILY"},
		{"BYMONTHDAY", len(r.dayOfMonth) > 0 && r.freq == weekly, "does not go with FREQ=WEEKLY"},
		{"BYDAY", r.hasNth() && r.freq > monthly, "numbers such as 2MO go with FREQ=MONTHLY and YEARLY alone"},
		{"BYDAY", r.hasNth() && len(r.weekNo) > 0, "numbers such as 2MO do not go with BYWEEKNO"},
		{"BYSETPOS", len(r.bySetPos) > 0 && !r.hasBy(), "needs another BY part"},
	} {
		if wrong.is {
			return refuse("rrule "+wrong.part, r.String(), "%s", wrong.rules)
		}
	}
	return nil
}

func (r *rule) hasNth() bool {
	return slices.ContainsFunc(r.weekday, func(w weekdayNum) bool { return w.n != 0 })
}

func (r *rule) hasBy() bool {
	return r.month|r.hour|r.minute|r.sec != 0 || len(r.weekNo)+len(r.yearDay)+len(r.dayOfMonth)+len(r.weekday) > 0
}

// withDefaults returns the rule with what it leaves open taken from the anchor: its day, and its second of the day.
func (r rule) withDefaults(day, second int64) rule {
	_, month, dom := dateOf(day)
	if len(r.yearDay)+len(r.dayOfMonth)+len(r.weekday) == 0 {
		switch {
		case len(r.weekNo) > 0 || r.freq == weekly:
			r.weekday = []weekdayNum{{day: weekdayOf(day)}}
		case r.freq == yearly && r.month == 0:
			r.month = 1 << month
			r.dayOfMonth = []int{dom}
		case r.freq <= monthly:
			r.dayOfMonth = []int{dom}
		}
	}
	r.hour = orDefault(r.hour, r.freq < hourly, second/3600, 24)
	r.minute = orDefault(r.minute, r.freq < minutely, second/60%60, 60)
	r.sec = orDefault(r.sec, r.freq < secondly, second%60, 60)
	return r
}

// orDefault returns a mask if it was given, else the anchor's bit where the frequency is longer than the unit, else all.
func orDefault(mask uint64, longer bool, anchor int64, size int) uint64 {
	switch {
	case mask != 0:
		return mask
	case longer:
		return 1 << anchor
	}
	return 1<<size - 1
}

// positions returns the indexes that BYSETPOS takes of a set of n, ascending.
func (r *rule) positions(n int) []int {
	var taken []int
	for _, pos := range r.bySetPos {
		if pos < 0 {
			pos += n + 1
		}
		if pos >= 1 && pos <= n {
			taken = append(taken, pos-1)
		}
	}
	slices.Sort(taken)
	return slices.Compact(taken)
}

// ruleDays are the days of a rule with its defaults: those of every interval-th period that fit all its BY parts.
// Periods of FREQ=HOURLY and shorter are no matter of days.
type ruleDays struct {
	rule rule
	day0 int64 // of the anchor
}

func (r *ruleDays) from(day int64, in *search) (int64, bool) {
	for day <= lastDay && in.spend() {
		if off := r.index(day) % r.rule.interval; r.rule.freq < hourly && off != 0 {
			day = r.period(r.index(day) + r.rule.interval - off)
			continue
		}
		year, month, dom := dateOf(day)
		if r.rule.month != 0 && r.rule.month>>month&1 == 0 {
			day = dayNumber(year, month+1, 1)
			continue
		}
		if r.fits(day, year, month, dom) {
			return day, true
		}
		day++
	}
	return 0, false
}

// index returns the number of the period that a day lies in; the anchor's is 0, and so are those before, which have no slots.
func (r *ruleDays) index(day int64) int64 {
	day = max(day, r.day0)
	switch r.rule.freq {
	case yearly:
		year, _, _ := dateOf(day)
		year0, _, _ := dateOf(r.day0)
		return int64(year - year0)
	case monthly:
		year, month, _ := dateOf(day)
		year0, month0, _ := dateOf(r.day0)
		return int64(year-year0)*12 + int64(month-month0)
	case weekly:
		return (day - r.weekOf(r.day0)) / 7
	}
	return day - r.day0
}

// period returns the first day of a period.
func (r *ruleDays) period(index int64) int64 {
	year0, month0, _ := dateOf(r.day0)
	switch index = min(index, lastDay); r.rule.freq { // far enough to be beyond the last day in any unit
	case yearly:
		return dayNumber(year0+int(index), 1, 1)
	case monthly:
		return dayNumber(year0, month0+time.Month(index), 1)
	case weekly:
		return r.weekOf(r.day0) + index*7
	}
	return r.day0 + index
}

func (r *ruleDays) weekOf(day int64) int64 {
	return day - mod(int64(weekdayOf(day)-r.rule.weekStart), 7)
}

func (r *ruleDays) fits(day int64, year int, month time.Month, dom int) bool {
	return (len(r.rule.dayOfMonth) == 0 || has(r.rule.dayOfMonth, dom, daysIn(year, month))) &&
		(len(r.rule.weekday) == 0 || r.fitsWeekday(day, year, month, dom)) &&
		(len(r.rule.yearDay) == 0 || has(r.rule.yearDay, int(day-dayNumber(year, 1, 1))+1, yearLen(year))) &&
		(len(r.rule.weekNo) == 0 || r.fitsWeekNo(day, year))
}

// has says whether a list has the n-th of so many, counted from either end.
func has(list []int, n, of int) bool {
	return slices.Contains(list, n) || slices.Contains(list, n-of-1)
}

func yearLen(year int) int { return int(dayNumber(year+1, 1, 1) - dayNumber(year, 1, 1)) }

// fitsWeekday counts weekdays in the month, or in the year where FREQ=YEARLY names no month.
func (r *ruleDays) fitsWeekday(day int64, year int, month time.Month, dom int) bool {
	n, of := dom, daysIn(year, month)
	if r.rule.freq == yearly && r.rule.month == 0 {
		n, of = int(day-dayNumber(year, 1, 1))+1, yearLen(year)
	}
	weekday := weekdayOf(day)
	return slices.ContainsFunc(r.rule.weekday, func(w weekdayNum) bool {
		return w.day == weekday && (w.n == 0 || w.n == (n+6)/7 || -w.n == (of-n)/7+1)
	})
}

// fitsWeekNo counts weeks as ISO 8601 does, from the first that has four days in the year, with the week beginning at WKST. The
// days of a week that lie in the year before or after are days of those years.
func (r *ruleDays) fitsWeekNo(day int64, year int) bool {
	switch {
	case day < r.weekOne(year):
		year--
	case day >= r.weekOne(year+1):
		year++
	}
	first, next := r.weekOne(year), r.weekOne(year+1)
	return has(r.rule.weekNo, int(day-first)/7+1, int(next-first)/7)
}

func (r *ruleDays) weekOne(year int) int64 { return r.weekOf(dayNumber(year, 1, 4)) }

// lowBits lists the bits of a mask.
func lowBits(mask uint64) []int {
	var list []int
	for ; mask != 0; mask &= mask - 1 {
		list = append(list, bits.TrailingZeros64(mask))
	}
	return list
}
