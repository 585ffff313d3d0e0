package task_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/schedule"
	"github.com/taktworks/takt/task"
)

// A disabled schedule has no entry, and one that it had goes; enabled again, it has.
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

// What cannot be a schedule is refused when the type is defined, with an error that says why.
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
		"empty vo": {func() { task.Define[string, task.None]("a", task.Every(time.Hour, task.PerVO(""))) }, "VO"},
		"vo":       {func() { task.Define[args, task.None]("a", task.Every(time.Hour, task.PerVO("x"))) }, "PerVO"},
		"jitter":   {func() { task.Define[args, task.None]("a", task.Every(time.Hour, task.Jitter(-1))) }, "Jitter"},
		"twice":    {func() { task.Define[args, task.None]("a", task.Every(time.Hour), task.Cron("@daily")) }, "EntryName"},
		"name":     {func() { task.Define[args, task.None](strings.Repeat("n", 120), task.Every(time.Hour)) }, "112 bytes"},
		"all but one skipped": {func() {
			task.Define[args, task.None]("a", task.Every(time.Hour, task.RunAll(3), task.SkipIfPending))
		}, "queue_up"},
		"too many":    {func() { task.Define[args, task.None]("a", task.Every(time.Hour, task.RunAll(10_001))) }, "10000"},
		"bad overlap": {func() { task.Define[args, task.None]("a", task.Every(time.Hour, task.Overlap("x"))) }, "skip_if_running"},
		"bad missed":  {func() { task.Define[args, task.None]("a", task.Every(time.Hour, task.Missed("x"))) }, "run_once"},
	} {
		t.Run(name, func(t *testing.T) {
			panics(t, c.want, c.define)
		})
	}
}

// A periodic type has a mutex of its registered name, or of its name and the VO; a type with Locks has those.
func TestPeriodicMutex(t *testing.T) {
	type forVO struct {
		VO string
		N  int
	}
	equal(t, task.LockKeys(task.Define[struct{}, task.None]("a:Plain", task.Every(time.Hour)), struct{}{}), []string{"lock:mutex:task:a%3APlain"})
	typ := task.Define[forVO, task.None]("Tenant", task.Every(time.Hour, task.PerVO("lhcb")))
	equal(t, task.LockKeys(typ, forVO{VO: "lhcb"}), []string{"lock:mutex:task:Tenant:lhcb"})
	if got := task.LockKeys(task.Define[forVO, task.None]("None"), forVO{}); got != nil {
		t.Errorf("not periodic: %q", got)
	}
}

// One entry per VO, with label and argument; VOs that come and go at run time do so in Redis, and one that went does not come back.
func TestPerVO(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[string, task.None]("test:Tenant", task.Every(10*time.Millisecond, task.PerVO(), task.QueueUp))
	s, stop := e.schedules(task.SchedulerOptions{}, typ)
	say := func(vos ...string) {
		t.Helper()
		e.ok(s.SetVOs(vos...))
	}
	e.leads()
	if got := e.names(); len(got) != 0 {
		t.Errorf("without VOs there are %q", got)
	}
	say("lhcb", "atlas")
	e.eventually("two entries", func() bool { return slices.Equal(e.names(), []string{"test:Tenant@atlas", "test:Tenant@lhcb"}) })
	e.eventually("both fire", func() bool { return len(e.slotsOf("test:Tenant@atlas")) > 1 && len(e.slotsOf("test:Tenant@lhcb")) > 1 })
	for _, m := range e.messages() {
		if vo := m.Labels.String("vo"); !strings.HasPrefix(m.ID, "_test:Tenant@"+vo+"@") || string(m.Args) != "\x91"+string([]byte{byte(0xa0 | len(vo))})+vo {
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

	// Until the next scheduler is told, what is stored stays and fires.
	s, _ = e.schedules(task.SchedulerOptions{}, typ)
	n = len(e.slotsOf("test:Tenant@atlas"))
	e.eventually("it fires under the next scheduler", func() bool { return len(e.slotsOf("test:Tenant@atlas")) > n })
	say("cms")
	e.eventually("the new VO", func() bool { return slices.Equal(e.names(), []string{"test:Tenant@cms"}) })
	refused(t, "an empty VO is taken", s.SetVOs(""))
}
