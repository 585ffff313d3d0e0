package schedule

import "testing"

// The cases in which schedulers and calendars differ from each other: what Takt does there. docs/concepts/schedules.md has the same rows, with what others answer.
func TestWhereOthersDiffer(t *testing.T) {
	const berlin = "rrule DTSTART;TZID=Europe/Berlin:"
	const partial = "rrule DTSTART:20261127T060000Z RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,MO,FR;BYSETPOS=1,-1;COUNT=6;WKST="
	checkSlots(t, []slotRow{
		{"daily rule over the skipped hour", "", "2026-03-01T00:00:00Z", berlin + "20260328T023000 RRULE:FREQ=DAILY;COUNT=3", "2026-03-28 01:30, 2026-03-29 01:00, 2026-03-30 00:30"},
		{"daily rule over the repeated hour", "", "2026-10-01T00:00:00Z", berlin + "20261024T023000 RRULE:FREQ=DAILY;COUNT=3", "2026-10-24 00:30, 2026-10-25 00:30, 2026-10-26 01:30"},
		{"daily cron over the skipped hour", "", "2026-03-28T12:00:00Z", "cron TZ=Europe/Berlin 30 2 * * *", "2026-03-29 01:00, 2026-03-30 00:30"},
		{"daily cron over the repeated hour", "", "2026-10-24T12:00:00Z", "cron TZ=Europe/Berlin 30 2 * * *", "2026-10-25 00:30, 2026-10-26 01:30"},
		{"daily cron at another hour, spring", "", "2026-03-28T12:00:00Z", "cron TZ=Europe/Berlin 0 6 * * *", "2026-03-29 04:00, 2026-03-30 04:00"},
		{"daily cron at another hour, autumn", "", "2026-10-24T12:00:00Z", "cron TZ=Europe/Berlin 0 6 * * *", "2026-10-25 05:00, 2026-10-26 05:00"},
		{"hourly cron over the skipped hour", "", "2026-03-29T00:00:00Z", "cron TZ=Europe/Berlin 30 * * * *", "2026-03-29 00:30, 2026-03-29 01:30, 2026-03-29 02:30"},
		{"hourly cron over the repeated hour", "", "2026-10-25T00:00:00Z", "cron TZ=Europe/Berlin 30 * * * *", "2026-10-25 00:30, 2026-10-25 01:30, 2026-10-25 02:30"},
		{"DTSTART is not of the rule", "", "2026-11-01T00:00:00Z", "rrule DTSTART:20261127T060000Z RRULE:FREQ=WEEKLY;BYDAY=MO;COUNT=3", "2026-11-30 06:00, 2026-12-07 06:00, 2026-12-14 06:00"},
		{"BYSETPOS, the first week is partial, WKST=SU", "", "2026-11-01T00:00:00Z", partial + "SU", "2026-11-27 06:00, 2026-12-06 06:00, 2026-12-11 06:00, 2026-12-20 06:00, 2026-12-25 06:00, 2027-01-03 06:00"},
		{"BYSETPOS, the first week is partial, WKST=MO", "", "2026-11-01T00:00:00Z", partial + "MO", "2026-11-29 06:00, 2026-12-07 06:00, 2026-12-13 06:00, 2026-12-21 06:00, 2026-12-27 06:00, 2027-01-04 06:00"},
		{"a day of the month and a weekday", "", "2026-11-01T00:00:00Z", "cron 0 6 13 * 5", "2026-11-06 06:00, 2026-11-13 06:00, 2026-11-20 06:00"},
		{"every second day of the month and a weekday", "", "2026-11-01T12:00:00Z", "cron 0 6 */2 * 5", "2026-11-03 06:00, 2026-11-05 06:00, 2026-11-06 06:00, 2026-11-07 06:00"},
		{"* and a weekday", "", "2026-11-01T00:00:00Z", "cron 0 6 * * 5", "2026-11-06 06:00, 2026-11-13 06:00"},
		{"L", "", "2026-11-01T00:00:00Z", "cron 0 6 L * *", "2026-11-30 06:00"},
		{"5#2", "", "2026-11-01T00:00:00Z", "cron 0 6 * * 5#2", "2026-11-13 06:00"},
		{"7", "", "2026-11-01T00:00:00Z", "cron 0 6 * * 7", "2026-11-01 06:00"},
		{"six fields", "", "2026-11-01T00:00:00Z", "cron 0 0 6 * * 0", "2026-11-06 00:00"},
		{"L5, the last Friday", "", "2026-11-01T00:00:00Z", "cron 0 6 * * L5", "2026-11-27 06:00"},
		{"5L", "", "", "cron 0 6 * * 5L", "cron day of week"},
		{"LW", "", "", "cron 0 6 LW * *", "cron day of month"},
	})
}
