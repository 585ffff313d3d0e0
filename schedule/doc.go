// Package schedule says when recurring work is due. A Schedule is a pure function: it has no clock, no Redis and no state,
// and the same text gives the same slots in every process, before and after every restart.
//
//	text ──Parse──▶ Schedule ──WithAnchor(first registration)──▶ Schedule ──Next(slot)──▶ next slot
//	                                                                 │
//	                            last slot fired, now ──────────────Due──▶ slots to fire, next slot
//
// A slot is an instant at which work is due. The next one follows from the last slot, not from the time at which
// somebody looked, so nothing drifts, and a scheduler that was away sees exactly which slots it missed.
//
// # Text
//
// One form serves the command line, files and Redis; String gives it back in its canonical spelling:
//
//	every 5m                                      every five minutes, counted from the anchor
//	every 90s from 2026-01-02T03:04:05Z           the same with an anchor of its own
//	cron 0 6 * * MON-FRI                          minute hour day-of-month month day-of-week, in UTC
//	cron TZ=Europe/Berlin 0 6 * * * 30            in a time zone; the sixth field is seconds
//	cron @daily                                   @hourly @daily @midnight @weekly @monthly @yearly @annually
//	rrule FREQ=WEEKLY;INTERVAL=2;BYDAY=MO         RFC 5545, counted from the anchor
//	rrule TZ=Europe/Berlin DTSTART:20260102T050000Z FREQ=DAILY;COUNT=5 RDATE:20260301T120000Z EXDATE:20260103T050000Z
//
// The lines DTSTART, RRULE, RDATE and EXDATE of an iCalendar text are taken as RFC 5545 writes them (3.1 to 3.3, 3.8), folded or not; spaces
// may stand in place of line breaks. What is not taken is refused with the clause. After a line break, one blank or tab continues the line, unless
// one of these four names follows. CRON_TZ= is TZ=.
//
// # Anchors
//
// "every" and "rrule" are counted from an anchor: "every second week" must not change its week, nor COUNT start anew, when a
// scheduler restarts. The anchor stands in the text, or the scheduler stores the time of first registration and gives it
// by WithAnchor. Without either, 1970-01-01T00:00:00Z stands in. No slot lies before the anchor; the anchor itself is a slot of
// "every", and of "rrule" if it fits the rule. Cron needs no anchor.
//
// # Days on which clocks change
//
// A time of day that is skipped runs at the first instant after the gap; a time that comes twice runs once, the first
// time. So daily work at 02:30 runs once on each day of the year.
//
// Work that runs through the whole day goes by the hands of the clock instead: it runs whenever the clock shows a time
// of it, so a skipped time is not made up for, and a time shown twice runs twice. "Every hour" so stays every hour of
// real time: 01:30, 03:30 in spring and 01:30, 02:30, 02:30, 03:30 in autumn. This holds for a cron expression whose hour field
// allows all 24 hours (*, */1, 0-23), and for FREQ=HOURLY, MINUTELY and SECONDLY, whose INTERVAL counts hours, minutes and
// seconds of real time. Where clocks change by half an hour (Australia/Lord_Howe) two hourly slots may lie 30 or 90 minutes apart.
//
// The days come from the time zone files of the host, and behind them from those in the program: all schedulers of an installation should have
// the same release. takt doctor shows it.
//
// # Cron
//
// Fields are lists of numbers, names (JAN, MON), ranges and steps; 7 is Sunday, too; "?" is "*". Day of month also takes L, the
// last day; day of week takes 1#2 (the second Monday) and L5 (the last Friday). If both day fields are restricted (neither
// begins with * and goes by steps of 1), a day that fits either fits. An expression that fits no day, such as 30 February, is refused.
//
// # RRULE
//
// As in RFC 5545, except that a skipped local time is made up for, as above (3.3.10 drops it), that UNTIL may be a
// date whatever DTSTART is (its day is included), and that DTSTART counts as a slot only if it fits the rule. One RRULE per schedule; no EXRULE, no PERIOD,
// no BYSECOND=60; dates without time in RDATE and EXDATE go with a DTSTART that is a date. A time without zone is read in the zone of the
// rule. EXDATE removes a slot but COUNT has counted it.
//
// # Bounds
//
// Slots lie before the year 10000. Next of a rule looks at no more than 250,000 days and periods, so it answers within a
// fraction of a second; a rule that has no slot among them counts as exhausted. A COUNT is at most 10,000; to count so far, a
// million days and periods may be looked at, and a rule that needs more ends with the last slot counted.
package schedule
