package task_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/task/internal/wire"
)

func TestParseConfig(t *testing.T) {
	const text = `
common:
  jobs:Clean:
    enabled: false
    rate_limit: 10
    rate_window: 1m
    concurrency_limit: 5
    max_retries: 3
    timeout: 5m
    schedule: cron 0 6 * * *
vo_overrides:
  lhcb:
    jobs:Clean: {concurrency_limit: 2, rate_window: 1h}
`
	got, err := task.ParseConfig([]byte(text))
	testenv.Must(t, err)
	want := task.Config{
		Common: map[string]task.Override{
			"jobs:Clean": {new(false), new(10), new(time.Minute), new(5), new(3), new(5 * time.Minute), new("cron 0 6 * * *")},
		},
		VO: map[string]map[string]task.Override{"lhcb": {"jobs:Clean": {ConcurrencyLimit: new(2), RateWindow: new(time.Hour)}}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	again, err := task.ParseConfig([]byte(got.String()))
	if d := cmp.Diff(want, again); d != "" || err != nil {
		t.Errorf("what String prints is read as something else: %s%v\n%s", d, err, got)
	}
}

// An empty configuration sets nothing: enabled, no limits. What is set for all is what holds, a VO's own replaces it, and what the VO
// does not set is inherited.
func TestOverridesMerge(t *testing.T) {
	var empty task.Config
	if o := empty.For("X", "lhcb"); !o.IsEnabled() || o != (task.Override{}) {
		t.Errorf("empty: %+v", o)
	}
	for _, text := range []string{"", "{}", "common: {}"} {
		if c, err := task.ParseConfig([]byte(text)); err != nil || c.For("X", "") != (task.Override{}) {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
	}
	c, err := task.ParseConfig([]byte(`
common:
  X: {enabled: false, rate_limit: 100, rate_window: 1m}
vo_overrides:
  lhcb:
    X: {enabled: true, rate_limit: 7}
    Y: {concurrency_limit: 1}
`))
	testenv.Must(t, err)
	for _, w := range []struct {
		name, vo string
		want     task.Override
	}{
		{"X", "", task.Override{Enabled: new(false), RateLimit: new(100), RateWindow: new(time.Minute)}},
		{"X", "atlas", task.Override{Enabled: new(false), RateLimit: new(100), RateWindow: new(time.Minute)}},
		{"X", "lhcb", task.Override{Enabled: new(true), RateLimit: new(7), RateWindow: new(time.Minute)}},
		{"Y", "lhcb", task.Override{ConcurrencyLimit: new(1)}},
		{"Y", "", task.Override{}},
	} {
		if d := cmp.Diff(w.want, c.For(w.name, w.vo)); d != "" {
			t.Errorf("%s of %q: %s", w.name, w.vo, d)
		}
	}
}

// Unknown keys are refused by their name, and so are names and values that are none.
func TestConfigErrors(t *testing.T) {
	known := task.Define[double, int]("KnownTask", task.Positional())
	for text, want := range map[string]string{
		"common: {KnownTask: {rate_limits: 3}}":                    "rate_limits",
		"common: {KnownTask: {max_retries: 2.7}}":                  `max_retries "2.7" must be a whole number`,
		"common: {KnownTask: {rate_limit: 2.7}}":                   `rate_limit "2.7" must be a whole number`,
		"common: {KnownTask: {concurrency_limit: 2.7}}":            `concurrency_limit "2.7" must be a whole number`,
		"common: {KnownTask: {max_retries: 2.0}}":                  `max_retries "2.0" must be a whole number`,
		"common: {KnownTask: {max_retries: 014}}":                  `max_retries "014" must be a whole number`,
		"common: {KnownTask: {max_retries: 0x1f}}":                 `max_retries "0x1f" must be a whole number`,
		"common: {KnownTask: {max_retries: '3'}}":                  `max_retries "3" must be a whole number`,
		"common: {KnownTask: {max_retries: 1e1}}":                  `max_retries "1e1" must be a whole number`,
		"common: {KnownTask: {max_retries: 1_0}}":                  `max_retries "1_0" must be a whole number`,
		"common: {KnownTask: {max_retries: soon}}":                 `max_retries "soon" must be a whole number`,
		"common: {KnownTask: {timeout: 0x1f}}":                     `timeout "0x1f" must be a number as JSON writes it`,
		"common: {KnownTask: {schedule: 014}}":                     `schedule "014" must not begin with a zero: quote it`,
		"vo_overrides: {lhcb: {KnownTask: {max_retries: &a 2.7}}}": `max_retries "2.7" must be a whole number`,
		"c\x00o\x00":                           "UTF-16",
		"commons: {}":                          "commons",
		"common: {OtherTask: {enabled: true}}": `"OtherTask"`,
		"vo_overrides: {lhcb: {OtherTask: {enabled: true}}}":                "vo_overrides.lhcb",
		"common: {KnownTask: {enabled: perhaps}}":                           "perhaps",
		"common: {KnownTask: {rate_limit: -1, rate_window: 1m}}":            "rate_limit -1",
		"common: {KnownTask: {rate_limit: 1}}":                              "rate_window",
		"common: {KnownTask: {rate_limit: 1, rate_window: 1us}}":            "rate_window 1µs",
		"common: {KnownTask: {concurrency_limit: -1}}":                      "concurrency_limit -1",
		"common: {KnownTask: {max_retries: -1}}":                            "max_retries -1",
		"common: {KnownTask: {timeout: -1s}}":                               "timeout -1s",
		"common: {KnownTask: {timeout: soon}}":                              "soon",
		"common: {KnownTask: {schedule: every now and then}}":               "schedule",
		`vo_overrides: {"": {KnownTask: {enabled: true}}}`:                  "without a name",
		"common: {KnownTask: {enabled: true}, KnownTask: {enabled: false}}": "KnownTask",
		"common: {KnownTask: {concurrency_limit: 3000000000}}":              "3000000000",
	} {
		says(t, text, errOf(task.ParseConfig([]byte(text), known)), want)
	}
}

func (e *env) config(text string, types ...task.Definition) {
	e.t.Helper()
	c, err := task.ParseConfig([]byte(text), types...)
	e.ok(err)
	e.ok(e.client.SetConfig(e.ctx(), c, types...))
}

// What is set in the configuration holds in running workers, without a restart, and is taken back.
func TestConfigureRunningWorkers(t *testing.T) {
	e := newEnv(t)
	kind := task.Define[double, int]("ConfiguredTask", task.Positional(), task.Small)
	var now, most atomic.Int64
	var always atomic.Bool
	begin, end := make(chan int64, 100), make(chan struct{})
	w, _ := e.start(task.WorkerOptions{}, kind.Handle(func(_ context.Context, j *task.Job[double]) (int, error) {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		if always.Load() {
			return 0, errors.New("always")
		}
		begin <- now.Load()
		<-end
		return j.MaxAttempts, nil
	}))
	inForce := func(what string, f func(task.Override) bool) {
		t.Helper()
		e.eventually(what+" is in force", func() bool { return f(task.InForce(w, kind.Name(), "")) })
	}

	e.config("common: {ConfiguredTask: {concurrency_limit: 1, timeout: 1h}}", kind)
	inForce("the limit", func(o task.Override) bool { return is(o.ConcurrencyLimit, 1) && is(o.Timeout, time.Hour) })
	handles := sendMany(e, kind, make([]double, 3))
	<-begin
	e.eventually("the others are blocked", func() bool { return e.number("HLEN", e.prefix+":tasks:blocked") == 2 })
	e.config("common: {ConfiguredTask: {concurrency_limit: 2}}", kind)
	<-begin // a second one, beside the first
	e.config("", kind)
	<-begin
	if most.Load() != 3 {
		t.Errorf("%d at once, want 3 in the end", most.Load())
	}
	close(end)
	for _, h := range handles {
		done(e, h)
	}

	always.Store(true)
	e.config("common: {ConfiguredTask: {max_retries: 0}}", kind)
	inForce("no retries", func(o task.Override) bool { return is(o.MaxRetries, 0) })
	e.config("common: {ConfiguredTask: {max_retries: 7}}", kind)
	inForce("retries", func(o task.Override) bool { return is(o.MaxRetries, 7) })
	h := send(e, kind, double{})
	e.eventually("it waits for its retry", func() bool { return e.counter(task.Retried, kind.Name()) == 1 })
	fails(t, errOf(h.Result(e.ctx())), task.ErrResultMissing)
	if got, err := e.client.Config(e.ctx()); err != nil || *got.Common[kind.Name()].MaxRetries != 7 {
		t.Errorf("Config = %v, %v", got, err)
	}
}

// A type that is not enabled is set aside, for one VO or all, and runs when it is enabled again.
func TestDisable(t *testing.T) {
	e := newEnv(t)
	kind := task.Define[double, task.None]("DisabledTask", task.Positional(), task.Small)
	var lhcb, atlas atomic.Int64
	w, _ := e.start(task.WorkerOptions{}, kind.Handle(func(_ context.Context, j *task.Job[double]) (task.None, error) {
		map[string]*atomic.Int64{"lhcb": &lhcb, "atlas": &atlas}[j.Labels["vo"]].Add(1)
		return task.None{}, nil
	}))
	submit := func(id, vo string) {
		e.raw(kind.Queue(), wire.Message{ID: id, Name: kind.Name(), Args: []byte{0x91, 0x01}, Labels: wire.Labels{{Key: "size", Value: "small"}, {Key: "vo", Value: vo}}})
	}
	e.config("vo_overrides: {lhcb: {DisabledTask: {enabled: false}}}", kind)
	e.eventually("it is in force", func() bool { return is(task.InForce(w, kind.Name(), "lhcb").Enabled, false) })
	submit("1", "lhcb")
	submit("2", "atlas")
	e.eventually("one is put off, one has run", func() bool { return e.parked(kind.Name()) == 1 && atlas.Load() == 1 })
	e.config("common: {DisabledTask: {enabled: false}}", kind)
	e.eventually("it is in force", func() bool { return is(task.InForce(w, kind.Name(), "atlas").Enabled, false) })
	submit("3", "atlas")
	e.eventually("both are put off", func() bool { return e.parked(kind.Name()) >= 2 && e.number("ZCARD", e.prefix+":tasks:delayed") == 2 })
	e.config("common: {DisabledTask: {enabled: false}}\nvo_overrides: {atlas: {DisabledTask: {enabled: true}}}", kind)
	e.eventually("it is in force", func() bool { return is(task.InForce(w, kind.Name(), "atlas").Enabled, true) })
	e.now("3")
	e.eventually("that of atlas has run", func() bool { return atlas.Load() == 2 })
	if found, err := e.client.Find(e.ctx(), task.Ref{ID: "1"}); err != nil || found.State != task.StateDelayed {
		t.Errorf("found %+v, %v", found, err)
	}
	e.healthy(0)
	e.config("", kind)
	e.eventually("it is in force", func() bool { return task.InForce(w, kind.Name(), "lhcb").Enabled == nil })
	e.now("1")
	e.eventually("both have run", func() bool { return lhcb.Load() == 1 && atlas.Load() == 2 })
	e.nothingWaits()
	e.counts(0, "EXISTS", e.prefix+":tasks:control")
}

// is says whether a value is set, and is this one.
func is[T comparable](set *T, value T) bool { return set != nil && *set == value }

// A limit that is set for a VO counts its tasks alone.
func TestLimitsOfAVO(t *testing.T) {
	e := newEnv(t)
	kind := task.Define[double, task.None]("VOTask", task.Positional(), task.Small, task.Limits(0, 5, time.Hour))
	w, err := e.client.Worker(task.WorkerOptions{}, kind.Handle(func(context.Context, *task.Job[double]) (task.None, error) { return task.None{}, nil }))
	e.ok(err)
	e.config("vo_overrides: {lhcb: {VOTask: {rate_limit: 1, rate_window: 1h}}}", kind)
	e.run(w)
	labels := func(vo string) wire.Labels { return wire.Labels{{Key: "size", Value: "small"}, {Key: "vo", Value: vo}} }
	for _, id := range []string{"1", "2", "3"} {
		for _, vo := range []string{"lhcb", "atlas"} {
			e.raw(kind.Queue(), wire.Message{ID: vo + id, Name: kind.Name(), Args: []byte{0x91, 0x01}, Labels: labels(vo)})
		}
	}
	e.eventually("all of atlas and one of lhcb have run", func() bool {
		return e.counter(task.Done, kind.Name()) == 4 && e.number("HLEN", e.prefix+":tasks:blocked") == 2
	})
	for key, want := range map[string]int64{"limiter:rate:task:VOTask:lhcb": 1, "limiter:rate:task:VOTask": 3} {
		e.counts(want, "HGET", e.prefix+":"+key, "used")
	}
}

// Of two who change the configuration at the same moment neither undoes what the other did.
func TestChangeConfigTogether(t *testing.T) {
	e := newEnv(t)
	set := func(name string, calls *int, meanwhile func()) func(task.Config) (task.Config, error) {
		return func(c task.Config) (task.Config, error) {
			if c.Common == nil {
				c.Common = make(map[string]task.Override)
			}
			c.Common[name] = task.Override{MaxRetries: new(len(c.Common) + 1)}
			if *calls++; *calls == 1 {
				meanwhile()
			}
			return c, nil
		}
	}
	var first, second int
	err := e.client.ChangeConfig(e.ctx(), set("A", &first, func() { // has read, and not yet written
		if err := e.client.ChangeConfig(e.ctx(), set("B", &second, func() {})); err != nil {
			t.Error(err)
		}
	}))
	got, failed := e.client.Config(e.ctx())
	if err != nil || failed != nil || first != 2 || second != 1 || *got.Common["B"].MaxRetries != 1 || *got.Common["A"].MaxRetries != 2 {
		t.Errorf("%v, %v, %d and %d calls:\n%v", err, failed, first, second, got)
	}
	refused := errors.New("not like this")
	if err := e.client.ChangeConfig(e.ctx(), func(c task.Config) (task.Config, error) { clear(c.Common); return c, refused }); !errors.Is(err, refused) {
		t.Errorf("an error of change: %v", err)
	}
	if err := e.client.ChangeConfig(e.ctx(), func(c task.Config) (task.Config, error) {
		c.Common["A"] = task.Override{MaxRetries: new(-1)}
		return c, nil
	}); err == nil || !strings.Contains(err.Error(), "max_retries -1") {
		t.Errorf("a value that cannot be: %v", err)
	}
	if again, err := e.client.Config(e.ctx()); err != nil || again.String() != got.String() {
		t.Errorf("%v, %v, want as before", again, err)
	}
	ctx, cancel := context.WithCancelCause(e.ctx())
	if err := e.client.ChangeConfig(ctx, func(c task.Config) (task.Config, error) {
		e.config("common: {C: {max_retries: " + strconv.Itoa(first) + "}}")
		first++
		if first > 3 {
			cancel(refused)
		}
		return task.Config{}, nil
	}); err == nil || first != 4 {
		t.Errorf("others never stop: %v after %d", err, first)
	}
}

// A worker keeps the configuration that it has when it meets one that it cannot read.
func TestUnreadableConfig(t *testing.T) {
	e := newEnv(t)
	kind := task.Define[double, int]("StayTask", task.Positional())
	w, _ := e.start(task.WorkerOptions{}, kind.Handle(func(context.Context, *task.Job[double]) (int, error) { return 1, nil }))
	e.config("common: {StayTask: {concurrency_limit: 3}}", kind)
	e.eventually("it is in force", func() bool { return is(task.InForce(w, kind.Name(), "").ConcurrencyLimit, 3) })
	for _, c := range [][]string{{"HSET", e.prefix + ":tasks:control", "config", "common: {StayTask: {colour: red}}", "pause type test:Gone", "1"}, {"PUBLISH", e.prefix + ":tasks:control", ""}} {
		e.must(c...)
	}
	gone := task.Define[double, int]("test:Gone", task.Positional())
	send(e, gone, double{})
	e.eventually("the worker has read it", func() bool { return e.parked("test:Gone") == 1 })
	if o := task.InForce(w, kind.Name(), ""); !is(o.ConcurrencyLimit, 3) {
		t.Errorf("%+v, want concurrency_limit 3 as before", o)
	}
	_, err := e.client.Config(e.ctx())
	changed := e.client.ChangeConfig(e.ctx(), func(c task.Config) (task.Config, error) { return c, nil })
	for what, err := range map[string]error{"Config": err, "ChangeConfig": changed} {
		if err == nil || !strings.Contains(err.Error(), "colour") {
			t.Errorf("%s: %v, want an error that names colour", what, err)
		}
	}
	refused(t, "SetConfig takes a name that YAML reads as something else", e.client.SetConfig(e.ctx(), task.Config{Common: map[string]task.Override{"<<": {Enabled: new(true)}}}))
	e.config("common: {StayTask: {concurrency_limit: 4}}", kind)
	e.eventually("it is in force", func() bool { return is(task.InForce(w, kind.Name(), "").ConcurrencyLimit, 4) })
}
