package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxDates    = 1000 // of RDATE and of EXDATE
	maxWeekdays = 100  // of BYDAY
	maxInterval = 100_000_000
)

var (
	frequencies = []string{"YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"}
	weekdays    = []string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}
)

// readRRule reads a text of lines, all of them but RRULE optional. The result is not bound yet.
func readRRule(text string, o options) (*rrule, error) {
	text = strings.TrimSpace(unfold(text))
	zone, rest, err := leadingZone("rrule time zone", text, "TZ=")
	if err != nil {
		return nil, err
	}
	lines, err := ruleLines(rest)
	if err != nil {
		return nil, err
	}
	if o.zone != nil {
		if zone != nil {
			return nil, refuse("rrule TZ", zone.String(), "the option TimeZone is given, too")
		}
		if zone, err = o.location("rrule time zone"); err != nil {
			return nil, err
		}
	}
	r := &rrule{}
	if err := r.readStart(lines["DTSTART"], zone); err != nil {
		return nil, err
	}
	if !r.anchored && !o.anchor.IsZero() {
		r.anchor, r.anchored = anchorAt(o.anchor).Unix(), true
	}
	if r.rdate, err = r.dates(lines["RDATE"]); err != nil {
		return nil, err
	}
	if r.exdate, err = r.dates(lines["EXDATE"]); err != nil {
		return nil, err
	}
	if len(lines["RRULE"]) != 1 {
		return nil, refuse("rrule", text, "want one rule, such as FREQ=WEEKLY;INTERVAL=2 (RFC 5545, 3.8.5.3); there are %d", len(lines["RRULE"]))
	}
	if r.rule, err = readRule(lines["RRULE"][0].value); err != nil {
		return nil, err
	}
	if r.allDay && r.rule.hour|r.rule.minute|r.rule.sec != 0 {
		return nil, refuse("rrule", text, "BYHOUR, BYMINUTE and BYSECOND do not go with a DTSTART that is a date (RFC 5545, 3.3.10): give DTSTART a time")
	}
	return r, nil
}

// readStart reads DTSTART and settles the zone.
func (r *rrule) readStart(lines []ruleLine, zone *time.Location) error {
	if len(lines) > 1 {
		return refuse("rrule DTSTART", lines[1].value, "is given twice (RFC 5545, 3.8.2.4)")
	}
	r.wall.zone = zone
	if len(lines) == 1 {
		lineZone, err := lines[0].zone()
		if err != nil {
			return err
		}
		if zone != nil && lineZone != nil && zone.String() != lineZone.String() {
			return refuse("rrule DTSTART", "TZID="+lines[0].tzid, "the time zone is given as %s already", zone)
		}
		if zone == nil {
			r.wall.zone = lineZone
		}
	}
	r.wall.zone = cmp.Or(r.wall.zone, time.UTC)
	if len(lines) == 0 {
		return nil
	}
	kind, value, err := lines[0].readTime(lines[0].value)
	if err != nil {
		return err
	}
	if kind != utcTime {
		reading := value
		in := newSearch()
		value = r.wall.instant(reading, in)
		if offset, _, _ := in.segment(r.wall.zone, value); value+offset != reading {
			return refuse("rrule DTSTART", lines[0].value, "clocks in %s skip this time (RFC 5545, 3.3.5): write the time that the clock shows instead", r.wall.zone)
		}
	}
	r.anchor, r.anchored, r.allDay = anchorAt(at(value)).Unix(), true, kind == localDate
	return nil
}

// dates reads the instants of RDATE or EXDATE, ascending.
func (r *rrule) dates(lines []ruleLine) ([]int64, error) {
	var dates []int64
	for _, l := range lines {
		zone, err := l.zone()
		if err != nil {
			return nil, err
		}
		zone = cmp.Or(zone, r.wall.zone)
		for text := range strings.SplitSeq(l.value, ",") {
			kind, value, err := l.readTime(text)
			if err != nil {
				return nil, err
			}
			if kind == localDate && !r.allDay {
				return nil, refuse(l.field(), text, "a date goes with a DTSTART that is one (RFC 5545, 3.8.5): write date and time, such as %sT030405", text)
			}
			if kind != utcTime {
				value = (&wall{zone: zone}).instant(value, newSearch())
			}
			if dates = append(dates, value); len(dates) > maxDates {
				return nil, refuse(l.field(), text, "there are more than %d", maxDates)
			}
		}
	}
	slices.Sort(dates)
	return slices.Compact(dates), nil
}

