package schedule

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The lines of RFC 5545 that make a schedule: what its sections 3.1 to 3.3 and 3.8 allow is taken, or refused with the clause. docs/concepts/schedules.md
// has the same table for users.
func TestICalendarLines(t *testing.T) {
	const berlin = "DTSTART;TZID=Europe/Berlin:20260105T080000\r\n"
	const taken = "TZ=Europe/Berlin DTSTART:20260105T070000Z FREQ=WEEKLY"
	for _, c := range []struct{ clause, text, want string }{ // want: the canonical text, or what the error says
		{"3.1 lines end with CRLF", berlin + "RRULE:FREQ=WEEKLY\r\n", taken},
		{"3.1 or with LF, as most files have them", strings.ReplaceAll(berlin, "\r", "") + "RRULE:FREQ=WEEKLY\n", taken},
		{"3.1 folded with a blank", "DTSTART;TZID=Europe/Berlin:2026\r\n 0105T080000\r\nRRULE:FREQ=WEE\r\n KLY", taken},
		{"3.1 folded with a tab", "DTSTART;TZID=Euro\r\n\tpe/Berlin:20260105T080000\nRRULE:FREQ=\n\tWEEKLY", taken},
		{"3.1 folded twice in a row", "DTSTART;TZID=Europe/Berlin:20\r\n 26\r\n 0105T080000\r\nRRULE:FREQ=WEEKLY", taken},
		{"3.1 folded after the colon", berlin + "RRULE:\r\n FREQ=WEEKLY", taken},
		{"lines that are indented are lines", "\n\tDTSTART;TZID=Europe/Berlin:20260105T080000\n\tRRULE:FREQ=WEEKLY\n", taken},
		{"lines that blanks separate are lines", "DTSTART;TZID=Europe/Berlin:20260105T080000 RRULE:FREQ=WEEKLY", taken},
		{"3.1 a quoted parameter", `DTSTART;TZID="Europe/Berlin":20260105T080000 RRULE:FREQ=WEEKLY`, taken},
		{"3.1 names in any case", "dtstart;tzid=Europe/Berlin;value=date-time:20260105T080000\nrrule:freq=weekly", taken},
		{"3.2 parameters X-", `DTSTART;X-A=1;TZID=Europe/Berlin;X-B="c:d;e,f",g:20260105T080000 RRULE;X-C=1:FREQ=WEEKLY`, taken},
		{"3.2 other parameters", "DTSTART;LANGUAGE=de:20260105T080000 FREQ=WEEKLY", `"LANGUAGE=de": want the parameters TZID and VALUE, or such as begin with X- (RFC 5545, 3.2`},
		{"3.8 a parameter twice", "DTSTART;TZID=Europe/Berlin;TZID=Europe/Paris:20260105T080000 FREQ=WEEKLY", "TZID is given twice (RFC 5545, 3.8)"},
		{"3.2.19 a global name", "DTSTART;TZID=/Europe/Berlin:20260105T080000 FREQ=WEEKLY", taken},
		{"3.2.19 a name of the calendar's VTIMEZONE", "DTSTART;TZID=W. Europe Standard Time:20260105T080000\r\nRRULE:FREQ=WEEKLY", `TZID "W. Europe Standard Time": `},
		{"3.2.19 TZID with a time in UTC", "DTSTART;TZID=Europe/Berlin:20260105T070000Z FREQ=WEEKLY", "goes without TZID (RFC 5545, 3.2.19)"},
		{"3.2.19 TZID with a date", "DTSTART;TZID=Europe/Berlin;VALUE=DATE:20260105 FREQ=WEEKLY", "goes without TZID (RFC 5545, 3.2.19): write TZ=Europe/Berlin in front"},
		{"3.2.20 VALUE=DATE-TIME", "DTSTART;VALUE=DATE-TIME:20260105T070000Z RRULE;VALUE=RECUR:FREQ=WEEKLY", "DTSTART:20260105T070000Z FREQ=WEEKLY"},
		{"3.2.20 VALUE=DATE with a time", "DTSTART;VALUE=DATE:20260105T070000Z FREQ=WEEKLY", "VALUE=DATE wants a date such as 20260102 (RFC 5545, 3.3.4)"},
		{"3.2.20 VALUE=DATE-TIME with a date", "DTSTART;VALUE=DATE-TIME:20260105 FREQ=WEEKLY", "(RFC 5545, 3.3.5)"},
		{"3.2.20 other values", "DTSTART;VALUE=TEXT:20260105 FREQ=WEEKLY", `"VALUE=TEXT": want VALUE=DATE-TIME or VALUE=DATE (RFC 5545, 3.8)`},
		{"3.3.4 DATE", "TZ=Europe/Berlin DTSTART;VALUE=DATE:20260105 FREQ=WEEKLY", "TZ=Europe/Berlin DTSTART:20260104T230000Z FREQ=WEEKLY"},
		{"3.3.4 DATE without VALUE", "TZ=Europe/Berlin DTSTART:20260105 FREQ=WEEKLY", "TZ=Europe/Berlin DTSTART:20260104T230000Z FREQ=WEEKLY"},
		{"3.3.5 local time without TZID, in TZ", "TZ=Europe/Berlin DTSTART:20260105T080000 FREQ=WEEKLY", taken},
		{"3.3.5 a UTC offset", "DTSTART:20260105T080000+0100 FREQ=WEEKLY", "(RFC 5545, 3.3.4 and 3.3.5)"},
		{"3.3.5 a time that comes twice is the first", "DTSTART;TZID=Europe/Berlin:20261025T023000 FREQ=WEEKLY", "TZ=Europe/Berlin DTSTART:20261025T003000Z FREQ=WEEKLY"},
		{"3.3.5 a time that clocks skip", "DTSTART;TZID=Europe/Berlin:20260329T023000 FREQ=WEEKLY", "clocks in Europe/Berlin skip this time (RFC 5545, 3.3.5)"},
		{"3.3.9 PERIOD", berlin + "RRULE:FREQ=WEEKLY\nRDATE;VALUE=PERIOD:20260106T070000Z/PT1H", "a slot has no duration (RFC 5545, 3.3.9)"},
		{"3.3.10 parts in any order", berlin + "RRULE:INTERVAL=1;WKST=MO;FREQ=WEEKLY", taken},
		{"3.3.10 UNTIL in UTC, local, or a date", berlin + "RRULE:FREQ=WEEKLY;UNTIL=20261231T225959Z", "TZ=Europe/Berlin DTSTART:20260105T070000Z FREQ=WEEKLY;UNTIL=20261231T225959Z"},
		{"3.3.10 BYHOUR with a date", "DTSTART;VALUE=DATE:20260105 FREQ=WEEKLY;BYHOUR=6", "do not go with a DTSTART that is a date (RFC 5545, 3.3.10)"},
		{"3.3.12 a leap second is the second before", "DTSTART:20161231T235960Z FREQ=WEEKLY;UNTIL=20271231T235960Z", "DTSTART:20161231T235959Z FREQ=WEEKLY;UNTIL=20271231T235959Z"},
		{"3.3.12 BYSECOND=60", "FREQ=MINUTELY;BYSECOND=0,60", "60 is a leap second, which clocks here do not show (RFC 5545, 3.3.12)"},
		{"3.8.2.4 DTSTART twice", berlin + berlin + "RRULE:FREQ=WEEKLY", "is given twice (RFC 5545, 3.8.2.4)"},
		{"3.8.5.1 EXDATE, lists and lines", berlin + "RRULE:FREQ=WEEKLY\nEXDATE;TZID=Europe/Berlin:20260112T080000,20260119T080000\nEXDATE:20260126T070000Z\nEXDATE:20260202T080000",
			taken + " EXDATE:20260112T070000Z,20260119T070000Z,20260126T070000Z,20260202T070000Z"},
		{"3.8.5.1 EXDATE in a zone of its own", berlin + "RRULE:FREQ=WEEKLY\nEXDATE;TZID=America/New_York:20260112T020000", taken + " EXDATE:20260112T070000Z"},
		{"3.8.5.1 dates to a DTSTART that is one", "TZ=Europe/Berlin DTSTART;VALUE=DATE:20260105\nRRULE:FREQ=WEEKLY\nEXDATE;VALUE=DATE:20260112\nRDATE;VALUE=DATE:20260115",
			"TZ=Europe/Berlin DTSTART:20260104T230000Z FREQ=WEEKLY RDATE:20260114T230000Z EXDATE:20260111T230000Z"},
		{"3.8.5.1 dates to a DTSTART that has a time", berlin + "RRULE:FREQ=WEEKLY\nEXDATE;VALUE=DATE:20260112", "a date goes with a DTSTART that is one (RFC 5545, 3.8.5)"},
		{"3.8.5.2 RDATE", berlin + "RRULE:FREQ=WEEKLY\nRDATE;TZID=Europe/Berlin:20260106T080000", taken + " RDATE:20260106T070000Z"},
		{"3.8.5.2 RDATE without a rule", berlin + "RDATE:20260106T070000Z", "want one rule, such as FREQ=WEEKLY;INTERVAL=2 (RFC 5545, 3.8.5.3); there are 0"},
		{"3.8.5.3 two rules", berlin + "RRULE:FREQ=WEEKLY\nRRULE:FREQ=DAILY", "(RFC 5545, 3.8.5.3); there are 2"},
		{"3.8.5.3 a rule with TZID", "RRULE;TZID=Europe/Berlin:FREQ=WEEKLY", "a rule has no time zone (RFC 5545, 3.8.5.3)"},
		{"A.3 EXRULE", berlin + "RRULE:FREQ=WEEKLY\nEXRULE:FREQ=MONTHLY", "is not a line of RFC 5545 any more (A.3)"},
		{"3.8 other lines", "BEGIN:VEVENT\n" + berlin + "RRULE:FREQ=WEEKLY\nEND:VEVENT", `"BEGIN": want a rule such as FREQ=DAILY, or lines of DTSTART, RRULE, RDATE and EXDATE (RFC 5545, 3.8.2.4 and 3.8.5)`},
		{"3.1 no line", berlin + "RRULE:FREQ=WEEKLY\n20260112T080000", "or a line NAME;PARAM=value:value (RFC 5545, 3.1)"},
		{"3.1 a parameter without a value", "DTSTART;TZID:20260105T080000 FREQ=WEEKLY", "or a line NAME;PARAM=value:value (RFC 5545, 3.1)"},
		{"3.1 a value that is missing", "DTSTART: FREQ=WEEKLY", `rrule DTSTART "": want a time`},
	} {
		for _, parse := range []func(string) (Schedule, error){
			func(text string) (Schedule, error) { return Parse("rrule " + text) },
			func(text string) (Schedule, error) { return Parse("\r\nrrule\r\n" + text + "\r\n") },
			func(text string) (Schedule, error) { return RRule(text) },
		} {
			s, err := parse(c.text)
			switch {
			case err != nil && !strings.Contains(err.Error(), c.want):
				t.Errorf("%s: %q\nis %v\nwant %s", c.clause, c.text, err, c.want)
			case err == nil && s.String() != "rrule "+c.want:
				t.Errorf("%s: %q\nis %s\nwant %s", c.clause, c.text, s, c.want)
			}
		}
	}
}

