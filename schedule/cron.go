package schedule

import (
	"strings"
	"time"
)

const everyHour = 1<<24 - 1

type cron struct {
	text string // canonical
	wall wall
	days cronDays
}

// Cron gives the times that fit an expression of five fields, minute hour day-of-month month day-of-week, an optional sixth of
// seconds, or an alias such as @daily; the package text has the details and what happens on days on which clocks change. It
// looks at the option TimeZone alone; without it, times are in UTC. The error is an *Error: the expression is malformed,
// fits no day of the calendar, or the zone has no name that another process could read.
func Cron(expr string, opts ...Option) (Schedule, error) {
	c := &cron{}
	var err error
	if c.wall.zone, err = collect(opts).location("cron time zone"); err != nil {
		return nil, err
	}
	fields, err := cronFields(expr)
	if err != nil {
		return nil, err
	}
	if err := c.read(fields); err != nil {
		return nil, err
	}
	c.wall.days = c.days.from
	cycle := &search{left: 400 * 366} // after 400 years the calendar begins anew
	if _, ok := c.wall.reading(dayNumber(2000, 1, 1)*secondsPerDay, cycle); !ok {
		return nil, refuse("cron", expr, "fits no day of the calendar")
	}
	c.text = cronText(c.wall.zone, fields)
	return c, nil
}

func (c *cron) Next(after time.Time) (time.Time, bool) {
	find := c.wall.nextOnce
	if c.wall.hour == everyHour {
		find = c.nextShown
	}
	slot, ok := find(seconds(after), unlimited())
	if !ok {
		return time.Time{}, false
	}
	return at(slot), true
}

func (c *cron) nextShown(after int64, in *search) (int64, bool) { return c.wall.nextShown(after+1, in) }

func (c *cron) String() string { return c.text }

func cronText(zone *time.Location, fields []string) string {
	words := []string{"cron"}
	if zone != time.UTC {
		words = append(words, "TZ="+zone.String())
	}
	if len(fields) == 6 && fields[5] == "0" {
		fields = fields[:5]
	}
	return strings.Join(append(words, fields...), " ")
}

// cronDays are the days that the three day fields allow.
type cronDays struct {
	month, dayOfMonth, weekday uint64
	lastOfMonth                bool
	nth                        [7]uint64 // by weekday; bit n: its nth in the month, bit 0: its last
	anyDayOfMonth, anyWeekday  bool      // the field begins with * and goes by steps of 1
}

func (c *cronDays) from(day int64, in *search) (int64, bool) {
	for day <= lastDay && in.spend() {
		year, month, dom := dateOf(day)
		if c.month>>month&1 == 0 {
			day = dayNumber(year, month+1, 1)
			continue
		}
		if c.fits(day, dom, daysIn(year, month)) {
			return day, true
		}
		day++
	}
	return 0, false
}

func (c *cronDays) fits(day int64, dom, monthLen int) bool {
	weekday := weekdayOf(day)
	nth := c.nth[weekday]
	byMonth := c.dayOfMonth>>dom&1 == 1 || c.lastOfMonth && dom == monthLen
	byWeek := c.weekday>>weekday&1 == 1 || nth>>((dom+6)/7)&1 == 1 || nth&1 == 1 && dom+7 > monthLen
	if c.anyDayOfMonth || c.anyWeekday {
		return byMonth && byWeek
	}
	return byMonth || byWeek
}

// parseCron reads what follows the word "cron". CRON_TZ= is how other schedulers write TZ=.
func parseCron(text string) (Schedule, error) {
	zone, expr, err := leadingZone("cron time zone", text, "TZ=", "CRON_TZ=")
	if err != nil {
		return nil, err
	}
	return Cron(expr, TimeZone(zone))
}

// leadingZone takes TZ=name off the front; zone is nil if there is none.
func leadingZone(field, text string, prefixes ...string) (zone *time.Location, rest string, err error) {
	text = strings.TrimSpace(text)
	word := firstWord(text)
	for _, prefix := range prefixes {
		if name, ok := strings.CutPrefix(word, prefix); ok {
			zone, err = loadZone(field, name)
			return zone, text[len(word):], err
		}
	}
	return nil, text, nil
}
