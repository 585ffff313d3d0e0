package schedule

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// counting counts how often a schedule is asked.
type counting struct {
	Schedule
	asked int
}

func (c *counting) Next(after time.Time) (time.Time, bool) {
	c.asked++
	return c.Schedule.Next(after)
}

func TestDue(t *testing.T) {
	for _, c := range []struct {
		name, text, last, now string
		policy                Missed
		max                   int
		slots                 []string
		next                  string
	}{
		{"not yet", "every 1h", "2026-01-01T00:00:00Z", "2026-01-01T00:59:59Z", RunOnce, 0, nil, "2026-01-01T01:00:00Z"},
		{"on time", "every 1h", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", RunOnce, 0, []string{"2026-01-01T01:00:00Z"}, "2026-01-01T02:00:00Z"},
		{"once after an outage", "every 1h", "2026-01-01T00:00:00Z", "2026-01-01T05:30:00Z", RunOnce, 0, []string{"2026-01-01T05:00:00Z"}, "2026-01-01T06:00:00Z"},
		{"skip what is late", "every 1h", "2026-01-01T00:00:00Z", "2026-01-01T05:30:00Z", Skip, 0, nil, "2026-01-01T06:00:00Z"},
		{"skip keeps a slot within the grace", "every 1h", "2026-01-01T00:00:00Z", "2026-01-01T05:01:00Z", Skip, 0, []string{"2026-01-01T05:00:00Z"}, "2026-01-01T06:00:00Z"},
		{"but not beyond", "every 1h", "2026-01-01T00:00:00Z", "2026-01-01T05:01:00.000000001Z", Skip, 0, nil, "2026-01-01T06:00:00Z"},
		{"skip fires nothing twice", "every 1h", "2026-01-01T05:00:00Z", "2026-01-01T05:00:30Z", Skip, 0, nil, "2026-01-01T06:00:00Z"},
		{"skip fires the latest of many", "every 1s", "2026-01-01T05:00:00Z", "2026-01-01T05:00:30.5Z", Skip, 0, []string{"2026-01-01T05:00:30Z"}, "2026-01-01T05:00:31Z"},
		{"all", "every 1h", "2026-01-01T00:00:00Z", "2026-01-01T03:30:00Z", RunAll, 10,
			[]string{"2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z", "2026-01-01T03:00:00Z"}, "2026-01-01T04:00:00Z"},
		{"all, the oldest dropped", "every 1h", "2026-01-01T00:00:00Z", "2026-01-01T03:30:00Z", RunAll, 2,
			[]string{"2026-01-01T02:00:00Z", "2026-01-01T03:00:00Z"}, "2026-01-01T04:00:00Z"},
		{"the clock was set back", "every 1h", "2026-01-01T05:00:00Z", "2026-01-01T02:30:00Z", RunAll, 10, nil, "2026-01-01T06:00:00Z"},
		{"the last slot of a rule", "rrule DTSTART:20260101T000000Z FREQ=DAILY;COUNT=3", "2026-01-02T00:00:00Z", "2026-02-01T00:00:00Z", RunOnce, 0, []string{"2026-01-03T00:00:00Z"}, ""},
		{"after the last slot", "rrule DTSTART:20260101T000000Z FREQ=DAILY;COUNT=3", "2026-01-03T00:00:00Z", "2026-02-01T00:00:00Z", RunOnce, 0, nil, ""},
		{"on the day of a clock change", "cron TZ=Europe/Berlin 30 2 * * *", "2026-03-28T01:30:00Z", "2026-03-29T12:00:00Z", RunAll, 0, []string{"2026-03-29T01:00:00Z"}, "2026-03-30T00:30:00Z"},
	} {
		slots, next, ok := Due(mustParse(t, c.text), instant(t, c.last), instant(t, c.now), c.policy, c.max)
		var want []time.Time
		for _, s := range c.slots {
			want = append(want, instant(t, s))
		}
		if !equal(slots, want) || ok != (c.next != "") || ok && !next.Equal(instant(t, c.next)) {
			t.Errorf("%s: %v, then %v %v; want %v, then %s", c.name, slots, next, ok, c.slots, c.next)
		}
	}
}

// Due gives what a walk over all slots gives.
func TestDueAgreesWithAWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawText(t)
		if text == "" {
			return
		}
		s, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		last := drawTime(t, "last")
		some := take(s, last, rapid.IntRange(1, 200).Draw(t, "missed"))
		now := last.Add(time.Hour)
		if len(some) > 0 {
			now = some[len(some)-1].Add(time.Duration(rapid.Int64Range(0, int64(2*time.Minute)).Draw(t, "late")))
		}
		var all []time.Time
		for _, slot := range take(s, last, 2000) {
			if !slot.After(now) {
				all = append(all, slot)
			}
		}
		if len(all) == 2000 {
			return
		}
		most := rapid.IntRange(1, 250).Draw(t, "max")
		next, ok := s.Next(now)
		for policy, want := range map[Missed][]time.Time{
			RunOnce: all[max(0, len(all)-1):],
			RunAll:  all[max(0, len(all)-most):],
			Skip:    all[max(0, len(all)-1):],
		} {
			if policy == Skip && len(want) > 0 && now.Sub(want[0]) > Grace {
				want = nil
			}
			slots, then, thenOK := Due(s, last, now, policy, most)
			if !equal(slots, want) || thenOK != ok || !then.Equal(next) {
				t.Fatalf("%s, policy %d, from %v to %v:\n%s\nwant\n%s", s, policy, last, now, show(slots, time.UTC), show(want, time.UTC))
			}
		}
		if n := Count(s, last, now, 3000); n != len(all) {
			t.Fatalf("%s: counted %d, want %d", s, n, len(all))
		}
	})
}