// timeKind says what a time in a rule is relative to.
type timeKind int

const (
	noTime    timeKind = iota
	utcTime            // 20260102T030405Z
	localTime          // 20260102T030405
	localDate          // 20260102
)

var timeLayouts = [...]string{utcTime: "20060102T150405Z", localTime: "20060102T150405", localDate: "20060102"}

// readTime returns an instant for utcTime, else a reading.
func readTime(field, text string) (timeKind, int64, error) {
	upper := strings.ToUpper(text)
	if len(upper) >= len(timeLayouts[localTime]) && upper[13:15] == "60" {
		upper = upper[:13] + "59" + upper[15:] // clocks without leap seconds take them so (RFC 5545, 3.3.12)
	}
	for kind := utcTime; kind <= localDate; kind++ {
		if len(upper) != len(timeLayouts[kind]) {
			continue
		}
		t, err := time.Parse(timeLayouts[kind], upper)
		if err == nil && t.Year() > 0 {
			return kind, t.Unix(), nil
		}
	}
	return noTime, 0, refuse(field, text, "want a time such as 20260102T030405Z (UTC), 20260102T030405 (local) or 20260102 (RFC 5545, 3.3.4 and 3.3.5)")
}

func timeText(kind timeKind, value int64) string { return at(value).Format(timeLayouts[kind]) }

// readRule reads the parts of a rule.
func readRule(text string) (rule, error) {
	r := rule{freq: -1, interval: 1, weekStart: time.Monday}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(strings.ToUpper(text), ";") {
		name, value, _ := strings.Cut(part, "=")
		if seen[name] {
			return r, refuse("rrule "+name, value, "is given twice")
		}
		seen[name] = true
		if err := r.readPart(name, value); err != nil {
			return r, err
		}
	}
	if r.freq < 0 {
		return r, refuse("rrule FREQ", text, "is missing; want FREQ=DAILY or the like")
	}
	return r, nil
}

func (r *rule) readPart(name, value string) (err error) {
	field := "rrule " + name
	switch name {
	case "FREQ":
		return choose(field, value, frequencies, &r.freq)
	case "WKST":
		return choose(field, value, weekdays, &r.weekStart)
	case "INTERVAL":
		n, err := readNumber(field, value, 1, maxInterval)
		r.interval = int64(n)
		return err
	case "COUNT":
		r.count, err = readNumber(field, value, 1, maxCount)
	case "UNTIL":
		r.until.kind, r.until.value, err = readTime(field, value)
	case "BYMONTH":
		r.month, err = readMask(field, value, 1, 12)
	case "BYHOUR":
		r.hour, err = readMask(field, value, 0, 23)
	case "BYMINUTE":
		r.minute, err = readMask(field, value, 0, 59)
	case "BYSECOND":
		if slices.Contains(strings.Split(value, ","), "60") {
			return refuse(field, value, "60 is a leap second, which clocks here do not show (RFC 5545, 3.3.12): want numbers of 0 to 59")
		}
		r.sec, err = readMask(field, value, 0, 59)
	case "BYWEEKNO":
		r.weekNo, err = readEnds(field, value, 53)
	case "BYYEARDAY":
		r.yearDay, err = readEnds(field, value, 366)
	case "BYMONTHDAY":
		r.dayOfMonth, err = readEnds(field, value, 31)
	case "BYSETPOS":
		r.bySetPos, err = readEnds(field, value, 366)
	case "BYDAY":
		r.weekday, err = readWeekdays(field, value)
	default:
		return refuse("rrule part", name, "want FREQ, INTERVAL, COUNT, UNTIL, WKST, BYMONTH, BYWEEKNO, BYYEARDAY, BYMONTHDAY, BYDAY, BYHOUR, BYMINUTE, BYSECOND or BYSETPOS")
	}
	return err
}

func choose[T ~int](field, value string, names []string, into *T) error {
	i := slices.Index(names, value)
	if i < 0 {
		return refuse(field, value, "want one of %s", strings.Join(names, ", "))
	}
	*into = T(i)
	return nil
}

