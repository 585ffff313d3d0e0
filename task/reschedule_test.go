package task_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/task/internal/wire"
)

// Entries are added, changed, paused, resumed and removed at run time, also for types that no program here knows.
func TestDynamicSchedules(t *testing.T) {
	e := newEnv(t)
	ctx := e.ctx()
	e.schedules(task.SchedulerOptions{Lease: time.Minute})
	e.leads()
	entry := task.ScheduleEntry{Name: "nightly", Task: "jobs:Clean", Queue: "background:large", Spec: "every 10ms", Args: json.RawMessage(`["a", {"b": 1.5}, 7]`), VO: "lhcb", Overlap: task.QueueUp}
	e.ok(e.client.AddSchedule(ctx, entry))
	fails(t, e.client.AddSchedule(ctx, entry), task.ErrScheduleExists)
	e.eventually("it fires", func() bool { return len(e.slotsOf("nightly")) > 2 })
	m := e.messages()[0]
	want, err := wire.FromJSON(entry.Args)
	e.ok(err)
	if m.Name != "jobs:Clean" || m.Labels.String("size") != "large" || m.Labels.String("vo") != "lhcb" || string(m.Args) != string(want) {
		t.Errorf("message %+v", m)
	}

	e.ok(e.client.PauseSchedule(ctx, "nightly"))
	n := len(e.slotsOf("nightly"))
	paused := e.schedule("nightly")
	id, err := e.client.RunScheduleNow(ctx, "nightly")
	e.ok(err)
	e.eventually("the one that is wanted now", func() bool { return slices.ContainsFunc(e.messages(), func(m wire.Message) bool { return m.ID == id }) })
	if d := e.schedule("nightly"); int(e.queued()) != n+1 || !d.Paused || !d.Last.Equal(paused.Last) || d.Fired != paused.Fired+1 {
		t.Errorf("%d tasks after %d, %+v", e.queued(), n, d)
	}
	e.pass(200 * time.Millisecond) // 20 slots
	e.ok(e.client.ResumeSchedule(ctx, "nightly"))
	e.eventually("it fires again", func() bool { d := e.schedule("nightly"); return !d.Paused && d.Fired > paused.Fired+2 })
	// Slots of the pause were not missed; a busy machine may miss others.
	if d := e.schedule("nightly"); d.Fired-paused.Fired-1+d.Dropped-paused.Dropped > int64(d.Last.Sub(d.Since)/(10*time.Millisecond))+1 {
		t.Errorf("%+v, was %+v", d, paused)
	}

	changed := entry
	changed.Spec, changed.Args = "every 1h", nil
	e.ok(e.client.UpdateSchedule(ctx, changed))
	d := e.schedule("nightly")
	if !d.Anchor.After(paused.Anchor) || !d.Next.Equal(d.Anchor.Add(time.Hour)) || d.Fired == 0 || d.Last.IsZero() || d.Args != nil {
		t.Errorf("changed: %+v", d)
	}
	e.ok(e.client.RemoveSchedule(ctx, "nightly"))
	for what, err := range map[string]error{
		"remove": e.client.RemoveSchedule(ctx, "nightly"), "pause": e.client.PauseSchedule(ctx, "nightly"), "resume": e.client.ResumeSchedule(ctx, "nightly"),
		"update": e.client.UpdateSchedule(ctx, entry),
	} {
		if !errors.Is(err, task.ErrNoSchedule) {
			t.Errorf("%s of one that is gone: %v", what, err)
		}
	}
	fails(t, errOf(e.client.RunScheduleNow(ctx, "nightly")), task.ErrNoSchedule)
}