// 3.1: a line may be folded at any place, and any number of times.
func TestFoldedAnywhere(t *testing.T) {
	lines := []string{
		`DTSTART;X-NOTE="RRULE:x; y";TZID=Europe/Berlin:20260105T080000`, "RRULE:FREQ=WEEKLY;BYDAY=MO;UNTIL=20261231T225959Z;WKST=SU;BYHOUR=8;BYMINUTE=0",
		"EXDATE;TZID=Europe/Berlin:20260112T080000,20260119T080000", "RDATE:20260106T070000Z",
	}
	want := mustParse(t, "rrule "+strings.Join(lines, "\r\n")).String()
	rapid.Check(t, func(t *rapid.T) {
		text := "rrule "
		for _, line := range lines {
			for len(line) > 1 && rapid.IntRange(0, 3).Draw(t, "fold") > 0 {
				at := rapid.IntRange(1, len(line)-1).Draw(t, "at")
				if after := line[at:]; strings.HasPrefix(after, "RRULE:") {
					at++ // looks like a line that is indented
				}
				text += line[:at] + rapid.SampledFrom([]string{"\r\n ", "\r\n\t", "\n ", "\n\t"}).Draw(t, "break")
				line = line[at:]
			}
			text += line + rapid.SampledFrom([]string{"\r\n", "\n", " "}).Draw(t, "end")
		}
		s, err := Parse(text)
		if err != nil || s.String() != want {
			t.Fatalf("%q\nis %v %v\nwant %s", text, s, err, want)
		}
	})
}