// The work of Due does not grow with the number of slots missed: ten years of minutes, or of seconds, cost some dozen questions.
func TestDueIsBounded(t *testing.T) {
	last, now := instant(t, "2016-01-01T00:00:00Z"), instant(t, "2026-01-01T00:00:30Z")
	for _, c := range []struct {
		text              string
		policy            Missed
		max, slots, asked int
	}{
		{"cron * * * * *", RunOnce, 0, 1, 30},
		{"cron * * * * * *", RunOnce, 0, 1, 30},
		{"cron * * * * *", Skip, 0, 1, 30},
		{"cron * 3 1 1 * *", RunOnce, 0, 1, 120},
		{"cron 0 0 29 2 *", RunOnce, 0, 1, 120},
		{"every 1ms", RunOnce, 0, 1, 200},
		{"cron * * * * *", RunAll, 1000, 1000, 5000},
		{"cron * 3 1 1 *", RunAll, 1000, 10 * 60, 5000},
		{"rrule DTSTART:20160101T000000Z FREQ=SECONDLY;COUNT=9999", RunOnce, 0, 1, 200},
	} {
		s := &counting{Schedule: mustParse(t, c.text)}
		if slots, _, _ := Due(s, last, now, c.policy, c.max); len(slots) != c.slots || s.asked > c.asked {
			t.Errorf("%s: %d slots for %d questions, want %d for at most %d", c.text, len(slots), s.asked, c.slots, c.asked)
		}
	}
	if n := Count(mustParse(t, "cron * * * * *"), last, now, 1000); n != 1000 {
		t.Errorf("counted %d, want the limit", n)
	}
}

// An entry that never fired and has no time of registration either: all time is searched.
func TestDueFromTheZeroTime(t *testing.T) {
	for _, text := range []string{"every 1h", "cron 0 0 29 2 *", "rrule FREQ=DAILY", "rrule FREQ=DAILY;COUNT=1"} {
		s := &counting{Schedule: mustParse(t, text)}
		slots, _, _ := Due(s, time.Time{}, instant(t, "2026-01-01T00:00:30Z"), RunOnce, 0)
		if len(slots) != 1 || s.asked > 300 {
			t.Errorf("%s: %v for %d questions", text, slots, s.asked)
		}
	}
}

func TestRunAllHasAMaximum(t *testing.T) {
	for given, want := range map[int]int{-1: 100, 0: 100, 1: 1, 10_000: 10_000, 1 << 40: 10_000} {
		if got := runAll(given); got != want {
			t.Errorf("max %d is %d, want %d", given, got, want)
		}
	}
}

func TestJitter(t *testing.T) {
	slot := instant(t, "2026-01-01T00:00:00Z")
	if got := Jitter(slot, "a", 0); !got.Equal(slot) {
		t.Errorf("without jitter: %v", got)
	}
	if got, want := Jitter(slot, "a", time.Minute), instant(t, "2026-01-01T00:00:31.792015558Z"); !got.Equal(want) {
		t.Errorf("processes of another version would have %v, want %v", got, want)
	}
	const n = 6000
	var tenth [10]int
	for i := range n {
		entry := "entry" + itoa(i)
		at := Jitter(slot, entry, time.Minute)
		if at.Before(slot) || at.After(slot.Add(time.Minute)) || !at.Equal(Jitter(slot.In(zone(t, "Asia/Kathmandu")), entry, time.Minute)) {
			t.Fatalf("%s at %v", entry, at)
		}
		tenth[min(9, at.Sub(slot)/(6*time.Second))]++
	}
	for i, got := range tenth {
		if got < n/10*8/10 || got > n/10*12/10 {
			t.Errorf("tenth %d of the minute has %d of %d entries", i, got, n)
		}
	}
}
