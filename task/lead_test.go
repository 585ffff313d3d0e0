package task_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/task"
)

// A leader that is stalled past its lease is replaced; no slot fires twice, none is missed, and when it comes back it stands by, and leads again later.
func TestStalledLeader(t *testing.T) {
	long.Test(t, "waits for leases to end")
	t.Parallel() // most of the time it waits for the lease to end
	e := newEnv(t)
	const every = 10 * time.Millisecond
	typ := task.Define[struct{}, task.None]("test:Tick", task.Every(every, task.RunAll(10_000)))
	far, proxy := e.behind()
	var lost atomic.Int64
	e.schedulesOn(far, task.SchedulerOptions{ID: "stalled", Lease: shortLease, Observe: func(ev task.ScheduleEvent) {
		if ev.Kind == "lost" {
			lost.Add(1)
		}
	}}, typ)
	if id := e.leads(); id != "stalled" {
		t.Fatalf("%s leads", id)
	}
	_, stop := e.schedules(task.SchedulerOptions{ID: "other", Lease: shortLease}, typ)
	for round := range int64(2) {
		e.eventually("it fires", func() bool { return len(e.slotsOf("test:Tick")) > 10 })
		proxy.Stall(true)
		since := time.Now()
		e.leads("stalled")
		t.Logf("another one leads after %v, the lease is %v", time.Since(since), shortLease)
		n := len(e.slotsOf("test:Tick"))
		e.eventually("the other fires", func() bool { return len(e.slotsOf("test:Tick")) > n+10 })
		proxy.Stall(false)
		e.eventually("the stalled one knows", func() bool { return lost.Load() == round+1 })
		if round == 0 { // it leads again once the other one resigns, at once
			stop()
			if id := e.leads("other"); id != "stalled" {
				t.Fatalf("%s leads", id)
			}
			_, stop = e.schedules(task.SchedulerOptions{ID: "other", Lease: shortLease}, typ)
		}
	}
	evenly(t, e.slotsOf("test:Tick"), every)
}

// A leader that stops lets the next one lead at once, long before its lease is over; the term grows.
func TestHandOver(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[struct{}, task.None]("test:Tick", task.Every(time.Hour))
	_, stop := e.schedules(task.SchedulerOptions{ID: "a", Lease: time.Hour}, typ)
	e.leads()
	_, before, _ := e.client.SchedulerLeader(e.ctx())
	e.schedules(task.SchedulerOptions{ID: "b", Lease: time.Hour}, typ)
	stop()
	e.leads("a")
	if id, term, err := e.client.SchedulerLeader(e.ctx()); id != "b" || term <= before || err != nil {
		t.Errorf("%s leads with term %d after %d, %v", id, term, before, err)
	}
}

// Redis forgets everything, or goes away: what code declares is registered again, and the scheduler goes on with a higher term.
func TestFlush(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[struct{}, task.None]("test:Tick", task.Every(10*time.Millisecond))
	e.schedules(task.SchedulerOptions{Lease: shortLease}, typ)
	e.eventually("it fires", func() bool { return e.queued() > 0 })
	_, before, _ := e.client.SchedulerLeader(e.ctx())
	for range 3 {
		e.must("FLUSHALL")
		e.eventually("it fires again", func() bool { return e.queued() > 0 })
		_, term, err := e.client.SchedulerLeader(e.ctx())
		if err != nil || term <= before {
			t.Errorf("term %d after %d, %v", term, before, err)
		}
		before = term
	}
}

// A slot fires once also if the reply to its firing is lost; a lock that is deleted is an election.
func TestLostReplies(t *testing.T) {
	long.Test(t, "loses replies again and again")
	e := newEnv(t)
	const every = 10 * time.Millisecond
	far, proxy := e.behind()
	typ := task.Define[struct{}, task.None]("test:Tick", task.Every(every, task.RunAll(10_000)))
	e.schedulesOn(far, task.SchedulerOptions{Lease: shortLease}, typ)
	for range 5 {
		n := len(e.slotsOf("test:Tick"))
		e.eventually("it fires", func() bool { return len(e.slotsOf("test:Tick")) > n+3 })
		proxy.LoseReplies(2)
		e.must("DEL", e.key("scheduler:lock"))
	}
	n := len(e.slotsOf("test:Tick"))
	e.eventually("it fires", func() bool { return len(e.slotsOf("test:Tick")) > n+3 })
	evenly(t, e.slotsOf("test:Tick"), every)
}