func readNumber(field, value string, low, high int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < low || n > high {
		return 0, refuse(field, value, "want a number of %d to %d", low, high)
	}
	return n, nil
}

func readMask(field, value string, low, high int) (mask uint64, err error) {
	for item := range strings.SplitSeq(value, ",") {
		n, err := readNumber(field, item, low, high)
		if err != nil {
			return 0, err
		}
		mask |= 1 << n
	}
	return mask, nil
}

// readEnds reads numbers that count from the beginning, or, if negative, from the end.
func readEnds(field, value string, high int) ([]int, error) {
	var list []int
	for item := range strings.SplitSeq(value, ",") {
		n, err := readNumber(field, item, -high, high)
		if err != nil || n == 0 {
			return nil, refuse(field, item, "want numbers of 1 to %d or -1 to -%d", high, high)
		}
		list = append(list, n)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

func readWeekdays(field, value string) ([]weekdayNum, error) {
	var list []weekdayNum
	for item := range strings.SplitSeq(value, ",") {
		count, name := item[:max(len(item)-2, 0)], item[max(len(item)-2, 0):]
		w := weekdayNum{}
		err := choose(field, name, weekdays, &w.day)
		if err == nil && count != "" {
			w.n, err = readNumber(field, count, -53, 53)
		}
		if err != nil || count != "" && w.n == 0 {
			return nil, refuse(field, item, "want days such as MO, 2MO (the second) or -1MO (the last)")
		}
		if list = append(list, w); len(list) > maxWeekdays {
			return nil, refuse(field, item, "there are more than %d", maxWeekdays)
		}
	}
	slices.SortFunc(list, func(a, b weekdayNum) int { return (a.n-b.n)*len(weekdays) + int(a.day-b.day) })
	return slices.Compact(list), nil
}

func (r *rrule) String() string {
	words := []string{"rrule"}
	if r.wall.zone != time.UTC {
		words = append(words, "TZ="+r.wall.zone.String())
	}
	if r.anchored {
		words = append(words, "DTSTART:"+timeText(utcTime, r.anchor))
	}
	words = append(words, r.rule.String())
	words = appendDates(words, "RDATE:", r.rdate)
	words = appendDates(words, "EXDATE:", r.exdate)
	return strings.Join(words, " ")
}

func appendDates(words []string, name string, dates []int64) []string {
	if len(dates) == 0 {
		return words
	}
	texts := make([]string, len(dates))
	for i, d := range dates {
		texts[i] = timeText(utcTime, d)
	}
	return append(words, name+strings.Join(texts, ","))
}

func (r *rule) String() string {
	parts := []string{"FREQ=" + frequencies[r.freq]}
	if r.interval != 1 {
		parts = append(parts, fmt.Sprintf("INTERVAL=%d", r.interval))
	}
	if r.count > 0 {
		parts = append(parts, fmt.Sprintf("COUNT=%d", r.count))
	}
	if r.until.kind != noTime {
		parts = append(parts, "UNTIL="+timeText(r.until.kind, r.until.value))
	}
	if r.weekStart != time.Monday {
		parts = append(parts, "WKST="+weekdays[r.weekStart])
	}
	parts = appendList(parts, "BYMONTH", lowBits(r.month))
	parts = appendList(parts, "BYWEEKNO", r.weekNo)
	parts = appendList(parts, "BYYEARDAY", r.yearDay)
	parts = appendList(parts, "BYMONTHDAY", r.dayOfMonth)
	parts = appendList(parts, "BYDAY", r.weekday)
	parts = appendList(parts, "BYHOUR", lowBits(r.hour))
	parts = appendList(parts, "BYMINUTE", lowBits(r.minute))
	parts = appendList(parts, "BYSECOND", lowBits(r.sec))
	parts = appendList(parts, "BYSETPOS", r.bySetPos)
	return strings.Join(parts, ";")
}

func appendList[T any](parts []string, name string, list []T) []string {
	if len(list) == 0 {
		return parts
	}
	items := make([]string, len(list))
	for i, item := range list {
		items[i] = fmt.Sprint(item)
	}
	return append(parts, name+"="+strings.Join(items, ","))
}

func (w weekdayNum) String() string {
	if w.n == 0 {
		return weekdays[w.day]
	}
	return strconv.Itoa(w.n) + weekdays[w.day]
}
