package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, canonical string }{
		{"every 5m", "every 5m"},
		{" every\t300s ", "every 5m"},
		{"every 1h0m0s", "every 1h"},
		{"every 1h0m5s", "every 1h0m5s"},
		{"every 90m", "every 1h30m"},
		{"every 10s", "every 10s"},
		{"every 1h from 2026-01-02T03:04:05.25+01:00", "every 1h from 2026-01-02T02:04:05.25Z"},
		{"every 1h from 0001-01-01T00:00:00Z", "every 1h from 1900-01-01T00:00:00Z"},
		{"cron 0 6 * * *", "cron 0 6 * * *"},
		{"cron  0 6 * *   mon-fri 0", "cron 0 6 * * MON-FRI"},
		{"cron TZ=Europe/Berlin 0 6 * * * 30", "cron TZ=Europe/Berlin 0 6 * * * 30"},
		{"cron TZ=UTC @daily", "cron 0 0 * * *"},
		{"cron CRON_TZ=Europe/Berlin 0 6 * * *", "cron TZ=Europe/Berlin 0 6 * * *"},
		{"rrule FREQ=WEEKLY;INTERVAL=2", "rrule FREQ=WEEKLY;INTERVAL=2"},
		{"rrule RRULE:interval=1;byday=fr,MO,+1MO,MO;freq=monthly;WKST=MO", "rrule FREQ=MONTHLY;BYDAY=MO,FR,1MO"},
		{"rrule DTSTART;TZID=America/New_York:20260102T030405 RRULE:FREQ=YEARLY;BYMONTH=3,1;BYSETPOS=-1,1;UNTIL=20270101",
			"rrule TZ=America/New_York DTSTART:20260102T080405Z FREQ=YEARLY;UNTIL=20270101;BYMONTH=1,3;BYSETPOS=-1,1"},
		{"rrule TZ=Europe/Berlin FREQ=DAILY;COUNT=5;WKST=SU;BYHOUR=6;BYMINUTE=0;BYSECOND=0 EXDATE:20260703T060000,20260702T040000Z RDATE:20260101T000000Z",
			"rrule TZ=Europe/Berlin FREQ=DAILY;COUNT=5;WKST=SU;BYHOUR=6;BYMINUTE=0;BYSECOND=0 RDATE:20260101T000000Z EXDATE:20260702T040000Z,20260703T040000Z"},
		{"rrule FREQ=YEARLY;BYWEEKNO=-1,20;BYDAY=SU;UNTIL=20270101T000000", "rrule FREQ=YEARLY;UNTIL=20270101T000000;BYWEEKNO=-1,20;BYDAY=SU"},
		{"rrule FREQ=YEARLY;BYYEARDAY=-1;BYMONTHDAY=31", "rrule FREQ=YEARLY;BYYEARDAY=-1;BYMONTHDAY=31"},
	} {
		s := mustParse(t, c.text)
		if s.String() != c.canonical {
			t.Errorf("%s\nis %s\nwant %s", c.text, s, c.canonical)
		}
		if again := mustParse(t, s.String()); again.String() != s.String() {
			t.Errorf("%s became %s", s, again)
		}
	}
}

