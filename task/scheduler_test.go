package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/task/internal/wire"
	"github.com/taktworks/takt/task/schedule"
)

// shortLease is long enough for a busy machine.
const shortLease = 900 * time.Millisecond

// schedules runs a scheduler until the test ends, or stop is called.
func (e *env) schedules(o task.SchedulerOptions, what ...task.Schedulable) (s *task.Scheduler, stop func()) {
	e.t.Helper()
	return e.schedulesOn(e.client, o, what...)
}

func (e *env) schedulesOn(c *task.Client, o task.SchedulerOptions, what ...task.Schedulable) (s *task.Scheduler, stop func()) {
	e.t.Helper()
	if o.Lease == 0 {
		o.Lease = shortLease
	}
	s, err := c.Scheduler(o, what...)
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := wait(e.t, "the scheduler stops", end); err != nil {
			e.t.Errorf("Run: %v", err)
		}
	})
	e.t.Cleanup(stop)
	return s, stop
}

// messages are the tasks of all queues, in order.
func (e *env) messages() (all []wire.Message) {
	e.t.Helper()
	for _, q := range task.Queues() {
		entries, err := e.must("XRANGE", e.key("tasks:"+string(q)), "-", "+").AsXRange()
		if err != nil {
			e.t.Fatal(err)
		}
		for _, entry := range entries {
			m, err := wire.Decode([]byte(entry.FieldValues["data"]))
			if err != nil {
				e.t.Fatal(err)
			}
			all = append(all, m)
		}
	}
	return all
}

// slotsOf are the slots in the ids of an entry's tasks, in milliseconds.
func (e *env) slotsOf(entry string) (slots []int64) {
	e.t.Helper()
	for _, m := range e.messages() {
		if text, ok := strings.CutPrefix(m.ID, entry+"@"); ok {
			slot, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				e.t.Fatalf("id %q: %v", m.ID, err)
			}
			slots = append(slots, slot)
		}
	}
	return slots
}

func (e *env) schedule(name string) task.ScheduleInfo {
	e.t.Helper()
	s, err := e.client.Schedule(e.ctx(), name)
	if err != nil {
		e.t.Fatal(err)
	}
	return s
}

func (e *env) names() (names []string) {
	e.t.Helper()
	all, err := e.client.Schedules(e.ctx())
	if err != nil {
		e.t.Fatal(err)
	}
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names
}

// leads waits until a scheduler is elected, other than those named.
func (e *env) leads(but ...string) string {
	e.t.Helper()
	var id string
	e.eventually("a leader", func() bool {
		var err error
		id, _, err = e.client.SchedulerLeader(e.ctx())
		return err == nil && id != "" && !slices.Contains(but, id)
	})
	return id
}

// evenly fails if a slot is there twice, or one between the first and the last is missing.
func evenly(t *testing.T, slots []int64, every time.Duration) {
	t.Helper()
	for i := 1; i < len(slots); i++ {
		if slots[i]-slots[i-1] != every.Milliseconds() {
			t.Errorf("slot %d follows %d: want every %v; all: %v", slots[i], slots[i-1], every, slots)
		}
	}
}

// task-F1, task-F7, S2, plus-6: one entry of the type's name; each slot is one message with the right name, labels, queue and id, at times that do not drift.
func TestPeriodic(t *testing.T) {
	const every = 20 * time.Millisecond
	for name, srv := range map[string]func(testing.TB) *testenv.RedisServer{"redis": testenv.Redis, "cluster": testenv.RedisCluster, "miniredis": testenv.Miniredis} {
		t.Run(name, func(t *testing.T) {
			e := newEnvOn(t, srv(t))
			typ := task.Define[struct{}, task.None]("test:Tick", task.Realtime, task.Large, task.Every(every, task.QueueUp, task.RunAll(1000)))
			e.schedules(task.SchedulerOptions{}, typ)
			e.eventually("ten slots", func() bool { return e.queued() >= 10 })
			if got := e.names(); !slices.Equal(got, []string{"test:Tick"}) {
				t.Errorf("entries %q", got)
			}
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
		})
	}
}

