package task_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/schedule"
	"github.com/taktworks/takt/task"
)

// One entry of the type's name; each slot is one message with the right name, labels, queue and id, at times that do not drift.
func TestPeriodic(t *testing.T) {
	onBoth(t, testPeriodic)
}

func testPeriodic(t *testing.T, e *env) {
	const every = 20 * time.Millisecond
	typ := task.Define[struct{}, task.None]("test:Tick", task.Realtime, task.Large, task.Every(every, task.QueueUp, task.RunAll(1000)))
	e.schedules(task.SchedulerOptions{}, typ)
	e.eventually("ten slots", func() bool { return e.queued() >= 10 })
	equal(t, e.names(), []string{"test:Tick"})
	m := e.messages()[0]
	if m.Name != "test:Tick" || m.Labels.String("priority") != "realtime" || m.Labels.String("size") != "large" {
		t.Errorf("message %+v", m)
	}
	if v, ok := m.Labels.Get("periodic"); !ok || v != true {
		t.Errorf("label periodic = %v", v)
	}
	slots := e.slotsOf("test:Tick")
	evenly(t, slots, every)
	info := e.schedule("test:Tick")
	if first := info.Anchor.Add(every).UnixMilli(); slots[0] != first {
		t.Errorf("the first slot is %d, want the anchor and one interval: %d", slots[0], first)
	}
	if info.Fired < 10 || info.State != task.ScheduleActive || info.Spec != "every 20ms" || !info.Declared {
		t.Errorf("%+v", info)
	}
}

// Without a worker there is one pending copy, however many periods pass; when it begins, the next slot fires.
func TestSkipIfPending(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[struct{}, task.None]("test:Pile", task.Every(2*time.Millisecond))
	_, stop := e.schedules(task.SchedulerOptions{}, typ)
	e.eventually("100 periods", func() bool {
		all, err := e.client.Schedules(e.ctx())
		return err == nil && len(all) == 1 && all[0].Skipped+all[0].Dropped >= 100
	})
	same(t, e.queued(), 1)
	if d := e.schedule("test:Pile"); d.Fired != 1 || d.LastTask != e.messages()[0].ID {
		t.Errorf("%+v, want one fired", d)
	}
	key := e.key("tasks:unique:_schedule:test:Pile")
	if holder, _ := e.must("GET", key).ToString(); holder != e.messages()[0].ID {
		t.Errorf("the key is %q's", holder)
	}
	// While its task waits, a slot that is skipped prolongs the key.
	e.must("PEXPIRE", key, "60000")
	e.eventually("the key is prolonged", func() bool { return e.number("PTTL", key) > 3_600_000 })
	e.must("DEL", key) // its run begins
	e.eventually("one more", func() bool { return e.queued() == 2 })
	stop()
}

// SkipIfRunning holds until the end: by a key that the message carries for its end.
func TestSkipIfRunning(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[struct{}, task.None]("test:Long", task.Every(2*time.Millisecond, task.SkipIfRunning))
	e.schedules(task.SchedulerOptions{}, typ)
	e.eventually("some periods", func() bool {
		all, _ := e.client.Schedules(e.ctx())
		return len(all) == 1 && all[0].Skipped >= 10
	})
	all := e.messages()
	if len(all) != 1 || all[0].Meta.Unique != "_schedule:test:Long" || all[0].Meta.Start != "" {
		t.Errorf("messages %+v", all)
	}
}

// A type with Unique has one task with the same arguments, whoever submits it.
func TestPeriodicUnique(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[struct{}, task.None]("test:Only", task.Unique(time.Hour), task.Every(2*time.Millisecond, task.QueueUp))
	h := send(e, typ, struct{}{})
	e.schedules(task.SchedulerOptions{}, typ)
	e.eventually("some periods", func() bool {
		all, _ := e.client.Schedules(e.ctx())
		return len(all) == 1 && all[0].Skipped >= 5
	})
	same(t, e.queued(), 1)
	e.must("DEL", e.key("tasks:unique:"+e.messages()[0].Meta.Unique))
	e.eventually("a periodic one", func() bool { return e.queued() == 2 })
	var dup *task.DuplicateError
	if _, err := typ.Submit(e.ctx(), e.client, struct{}{}); !errors.As(err, &dup) || dup.ID == h.ID {
		t.Errorf("submitted beside a periodic one: %v", err)
	}
}

