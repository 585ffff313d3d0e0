package jobstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// ledger is what is kept of installation time, in milliseconds.
func (s *shop) ledger() (offset, last, resumed int64) {
	s.t.Helper()
	field := func(name string) int64 { return s.number("HGET", s.keys.SfcClock(), name) }
	return field("offset"), field("last"), field("resumed")
}

func (s *shop) due(intake bool) []isa95.JobOrderID {
	s.t.Helper()
	ids, err := s.Due(s.t.Context(), 10, time.Minute, intake)
	if err != nil {
		s.t.Fatal(err)
	}
	return ids
}

// The server's clock and what the ledger has of it, set as if the last look for timers had been so long ago by that clock.
func (s *shop) lastLookWas(ago time.Duration) (last int64) {
	s.t.Helper()
	last = s.serverTime() - ago.Milliseconds()
	s.do("HSET", s.keys.SfcClock(), "offset", "0", "last", fmt.Sprint(last), "resumed", "0")
	return last
}

func (s *shop) serverTime() int64 {
	s.t.Helper()
	at, err := s.do("TIME").AsIntSlice()
	if err != nil {
		s.t.Fatal(err)
	}
	return at[0]*1000 + at[1]/1000
}

// A break in which no process looked for timers, and a step of the server's clock in either direction, let no timer be due: installation time
// stands still, and one offset has it for all processes. Each process that comes then finds the same time.
func TestInstallationTimeStandsStill(t *testing.T) {
	for name, ago := range map[string]time.Duration{
		"an outage of 15 s": 15 * time.Second, "a step forward": time.Hour, "a step back": -time.Hour, "just a break": 3 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			srv := testenv.Redis(t)
			a := openShop(t, srv, jobstore.Options{})
			prefix := a.keys.Prefix()
			last := a.lastLookWas(ago)
			a.do("ZADD", a.keys.SfcTimers(), fmt.Sprint(last+12_000), "JO-1") // in 12 s
			b := openShop(t, srv, jobstore.Options{Prefix: prefix})
			for _, s := range []*shop{a, b} {
				if due := s.due(true); len(due) != 0 {
					t.Errorf("due: %v", due)
				}
				offset, at, resumed := s.ledger()
				if off := offset - ago.Milliseconds(); off < 0 || off > 60_000 {
					t.Errorf("offset %d ms, want about %v", offset, ago)
				}
				if resumed != last || at < last || at-last > 60_000 {
					t.Errorf("last %d, resumed %d, want both about %d", at, resumed, last)
				}
				if got := s.Resumed().UnixMilli(); got != last {
					t.Errorf("the process believes that answers come since %d, want %d", got, last)
				}
				if got := s.InstallationTime().UnixMilli(); got < last || got-last > 60_000 {
					t.Errorf("the process believes that it is %d ms after the last look", got-last)
				}
			}
			// The rest of the 12 s is left, and no more.
			a.do("ZADD", a.keys.SfcTimers(), fmt.Sprint(last), "JO-1")
			if due := b.due(true); len(due) != 1 {
				t.Errorf("due after the break: %v", due)
			}
		})
	}
}

// While looks come often, installation time is the server's time, to the millisecond: nothing is written into the offset.
func TestInstallationTimeRuns(t *testing.T) {
	s := newShop(t)
	for range 20 {
		s.due(true)
	}
	offset, last, _ := s.ledger()
	if now := s.serverTime(); offset != 0 || last > now {
		t.Errorf("offset %d, last %d ms before now", offset, now-last)
	}
	timer := s.serverTime()
	s.do("ZADD", s.keys.SfcTimers(), fmt.Sprint(timer), "JO-1")
	if due := s.due(true); len(due) != 1 {
		t.Errorf("a timer that is due by the server's clock: %v", due)
	}
}

