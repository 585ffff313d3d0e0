package schedule

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taktworks/takt/internal/testenv"
)

// drawText draws the text of any schedule, or "" where the drawn rule fits no time.
func drawText(t *rapid.T) string {
	zone := rapid.SampledFrom(zoneNames).Draw(t, "zone")
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0:
		d := time.Duration(rapid.Int64Range(int64(MinEvery), int64(400*24*time.Hour)).Draw(t, "d"))
		return Every(d, Anchor(drawTime(t, "anchor"))).String()
	case 1:
		text := "cron TZ=" + zone + " " + drawCron(t)
		if rapid.Bool().Draw(t, "seconds") {
			text += " " + drawItem(t, 0, 59)
		}
		return text
	}
	text := "rrule TZ=" + zone + " " + drawRule(t)
	switch rapid.IntRange(0, 3).Draw(t, "bound") {
	case 1:
		text += ";COUNT=" + itoa(rapid.IntRange(1, 50).Draw(t, "count"))
	case 2:
		text += ";UNTIL=" + drawTime(t, "until").Format(rapid.SampledFrom(timeLayouts[1:]).Draw(t, "layout"))
	}
	if rapid.Bool().Draw(t, "dates") {
		text += " RDATE:" + timeText(utcTime, drawTime(t, "rdate").Unix()) + " EXDATE:" + timeText(localTime, drawTime(t, "exdate").Unix())
	}
	if rapid.Bool().Draw(t, "anchored") {
		text += " DTSTART:" + timeText(utcTime, drawTime(t, "dtstart").Unix())
	}
	if _, err := Parse(text); err != nil && strings.Contains(err.Error(), "fits no time") {
		return ""
	}
	return text
}

// Slots strictly increase, and from every time between two of them the sequence goes on the same: a restart, or a look
// at any moment, changes nothing. Parse of the text gives the same slots.
func TestScheduleIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawText(t)
		if text == "" {
			return
		}
		s, err := Parse(text)
		testenv.Must(t, err)
		again, err := Parse(s.String())
		if err != nil || again.String() != s.String() {
			t.Fatalf("%s, read again: %v %v", s, again, err)
		}
		start := drawTime(t, "start")
		slots := take(s, start, 20)
		if !equal(take(again, start, 20), slots) {
			t.Fatalf("%s, read again, has other slots", s)
		}
		for i, before := range append([]time.Time{start}, slots...) {
			if i == len(slots) {
				break
			}
			gap := slots[i].Sub(before)
			if gap <= 0 {
				t.Fatalf("%s: %v is not after %v", s, slots[i], before)
			}
			between := before.Add(time.Duration(rapid.Int64Range(0, int64(gap)-1).Draw(t, "between")))
			if slot, ok := again.Next(between); !ok || !slot.Equal(slots[i]) {
				t.Fatalf("%s after %v: %v %v, want %v", s, between, slot, ok, slots[i])
			}
		}
		if len(slots) == 20 {
			return
		}
		end := start
		if len(slots) > 0 {
			end = slots[len(slots)-1]
		}
		if slot, ok := again.Next(end.Add(time.Duration(rapid.Int64Range(0, 1<<60).Draw(t, "later")))); ok {
			t.Fatalf("%s is exhausted after %v, then has %v", s, end, slot)
		}
	})
}

// COUNT gives exactly so many slots, the first of the rule without it, and then ends; UNTIL gives those up to it.
func TestCountAndUntilEndCleanly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawRule(t)
		anchor := drawTime(t, "anchor")
		zone, _ := time.LoadLocation(rapid.SampledFrom(zoneNames).Draw(t, "zone"))
		free, err := RRule(text, Anchor(anchor), TimeZone(zone))
		if err != nil {
			return // fits no time
		}
		n := rapid.IntRange(1, 30).Draw(t, "count")
		want := take(free, anchor.Add(-time.Second), n)
		counted, err := RRule(text+";COUNT="+itoa(n), Anchor(anchor), TimeZone(zone))
		testenv.Must(t, err)
		if got := take(counted, time.Time{}, n+5); !equal(got, want) {
			t.Fatalf("%s:\n%s\nwant\n%s", counted, show(got, zone), show(want, zone))
		}
		if len(want) == 0 {
			return
		}
		bound, err := RRule(text+";UNTIL="+timeText(utcTime, want[len(want)-1].Unix()), Anchor(anchor), TimeZone(zone))
		testenv.Must(t, err)
		if got := take(bound, time.Time{}, n+5); !equal(got, want) {
			t.Fatalf("%s:\n%s\nwant\n%s", bound, show(got, zone), show(want, zone))
		}
	})
}

// A rule in a zone has the local times that its parts name, except where clocks skip them.
func TestRuleKeepsLocalTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(zoneNames).Draw(t, "zone")
		loc, err := time.LoadLocation(name)
		testenv.Must(t, err)
		hour, minute := rapid.IntRange(0, 23).Draw(t, "hour"), rapid.IntRange(0, 59).Draw(t, "minute")
		day := drawTime(t, "day")
		s, err := RRule("FREQ=DAILY;BYHOUR="+itoa(hour)+";BYMINUTE="+itoa(minute)+";BYSECOND=0", Anchor(day), TimeZone(loc))
		testenv.Must(t, err)
		for _, slot := range take(s, day, 400) {
			local := slot.In(loc)
			if local.Hour() == hour && local.Minute() == minute {
				continue
			}
			_, before := slot.Add(-time.Second).In(loc).Zone()
			_, after := local.Zone()
			if after <= before {
				t.Fatalf("%s: %v is not %d:%d, and clocks skip nothing", s, local, hour, minute)
			}
		}
	})
}