// task-F2, task-H1: a disabled schedule has no entry, and one that it had goes; enabled again, it has.
func TestDisabled(t *testing.T) {
	e := newEnv(t)
	define := func(on bool, every time.Duration) *task.Type[struct{}, task.None] {
		opts := []task.PeriodicOption{task.QueueUp}
		if !on {
			opts = append(opts, task.Disabled())
		}
		return task.Define[struct{}, task.None]("test:Monitor", task.Background, task.Small, task.Every(every, opts...))
	}
	other := task.Define[struct{}, task.None]("test:Other", task.Every(time.Hour))
	for _, on := range []bool{false, true, false} {
		_, stop := e.schedules(task.SchedulerOptions{}, define(on, 10*time.Second), other)
		want := []string{"test:Other"}
		if on {
			want = []string{"test:Monitor", "test:Other"}
		}
		e.eventually(fmt.Sprint("the entries ", want), func() bool { return slices.Equal(e.names(), want) })
		if on {
			if d := e.schedule("test:Monitor"); d.Next.Sub(d.Since) != 10*time.Second {
				t.Errorf("the next slot is %v after registration, want 10s", d.Next.Sub(d.Since))
			}
		}
		stop()
	}
}

// task-H2, task-F6, task-A13: what cannot be a schedule is refused when the type is defined, with an error that says why.
func TestDefinePeriodicRefuses(t *testing.T) {
	type args struct{ N int }
	for name, c := range map[string]struct {
		define func()
		want   string
	}{
		"interval 0": {func() { task.Define[args, task.None]("a", task.Every(0)) }, "at least 1ms"},
		"bad cron":   {func() { task.Define[args, task.None]("a", task.Cron("61 * * * *")) }, "cron minute"},
		"bad rule":   {func() { task.Define[args, task.None]("a", task.RRule("FREQ=NEVER")) }, "FREQ"},
		"nil":        {func() { task.Define[args, task.None]("a", task.Periodic(nil)) }, "nil"},
		"anchor twice": {func() {
			task.Define[args, task.None]("a", task.Periodic(schedule.Every(time.Hour), task.Anchor(time.Now())))
		}, "belong to the schedule"},
		"zone": {func() { task.Define[args, task.None]("a", task.Cron("@daily", task.TimeZone(time.FixedZone("X", 60)))) }, "X"},
		"args": {func() {
			task.Define[args, task.None]("a", task.Every(time.Hour, task.Args(func(task.Firing) int { return 1 })))
		}, "Args"},
		"vo":     {func() { task.Define[args, task.None]("a", task.Every(time.Hour, task.PerVO("x"))) }, "PerVO"},
		"jitter": {func() { task.Define[args, task.None]("a", task.Every(time.Hour, task.Jitter(-1))) }, "Jitter"},
		"twice":  {func() { task.Define[args, task.None]("a", task.Every(time.Hour), task.Cron("@daily")) }, "EntryName"},
		"name":   {func() { task.Define[args, task.None](strings.Repeat("n", 120), task.Every(time.Hour)) }, "112 bytes"},
		"all but one skipped": {func() {
			task.Define[args, task.None]("a", task.Every(time.Hour, task.RunAll(3), task.SkipIfPending))
		}, "queue_up"},
		"too many":    {func() { task.Define[args, task.None]("a", task.Every(time.Hour, task.RunAll(10_001))) }, "10000"},
		"bad overlap": {func() { task.Define[args, task.None]("a", task.Every(time.Hour, task.Overlap("x"))) }, "skip_if_running"},
		"bad missed":  {func() { task.Define[args, task.None]("a", task.Every(time.Hour, task.Missed("x"))) }, "run_once"},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if v := recover(); !strings.Contains(fmt.Sprint(v), c.want) {
					t.Errorf("panic %v, want one with %q", v, c.want)
				}
			}()
			c.define()
			t.Error("it was defined")
		})
	}
}

