package recipe

import (
	"fmt"
	"testing"
	"time"
)

// An event that came early is there for every run that had begun by then, however late its action waits; for others until its time is over.
func TestEarlyEventLivesAsLongAsARun(t *testing.T) {
	at := func(d time.Duration) int64 { return epoch.Add(d).UnixMilli() }
	for name, c := range map[string]struct {
		at, until, now time.Duration
		began          time.Duration
		taken          bool
	}{
		"in time":                             {0, time.Minute, 59 * time.Second, -time.Hour, true},
		"in time, by a later run":             {0, time.Minute, 59 * time.Second, 30 * time.Second, true},
		"over, by a run that had begun":       {0, time.Minute, 75 * time.Second, -time.Second, true},
		"over, by a run that began just then": {0, time.Minute, 75 * time.Second, 0, true},
		"over, by a later run":                {0, time.Minute, 75 * time.Second, 30 * time.Second, false},
		"long over, by a run that had begun":  {0, time.Minute, 23 * time.Hour, -time.Second, true},
	} {
		ev := PullEvent{ID: "1", Source: "s", Subject: "cell-07", At: at(c.at), Until: at(c.until)}
		m := &Mailbox{Events: []PullEvent{ev}}
		if i := m.early(Waiting{Since: at(c.began)}, "cell-07", at(c.now)); (i == 0) != c.taken {
			t.Errorf("%s: taken %v, want %v", name, i == 0, c.taken)
		}
	}
}

// What no run can take any more goes, and what only old runs can take does not fill a mailbox.
func TestMailboxForgetsInTheEnd(t *testing.T) {
	at := func(d time.Duration) int64 { return epoch.Add(d).UnixMilli() }
	m := &Mailbox{}
	for i := range 100 {
		m.Events = append(m.Events, PullEvent{ID: fmt.Sprint(i), At: at(0), Until: at(time.Minute)})
	}
	m.Events = append(m.Events, PullEvent{ID: "fresh", At: at(time.Minute), Until: at(2 * time.Minute)})
	now := at(90 * time.Second)
	if !m.hasExpired(now) {
		t.Fatal("nothing has expired")
	}
	c := m.Clone()
	c.expire(now)
	if n := len(c.Events); n > maxHeld+1 || n < maxHeld || c.Events[n-1].ID != "fresh" || c.Events[n-2].ID != "99" {
		t.Errorf("%d events are left, the last %v", n, c.Events[max(n-2, 0):])
	}
	if c.hasExpired(now) {
		t.Error("expiring again would remove more: each decision would write the mailbox")
	}
	if c.expire(at(MailboxHold + 3*time.Minute)); !c.Empty() {
		t.Errorf("%d events stay", len(c.Events))
	}
}

// A repetition changes nothing while the event is kept for everybody, and gives it its time anew after that.
func TestRepetitionKeepsAnEarlyEvent(t *testing.T) {
	at := func(d time.Duration) int64 { return epoch.Add(d).UnixMilli() }
	m := &Mailbox{}
	came := func(d time.Duration) bool {
		return m.Keep(PullEvent{ID: "1", Source: "s", Subject: "cell-07", At: at(d), Until: at(d + time.Minute)}, "")
	}
	if !came(0) || came(30*time.Second) || !came(time.Minute) {
		t.Error("kept, unchanged and renewed is what was wanted")
	}
	if len(m.Events) != 1 || m.Events[0].At != at(0) || m.Events[0].Until != at(2*time.Minute) {
		t.Errorf("%+v", m.Events)
	}
}

// An action that takes an early event says so: the event is handled from then on.
func TestTakenEarlyEventIsNamed(t *testing.T) {
	r := newRun(t, "step A*\non e @ A type t", nil)
	mail := map[string]*Mailbox{"t": {Events: []PullEvent{{ID: "1", Source: "s", Subject: r.o.Scope, At: epoch.UnixMilli(), Until: epoch.Add(time.Minute).UnixMilli()}}}}
	out := r.p.Start(r.o, "WM-1", "1-0", mail, epoch)
	if len(out.Taken) != 1 || out.Taken[0].ID != "1" || out.Taken[0].Source != "s" {
		t.Errorf("taken: %+v", out.Taken)
	}
	if out = r.p.Start(r.o, "WM-1", "1-0", nil, epoch); len(out.Taken) != 0 {
		t.Errorf("taken: %+v", out.Taken)
	}
}
