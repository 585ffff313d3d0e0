package schedule

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taktworks/takt/internal/testenv"
)

// plus-19, days on which clocks change: a skipped time runs at the first instant after the gap, a repeated one once, and
// what runs all day goes by the clock.
func TestClockChanges(t *testing.T) {
	checkSlots(t, []slotRow{
		{"Berlin, skipped 02:30", "Europe/Berlin", "2026-03-27T12:00:00Z", "cron TZ=Europe/Berlin 30 2 * * *", "2026-03-28 02:30 +0100, 2026-03-29 03:00 +0200, 2026-03-30 02:30 +0200"},
		{"Berlin, repeated 02:30", "Europe/Berlin", "2026-10-24T12:00:00Z", "cron TZ=Europe/Berlin 30 2 * * *", "2026-10-25 02:30 +0200, 2026-10-26 02:30 +0100"},
		{"Berlin, asked between the two 02:30", "Europe/Berlin", "2026-10-25T01:10:00Z", "cron TZ=Europe/Berlin 30 2 * * *", "2026-10-26 02:30 +0100"},
		{"Berlin, the ends of the gap", "Europe/Berlin", "2026-03-29T00:00:00Z", "cron TZ=Europe/Berlin 59 1,2,3 29 3 *", "2026-03-29 01:59 +0100, 2026-03-29 03:00 +0200, 2026-03-29 03:59 +0200"},
		{"Berlin, skipped times that meet run once", "Europe/Berlin", "2026-03-29T00:00:00Z", "cron TZ=Europe/Berlin */20 2,3 29 3 *", "2026-03-29 03:00 +0200, 2026-03-29 03:20 +0200, 2026-03-29 03:40 +0200"},
		{"Berlin, every hour in spring", "Europe/Berlin", "2026-03-29T00:00:00Z", "cron TZ=Europe/Berlin 30 * * * *", "2026-03-29 01:30 +0100, 2026-03-29 03:30 +0200, 2026-03-29 04:30 +0200"},
		{"Berlin, every hour in autumn", "Europe/Berlin", "2026-10-25T00:00:00Z", "cron TZ=Europe/Berlin 30 0-23 * * *", "2026-10-25 02:30 +0200, 2026-10-25 02:30 +0100, 2026-10-25 03:30 +0100"},
		{"Berlin, every second hour", "Europe/Berlin", "2026-10-24T23:30:00Z", "cron TZ=Europe/Berlin 0 */2 * * *", "2026-10-25 02:00 +0200, 2026-10-25 04:00 +0100"},
		{"Berlin, every 20 minutes", "Europe/Berlin", "2026-10-25T00:30:00Z", "cron TZ=Europe/Berlin */20 * * * *", "2026-10-25 02:40 +0200, 2026-10-25 02:00 +0100, 2026-10-25 02:20 +0100"},
		{"New York, skipped 02:30", "America/New_York", "2026-03-08T00:00:00Z", "cron TZ=America/New_York 30 2 * * *", "2026-03-08 03:00 -0400, 2026-03-09 02:30 -0400"},
		{"New York, repeated 01:30", "America/New_York", "2026-10-31T12:00:00Z", "cron TZ=America/New_York 30 1 * * *", "2026-11-01 01:30 -0400, 2026-11-02 01:30 -0500"},
		{"Lord Howe, skipped 02:15, half an hour", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "cron TZ=Australia/Lord_Howe 15 2 * * *", "2026-10-04 02:30 +1100, 2026-10-05 02:15 +1100"},
		{"Lord Howe, 02:45 is not skipped", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "cron TZ=Australia/Lord_Howe 45 2 * * *", "2026-10-04 02:45 +1100, 2026-10-05 02:45 +1100"},
		{"Lord Howe, repeated 01:45", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", "cron TZ=Australia/Lord_Howe 45 1 * * *", "2026-04-05 01:45 +1100, 2026-04-06 01:45 +1030"},
		{"Lord Howe, hourly", "Australia/Lord_Howe", "2026-04-04T14:00:00Z", "cron TZ=Australia/Lord_Howe 45 * * * *", "2026-04-05 01:45 +1100, 2026-04-05 01:45 +1030, 2026-04-05 02:45 +1030"},
		{"St John's, skipped 02:30", "America/St_Johns", "2026-03-08T00:00:00Z", "cron TZ=America/St_Johns 30 2 * * *", "2026-03-08 03:00 -0230, 2026-03-09 02:30 -0230"},
		{"St John's, 2006, changed one minute past midnight", "America/St_Johns", "2006-10-28T12:00:00Z", "cron TZ=America/St_Johns 0 0 * * *", "2006-10-29 00:00 -0230, 2006-10-30 00:00 -0330"},
		{"São Paulo, skipped midnight", "America/Sao_Paulo", "2018-11-03T12:00:00Z", "cron TZ=America/Sao_Paulo @daily", "2018-11-04 01:00 -0200, 2018-11-05 00:00 -0200"},
		{"Apia, a whole day skipped", "Pacific/Apia", "2011-12-29T12:00:00Z", "cron TZ=Pacific/Apia 0 6 * * *", "2011-12-29 06:00 -1000, 2011-12-31 00:00 +1400, 2011-12-31 06:00 +1400"},
		{"a daily rule goes by the same words", "Europe/Berlin", "2026-03-28T12:00:00Z", "rrule DTSTART;TZID=Europe/Berlin:20260101T023000 RRULE:FREQ=DAILY", "2026-03-29 03:00 +0200, 2026-03-30 02:30 +0200"},
		{"a weekly rule keeps its local time", "America/New_York", "2026-03-06T00:00:00Z", "rrule DTSTART;TZID=America/New_York:20260302T090000 FREQ=WEEKLY;INTERVAL=2", "2026-03-16 09:00 -0400, 2026-03-30 09:00 -0400"},
		{"a repeated time in a rule runs once", "America/New_York", "2026-10-31T12:00:00Z", "rrule TZ=America/New_York FREQ=DAILY;BYHOUR=1;BYMINUTE=0,30;BYSECOND=0", "2026-11-01 01:00 -0400, 2026-11-01 01:30 -0400, 2026-11-02 01:00 -0500"},
		{"hourly rules count real hours", "Europe/Berlin", "2026-03-28T22:00:00Z", "rrule DTSTART;TZID=Europe/Berlin:20260328T000000 FREQ=HOURLY;INTERVAL=6", "2026-03-29 00:00 +0100, 2026-03-29 07:00 +0200, 2026-03-29 13:00 +0200"},
		{"hourly rules run in both of the hours", "Europe/Berlin", "2026-10-25T00:00:00Z", "rrule TZ=Europe/Berlin DTSTART:20260101T001500Z FREQ=HOURLY", "2026-10-25 02:15 +0200, 2026-10-25 02:15 +0100, 2026-10-25 03:15 +0100"},
		{"minutes of hourly rules are those of the clock", "Australia/Lord_Howe", "2026-10-03T15:00:00Z", "rrule DTSTART;TZID=Australia/Lord_Howe:20261003T001500 FREQ=HOURLY", "2026-10-04 03:15 +1100, 2026-10-04 04:15 +1100"},
		{"end of a leap year that the zone data do not list", "Europe/Berlin", "2040-12-30T12:00:00Z", "cron TZ=Europe/Berlin 30 2 * * *", "2040-12-31 02:30 +0100, 2041-01-01 02:30 +0100"},
		{"the same by the clock", "America/New_York", "2040-12-31T22:10:00Z", "cron TZ=America/New_York 0 * * * *", "2040-12-31 18:00 -0500, 2040-12-31 19:00 -0500, 2040-12-31 20:00 -0500"},
		{"clock changes that the zone data do not list", "Australia/Lord_Howe", "2104-10-04T00:00:00Z", "cron TZ=Australia/Lord_Howe 15 2 * * *", "2104-10-05 02:30 +1100, 2104-10-06 02:15 +1100"},
		{"every 24 h of real time", "Europe/Berlin", "2026-03-28T12:00:00Z", "every 24h from 2026-01-01T01:30:00Z", "2026-03-29 03:30 +0200, 2026-03-30 03:30 +0200"},
	})
}

// On the days around every kind of clock change, the slots are those that a walk over all minutes gives.
func TestClockChangesByMinutes(t *testing.T) {
	changes := []string{ // noon UTC of a day on which one zone changes
		"2026-03-29T12:00:00Z", "2026-10-25T12:00:00Z", "2026-03-08T12:00:00Z", "2026-11-01T12:00:00Z", "2026-04-04T12:00:00Z",
		"2026-10-03T12:00:00Z", "2006-10-29T12:00:00Z", "2018-11-04T12:00:00Z", "2011-12-30T12:00:00Z", "2026-02-15T12:00:00Z",
		"2040-12-31T12:00:00Z", "2096-03-25T12:00:00Z", "2096-10-28T12:00:00Z", // not listed in the zone data
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(zoneNames).Draw(t, "zone")
		loc, err := time.LoadLocation(name)
		testenv.Must(t, err)
		noon, _ := time.Parse(time.RFC3339, rapid.SampledFrom(changes).Draw(t, "day"))
		from := noon.Add(-36 * time.Hour)
		to := noon.Add(36 * time.Hour)
		fields := []string{drawItem(t, 0, 59), drawItem(t, 0, 23), "*", "*", drawItem(t, 0, 6)}
		s, err := Cron(strings.Join(fields, " "), TimeZone(loc))
		testenv.Must(t, err)
		want := byMinutes(s.(*cron), loc, from, to)
		var got []time.Time
		for at := from; ; {
			slot, ok := s.Next(at)
			if !ok || slot.After(to) {
				break
			}
			got = append(got, slot)
			at = slot
		}
		if !equal(got, want) {
			t.Fatalf("%v:\n%s\nwant\n%s", s, show(got, loc), show(want, loc))
		}
	})
}

// byMinutes walks all minutes, from one day before: a reading has its first instant where the clock first shows it or a later one.
func byMinutes(c *cron, loc *time.Location, from, to time.Time) []time.Time {
	fits := func(reading time.Time) bool {
		return c.wall.minute>>reading.Minute()&1 == 1 && c.wall.hour>>reading.Hour()&1 == 1 && c.days.weekday>>reading.Weekday()&1 == 1
	}
	readingAt := func(t time.Time) time.Time {
		_, offset := t.In(loc).Zone()
		return t.Add(time.Duration(offset) * time.Second)
	}
	var slots []time.Time
	start := from.Add(-24 * time.Hour)
	shown := readingAt(start)
	for t := start; !t.After(to); t = t.Add(time.Minute) {
		reading := readingAt(t)
		slot := c.wall.hour == everyHour && fits(reading)
		for ; c.wall.hour != everyHour && !shown.After(reading); shown = shown.Add(time.Minute) {
			slot = slot || fits(shown)
		}
		if slot && t.After(from) {
			slots = append(slots, t)
		}
	}
	return slices.Clip(slots)
}
