package schedule

import "testing"

// A schedule goes by the zone that its text names, else by UTC.
func TestZoneOf(t *testing.T) {
	for text, want := range map[string]string{
		"every 5m": "UTC", "cron 0 6 * * *": "UTC", "cron TZ=Europe/Berlin 0 6 * * *": "Europe/Berlin", "rrule FREQ=WEEKLY": "UTC",
		"rrule DTSTART;TZID=America/New_York:20260105T060000 RRULE:FREQ=DAILY": "America/New_York", "rrule TZ=Asia/Tokyo FREQ=DAILY": "Asia/Tokyo",
	} {
		s, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := ZoneOf(s).String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