// A process that takes no answers finds nothing due and moves no time, so it hides no break from others.
func TestWhoTakesNoAnswersMovesNoTime(t *testing.T) {
	s := newShop(t)
	last := s.lastLookWas(15 * time.Second)
	s.do("ZADD", s.keys.SfcTimers(), fmt.Sprint(last-1), "JO-1")
	for range 3 {
		if due := s.due(false); len(due) != 0 {
			t.Errorf("due: %v", due)
		}
	}
	if offset, at, _ := s.ledger(); offset != 0 || at != last {
		t.Errorf("offset %d, last moved by %d ms", offset, at-last)
	}
	if got := s.InstallationTime().UnixMilli(); got-last > 2100 {
		t.Errorf("installation time ran on by %d ms", got-last)
	}
	if due := s.due(true); len(due) != 1 {
		t.Errorf("due: %v", due)
	}
}

// A Redis that answers so late that answers of equipment cannot be committed in time is like none: its time does not count.
func TestSlowRedisMovesNoTime(t *testing.T) {
	long.Test(t, "delays the answers of Redis")
	srv := testenv.Redis(t)
	proxy := testenv.CountingProxy(t, srv.URL)
	s := openShop(t, srv, jobstore.Options{URL: proxy.URL})
	s.due(true)
	proxy.Delay(600 * time.Millisecond)
	s.due(true) // finds out
	_, before, _ := s.ledger()
	s.do("ZADD", s.keys.SfcTimers(), "1", "JO-1")
	if due := s.due(true); len(due) != 0 {
		t.Errorf("due: %v", due)
	}
	if _, after, _ := s.ledger(); after != before {
		t.Errorf("installation time ran on by %d ms", after-before)
	}
	proxy.Delay(0)
	eventually(t, "time goes on", func() bool { return len(s.due(true)) == 1 })
}

// A Redis that hangs puts no time ahead: neither dates, by which commands expire, nor installation time, by which recipes wait.
func TestHungRedisPutsNoTimeAhead(t *testing.T) {
	long.Test(t, "lets Redis hang for 1.5 s")
	srv := testenv.Redis(t)
	s := openShop(t, srv, jobstore.Options{})
	s.due(true)
	srv.Pause(t)
	hung, looked := time.Now(), make(chan error, 1)
	go func() {
		_, err := s.Due(t.Context(), 10, time.Minute, true)
		looked <- err
	}()
	testenv.Eventually(t, "it hangs for long", func() bool { return time.Since(hung) > 1500*time.Millisecond })
	srv.Continue(t)
	if err := <-looked; err != nil {
		t.Fatal(err)
	}
	date, installation := s.Now().UnixMilli(), s.InstallationTime().UnixMilli()
	const drift = 50 // ms between the monotonic and the wall clock of this machine
	offset, _, _ := s.ledger()
	now := s.serverTime()
	if ahead := date - now; ahead > drift {
		t.Errorf("dates are %d ms ahead", ahead)
	}
	if ahead := installation + offset - now; ahead > drift {
		t.Errorf("installation time is %d ms ahead", ahead)
	}
}

// With no ledger installation time is that.
func TestWithoutLedgerItIsTheServersClock(t *testing.T) {
	s := newShop(t)
	if got := s.InstallationTime().UnixMilli() - s.serverTime(); got < -60_000 || got > 60_000 {
		t.Errorf("installation time is %d ms off", got)
	}
	s.do("ZADD", s.keys.SfcTimers(), fmt.Sprint(s.serverTime()), "JO-1", fmt.Sprint(s.serverTime()+60_000), "later")
	if due := s.due(true); len(due) != 1 || due[0] != "JO-1" {
		t.Errorf("due: %v", due)
	}
}

// A store that was emptied, or replaced by an old copy, has another installation time: processes follow it, also back.
func TestInstallationTimeOfAnotherStore(t *testing.T) {
	s := newShop(t)
	s.lastLookWas(-time.Hour) // the server's clock went back an hour: installation time is ahead of it
	s.due(true)
	if got := s.InstallationTime().UnixMilli() - s.serverTime(); got < 3_500_000 {
		t.Fatalf("installation time is %d ms ahead", got)
	}
	s.do("DEL", s.keys.SfcClock())
	s.due(true)
	if got := s.InstallationTime().UnixMilli() - s.serverTime(); got > 60_000 {
		t.Errorf("installation time is still %d ms ahead", got)
	}
}