// A bad text is an error that says which part, what stood there and what should; nothing panics later.
func TestParseRefusesS4(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", `schedule: text "": is empty; want every, cron or rrule and what belongs to it`},
		{"*/5 * * * *", `schedule: kind "*/5": want every, cron or rrule, as in "every 5m" or "cron 0 6 * * MON-FRI"`},
		{"every", `schedule: every "": want a duration such as 90s or 1h30m, then nothing, or from and a time such as 2026-01-02T03:04:05Z`},
		{"every 0s", `schedule: every duration "0s": want a duration of at least 1ms, such as 90s or 1h30m`},
		{"every -5m", `schedule: every duration "-5m": want a duration of at least 1ms, such as 90s or 1h30m`},
		{"every day", `schedule: every duration "day": want a duration of at least 1ms, such as 90s or 1h30m`},
		{"every 5m from now", `schedule: every from "now": want an RFC 3339 time with its offset, such as 2026-01-02T03:04:05Z or 2026-01-02T04:04:05.5+01:00`},
		{"every 1h from 2026-01-02T03:04:05+24:00", `schedule: every from "2026-01-02T03:04:05+24:00": want an RFC 3339 time with its offset, such as 2026-01-02T03:04:05Z or 2026-01-02T04:04:05.5+01:00`},
		{"every 1h from 2026-01-02T3:04:05,5Z", `schedule: every from "2026-01-02T3:04:05,5Z": want an RFC 3339 time with its offset, such as 2026-01-02T03:04:05Z or 2026-01-02T04:04:05.5+01:00`},
		{"cron 61 * * * *", `schedule: cron minute "61": want numbers of 0 to 59, ranges, steps and lists of them`},
		{"cron TZ= 0 6 * * *", `schedule: cron time zone "": unknown time zone: want a name of the time zone database, such as Europe/Berlin; takt doctor shows which release this host has`},
		{"cron CRON_TZ=Local 0 6 * * *", `schedule: cron time zone "Local": unknown time zone: want a name of the time zone database, such as Europe/Berlin; takt doctor shows which release this host has`},
		{"cron TZ=Local 0 6 * * *", `schedule: cron time zone "Local": unknown time zone: want a name of the time zone database, such as Europe/Berlin; takt doctor shows which release this host has`},
		{"rrule FREQ=DAILY;BYHOUR=25", `schedule: rrule BYHOUR "25": want a number of 0 to 23`},
		{"rrule FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30", `schedule: rrule "FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30": fits no time`},
		{"cron 0 0 30 2 *", `schedule: cron "0 0 30 2 *": …`},
		{"cron 0 0 30,31 feb *", `schedule: cron "0 0 30,31 feb *": …`},
		{"cron 0 0 31 4,6,9,11 *", `schedule: cron "0 0 31 4,6,9,11 *": …`},
		{"cron ", `schedule: cron "": …`},
		{"cron * * * *", `schedule: cron "* * * *": …`},
		{"cron * * * * * * *", `schedule: cron "* * * * * * *": …`},
		{"cron @reboot", `schedule: cron "@reboot": …`},
		{"cron 60 * * * *", `schedule: cron minute "60": …`},
		{"cron -1 * * * *", `schedule: cron minute "-1": …`},
		{"cron +1 * * * *", `schedule: cron minute "+1": …`},
		{"cron 1, * * * *", `schedule: cron minute "": …`},
		{"cron ? * * * *", `schedule: cron minute "?": …`},
		{"cron */0 * * * *", `schedule: cron minute "*/0": …`},
		{"cron */90 * * * *", `schedule: cron minute "*/90": …`},
		{"cron 1/2/3 * * * *", `schedule: cron minute "1/2/3": …`},
		{"cron 5-1 * * * *", `schedule: cron minute "5-1": …`},
		{"cron * 24 * * *", `schedule: cron hour "24": …`},
		{"cron * 1-2-3 * * *", `schedule: cron hour "1-2-3": …`},
		{"cron * * 0 * *", `schedule: cron day of month "0": …`},
		{"cron * * LW * *", `schedule: cron day of month "LW": …`},
		{"cron * * * 13 *", `schedule: cron month "13": …`},
		{"cron * * * foo *", `schedule: cron month "FOO": …`},
		{"cron * * * * 8", `schedule: cron day of week "8": …`},
		{"cron * * * * 1#6", `schedule: cron day of week "1#6": …`},
		{"cron * * * * L", `schedule: cron day of week "L": …`},
		{"cron * * * * 7/2", `schedule: cron day of week "7/2": …`},
		{"cron * * * * * 60", `schedule: cron second "60": …`},
		{"cron * * * * 99999999999999999999", `schedule: cron day of week "99999999999999999999": …`},
		{"rrule ", `schedule: rrule "…`},
		{"rrule FREQ=DAILY FREQ=DAILY", `schedule: rrule "…`},
		{"rrule DTSTART:20260101T000000Z", `schedule: rrule "…`},
		{"rrule EXRULE:FREQ=DAILY", `schedule: rrule "…`},
		{"rrule FREQ=MONTHLY;BYDAY=6MO", `schedule: rrule "…`},
		{"rrule FREQ=DAILY;BYHOUR=6;BYSETPOS=2", `schedule: rrule "…`},
		{"rrule FREQ=SECONDLY;BYSECOND=1;BYSETPOS=2", `schedule: rrule "…`},
		{"rrule DTSTART:20260101T000000Z DTSTART:20260101T000000Z FREQ=DAILY", `schedule: rrule DTSTART "…`},
		{"rrule DTSTART:20260132T000000Z FREQ=DAILY", `schedule: rrule DTSTART "…`},
		{"rrule DTSTART;TZID=Europe/Berlin:20260329T023000 FREQ=DAILY", `schedule: rrule DTSTART "…`},
		{"rrule TZ=Europe/Berlin DTSTART;TZID=Europe/Paris:20260329T063000 FREQ=DAILY", `schedule: rrule DTSTART "…`},
		{"rrule DTSTART;TZID=Nowhere/Else:20260101T000000 FREQ=DAILY", `schedule: rrule DTSTART TZID "…`},
		{"rrule DTSTART;TZID=+02:00:20260101T000000 FREQ=DAILY", `schedule: rrule DTSTART "TZID=+02:00": …`},
		{"rrule DTSTART;TZID=\"+02:00\":20260101T000000 FREQ=DAILY", `schedule: rrule DTSTART TZID "…`},
		{"rrule DTSTART;X=1:20260101T000000 FREQ=DAILY", `schedule: rrule DTSTART "…`},
		{"rrule TZ=Local FREQ=DAILY", `schedule: rrule time zone "…`},
		{"rrule TZ=../../etc/passwd FREQ=DAILY", `schedule: rrule time zone "…`},
		{"rrule INTERVAL=2", `schedule: rrule FREQ "…`},
		{"rrule FREQ=FORTNIGHTLY", `schedule: rrule FREQ "…`},
		{"rrule FREQ=DAILY;FREQ=DAILY", `schedule: rrule FREQ "…`},
		{"rrule FREQ=DAILY;", `schedule: rrule part "…`},
		{"rrule FREQ=DAILY;BYEASTER=0", `schedule: rrule part "…`},
		{"rrule FREQ=DAILY;INTERVAL=0", `schedule: rrule INTERVAL "…`},
		{"rrule FREQ=DAILY;COUNT=0", `schedule: rrule COUNT "…`},
		{"rrule FREQ=DAILY;COUNT=1000000", `schedule: rrule COUNT "…`},
		{"rrule FREQ=DAILY;COUNT=1;UNTIL=20260101", `schedule: rrule COUNT "…`},
		{"rrule FREQ=DAILY;UNTIL=tomorrow", `schedule: rrule UNTIL "…`},
		{"rrule FREQ=DAILY;BYHOUR=24", `schedule: rrule BYHOUR "…`},
		{"rrule FREQ=DAILY;BYSECOND=60", `schedule: rrule BYSECOND "…`},
		{"rrule FREQ=DAILY;BYMONTHDAY=0", `schedule: rrule BYMONTHDAY "…`},
		{"rrule FREQ=WEEKLY;BYMONTHDAY=1", `schedule: rrule BYMONTHDAY "…`},
		{"rrule FREQ=DAILY;BYYEARDAY=1", `schedule: rrule BYYEARDAY "…`},
		{"rrule FREQ=MONTHLY;BYWEEKNO=1", `schedule: rrule BYWEEKNO "…`},
		{"rrule FREQ=WEEKLY;BYDAY=2MO", `schedule: rrule BYDAY "…`},
		{"rrule FREQ=YEARLY;BYWEEKNO=1;BYDAY=2MO", `schedule: rrule BYDAY "…`},
		{"rrule FREQ=MONTHLY;BYDAY=0MO", `schedule: rrule BYDAY "…`},
		{"rrule FREQ=MONTHLY;BYDAY=MO" + strings.Repeat(",MO", maxWeekdays), `schedule: rrule BYDAY "…`},
		{"rrule FREQ=MONTHLY;BYDAY=XX", `schedule: rrule BYDAY "…`},
		{"rrule FREQ=MONTHLY;BYDAY=", `schedule: rrule BYDAY "…`},
		{"rrule FREQ=MONTHLY;BYSETPOS=1", `schedule: rrule BYSETPOS "…`},
		{"rrule FREQ=DAILY EXDATE:20260101", `schedule: rrule EXDATE "…`},
		{"rrule FREQ=DAILY RDATE:20260101T000000Z" + strings.Repeat(",20260101T000000Z", maxDates), `schedule: rrule RDATE "…`},
	} {
		s, err := Parse(c.text)
		beginning, more := strings.CutSuffix(c.want, "…")
		var refused *Error
		if !errors.As(err, &refused) || err.Error() != c.want && !(more && strings.HasPrefix(err.Error(), beginning)) || refused.Rule == "" || len(refused.Value) > 80 {
			t.Errorf("%.80q: %v %v, want %s", c.text, s, err, c.want)
		}
	}
	if _, err := Parse("cron " + strings.Repeat("1,", maxText) + "1 * * * *"); err == nil {
		t.Error("a text without end was read")
	}
}

