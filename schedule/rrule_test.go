package schedule

import (
	"testing"
	"time"

	lib "github.com/teambition/rrule-go"
	"pgregory.net/rapid"

	"github.com/taktworks/takt/internal/testenv"
)

func TestRRule(t *testing.T) {
	checkSlots(t, []slotRow{
		{"daily, five times", "", "", "rrule DTSTART;TZID=America/New_York:19970902T090000 RRULE:FREQ=DAILY;COUNT=2", "1997-09-02 13:00, 1997-09-03 13:00, end"},
		{"DTSTART that does not fit is no slot", "", "", "rrule DTSTART:20260102T090000Z FREQ=WEEKLY;BYDAY=MO;COUNT=1", "2026-01-05 09:00, end"},
		{"until a local date, its day included", "", "", "rrule DTSTART;TZID=Europe/Berlin:20260102T233000 FREQ=DAILY;UNTIL=20260103", "2026-01-02 22:30, 2026-01-03 22:30, end"},
		{"until an instant, included", "", "", "rrule DTSTART:20260102T090000Z FREQ=DAILY;UNTIL=20260103T090000Z", "2026-01-02 09:00, 2026-01-03 09:00, end"},
		{"until a local time", "", "", "rrule DTSTART;TZID=America/New_York:20260102T090000 FREQ=DAILY;UNTIL=20260103T085959", "2026-01-02 14:00, end"},
		{"leap days", "", "2024-03-01T00:00:00Z", "rrule DTSTART:20240229T120000Z FREQ=YEARLY", "2028-02-29 12:00, 2032-02-29 12:00"},
		{"months without a 31st are left out", "", "2026-01-31T12:00:00Z", "rrule DTSTART:20260131T120000Z FREQ=MONTHLY", "2026-03-31 12:00, 2026-05-31 12:00"},
		{"end of the month", "", "", "rrule DTSTART:20240101T000000Z FREQ=MONTHLY;BYMONTHDAY=-1", "2024-01-31 00:00, 2024-02-29 00:00"},
		{"last working day of the month", "", "", "rrule DTSTART:20260101T170000Z FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "2026-01-30 17:00, 2026-02-27 17:00, 2026-03-31 17:00"},
		{"every other month, first and last Sunday", "", "", "rrule DTSTART:19970907T090000Z FREQ=MONTHLY;INTERVAL=2;COUNT=4;BYDAY=1SU,-1SU", "1997-09-07 09:00, 1997-09-28 09:00, 1997-11-02 09:00, 1997-11-30 09:00, end"},
		{"20th Monday of the year", "", "", "rrule DTSTART:19970519T090000Z FREQ=YEARLY;BYDAY=20MO", "1997-05-19 09:00, 1998-05-18 09:00, 1999-05-17 09:00"},
		{"Monday of week 20", "", "", "rrule DTSTART:19970512T090000Z FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "1997-05-12 09:00, 1998-05-11 09:00, 1999-05-17 09:00"},
		{"a week without a weekday has that of the anchor", "", "", "rrule DTSTART:19970512T090000Z FREQ=YEARLY;BYWEEKNO=20", "1997-05-12 09:00, 1998-05-11 09:00"},
		{"days of week 1 in the year before", "", "", "rrule DTSTART:20240601T000000Z FREQ=YEARLY;BYWEEKNO=1;BYDAY=MO", "2024-12-30 00:00, 2025-12-29 00:00, 2027-01-04 00:00"},
		{"week 53, days in the year after", "", "", "rrule DTSTART:20200101T000000Z FREQ=YEARLY;BYWEEKNO=53;BYDAY=TH,FR", "2020-12-31 00:00, 2021-01-01 00:00, 2026-12-31 00:00"},
		{"days 1, 100 and 200 of every third year", "", "", "rrule DTSTART:19970101T090000Z FREQ=YEARLY;INTERVAL=3;COUNT=4;BYYEARDAY=1,100,200", "1997-01-01 09:00, 1997-04-10 09:00, 1997-07-19 09:00, 2000-01-01 09:00, end"},
		{"Friday the 13th", "", "", "rrule DTSTART:19970902T090000Z FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", "1998-02-13 09:00, 1998-03-13 09:00, 1998-11-13 09:00"},
		{"election day", "", "", "rrule DTSTART:19961105T090000Z FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8", "1996-11-05 09:00, 2000-11-07 09:00, 2004-11-02 09:00"},
		{"WKST=MO", "", "", "rrule DTSTART:19970805T090000Z FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO", "1997-08-05 09:00, 1997-08-10 09:00, 1997-08-19 09:00, 1997-08-24 09:00, end"},
		{"WKST=SU", "", "", "rrule DTSTART:19970805T090000Z FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU", "1997-08-05 09:00, 1997-08-17 09:00, 1997-08-19 09:00, 1997-08-31 09:00, end"},
		{"every 90 minutes over midnight", "", "", "rrule DTSTART:20261231T223000Z FREQ=MINUTELY;INTERVAL=90", "2026-12-31 22:30, 2027-01-01 00:00, 2027-01-01 01:30"},
		{"every 3 hours in working hours", "", "", "rrule DTSTART:20260102T090000Z FREQ=HOURLY;INTERVAL=3;BYHOUR=9,10,11,12,13,14,15,16;BYDAY=FR", "2026-01-02 09:00, 2026-01-02 12:00, 2026-01-02 15:00, 2026-01-09 09:00"},
		{"last slot of each hour", "", "", "rrule DTSTART:20260102T090000Z FREQ=HOURLY;INTERVAL=2;BYMINUTE=5,50,20;BYSETPOS=-1", "2026-01-02 09:50, 2026-01-02 11:50"},
		{"third slot of the week", "", "", "rrule DTSTART:20260101T000000Z FREQ=WEEKLY;BYDAY=MO,FR;BYHOUR=8,20;BYSETPOS=3", "2026-01-02 08:00, 2026-01-09 08:00"},
		{"RDATE and EXDATE", "", "", "rrule DTSTART;TZID=Europe/Berlin:20260102T090000 FREQ=DAILY;COUNT=3 EXDATE;TZID=Europe/Berlin:20260103T090000 RDATE:20260102T120000Z,20260110T000000Z", "2026-01-02 08:00, 2026-01-02 12:00, 2026-01-04 08:00, 2026-01-10 00:00, end"},
		{"EXDATE takes an RDATE, too", "", "", "rrule DTSTART:20260102T090000Z FREQ=DAILY;COUNT=1 RDATE:20260103T000000 EXDATE:20260103T000000Z", "2026-01-02 09:00, end"},
		{"lines as in a calendar", "", "", "rrule TZ=Europe/Berlin DTSTART;VALUE=DATE:20260102\r\nRRULE:FREQ=DAILY;COUNT=1\r\n", "2026-01-01 23:00, end"},
		{"lower case", "", "", "rrule freq=daily;count=1;byhour=6", "1970-01-01 06:00, end"},
		{"an interval beyond the calendar", "", "", "rrule DTSTART:20260102T000000Z FREQ=YEARLY;INTERVAL=99999999", "2026-01-02 00:00, end"},
		{"an hour that the anchor never meets", "", "", "rrule DTSTART:20260102T050000Z FREQ=HOURLY;INTERVAL=24;BYHOUR=6", "end"},
	})
}

func TestWithAnchor(t *testing.T) {
	at := instant(t, "2026-03-02T08:30:15.7Z")
	for _, c := range []struct{ text, want string }{
		{"every 5m", "every 5m from 2026-03-02T08:30:15.7Z"},
		{"every 5m from 2020-01-01T00:00:00Z", "every 5m from 2020-01-01T00:00:00Z"},
		{"cron 0 6 * * *", "cron 0 6 * * *"},
		{"rrule FREQ=DAILY", "rrule DTSTART:20260302T083015Z FREQ=DAILY"},
		{"rrule TZ=Europe/Berlin FREQ=DAILY", "rrule TZ=Europe/Berlin DTSTART:20260302T083015Z FREQ=DAILY"},
		{"rrule DTSTART:20200101T000000Z FREQ=DAILY", "rrule DTSTART:20200101T000000Z FREQ=DAILY"},
	} {
		s := mustParse(t, c.text)
		if got := WithAnchor(s, at).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
		if got := WithAnchor(s, time.Time{}).String(); got != s.String() {
			t.Errorf("%s with no anchor became %s", c.text, got)
		}
		for _, far := range []time.Time{time.Unix(1<<55, 0), time.Unix(-1<<55, 0)} {
			moved := WithAnchor(s, far)
			if again := mustParse(t, moved.String()); again.String() != moved.String() {
				t.Errorf("%s, far anchor: %s, then %s", c.text, moved, again)
			}
		}
	}
}

func TestRRuleOptions(t *testing.T) {
	berlin := TimeZone(zone(t, "Europe/Berlin"))
	if _, err := RRule("TZ=Europe/Paris FREQ=DAILY", berlin); err == nil {
		t.Error("two zones were taken")
	}
	if _, err := RRule("FREQ=DAILY", TimeZone(time.FixedZone("Home", 60))); err == nil {
		t.Error("a zone that nobody else can read was taken")
	}
	s, err := RRule("FREQ=DAILY", berlin, Anchor(instant(t, "2026-01-02T03:04:05.9Z")))
	if want := "rrule TZ=Europe/Berlin DTSTART:20260102T030405Z FREQ=DAILY"; err != nil || s.String() != want {
		t.Errorf("options: %v %v, want %s", s, err, want)
	}
}

// A rule whose slots are rare or none answers in bounded time. Each of these keeps a search that goes from slot to slot busy for minutes.
func TestRareRulesAreBounded(t *testing.T) {
	for _, text := range []string{
		"DTSTART:20260101T000000Z FREQ=SECONDLY;INTERVAL=2;BYSECOND=1",
		"DTSTART:20260101T000000Z FREQ=SECONDLY;INTERVAL=86400;BYHOUR=1",
		"DTSTART:20260101T000000Z FREQ=SECONDLY;INTERVAL=60;BYSECOND=1;COUNT=10000",
		"DTSTART:20260101T000000Z FREQ=MINUTELY;INTERVAL=1440;BYHOUR=5;BYMONTH=2",
		"DTSTART:20260102T000000Z FREQ=DAILY;INTERVAL=7;BYDAY=MO",
		"DTSTART:20250101T000000Z FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29",
		"TZ=Europe/Berlin DTSTART:20260101T000000Z FREQ=SECONDLY;INTERVAL=7200;BYHOUR=2;BYMINUTE=1;BYSETPOS=1",
		"TZ=Europe/Berlin DTSTART:20260101T000000Z FREQ=SECONDLY;INTERVAL=7200;BYHOUR=2;BYMINUTE=1;COUNT=10000",
	} {
		start := processor(t)
		s, err := RRule(text)
		testenv.Must(t, err)
		if slot, ok := s.Next(time.Time{}); ok {
			t.Errorf("%s: %v", text, slot)
		}
		if took := processor(t) - start; took > 5*time.Second {
			t.Errorf("%s took %v of the processor", text, took)
		}
	}
}

// However old the anchor is, a slot of today is found at once: the search begins at today.
func TestOldAnchorsAreCheap(t *testing.T) {
	for _, text := range []string{
		"DTSTART:19000101T000000Z FREQ=SECONDLY;INTERVAL=7",
		"DTSTART:19000101T000000Z FREQ=MINUTELY;BYHOUR=3",
		"DTSTART:19000101T000000Z FREQ=DAILY;INTERVAL=3",
		"DTSTART:19000101T000000Z FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=-1",
	} {
		s, err := RRule(text)
		testenv.Must(t, err)
		if slot, ok := s.(*rrule).nextOfRule(instant(t, "2026-06-01T12:00:00Z").Unix(), &search{left: 1000}); !ok {
			t.Errorf("%s: none in a thousand steps, %v", text, slot)
		}
	}
}

// In UTC another implementation gives the same slots, where it and RFC 5545 agree.
func TestRRuleAgreesInUTC(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawRule(t)
		anchor := drawTime(t, "anchor")
		ours, err := RRule(text, Anchor(anchor))
		if err != nil {
			return // fits no time
		}
		option, err := lib.StrToROption(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		option.Dtstart, option.Until = anchor, anchor.AddDate(4, 0, 0) // it would look for the year 9999
		option.Count = 30
		if neverMeets(ours, anchor) {
			return // nor would it end
		}
		theirs, err := lib.NewRRule(*option)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		want := theirs.All()
		got := take(ours, anchor.Add(-time.Second), len(want))
		if !equal(got, want) {
			t.Fatalf("%s:\n%s\nwant\n%s", ours, show(got, time.UTC), show(want, time.UTC))
		}
	})
}

// neverMeets says whether the times of an hourly or shorter rule may miss its periods for ever, which the other implementation
// does not notice.
func neverMeets(s Schedule, anchor time.Time) bool {
	r := s.(*rrule)
	slot, ok := s.Next(anchor.Add(-time.Second))
	return r.step > 0 && (!ok || slot.After(anchor.AddDate(4, 0, 0)))
}

// BYSETPOS takes from the slots of the same rule without it, period by period.
func TestBySetPos(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		freq := rapid.SampledFrom([]frequency{yearly, monthly, weekly, daily, hourly}).Draw(t, "freq")
		base := "FREQ=" + frequencies[freq] + rapid.SampledFrom([]string{";BYDAY=MO,WE,FR", ";BYMONTH=1,3,4"}).Draw(t, "by") + ";BYMINUTE=5,40;BYSECOND=7"
		pos := rapid.SampledFrom([]int{1, 2, -1, -2}).Draw(t, "pos")
		anchor := time.Date(rapid.IntRange(2000, 2040).Draw(t, "year"), 1, 1, 0, 0, 0, 0, time.UTC) // begins a year, month, day and hour
		all, err := RRule(base, Anchor(anchor))
		testenv.Must(t, err)
		some, err := RRule(base+";BYSETPOS="+itoa(pos), Anchor(anchor))
		testenv.Must(t, err)
		weekOne := anchor.AddDate(0, 0, -int(anchor.Weekday()+6)%7)
		period := func(s time.Time) int64 {
			return [...]int64{
				yearly: int64(s.Year()), monthly: int64(s.Year()*12 + int(s.Month())), weekly: int64(s.Sub(weekOne) / (7 * 24 * time.Hour)),
				daily: s.Unix() / 86400, hourly: s.Unix() / 3600,
			}[freq]
		}
		var want, set []time.Time
		for _, slot := range take(all, anchor.AddDate(0, 0, 8), 2000) {
			if len(set) > 0 && period(set[0]) != period(slot) {
				for _, i := range (&rule{bySetPos: []int{pos}}).positions(len(set)) {
					want = append(want, set[i])
				}
				set = nil
			}
			set = append(set, slot)
		}
		if len(want) < 3 {
			return // sets too large to see some
		}
		want = want[1:] // the first set may have begun before
		if got := take(some, want[0].Add(-time.Second), len(want)); !equal(got, want) {
			t.Fatalf("%s from %v:\n%s\nwant\n%s", some, anchor, show(got, time.UTC), show(want, time.UTC))
		}
	})
}