// Slots follow from what is stored: a scheduler that starts again keeps the anchor and makes up for what passed, as the entry says.
func TestRestartKeepsAnchor(t *testing.T) {
	e := newEnv(t)
	const every = 50 * time.Millisecond
	once := task.Define[struct{}, task.None]("test:Once", task.Every(every, task.QueueUp))
	all := task.Define[struct{}, task.None]("test:All", task.Every(every, task.RunAll(100)))
	skip := task.Define[struct{}, task.None]("test:Skip", task.Every(every, task.QueueUp, task.SkipMissed))
	weekly := task.Define[struct{}, task.None]("test:Biweekly", task.RRule("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=6;BYMINUTE=0;BYSECOND=0"))
	_, stop := e.schedules(task.SchedulerOptions{}, once, all, skip, weekly)
	e.eventually("slots of all", func() bool {
		return len(e.slotsOf("test:Once")) > 1 && len(e.slotsOf("test:All")) > 1 && len(e.slotsOf("test:Skip")) > 1
	})
	stop()
	before := make(map[string]task.ScheduleInfo)
	for _, name := range e.names() {
		before[name] = e.schedule(name)
	}
	missed := before["test:All"].Last.Add(5 * every)
	e.eventually("some slots are missed", func() bool { return time.Now().After(missed) })
	_, stop = e.schedules(task.SchedulerOptions{}, once, all, skip, weekly)
	e.eventually("they are made up for", func() bool {
		return e.schedule("test:All").Last.After(missed) && e.schedule("test:Once").Last.After(missed)
	})
	stop()
	for name, was := range before {
		if is := e.schedule(name); !is.Anchor.Equal(was.Anchor) || is.Last.Before(was.Last) || is.Fired < was.Fired {
			t.Errorf("%s was %+v and is %+v", name, was, is)
		}
	}
	evenly(t, e.slotsOf("test:All"), every)
	if is, was := e.schedule("test:Biweekly"), before["test:Biweekly"]; !is.Next.Equal(was.Next) || is.Next.Weekday() != time.Monday {
		t.Errorf("the biweekly rule went from %v to %v", was.Next, is.Next)
	}
	slots := e.slotsOf("test:Once")
	for i := 1; i < len(slots); i++ {
		if gap := slots[i] - slots[i-1]; gap <= 0 || gap%every.Milliseconds() != 0 {
			t.Errorf("slots %v are not of one grid", slots)
		}
	}
	if d := e.schedule("test:Once"); d.Dropped == 0 {
		t.Errorf("no slot is counted as dropped: %+v", d)
	}
}

// COUNT runs out once, over a restart: each of its slots fires, then the entry is finished and no trouble to others.
func TestCountEnds(t *testing.T) {
	e := newEnv(t)
	count := task.Define[struct{}, task.None]("test:Count", task.RRule("FREQ=SECONDLY;COUNT=3", task.RunAll(10)))
	tick := task.Define[struct{}, task.None]("test:Tick", task.Every(20*time.Millisecond))
	_, stop := e.schedules(task.SchedulerOptions{}, count, tick)
	e.eventually("the first", func() bool { return len(e.slotsOf("test:Count")) > 0 })
	stop()
	ended := make(chan task.ScheduleEvent, 16)
	_, stop = e.schedules(task.SchedulerOptions{Observe: func(ev task.ScheduleEvent) {
		if ev.Kind == "finished" {
			ended <- ev
		}
	}}, count, tick)
	if ev := wait(t, "it is finished", ended); ev.Name != "test:Count" {
		t.Errorf("%+v", ev)
	}
	if slots := e.slotsOf("test:Count"); len(slots) != 3 || slots[2]-slots[0] != 2000 {
		t.Errorf("slots %v, want three, a second apart", slots)
	}
	if d := e.schedule("test:Count"); d.State != task.ScheduleFinished || !d.Next.IsZero() || d.Fired != 3 {
		t.Errorf("%+v", d)
	}
	at := e.schedule("test:Tick").Last
	e.eventually("the other goes on", func() bool { return e.schedule("test:Tick").Last.After(at) })
	stop()
	e.schedules(task.SchedulerOptions{}, count, tick)
	e.eventually("again", func() bool { return e.schedule("test:Tick").Last.After(at.Add(100 * time.Millisecond)) })
	if d := e.schedule("test:Count"); d.State != task.ScheduleFinished || len(e.slotsOf("test:Count")) != 3 {
		t.Errorf("after one more start: %+v", d)
	}
}

// broken is a schedule with a mistake.
type broken struct{ schedule.Schedule }

func (broken) Next(time.Time) (time.Time, bool) { panic("a mistake") }

func (broken) String() string { return "broken" }

