package schedule

import (
	"strconv"
	"strings"
)

var cronAliases = map[string]string{
	"@YEARLY":   "0 0 1 1 *",
	"@ANNUALLY": "0 0 1 1 *",
	"@MONTHLY":  "0 0 1 * *",
	"@WEEKLY":   "0 0 * * 0",
	"@DAILY":    "0 0 * * *",
	"@MIDNIGHT": "0 0 * * *",
	"@HOURLY":   "0 * * * *",
}

// cronField is one field: its name in errors, its numbers, and the names of its numbers from min on.
type cronField struct {
	name     string
	min, max int
	names    []string
}

var (
	minuteField  = cronField{"cron minute", 0, 59, nil}
	hourField    = cronField{"cron hour", 0, 23, nil}
	domField     = cronField{"cron day of month", 1, 31, nil}
	monthField   = cronField{"cron month", 1, 12, []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}}
	weekdayField = cronField{"cron day of week", 0, 7, []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}}
	secondField  = cronField{"cron second", 0, 59, nil}
)

// cronFields sets an expression apart, in upper case, aliases written out.
func cronFields(expr string) ([]string, error) {
	fields := strings.Fields(strings.ToUpper(expr))
	if len(fields) == 1 && strings.HasPrefix(fields[0], "@") {
		written, ok := cronAliases[fields[0]]
		if !ok {
			return nil, refuse("cron", expr, "want @hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually")
		}
		fields = strings.Fields(written)
	}
	if len(fields) != 5 && len(fields) != 6 {
		return nil, refuse("cron", expr, "want five fields, minute hour day-of-month month day-of-week, and seconds as a sixth if wanted; there are %d", len(fields))
	}
	return fields, nil
}

// read fills in what the fields allow.
func (c *cron) read(fields []string) error {
	c.wall.sec = 1
	for _, f := range []struct {
		cronField
		text string
		set  *uint64
		any  *bool
	}{
		{minuteField, fields[0], &c.wall.minute, nil},
		{hourField, fields[1], &c.wall.hour, nil},
		{domField, fields[2], &c.days.dayOfMonth, &c.days.anyDayOfMonth},
		{monthField, fields[3], &c.days.month, nil},
		{weekdayField, fields[4], &c.days.weekday, &c.days.anyWeekday},
		{secondField, fields[len(fields)-1], &c.wall.sec, nil},
	} {
		if f.name == secondField.name && len(fields) == 5 {
			break
		}
		for item := range strings.SplitSeq(f.text, ",") {
			if f.any != nil && c.days.special(f.cronField, item) {
				continue
			}
			set, err := f.item(item)
			if err != nil {
				return err
			}
			*f.set |= set
			if f.any != nil && isAny(item) {
				*f.any = true
			}
		}
	}
	c.days.weekday |= c.days.weekday >> 7 & 1 // 7 is Sunday
	return nil
}

// isAny says whether an item leaves its field open.
func isAny(item string) bool {
	base, step, stepped := strings.Cut(item, "/")
	return (base == "*" || base == "?") && (!stepped || step == "1")
}

// special reads the items that only a day field has: L, 1#2 and L5.
func (d *cronDays) special(f cronField, item string) bool {
	if f.name == domField.name {
		if item == "L" {
			d.lastOfMonth = true
		}
		return item == "L"
	}
	if day, nth, ok := strings.Cut(item, "#"); ok {
		n, err := strconv.ParseUint(nth, 10, 8)
		weekday, ok := f.number(day)
		if err != nil || n < 1 || n > 5 || !ok {
			return false
		}
		d.nth[weekday%7] |= 1 << n
		return true
	}
	if day, ok := strings.CutPrefix(item, "L"); ok {
		weekday, ok := f.number(day)
		if ok {
			d.nth[weekday%7] |= 1
		}
		return ok
	}
	return false
}

// item reads *, ?, n, n-m, and each of them with /step; n/step goes to the end of the field.
func (f cronField) item(item string) (set uint64, err error) {
	base, stepText, stepped := strings.Cut(item, "/")
	low, high, ranged := strings.Cut(base, "-")
	first, last, step := f.min, f.end(), 1
	if base == "?" && f.name != domField.name && f.name != weekdayField.name {
		return 0, refuse(f.name, item, "? stands in a day field alone; want *")
	}
	if base != "*" && base != "?" {
		var ok, okHigh bool
		if first, ok = f.number(low); !ok {
			return 0, f.refuse(item)
		}
		switch {
		case ranged:
			if last, okHigh = f.number(high); !okHigh {
				return 0, f.refuse(item)
			}
			if f.name == weekdayField.name && last == 0 && first > 0 {
				last = 7 // FRI-SUN
			}
		case !stepped:
			last = first
		}
	}
	if last < first {
		return 0, refuse(f.name, item, "the range ends before it begins; write two ranges")
	}
	if stepped {
		step, err = strconv.Atoi(stepText)
		if err != nil || step < 1 || step > f.max {
			return 0, refuse(f.name, item, "want a step of 1 to %d", f.max)
		}
	}
	for n := first; n <= last; n += step {
		set |= 1 << n
	}
	return set, nil
}

// end is where * and n/step end: Sunday's second number is for those who write it.
func (f cronField) end() int {
	if f.name == weekdayField.name {
		return 6
	}
	return f.max
}

func (f cronField) number(text string) (int, bool) {
	for i, name := range f.names {
		if text == name {
			return f.min + i, true
		}
	}
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false // Atoi would take a sign
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= f.min && n <= f.max
}

func (f cronField) refuse(item string) error {
	rule := "want numbers of %d to %d, ranges, steps and lists of them"
	switch f.name {
	case domField.name:
		rule += ", or L"
	case monthField.name:
		rule += ", or JAN to DEC"
	case weekdayField.name:
		rule += ", SUN to SAT, 1#2 or L5"
	}
	return refuse(f.name, item, rule, f.min, f.max)
}
