package schedule

import (
	"strconv"
	"testing"
	"time"

	robfig "github.com/robfig/cron/v3"
	"pgregory.net/rapid"

	"github.com/taktworks/takt/internal/testenv"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestCron(t *testing.T) {
	checkSlots(t, []slotRow{
		{"0 6 * * *", "", "2026-01-02T06:00:00Z", "cron 0 6 * * *", "2026-01-03 06:00"},
		{"0 6 * * *", "", "2026-01-02T05:59:59.999Z", "cron 0 6 * * *", "2026-01-02 06:00"},
		{"end of the year", "", "2026-12-31T23:59:00Z", "cron 59 23 31 12 *", "2027-12-31 23:59"},
		{"its beginning", "", "2026-12-31T23:59:59Z", "cron 0 0 1 1 *", "2027-01-01 00:00"},
		{"leap day", "", "2024-02-29T00:00:00Z", "cron 0 0 29 2 *", "2028-02-29 00:00"},
		{"2100 is no leap year", "", "2096-02-29T00:00:00Z", "cron 0 0 29 2 *", "2104-02-29 00:00"},
		{"2000 is", "", "1999-12-31T00:00:00Z", "cron 0 0 29 2 *", "2000-02-29 00:00"},
		{"a fifth Monday in February", "", "2026-01-01T00:00:00Z", "cron 0 0 * 2 1#5", "2044-02-29 00:00"},
		{"last of the month", "", "2028-02-01T00:00:00Z", "cron 0 0 L * *", "2028-02-29 00:00"},
		{"0 0 L,1 * *", "", "2026-02-28T00:00:00Z", "cron 0 0 L,1 * *", "2026-03-01 00:00"},
		{"last Friday", "", "2026-01-01T00:00:00Z", "cron 0 0 * * L5", "2026-01-30 00:00"},
		{"second Monday", "", "2026-01-01T00:00:00Z", "cron 0 0 * * MON#2", "2026-01-12 00:00"},
		{"7 is Sunday", "", "2026-01-01T00:00:00Z", "cron 0 0 * * 7", "2026-01-04 00:00"},
		{"0 0 * * FRI-SUN", "", "2026-01-03T00:00:00Z", "cron 0 0 * * FRI-SUN", "2026-01-04 00:00"},
		{"either day field", "", "2026-02-01T00:00:00Z", "cron 0 0 13 * 5", "2026-02-06 00:00"},
		{"0 0 13 * 5", "", "2026-02-06T00:00:00Z", "cron 0 0 13 * 5", "2026-02-13 00:00"},
		{"*/2 restricts", "", "2026-01-01T00:00:00Z", "cron 0 0 */2 * 5", "2026-01-02 00:00"},
		{"*/1 does not", "", "2026-01-03T00:00:00Z", "cron 0 0 */1 * 5", "2026-01-09 00:00"},
		{"nor ?", "", "2026-01-03T00:00:00Z", "cron 0 0 ? * 5", "2026-01-09 00:00"},
		{"5/20 * * * *", "", "2026-01-01T00:05:00Z", "cron 5/20 * * * *", "2026-01-01 00:25"},
		{"0 0-6/3,12 * * *", "", "2026-01-01T06:00:00Z", "cron 0 0-6/3,12 * * *", "2026-01-01 12:00"},
		{"seconds come last", "", "2026-01-01T00:00:20.5Z", "cron * * * * * */20", "2026-01-01 00:00:40"},
		{"0 0 * * * 30", "", "2026-01-01T00:00:00Z", "cron 0 0 * * * 30", "2026-01-01 00:00:30"},
		{"@daily", "", "2026-01-01T00:00:00Z", "cron @daily", "2026-01-02 00:00"},
		{"@Midnight", "", "2026-01-01T00:00:00Z", "cron @Midnight", "2026-01-02 00:00"},
		{"@hourly", "", "2026-01-01T00:00:00Z", "cron @hourly", "2026-01-01 01:00"},
		{"@weekly", "", "2026-01-01T00:00:00Z", "cron @weekly", "2026-01-04 00:00"},
		{"@monthly", "", "2026-01-01T00:00:00Z", "cron @monthly", "2026-02-01 00:00"},
		{"@yearly", "", "2026-01-01T00:00:00Z", "cron @yearly", "2027-01-01 00:00"},
		{"@annually", "", "2026-01-01T00:00:00Z", "cron @annually", "2027-01-01 00:00"},
		{"0 12 * jan-mar tue", "", "2026-03-31T12:00:00Z", "cron 0 12 * jan-mar tue", "2027-01-05 12:00"},
	})
}

// A zone that has no name in the time zone database, or another meaning there, is refused.
func TestCronRefusesZonesS4(t *testing.T) {
	for _, loc := range []*time.Location{time.Local, time.FixedZone("Home", 3600), time.FixedZone("CET", 3600)} {
		if s, err := Cron("0 6 * * *", TimeZone(loc)); err == nil {
			t.Errorf("%v: a zone that another process would read otherwise was taken", s)
		}
	}
}

// In UTC, where its faults do not show, another implementation gives the same slots.
func TestCronAgreesInUTC(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		expr, now := drawCron(t), drawTime(t, "now")
		ours, err := Cron(expr)
		testenv.Must(t, err)
		theirs, err := robfig.ParseStandard(expr)
		testenv.Must(t, err)
		for range 20 {
			slot, ok := ours.Next(now)
			want := theirs.Next(now)
			if want.IsZero() {
				return // it looks five years ahead only
			}
			if !ok || !slot.Equal(want) {
				t.Fatalf("%s after %v: %v %v, want %v", expr, now, slot, ok, want)
			}
			now = slot
		}
	})
}