// task-B3, L13: a periodic type has a mutex of its registered name, or of its name and the VO; a type with Locks has those.
func TestPeriodicMutex(t *testing.T) {
	type forVO struct {
		VO string
		N  int
	}
	if got := task.LockKeys(task.Define[struct{}, task.None]("a:Plain", task.Every(time.Hour)), struct{}{}); !slices.Equal(got, []string{"lock:mutex:task:a%3APlain"}) {
		t.Errorf("plain: %q", got)
	}
	typ := task.Define[forVO, task.None]("Tenant", task.Every(time.Hour, task.PerVO("lhcb")))
	if got := task.LockKeys(typ, forVO{VO: "lhcb"}); !slices.Equal(got, []string{"lock:mutex:task:Tenant:lhcb"}) {
		t.Errorf("per VO: %q", got)
	}
	if got := task.LockKeys(task.Define[forVO, task.None]("None"), forVO{}); got != nil {
		t.Errorf("not periodic: %q", got)
	}
}

// task-F3, task-F4, task-F5, task-F8, S8, S10: one entry per VO, with label and argument; VOs that come and go at run time do so in Redis, and one that went does not come back.
func TestPerVO(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[string, task.None]("test:Tenant", task.Every(10*time.Millisecond, task.PerVO(), task.QueueUp))
	var mu sync.Mutex
	var vos []string
	say := func(all ...string) { mu.Lock(); defer mu.Unlock(); vos = all }
	_, stop := e.schedules(task.SchedulerOptions{VOPoll: 10 * time.Millisecond, VOs: func(context.Context) ([]string, error) {
		mu.Lock()
		defer mu.Unlock()
		if vos == nil {
			return nil, errors.New("not yet")
		}
		return vos, nil
	}}, typ)
	e.leads()
	if got := e.names(); len(got) != 0 {
		t.Errorf("without VOs there are %q", got)
	}
	say("lhcb", "atlas")
	e.eventually("two entries", func() bool { return slices.Equal(e.names(), []string{"test:Tenant@atlas", "test:Tenant@lhcb"}) })
	e.eventually("both fire", func() bool { return len(e.slotsOf("test:Tenant@atlas")) > 1 && len(e.slotsOf("test:Tenant@lhcb")) > 1 })
	for _, m := range e.messages() {
		if vo := m.Labels.String("vo"); !strings.HasPrefix(m.ID, "test:Tenant@"+vo+"@") || string(m.Args) != "\x91"+string([]byte{byte(0xa0 | len(vo))})+vo {
			t.Errorf("message %q has label vo %q and arguments %x", m.ID, vo, m.Args)
		}
	}
	say("atlas")
	e.eventually("one entry", func() bool { return slices.Equal(e.names(), []string{"test:Tenant@atlas"}) })
	n := len(e.slotsOf("test:Tenant@atlas"))
	gone := len(e.slotsOf("test:Tenant@lhcb"))
	e.eventually("the other goes on", func() bool { return len(e.slotsOf("test:Tenant@atlas")) > n+5 })
	if got := len(e.slotsOf("test:Tenant@lhcb")); got != gone || len(e.names()) != 1 {
		t.Errorf("the entry that went fired %d times more, entries %q", got-gone, e.names())
	}
	stop()

	// Without a source it is SetVOs that says; until then, what is stored stays and fires.
	s, _ := e.schedules(task.SchedulerOptions{}, typ)
	n = len(e.slotsOf("test:Tenant@atlas"))
	e.eventually("it fires under the next scheduler", func() bool { return len(e.slotsOf("test:Tenant@atlas")) > n })
	if err := s.SetVOs("cms"); err != nil {
		t.Fatal(err)
	}
	e.eventually("the new VO", func() bool { return slices.Equal(e.names(), []string{"test:Tenant@cms"}) })
	if err := s.SetVOs(""); err == nil {
		t.Error("an empty VO is taken")
	}
}

