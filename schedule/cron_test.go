package schedule

import (
	"strconv"
	"testing"
	"time"

	robfig "github.com/robfig/cron/v3"
	"pgregory.net/rapid"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestCron(t *testing.T) {
	for _, c := range []struct{ expr, after, want string }{
		{"0 6 * * *", "2026-01-02T06:00:00Z", "2026-01-03T06:00:00Z"},
		{"0 6 * * *", "2026-01-02T05:59:59.999Z", "2026-01-02T06:00:00Z"},
		{"59 23 31 12 *", "2026-12-31T23:59:00Z", "2027-12-31T23:59:00Z"},      // end of the year
		{"0 0 1 1 *", "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z"},          // its beginning
		{"0 0 29 2 *", "2024-02-29T00:00:00Z", "2028-02-29T00:00:00Z"},         // leap day
		{"0 0 29 2 *", "2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"},         // 2100 is no leap year
		{"0 0 29 2 *", "1999-12-31T00:00:00Z", "2000-02-29T00:00:00Z"},         // 2000 is
		{"0 0 * 2 1#5", "2026-01-01T00:00:00Z", "2044-02-29T00:00:00Z"},        // a fifth Monday in February
		{"0 0 L * *", "2028-02-01T00:00:00Z", "2028-02-29T00:00:00Z"},          // last of the month
		{"0 0 L,1 * *", "2026-02-28T00:00:00Z", "2026-03-01T00:00:00Z"},        //
		{"0 0 * * L5", "2026-01-01T00:00:00Z", "2026-01-30T00:00:00Z"},         // last Friday
		{"0 0 * * MON#2", "2026-01-01T00:00:00Z", "2026-01-12T00:00:00Z"},      // second Monday
		{"0 0 * * 7", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"},          // 7 is Sunday
		{"0 0 * * FRI-SUN", "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z"},    //
		{"0 0 13 * 5", "2026-02-01T00:00:00Z", "2026-02-06T00:00:00Z"},         // either day field
		{"0 0 13 * 5", "2026-02-06T00:00:00Z", "2026-02-13T00:00:00Z"},         //
		{"0 0 */2 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},        // */2 restricts
		{"0 0 */1 * 5", "2026-01-03T00:00:00Z", "2026-01-09T00:00:00Z"},        // */1 does not
		{"0 0 ? * 5", "2026-01-03T00:00:00Z", "2026-01-09T00:00:00Z"},          // nor ?
		{"5/20 * * * *", "2026-01-01T00:05:00Z", "2026-01-01T00:25:00Z"},       //
		{"0 0-6/3,12 * * *", "2026-01-01T06:00:00Z", "2026-01-01T12:00:00Z"},   //
		{"* * * * * */20", "2026-01-01T00:00:20.5Z", "2026-01-01T00:00:40Z"},   // seconds come last
		{"0 0 * * * 30", "2026-01-01T00:00:00Z", "2026-01-01T00:00:30Z"},       //
		{"@daily", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},             //
		{"@Midnight", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},          //
		{"@hourly", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"},            //
		{"@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"},            //
		{"@monthly", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"},           //
		{"@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},            //
		{"@annually", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},          //
		{"0 12 * jan-mar tue", "2026-03-31T12:00:00Z", "2027-01-05T12:00:00Z"}, //
	} {
		s, err := Cron(c.expr)
		if err != nil {
			t.Error(err)
			continue
		}
		if slot, ok := s.Next(instant(t, c.after)); !ok || !slot.Equal(instant(t, c.want)) {
			t.Errorf("%s after %s: %v %v, want %s", c.expr, c.after, slot, ok, c.want)
		}
	}
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
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := robfig.ParseStandard(expr)
		if err != nil {
			t.Fatal(err)
		}
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
