package task

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taktworks/takt/schedule"
)

var (
	noon  = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	every = func(d time.Duration) schedule.Schedule { return schedule.Every(d, schedule.Anchor(noon)) }
)

// Which slots are due follows from the last slot and the clock alone.
func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		entry    ScheduleEntry
		since    time.Duration // after noon
		last     time.Duration // 0 = none
		now      time.Duration
		slots    []time.Duration
		handled  time.Duration
		next     time.Duration
		dropped  int64
		schedule schedule.Schedule
	}{
		"nothing due":             {now: 59 * time.Second, next: time.Minute},
		"at the slot":             {now: time.Minute, slots: []time.Duration{time.Minute}, handled: time.Minute, next: 2 * time.Minute},
		"late, and on the grid":   {now: 90 * time.Second, slots: []time.Duration{time.Minute}, handled: time.Minute, next: 2 * time.Minute},
		"missed, once":            {last: time.Minute, now: 5*time.Minute + 1, slots: []time.Duration{5 * time.Minute}, handled: 5 * time.Minute, next: 6 * time.Minute, dropped: 3},
		"missed, skip":            {entry: ScheduleEntry{Missed: SkipMissed}, last: time.Minute, now: 5*time.Minute + time.Second, slots: []time.Duration{5 * time.Minute}, handled: 5 * time.Minute, next: 6 * time.Minute, dropped: 3},
		"missed, all":             {entry: ScheduleEntry{Missed: RunMissed, MaxMissed: 2}, last: time.Minute, now: 5 * time.Minute, slots: []time.Duration{4 * time.Minute, 5 * time.Minute}, handled: 5 * time.Minute, next: 6 * time.Minute, dropped: 2},
		"resumed":                 {since: 4*time.Minute + 1, last: time.Minute, now: 4*time.Minute + 30*time.Second, next: 5 * time.Minute},
		"the clock was set back":  {last: 5 * time.Minute, now: 2 * time.Minute, next: 6 * time.Minute},
		"skip an old one":         {entry: ScheduleEntry{Missed: SkipMissed}, schedule: every(time.Hour), now: time.Hour + 2*time.Minute, handled: time.Hour, next: 2 * time.Hour, dropped: 1},
		"exhausted":               {schedule: rule("FREQ=MINUTELY;COUNT=2"), last: time.Minute, now: time.Hour},
		"the last":                {schedule: rule("FREQ=MINUTELY;COUNT=2"), now: time.Hour, slots: []time.Duration{time.Minute}, handled: time.Minute},
		"the anchor of a rule":    {schedule: rule("FREQ=MINUTELY;COUNT=2"), since: -1, now: time.Second, slots: []time.Duration{0}, next: time.Minute},
		"not yet, for its jitter": {entry: ScheduleEntry{Name: "a", Jitter: 30 * time.Second}, now: time.Minute + time.Millisecond, next: time.Minute},
		"once its jitter is over": {entry: ScheduleEntry{Name: "a", Jitter: 30 * time.Second}, now: time.Minute + 30*time.Second, slots: []time.Duration{time.Minute}, handled: time.Minute, next: 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			var d scheduleDoc
			d.ScheduleEntry, d.Since = c.entry, noon.Add(c.since)
			if c.last != 0 {
				d.Last = noon.Add(c.last)
			}
			s := c.schedule
			if s == nil {
				s = every(time.Minute)
			}
			p, err := d.decide(s, noon.Add(c.now))
			if err != nil || p.dropped != c.dropped || len(p.slots) != len(c.slots) {
				t.Fatalf("%+v, %v", p, err)
			}
			for i, slot := range p.slots {
				if !slot.Equal(noon.Add(c.slots[i])) {
					t.Errorf("slots %v, want %v after noon", p.slots, c.slots)
				}
			}
			if c.handled != 0 && !p.last.Equal(noon.Add(c.handled)) || c.next != 0 && !p.next.Equal(noon.Add(c.next)) || c.next == 0 && !p.next.IsZero() {
				t.Errorf("dealt with %v, next %v", p.last, p.next)
			}
		})
	}
}