// What cannot be used is reported, and the others fire.
func TestBadEntriesAreIsolated(t *testing.T) {
	e := newEnv(t)
	bad := task.Define[struct{}, task.None]("test:Broken", task.Periodic(broken{}))
	panics := task.Define[int, task.None]("test:Args", task.Every(5*time.Millisecond, task.QueueUp, task.Args(func(f task.Firing) int {
		if f.Entry != "test:Args" || f.Slot.IsZero() {
			t.Errorf("firing %+v", f)
		}
		panic("no arguments")
	})))
	tick := task.Define[struct{}, task.None]("test:Tick", task.Small, task.Every(5*time.Millisecond, task.QueueUp))
	entries := e.key("scheduler:entries")
	e.must("HSET", entries, "garbage", "{", "zone", `{"name":"zone","task":"x","spec":"cron TZ=Nowhere/Town 0 0 * * *","state":"active"}`,
		"foreign", `{"name":"foreign","task":"x","spec":"every 5ms","declared":true,"state":"active","since":"2026-01-01T00:00:00Z"}`,
		"wrong", `{"name":"wrong","task":"x","queue":"realtime:large","spec":"every 5ms","state":"active","since":"2026-01-01T00:00:00Z"}`)
	e.must("SET", e.key("tasks:realtime:large"), "no stream")
	var mu sync.Mutex
	said := make(map[string]string)
	e.schedules(task.SchedulerOptions{Observe: func(ev task.ScheduleEvent) {
		mu.Lock()
		defer mu.Unlock()
		if ev.Err != nil {
			said[ev.Name] = ev.Kind
		}
	}}, bad, panics, tick)
	e.eventually("the good one fires", func() bool { return e.number("XLEN", e.key("tasks:normal:small")) >= 10 })
	for name, want := range map[string]task.ScheduleState{"test:Broken": task.ScheduleFailed, "garbage": task.ScheduleFailed, "zone": task.ScheduleUnclaimed,
		"foreign": task.ScheduleUnclaimed, "test:Args": task.ScheduleActive, "test:Tick": task.ScheduleActive} {
		all, err := e.client.Schedules(e.ctx())
		e.ok(err)
		i := slices.IndexFunc(all, func(s task.ScheduleInfo) bool { return s.Name == name })
		if i < 0 || all[i].State != want || want == task.ScheduleFailed && all[i].Error == "" {
			t.Errorf("%s: %+v, want %s", name, all[max(i, 0)], want)
		}
	}
	if d := e.schedule("test:Args"); d.Failed == 0 || d.Fired != 0 || !strings.Contains(d.Error, "no arguments") {
		t.Errorf("%+v, want slots that failed", d)
	}
	mu.Lock()
	defer mu.Unlock()
	for name, kind := range map[string]string{"test:Broken": "failed", "garbage": "failed", "zone": "unclaimed", "foreign": "unclaimed", "wrong": "refused"} {
		if said[name] != kind {
			t.Errorf("%s was reported as %q, want %q", name, said[name], kind)
		}
	}
	e.must("DEL", e.key("tasks:realtime:large"))
}

// An entry whose time zone a leader does not know is left as it is, and the next leader that knows it goes on with what is due and what was asked for.
func TestUnreadableEntriesAreLeftToOthers(t *testing.T) {
	e := newEnv(t)
	entries := e.key("scheduler:entries")
	e.must("HSET", entries, "zone", `{"name":"zone","task":"x","spec":"cron TZ=Mars/Olympus 0 6 1 1 *","state":"active","since":"2020-01-01T12:00:00Z",`+
		`"next_slot":"2021-01-01T05:00:00Z","fired":3,"asked":[{"id":"zone@now1","at":"2021-01-01T00:00:00Z"}]}`)
	s, stop := e.schedules(task.SchedulerOptions{})
	e.eventually("it is left", func() bool { return e.schedule("zone").State == task.ScheduleUnclaimed })
	d := e.schedule("zone")
	if !strings.Contains(d.Error, s.ID()) || !strings.Contains(d.Error, "Mars/Olympus") || d.Fired != 3 || !d.Last.IsZero() || d.Next.Year() != 2021 || d.Since.Year() != 2020 {
		t.Errorf("%+v", d)
	}
	same(t, e.queued(), 0)
	stop()

	raw, err := e.must("HGET", entries, "zone").ToString()
	e.ok(err)
	e.must("HSET", entries, "zone", strings.Replace(raw, "Mars/Olympus", "Europe/Berlin", 1)) // for a leader that knows the name
	e.schedules(task.SchedulerOptions{})
	e.eventually("both fire", func() bool { return e.queued() == 2 })
	if d := e.schedule("zone"); d.State != task.ScheduleActive || d.Error != "" || d.Fired != 5 {
		t.Errorf("%+v", d)
	}
}

// RunOnStart fires once with each start of a scheduler, and waits for nothing.
func TestRunOnStart(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[struct{}, task.None]("test:Warm", task.Every(time.Hour, task.RunOnStart(), task.QueueUp))
	for n := range int64(2) {
		_, stop := e.schedules(task.SchedulerOptions{Lease: shortLease}, typ)
		e.eventually("it fires", func() bool { return e.queued() == n+1 })
		e.must("DEL", e.key("scheduler:lock")) // one more election is no start
		e.leads()
		stop()
		same(t, e.queued(), n+1)
	}
}

// A scheduler moves delayed tasks, too, also while it stands by: here another one leads that never lets go.
func TestSchedulerPromotes(t *testing.T) {
	e := newEnv(t)
	e.must("SET", e.key("scheduler:lock"), "somebody")
	e.schedules(task.SchedulerOptions{})
	send(e, echo, "later", task.In(20*time.Millisecond))
	e.eventually("it is in its queue", func() bool { return e.queued() == 1 })
}

func TestSchedulerOptions(t *testing.T) {
	e := newEnv(t)
	for want, o := range map[string]task.SchedulerOptions{"Lease": {Lease: time.Millisecond}, "ID": {ID: "a\nb"}} {
		says(t, "", errOf(e.client.Scheduler(o)), want)
	}
	refused(t, "nil is taken", errOf(e.client.Scheduler(task.SchedulerOptions{}, nil)))
}