// An entry is added with an exact time: an anchor to the millisecond, from which on it repeats, or a rule that has that one slot. It fires at that time and not before.
func TestAddScheduleAtAnExactTime(t *testing.T) {
	long.Test(t, "waits for a time")
	t.Parallel() // most of the time it waits for that time
	e := newEnv(t)
	now := e.clock()
	anchor := now.Add(3 * time.Second).Truncate(time.Millisecond) // a busy machine must have added both by then
	second := now.Add(5 * time.Second).Truncate(time.Second)
	for _, entry := range []task.ScheduleEntry{
		{Name: "repeats", Task: "test:Exact", Spec: "every 1h", Anchor: anchor},
		{Name: "once", Task: "test:Exact", Spec: "rrule FREQ=DAILY;COUNT=1", Anchor: second},
	} {
		e.ok(e.client.AddSchedule(e.ctx(), entry))
		if d := e.schedule(entry.Name); !d.Next.Equal(entry.Anchor) || d.State != task.ScheduleActive {
			t.Errorf("%s: next at %v, want %v (%+v)", entry.Name, d.Next, entry.Anchor, d)
		}
	}
	e.schedules(task.SchedulerOptions{})
	e.eventually("both fire", func() bool { return e.queued() == 2 })
	for name, at := range map[string]time.Time{"repeats": anchor, "once": second} {
		equal(t, e.slotsOf(name), []int64{at.UnixMilli()})
	}
	entries, err := e.must("XRANGE", e.key("tasks:normal:medium"), "-", "+").AsXRange()
	e.ok(err)
	for i, at := range []time.Time{anchor, second} { // an entry's id begins with when it was added
		added, _, _ := strings.Cut(entries[i].ID, "-")
		if added < strconv.FormatInt(at.UnixMilli(), 10) {
			t.Errorf("added at %s, want not before %d", added, at.UnixMilli())
		}
	}
	if d := e.schedule("repeats"); !d.Next.Equal(anchor.Add(time.Hour)) {
		t.Errorf("the next is at %v", d.Next)
	}
	e.eventually("the one is over", func() bool { return e.schedule("once").State == task.ScheduleFinished })
}

func TestAddScheduleRefuses(t *testing.T) {
	e := newEnv(t)
	good := task.ScheduleEntry{Name: "n", Task: "t", Spec: "every 1h"}
	for name, change := range map[string]func(*task.ScheduleEntry){
		"name":      func(s *task.ScheduleEntry) { s.Name = "" },
		"task":      func(s *task.ScheduleEntry) { s.Task = "" },
		"queue":     func(s *task.ScheduleEntry) { s.Queue = "urgent:tiny" },
		"kind":      func(s *task.ScheduleEntry) { s.Spec = "sometimes" },
		"UNTIL":     func(s *task.ScheduleEntry) { s.Spec = "rrule FREQ=DAILY;UNTIL=20200101T000000Z" },
		"Args":      func(s *task.ScheduleEntry) { s.Args = json.RawMessage(`{"a":1} 2`) },
		"JSON":      func(s *task.ScheduleEntry) { s.Args = json.RawMessage(`[`) },
		"Jitter":    func(s *task.ScheduleEntry) { s.Jitter = 48 * time.Hour },
		"Overlap":   func(s *task.ScheduleEntry) { s.Overlap = "maybe" },
		"Missed":    func(s *task.ScheduleEntry) { s.Missed = "maybe" },
		"VO":        func(s *task.ScheduleEntry) { s.VO = "a\nb" },
		"MaxMissed": func(s *task.ScheduleEntry) { s.MaxMissed = -1 },
	} {
		bad := good
		change(&bad)
		says(t, "", e.client.AddSchedule(e.ctx(), bad), name)
	}
	if got := e.names(); len(got) != 0 {
		t.Errorf("entries %q", got)
	}
}

