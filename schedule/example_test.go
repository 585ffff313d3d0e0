package schedule_test

import (
	"fmt"
	"time"

	"github.com/taktworks/takt/schedule"
)

func next(s schedule.Schedule, after time.Time, n int) {
	for range n {
		slot, ok := s.Next(after)
		if !ok {
			fmt.Println("no more")
			return
		}
		fmt.Println(slot.Format("Mon 2006-01-02 15:04 MST"))
		after = slot
	}
}

var newYear = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func ExampleParse() {
	s, err := schedule.Parse("cron TZ=Europe/Berlin 0 6 * * MON-FRI")
	if err != nil {
		fmt.Println(err)
		return
	}
	next(s, newYear, 3)
	_, err = schedule.Parse("cron 0 6 * * MON-FRY")
	fmt.Println(err)
	// Output:
	// Thu 2026-01-01 05:00 UTC
	// Fri 2026-01-02 05:00 UTC
	// Mon 2026-01-05 05:00 UTC
	// schedule: cron day of week "MON-FRY": want numbers of 0 to 7, ranges, steps and lists of them, SUN to SAT, 1#2 or L5
}

func ExampleEvery() {
	s := schedule.Every(90*time.Minute, schedule.Anchor(newYear))
	fmt.Println(s)
	next(s, newYear, 2)
	// Output:
	// every 1h30m from 2026-01-01T00:00:00Z
	// Thu 2026-01-01 01:30 UTC
	// Thu 2026-01-01 03:00 UTC
}

func ExampleCron() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := schedule.Cron("30 2 * * *", schedule.TimeZone(berlin))
	if err != nil {
		fmt.Println(err)
		return
	}
	after := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
	for range 2 {
		after, _ = s.Next(after)
		fmt.Println(after.In(berlin).Format("Mon 15:04 MST"))
	}
	_, err = schedule.Cron("0 0 30 2 *")
	fmt.Println(err)
	// Output:
	// Sun 03:00 CEST
	// Mon 02:30 CEST
	// schedule: cron "0 0 30 2 *": fits no day of the calendar
}

func ExampleRRule() {
	s, err := schedule.RRule("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=17;COUNT=2", schedule.Anchor(newYear))
	if err != nil {
		fmt.Println(err)
		return
	}
	next(s, newYear, 3)
	// Output:
	// Fri 2026-01-30 17:00 UTC
	// Fri 2026-02-27 17:00 UTC
	// no more
}

func ExampleWithAnchor() {
	s, _ := schedule.Parse("rrule FREQ=WEEKLY;INTERVAL=2;BYDAY=FR;BYHOUR=9;BYMINUTE=0;BYSECOND=0")
	registered := newYear.Add(13 * time.Hour) // kept beside the text
	s = schedule.WithAnchor(s, registered)
	fmt.Println(s)
	next(s, registered, 2)
	// Output:
	// rrule DTSTART:20260101T130000Z FREQ=WEEKLY;INTERVAL=2;BYDAY=FR;BYHOUR=9;BYMINUTE=0;BYSECOND=0
	// Fri 2026-01-02 09:00 UTC
	// Fri 2026-01-16 09:00 UTC
}

func ExampleDue() {
	s := schedule.Every(time.Hour, schedule.Anchor(newYear))
	back := newYear.Add(5*time.Hour + 30*time.Minute) // the scheduler was away for five hours
	for _, policy := range []schedule.Missed{schedule.RunOnce, schedule.Skip, schedule.RunAll} {
		slots, next, _ := schedule.Due(s, newYear, back, policy, 3)
		for _, slot := range slots {
			fmt.Print(slot.Format("15:04 "))
		}
		fmt.Println("next", next.Format("15:04"), "dropped", schedule.Count(s, newYear, back, 1000)-len(slots))
	}
	// Output:
	// 05:00 next 06:00 dropped 4
	// next 06:00 dropped 5
	// 03:00 04:00 05:00 next 06:00 dropped 2
}
