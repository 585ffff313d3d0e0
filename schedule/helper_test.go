package schedule

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taktworks/takt/internal/testenv"
)

func mustParse(t testing.TB, text string) Schedule {
	t.Helper()
	s, err := Parse(text)
	testenv.Must(t, err)
	return s
}

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	testenv.Must(t, err)
	return at
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	testenv.Must(t, err)
	return loc
}

// take returns up to n slots after a time.
func take(s Schedule, after time.Time, n int) []time.Time {
	var slots []time.Time
	for len(slots) < n {
		slot, ok := s.Next(after)
		if !ok {
			break
		}
		slots = append(slots, slot)
		after = slot
	}
	return slots
}

// show writes slots in a zone, one per line.
func show(slots []time.Time, loc *time.Location) string {
	var lines []string
	for _, s := range slots {
		lines = append(lines, s.In(loc).Format("Mon 2006-01-02 15:04:05 -0700"))
	}
	return strings.Join(lines, "\n")
}

// slotRow says which slots of a schedule follow a time, "" = the beginning: "2026-03-28 02:30 +0100, …" in a zone, "" = UTC, without the
// offset; with seconds where there are some. "end" is for none left. A text that is refused has what the error says.
type slotRow struct{ name, zone, after, text, want string }

func checkSlots(t *testing.T, rows []slotRow) {
	t.Helper()
	for _, row := range rows {
		s, err := Parse(row.text)
		if err != nil {
			if !strings.Contains(err.Error(), row.want) {
				t.Errorf("%s: %v, want %s", row.name, err, row.want)
			}
			continue
		}
		loc, layout, after := time.UTC, "2006-01-02 15:04", time.Time{}
		if row.zone != "" {
			loc, layout = zone(t, row.zone), layout+" -0700"
		}
		if row.after != "" {
			after = instant(t, row.after)
		}
		n := strings.Count(row.want, ",") + 1
		var got []string
		for _, slot := range take(s, after, n) {
			text := slot.In(loc).Format(layout)
			if slot.Truncate(time.Minute) != slot {
				text = slot.In(loc).Format(strings.Replace(layout, "15:04", "15:04:05.999999999", 1))
			}
			got = append(got, text)
		}
		if len(got) < n {
			got = append(got, "end")
		}
		if strings.Join(got, ", ") != row.want {
			t.Errorf("%s: %s\nhas  %s\nwant %s", row.name, row.text, strings.Join(got, ", "), row.want)
		}
	}
}

func equal(a, b []time.Time) bool {
	return slices.EqualFunc(a, b, time.Time.Equal)
}

var zoneNames = []string{
	"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns",
	"America/Sao_Paulo", "Pacific/Apia", "Africa/Casablanca", "Asia/Kathmandu",
}

func drawTime(t *rapid.T, label string) time.Time {
	return time.Unix(rapid.Int64Range(0, 4102444800).Draw(t, label), 0).UTC() // up to 2100
}

func drawItem(t *rapid.T, low, high int) string {
	n := rapid.IntRange(low, high).Draw(t, "n")
	switch rapid.IntRange(0, 4).Draw(t, "item") {
	case 0, 1:
		return "*"
	case 2:
		return "*/" + itoa(rapid.IntRange(1, high/2+1).Draw(t, "step"))
	case 3:
		return itoa(n) + "-" + itoa(rapid.IntRange(n, high).Draw(t, "to"))
	}
	return itoa(n) + "," + itoa(rapid.IntRange(low, high).Draw(t, "m"))
}

// drawCron draws the five fields of an expression that fits some day.
func drawCron(t *rapid.T) string {
	fields := []string{drawItem(t, 0, 59), drawItem(t, 0, 23), drawItem(t, 1, 28), drawItem(t, 1, 12), drawItem(t, 0, 6)}
	return strings.Join(fields, " ")
}

// drawRule draws a rule without COUNT and UNTIL; it may fit no time.
func drawRule(t *rapid.T) string {
	freq := rapid.IntRange(int(yearly), int(secondly)).Draw(t, "freq")
	parts := []string{"FREQ=" + frequencies[freq]}
	part := func(name string, low, high int) {
		if rapid.IntRange(0, 3).Draw(t, name) == 0 {
			list := rapid.SliceOfNDistinct(rapid.IntRange(low, high), 1, 3, rapid.ID).Draw(t, name)
			list = slices.DeleteFunc(list, func(n int) bool { return n == 0 && low < 0 })
			if len(list) > 0 {
				parts = appendList(parts, name, list)
			}
		}
	}
	parts = append(parts, "INTERVAL="+itoa(rapid.IntRange(1, 6).Draw(t, "interval")))
	part("BYMONTH", 1, 12)
	if frequency(freq) != weekly {
		part("BYMONTHDAY", -31, 31)
	}
	if frequency(freq) == yearly {
		part("BYYEARDAY", -366, 366)
	}
	if rapid.IntRange(0, 3).Draw(t, "byday") == 0 {
		days := rapid.SliceOfNDistinct(rapid.SampledFrom(weekdays), 1, 3, rapid.ID).Draw(t, "days")
		if frequency(freq) <= monthly && rapid.Bool().Draw(t, "nth") {
			for i := range days {
				days[i] = rapid.SampledFrom([]string{"1", "-1", "2", "-2", "4"}).Draw(t, "nth") + days[i]
			}
		}
		parts = appendList(parts, "BYDAY", days)
	}
	part("BYHOUR", 0, 23)
	part("BYMINUTE", 0, 59)
	part("BYSECOND", 0, 59)
	return strings.Join(parts, ";")
}