// S5, plus-20: without a worker there is one pending copy, however many periods pass; when it begins, the next slot fires.
func TestSkipIfPending_S5(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[struct{}, task.None]("test:Pile", task.Every(2*time.Millisecond))
	_, stop := e.schedules(task.SchedulerOptions{}, typ)
	e.eventually("100 periods", func() bool {
		all, err := e.client.Schedules(e.ctx())
		return err == nil && len(all) == 1 && all[0].Skipped+all[0].Dropped >= 100
	})
	if n := e.queued(); n != 1 {
		t.Errorf("%d copies wait, want 1", n)
	}
	if d := e.schedule("test:Pile"); d.Fired != 1 || d.LastTask != e.messages()[0].ID {
		t.Errorf("%+v, want one fired", d)
	}
	key := e.key("tasks:unique:schedule:test:Pile")
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
	if len(all) != 1 || all[0].Meta.Unique != "schedule:test:Long" || all[0].Meta.Start != "" {
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
	if n := e.queued(); n != 1 {
		t.Errorf("%d tasks, want the one that was submitted", n)
	}
	e.must("DEL", e.key("tasks:unique:"+e.messages()[0].Meta.Unique))
	e.eventually("a periodic one", func() bool { return e.queued() == 2 })
	var dup *task.DuplicateError
	if _, err := typ.Submit(e.ctx(), e.client, struct{}{}); !errors.As(err, &dup) || dup.ID == h.ID {
		t.Errorf("submitted beside a periodic one: %v", err)
	}
}

// S1, S3, plus-19: slots follow from what is stored: a scheduler that starts again keeps the anchor and makes up for what passed, as the entry says.
func TestRestartKeepsAnchor_S1(t *testing.T) {
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

// S3, S4, plus-19: COUNT runs out once, over a restart: each of its slots fires, then the entry is finished and no trouble to others.
func TestCountEnds_S4(t *testing.T) {
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
func (broken) String() string                   { return "broken" }

// S4: what cannot be used is reported, and the others fire.
func TestBadEntriesAreIsolated_S4(t *testing.T) {
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
	for name, want := range map[string]task.ScheduleState{"test:Broken": task.ScheduleFailed, "garbage": task.ScheduleFailed, "zone": task.ScheduleFailed,
		"foreign": task.ScheduleUnclaimed, "test:Args": task.ScheduleActive, "test:Tick": task.ScheduleActive} {
		all, err := e.client.Schedules(e.ctx())
		if err != nil {
			t.Fatal(err)
		}
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
	for name, kind := range map[string]string{"test:Broken": "failed", "garbage": "failed", "zone": "failed", "foreign": "unclaimed", "wrong": "refused"} {
		if said[name] != kind {
			t.Errorf("%s was reported as %q, want %q", name, said[name], kind)
		}
	}
	e.must("DEL", e.key("tasks:realtime:large"))
}

// S6, plus-18: a leader that is stalled past its lease is replaced; no slot fires twice, none is missed, and when it comes back it stands by, and leads again later.
func TestStalledLeader_S6(t *testing.T) {
	e := newEnv(t)
	const every = 10 * time.Millisecond
	typ := task.Define[struct{}, task.None]("test:Tick", task.Every(every, task.RunAll(10_000)))
	proxy := testenv.CountingProxy(t, e.srv.URL)
	far, err := task.New(e.srv.Connect(t, redis.Options{URL: proxy.URL}), task.Options{Prefix: e.prefix, LockPrefix: e.prefix + ":"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(far.Close)
	var lost atomic.Int64
	e.schedulesOn(far, task.SchedulerOptions{ID: "stalled", Observe: func(ev task.ScheduleEvent) {
		if ev.Kind == "lost" {
			lost.Add(1)
		}
	}}, typ)
	if id := e.leads(); id != "stalled" {
		t.Fatalf("%s leads", id)
	}
	_, stop := e.schedules(task.SchedulerOptions{ID: "other"}, typ)
	for round := range int64(2) {
		e.eventually("it fires", func() bool { return len(e.slotsOf("test:Tick")) > 10 })
		proxy.Stall(true)
		since := time.Now()
		e.leads("stalled")
		if took := time.Since(since); took > shortLease+time.Second {
			t.Errorf("another one leads after %v, want at most a lease and a second", took)
		}
		n := len(e.slotsOf("test:Tick"))
		e.eventually("the other fires", func() bool { return len(e.slotsOf("test:Tick")) > n+10 })
		proxy.Stall(false)
		e.eventually("the stalled one knows", func() bool { return lost.Load() == round+1 })
		if round == 0 { // it leads again once the other one resigns, at once
			stop()
			if id := e.leads("other"); id != "stalled" {
				t.Fatalf("%s leads", id)
			}
			_, stop = e.schedules(task.SchedulerOptions{ID: "other"}, typ)
		}
	}
	evenly(t, e.slotsOf("test:Tick"), every)
}

// S6: a leader that stops lets the next one lead at once, long before its lease is over; the term grows.
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

// plus-12: Redis forgets everything, or goes away: what code declares is registered again, and the scheduler goes on with a higher term.
func TestFlush(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[struct{}, task.None]("test:Tick", task.Every(10*time.Millisecond))
	e.schedules(task.SchedulerOptions{}, typ)
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

// plus-12: Redis is killed and comes back without its memory; the scheduler goes on.
func TestRedisRestart(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[struct{}, task.None]("test:Tick", task.Every(10*time.Millisecond))
	e.schedules(task.SchedulerOptions{}, typ)
	e.eventually("it fires", func() bool { return e.queued() > 0 })
	if err := e.srv.Server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := e.srv.Server.Restart(e.ctx()); err != nil {
		t.Fatal(err)
	}
	e.eventually("it fires again", func() bool { return e.do("XLEN", e.key("tasks:normal:medium")).Error() == nil && e.queued() > 0 })
}

// A slot fires once also if the reply to its firing is lost; a lock that is deleted is an election.
func TestLostReplies(t *testing.T) {
	e := newEnv(t)
	const every = 10 * time.Millisecond
	proxy := testenv.CountingProxy(t, e.srv.URL)
	far, err := task.New(e.srv.Connect(t, redis.Options{URL: proxy.URL}), task.Options{Prefix: e.prefix, LockPrefix: e.prefix + ":"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(far.Close)
	typ := task.Define[struct{}, task.None]("test:Tick", task.Every(every, task.RunAll(10_000)))
	e.schedulesOn(far, task.SchedulerOptions{}, typ)
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

// Entries are added, changed, paused, resumed and removed at run time, also for types that no program here knows.
func TestDynamicSchedules(t *testing.T) {
	e := newEnv(t)
	ctx := e.ctx()
	e.schedules(task.SchedulerOptions{Lease: time.Minute})
	e.leads()
	entry := task.ScheduleEntry{Name: "nightly", Task: "jobs:Clean", Queue: "background:large", Spec: "every 10ms", Args: json.RawMessage(`["a", {"b": 1.5}, 7]`), VO: "lhcb", Overlap: task.QueueUp}
	if err := e.client.AddSchedule(ctx, entry); err != nil {
		t.Fatal(err)
	}
	if err := e.client.AddSchedule(ctx, entry); !errors.Is(err, task.ErrScheduleExists) {
		t.Errorf("added twice: %v", err)
	}
	e.eventually("it fires", func() bool { return len(e.slotsOf("nightly")) > 2 })
	m := e.messages()[0]
	want, err := wire.FromJSON(entry.Args)
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "jobs:Clean" || m.Labels.String("size") != "large" || m.Labels.String("vo") != "lhcb" || string(m.Args) != string(want) {
		t.Errorf("message %+v", m)
	}

	if err := e.client.PauseSchedule(ctx, "nightly"); err != nil {
		t.Fatal(err)
	}
	n := len(e.slotsOf("nightly"))
	paused := e.schedule("nightly")
	id, err := e.client.RunScheduleNow(ctx, "nightly")
	if err != nil {
		t.Fatal(err)
	}
	e.eventually("the one that is wanted now", func() bool { return slices.ContainsFunc(e.messages(), func(m wire.Message) bool { return m.ID == id }) })
	if d := e.schedule("nightly"); int(e.queued()) != n+1 || !d.Paused || !d.Last.Equal(paused.Last) || d.Fired != paused.Fired+1 {
		t.Errorf("%d tasks after %d, %+v", e.queued(), n, d)
	}
	if err := e.client.ResumeSchedule(ctx, "nightly"); err != nil {
		t.Fatal(err)
	}
	e.eventually("it fires again", func() bool { d := e.schedule("nightly"); return !d.Paused && d.Fired > paused.Fired+2 })
	if d := e.schedule("nightly"); d.Dropped > 50 { // slots of the pause were not missed; a busy machine may miss others
		t.Errorf("%+v", d)
	}

	changed := entry
	changed.Spec, changed.Args = "every 1h", nil
	if err := e.client.UpdateSchedule(ctx, changed); err != nil {
		t.Fatal(err)
	}
	d := e.schedule("nightly")
	if !d.Anchor.After(paused.Anchor) || !d.Next.Equal(d.Anchor.Add(time.Hour)) || d.Fired == 0 || d.Last.IsZero() || d.Args != nil {
		t.Errorf("changed: %+v", d)
	}
	if err := e.client.RemoveSchedule(ctx, "nightly"); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"remove": e.client.RemoveSchedule(ctx, "nightly"), "pause": e.client.PauseSchedule(ctx, "nightly"), "resume": e.client.ResumeSchedule(ctx, "nightly"),
		"update": e.client.UpdateSchedule(ctx, entry),
	} {
		if !errors.Is(err, task.ErrNoSchedule) {
			t.Errorf("%s of one that is gone: %v", what, err)
		}
	}
	if _, err := e.client.RunScheduleNow(ctx, "nightly"); !errors.Is(err, task.ErrNoSchedule) {
		t.Errorf("run: %v", err)
	}
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
		"Args":      func(s *task.ScheduleEntry) { s.Args = json.RawMessage(`{"a":1}`) },
		"JSON":      func(s *task.ScheduleEntry) { s.Args = json.RawMessage(`[`) },
		"Jitter":    func(s *task.ScheduleEntry) { s.Jitter = 48 * time.Hour },
		"Overlap":   func(s *task.ScheduleEntry) { s.Overlap = "maybe" },
		"Missed":    func(s *task.ScheduleEntry) { s.Missed = "maybe" },
		"VO":        func(s *task.ScheduleEntry) { s.VO = "a\nb" },
		"MaxMissed": func(s *task.ScheduleEntry) { s.MaxMissed = -1 },
	} {
		bad := good
		change(&bad)
		if err := e.client.AddSchedule(e.ctx(), bad); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
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
	if err := e.client.RemoveSchedule(ctx, "test:Coded"); !errors.Is(err, task.ErrDeclared) {
		t.Errorf("removed: %v", err)
	}
	if err := e.client.UpdateSchedule(ctx, task.ScheduleEntry{Name: "test:Coded", Task: "x", Spec: "every 1m"}); !errors.Is(err, task.ErrDeclared) {
		t.Errorf("updated: %v", err)
	}
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

// plus-23, S9: overrides apply without restart; an unknown name or a bad spec changes nothing.
func TestScheduleOverrides(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[string, task.None]("test:Tenant", task.Every(time.Hour, task.PerVO("a", "b")))
	s, _ := e.schedules(task.SchedulerOptions{Lease: time.Minute}, typ)
	both := []string{"test:Tenant@a", "test:Tenant@b"}
	e.eventually("two entries", func() bool { return slices.Equal(e.names(), both) })
	for _, bad := range []map[string]task.ScheduleOverride{{"nobody": {}}, {"test:Tenant": {Spec: "never"}}} {
		if err := s.SetOverrides(bad); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
	if err := s.SetOverrides(map[string]task.ScheduleOverride{"test:Tenant": {Spec: "cron @daily"}, "test:Tenant@b": {Disabled: true}}); err != nil {
		t.Fatal(err)
	}
	day := func(name string) bool { return e.schedule(name).Spec == "cron 0 0 * * *" }
	e.eventually("they apply", func() bool { return day(both[0]) && e.schedule(both[1]).State == task.ScheduleDisabled })
	if err := s.SetOverrides(nil); err != nil {
		t.Fatal(err)
	}
	e.eventually("they are gone", func() bool {
		return !day(both[0]) && !day(both[1]) && e.schedule(both[1]).State == task.ScheduleActive
	})

	// The configuration of all does the same.
	config, err := task.ParseConfig([]byte("common:\n  test:Tenant:\n    schedule: every 10ms\nvo_overrides:\n  b:\n    test:Tenant:\n      enabled: false\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.client.SetConfig(e.ctx(), config, typ); err != nil {
		t.Fatal(err)
	}
	e.eventually("it applies", func() bool {
		return e.schedule(both[0]).Fired > 0 && e.schedule(both[1]).State == task.ScheduleDisabled
	})
	before := e.schedule(both[1])
	if err := e.client.SetConfig(e.ctx(), task.Config{}); err != nil {
		t.Fatal(err)
	}
	e.eventually("it is taken back", func() bool {
		return e.schedule(both[0]).Spec == "every 1h" && e.schedule(both[1]).State == task.ScheduleActive
	})
	if d := e.schedule(both[1]); d.Fired != 0 || !d.Since.After(before.Since) {
		t.Errorf("the one that was disabled: %+v", d)
	}
}

// RunOnStart fires once with each start of a scheduler, and waits for nothing.
func TestRunOnStart(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[struct{}, task.None]("test:Warm", task.Every(time.Hour, task.RunOnStart(), task.QueueUp))
	for n := range int64(2) {
		_, stop := e.schedules(task.SchedulerOptions{}, typ)
		e.eventually("it fires", func() bool { return e.queued() == n+1 })
		e.must("DEL", e.key("scheduler:lock")) // one more election is no start
		e.leads()
		stop()
		if got := e.queued(); got != n+1 {
			t.Errorf("%d tasks after %d starts", got, n+1)
		}
	}
}

// S7: a scheduler moves delayed tasks, too, also while it stands by: here another one leads that never lets go.
func TestSchedulerPromotes(t *testing.T) {
	e := newEnv(t)
	e.must("SET", e.key("scheduler:lock"), "somebody")
	e.schedules(task.SchedulerOptions{})
	send(e, echo, "later", task.In(20*time.Millisecond))
	e.eventually("it is in its queue", func() bool { return e.queued() == 1 })
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
	if _, err := e.client.Scheduler(task.SchedulerOptions{}, entry, entry); err == nil {
		t.Error("two entries of one name are taken")
	}
	entry.Spec = "often"
	if _, err := e.client.Scheduler(task.SchedulerOptions{}, entry); err == nil {
		t.Error("a bad spec is taken")
	}
}

func TestSchedulerOptions(t *testing.T) {
	e := newEnv(t)
	for want, o := range map[string]task.SchedulerOptions{"Lease": {Lease: time.Millisecond}, "VOPoll": {VOPoll: -1}, "ID": {ID: "a\nb"}} {
		if _, err := e.client.Scheduler(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := e.client.Scheduler(task.SchedulerOptions{}, nil); err == nil {
		t.Error("nil is taken")
	}
}