// What code declares cannot be removed or changed by operators, but paused, over restarts; when the code changes, the entry does. One whose code is gone is reported, and can be removed.
func TestDeclaredSchedules(t *testing.T) {
	e := newEnv(t)
	ctx := e.ctx()
	define := func(every time.Duration) *task.Type[struct{}, task.None] {
		return task.Define[struct{}, task.None]("test:Coded", task.Every(every))
	}
	_, stop := e.schedules(task.SchedulerOptions{}, define(time.Hour))
	e.eventually("it is registered", func() bool { return len(e.names()) == 1 })
	first := e.schedule("test:Coded")
	fails(t, e.client.RemoveSchedule(ctx, "test:Coded"), task.ErrDeclared)
	fails(t, e.client.UpdateSchedule(ctx, task.ScheduleEntry{Name: "test:Coded", Task: "x", Spec: "every 1m"}), task.ErrDeclared)
	if err := e.client.PauseSchedule(ctx, "test:Coded"); err != nil {
		t.Error(err)
	}
	stop()

	_, stop = e.schedules(task.SchedulerOptions{}, define(2*time.Hour))
	e.eventually("it is changed", func() bool { return e.schedule("test:Coded").Spec == "every 2h" })
	if d := e.schedule("test:Coded"); !d.Paused || !d.Anchor.After(first.Anchor) || !d.Next.Equal(d.Anchor.Add(2*time.Hour)) {
		t.Errorf("%+v after %+v", d, first)
	}
	stop()

	e.schedules(task.SchedulerOptions{})
	e.eventually("nobody claims it", func() bool { return e.schedule("test:Coded").State == task.ScheduleUnclaimed })
	if err := e.client.RemoveSchedule(ctx, "test:Coded"); err != nil {
		t.Error(err)
	}
}

// The configuration changes schedules without a restart, for all VOs and for one, and is taken back.
func TestConfigOfSchedules(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[string, task.None]("test:Tenant", task.Every(time.Hour, task.PerVO("a", "b")))
	e.schedules(task.SchedulerOptions{Lease: time.Minute}, typ)
	both := []string{"test:Tenant@a", "test:Tenant@b"}
	e.eventually("two entries", func() bool { return slices.Equal(e.names(), both) })
	config, err := task.ParseConfig([]byte("common:\n  test:Tenant:\n    schedule: every 10ms\nvo_overrides:\n  b:\n    test:Tenant:\n      enabled: false\n"))
	e.ok(err)
	e.ok(e.client.SetConfig(e.ctx(), config, typ))
	e.eventually("it applies", func() bool {
		return e.schedule(both[0]).Fired > 0 && e.schedule(both[1]).State == task.ScheduleDisabled
	})
	before := e.schedule(both[1])
	e.ok(e.client.SetConfig(e.ctx(), task.Config{}))
	e.eventually("it is taken back", func() bool {
		return e.schedule(both[0]).Spec == "every 1h" && e.schedule(both[1]).State == task.ScheduleActive
	})
	if d := e.schedule(both[1]); d.Fired != 0 || !d.Since.After(before.Since) {
		t.Errorf("the one that was disabled: %+v", d)
	}
}

// An entry in code is like one of a type, and needs no type.
func TestEntryInCode(t *testing.T) {
	e := newEnv(t)
	entry := task.ScheduleEntry{Name: "code", Task: "other:Type", Queue: "normal:small", Spec: "every 10ms", Args: json.RawMessage(` [ "<a>" ] `)}
	_, stop := e.schedules(task.SchedulerOptions{}, entry)
	e.eventually("it fires", func() bool { return len(e.slotsOf("code")) > 0 })
	if m := e.messages()[0]; m.Name != "other:Type" || string(m.Args) != "\x91\xa3<a>" {
		t.Errorf("%+v", m)
	}
	stop()
	anchor := e.schedule("code").Anchor
	e.schedules(task.SchedulerOptions{}, entry)
	e.eventually("it goes on", func() bool { return e.schedule("code").Skipped > 5 })
	if d := e.schedule("code"); !d.Anchor.Equal(anchor) || !d.Declared {
		t.Errorf("%+v", d)
	}
	refused(t, "two entries of one name are taken", errOf(e.client.Scheduler(task.SchedulerOptions{}, entry, entry)))
	entry.Spec = "often"
	refused(t, "a bad spec is taken", errOf(e.client.Scheduler(task.SchedulerOptions{}, entry)))
}