func rule(text string) schedule.Schedule { return must(schedule.RRule(text, schedule.Anchor(noon))) }

// However often and whenever somebody looks, every slot fires once and in order, none before its jitter is over.
func TestDecideFiresEachSlotOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step := time.Duration(rapid.IntRange(1, 5000).Draw(t, "interval in ms")) * time.Millisecond
		var d scheduleDoc
		d.ScheduleEntry = ScheduleEntry{Name: "p", Missed: RunMissed, MaxMissed: 10_000, Jitter: rapid.SampledFrom([]time.Duration{0, step / 2, step}).Draw(t, "jitter")}
		d.Since = noon
		s, now, want := every(step), noon, noon.Add(step)
		for range rapid.IntRange(1, 30).Draw(t, "looks") {
			now = now.Add(rapid.SampledFrom([]time.Duration{-step, 0, 1, step / 3, step, 20 * step}).Draw(t, "pause"))
			p := must(d.decide(s, now))
			for _, slot := range p.slots {
				if !slot.Equal(want) || d.wake(slot).After(now) {
					t.Fatalf("at %v fires %v, want %v; its time is %v", now, slot, want, d.wake(slot))
				}
				want = want.Add(step)
			}
			if p.dropped != 0 || !p.next.Equal(want) {
				t.Fatalf("next %v, want %v; %d dropped", p.next, want, p.dropped)
			}
			if !p.last.IsZero() {
				d.Last = p.last
			}
		}
	})
}

// What is stored is read back as it was.
func TestScheduleDocRoundTrip(t *testing.T) {
	var d scheduleDoc
	d.ScheduleEntry = ScheduleEntry{Name: "n", Task: "t", Spec: "every 1h", Args: []byte(`["<&>",1]`), VO: "lhcb", Jitter: time.Second, Missed: RunMissed, MaxMissed: 3}
	d.defaults()
	d.register(must(schedule.Parse(d.Spec)), noon.Add(123456789))
	d.Last, d.Next, d.Asked, d.Entry = noon, noon.Add(time.Hour), []asked{{ID: "x", At: noon, Yield: true}}, "1-0"
	text := must(d.encode())
	back := must(decodeSchedule("n", text))
	if again, err := back.encode(); err != nil || again != text || !back.same(&d.ScheduleEntry) {
		t.Errorf("%s\nis read as\n%s, %v", text, again, err)
	}
}

func FuzzDecodeSchedule(f *testing.F) {
	f.Add(`{"name":"n","task":"t","spec":"every 1h","state":"active","since":"2026-01-01T00:00:00Z","args":[1]}`)
	f.Add(`{`)
	f.Add(`{"task":"t","spec":"rrule FREQ=DAILY;COUNT=3","args":null,"asked":[{"id":""}]}`)
	f.Fuzz(func(t *testing.T, raw string) {
		d, err := decodeSchedule("n", raw)
		if err != nil {
			return
		}
		text, err := d.encode()
		if err != nil {
			return // a year beyond 9999
		}
		if _, err := decodeSchedule("n", text); err != nil {
			t.Errorf("%q is written as %q, which is refused: %v", raw, text, err)
		}
	})
}

// The arguments of an entry are read as those of a submission in JSON: one value that is not an array is the only argument.
func TestArgumentsOfEntries(t *testing.T) {
	for text, want := range map[string]string{"": "", "null": "", `[]`: "\x90", `{"a":1}`: "\x91\x81\xa1a\x01", `[{"a":1},2]`: "\x92\x81\xa1a\x01\x02"} {
		e := ScheduleEntry{Args: []byte(text)}
		if got, err := e.args(); err != nil || string(got) != want {
			t.Errorf("%s: %x, %v, want %x", text, got, err, want)
		}
	}
}
