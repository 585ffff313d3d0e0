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