// FuzzParse: no text makes Parse or a schedule panic or hang, and String gives the schedule back.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"every 5m", "every 1ns", "every 2562047h47m16.854775807s from 9999-12-31T23:59:59Z",
		"cron 0 6 * * *", "cron TZ=Australia/Lord_Howe */5 0-23/2 L,31 feb-dec sun#5,L5 59", "cron @weekly", "cron 0 0 30 2 *", "cron * * * * 7/2",
		"rrule FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,-1SU;WKST=SU", "rrule FREQ=SECONDLY;INTERVAL=2;BYSECOND=1;COUNT=9999",
		"rrule FREQ=YEARLY;BYWEEKNO=-53,53;BYSETPOS=-366", "rrule FREQ=HOURLY;BYMINUTE=0,59;BYSECOND=0,59;BYSETPOS=4;COUNT=10000",
		"rrule TZ=Europe/Berlin DTSTART:20261025T013000Z FREQ=MINUTELY;INTERVAL=99999999 RDATE:20260101T000000Z EXDATE:20260102T000000",
		"rrule DTSTART;VALUE=DATE:00010101 FREQ=DAILY;UNTIL=99991231", "rrule FREQ=MONTHLY;BYDAY=5MO;BYMONTHDAY=-31",
		"rrule DTSTART;X-A=\"b:c\";TZID=\"Europe/Berlin\":20260105T0800\r\n 00\r\nRRULE:FREQ=WEEKLY\r\nEXDATE;TZID=W. Europe Standard Time:20260112T080060,2\n\t0260119T080000\n RDATE;VALUE=PERIOD:",
		"cron CRON_TZ=Asia/Tokyo 0 6 * * *",
		"rrule TZ=Europe/Berlin FREQ=SECONDLY;INTERVAL=7200;BYHOUR=2;BYMINUTE=1;BYSETPOS=1",
	} {
		f.Add(text, int64(1767225600))
	}
	f.Fuzz(func(t *testing.T, text string, after int64) {
		start := processor(t)
		s, err := Parse(text)
		if err != nil {
			var refused *Error
			if !errors.As(err, &refused) {
				t.Fatalf("%T", err)
			}
			return
		}
		again, err := Parse(s.String())
		if err != nil || again.String() != s.String() {
			t.Fatalf("%q: %v, %v", s.String(), again, err)
		}
		now := time.Unix(after, 0)
		slot, ok := s.Next(now)
		if ok && !slot.After(now) {
			t.Fatalf("%s: %v is not after %v", s, slot, now)
		}
		if other, otherOK := again.Next(now); ok != otherOK || !slot.Equal(other) {
			t.Fatalf("%s: %v %v, read again %v %v", s, slot, ok, other, otherOK)
		}
		if took := processor(t) - start; took > 2*time.Second { // all of it twice
			t.Fatalf("%q took %v of the processor", text, took)
		}
	})
}
