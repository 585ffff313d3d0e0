package task

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/lock"
	"github.com/taktworks/takt/schedule"
)

// PeriodicOption is a property of a schedule of a Type: one of Overlap, Missed, RunAll, Jitter, TimeZone, Anchor, RunOnStart, Disabled, PerVO, Args and EntryName.
type PeriodicOption interface{ applyPeriodic(*periodic) }

type periodicOption func(*periodic)

func (f periodicOption) applyPeriodic(p *periodic) { f(p) }

// Overlap says what happens to a slot whose predecessor has not ended. Whatever it is, a type with Unique skips a slot while a task with the same key exists.
type Overlap string

const (
	// SkipIfPending skips a slot while the task of an earlier one waits to begin; so there is one copy, however long no worker comes. The default.
	SkipIfPending Overlap = "skip_if_pending"
	// SkipIfRunning skips a slot until the task of the earlier one has ended, its retries included.
	SkipIfRunning Overlap = "skip_if_running"
	// QueueUp submits a task for every slot, also where Options.MaxBacklog would refuse one.
	QueueUp Overlap = "queue_up"
)

func (o Overlap) applyPeriodic(p *periodic) { p.entry.Overlap = o }

// Missed says what happens to slots that passed while no scheduler ran.
type Missed string

const (
	// RunOnce makes up for the latest of them. The default.
	RunOnce Missed = "run_once"
	// SkipMissed drops them, but for one that is less than a minute late (schedule.Grace).
	SkipMissed Missed = "skip"
	// RunMissed makes up for all of them, up to a maximum: see RunAll.
	RunMissed Missed = "run_all"
)

func (m Missed) applyPeriodic(p *periodic) { p.entry.Missed = m }

// RunAll makes up for the latest max slots that were missed, oldest first; 0 = 100, at most 10,000. Its overlap is QueueUp, unless one is given.
func RunAll(max int) PeriodicOption {
	return periodicOption(func(p *periodic) { p.entry.Missed, p.entry.MaxMissed = RunMissed, max })
}

// Jitter fires each slot up to max later, always by the same time for the same slot: it spreads entries that are due together. Keep it shorter than the
// time between slots.
func Jitter(max time.Duration) PeriodicOption {
	return periodicOption(func(p *periodic) { p.entry.Jitter = max })
}

// TimeZone is the zone that Cron and RRule go by; without it, UTC. It must be one of the time zone database.
func TimeZone(loc *time.Location) PeriodicOption {
	return periodicOption(func(p *periodic) { p.with = append(p.with, schedule.TimeZone(loc)) })
}

// Anchor is what Every and RRule count from; without it, the time at which the schedule was first registered, which is kept in Redis.
func Anchor(t time.Time) PeriodicOption {
	return periodicOption(func(p *periodic) { p.with = append(p.with, schedule.Anchor(t)) })
}

// RunOnStart fires once more when a Scheduler leads for the first time since its Run was called. It counts for Overlap.
func RunOnStart() PeriodicOption { return periodicOption(func(p *periodic) { p.onStart = true }) }

// Disabled declares a schedule that has no entry; an entry that it had is removed. To stop one for a time, and keep what it counts from, use Client.PauseSchedule.
func Disabled() PeriodicOption { return periodicOption(func(p *periodic) { p.disabled = true }) }

// EntryName names the entry, 1-112 bytes, in place of the type's name; a type with several schedules needs it.
func EntryName(name string) PeriodicOption {
	return periodicOption(func(p *periodic) { p.entry.Name = name })
}

// PerVO makes one entry for each of vos, named NAME@VO. Its tasks have the label vo, and the VO as first argument: T is text, or a struct whose first exported
// field is; another T needs Args and Locks. Without vos they are those that Scheduler.SetVOs says.
func PerVO(vos ...string) PeriodicOption {
	return periodicOption(func(p *periodic) { p.perVO, p.vos = true, slices.Compact(slices.Sorted(slices.Values(vos))) })
}

// Firing is what is known of a task before it is submitted.
type Firing struct {
	Entry string    // name of the entry
	VO    string    // "" = the entry is no tenant's
	Slot  time.Time // at which it is due; the time of the request if somebody asked for it
}

// Args makes the arguments of each task; without it they are zero, but for the VO. T is that of the Type. A panic fails that one slot.
func Args[T any](f func(Firing) T) PeriodicOption {
	return periodicOption(func(p *periodic) { p.argsOf = f })
}

// Every submits a task at every d, at least a millisecond, from its anchor on. It does not drift, and a restart changes nothing.
func Every(d time.Duration, opts ...PeriodicOption) TypeOption {
	return periodicType(opts, func(with []schedule.Option) (schedule.Schedule, error) {
		if d < schedule.MinEvery {
			return nil, fmt.Errorf("task: Every %v: want at least %v", d, schedule.MinEvery)
		}
		return schedule.Every(d, with...), nil
	})
}

// Cron submits a task whenever the clock shows a time that fits expr: five fields, a sixth of seconds, or an alias such as @daily. See schedule.Cron.
func Cron(expr string, opts ...PeriodicOption) TypeOption {
	return periodicType(opts, func(with []schedule.Option) (schedule.Schedule, error) { return schedule.Cron(expr, with...) })
}

// RRule submits tasks by a rule of RFC 5545, such as FREQ=WEEKLY;INTERVAL=2;BYDAY=MO. See schedule.RRule. The anchor that is kept is the first
// slot that can fit, so a COUNT of 5 fires five times.
func RRule(text string, opts ...PeriodicOption) TypeOption {
	return periodicType(opts, func(with []schedule.Option) (schedule.Schedule, error) { return schedule.RRule(text, with...) })
}

// Periodic submits tasks by any schedule. One that schedule.Parse does not read back from its String must be a pure function of String and the anchor.
func Periodic(s schedule.Schedule, opts ...PeriodicOption) TypeOption {
	return periodicType(opts, func(with []schedule.Option) (schedule.Schedule, error) {
		switch {
		case s == nil:
			return nil, errors.New("task: Periodic: the schedule is nil")
		case len(with) > 0:
			return nil, errors.New("task: Periodic: TimeZone and Anchor belong to the schedule itself")
		}
		return s, nil
	})
}

func periodicType(opts []PeriodicOption, plan func([]schedule.Option) (schedule.Schedule, error)) TypeOption {
	return typeOption(func(s *spec) { s.periodic = append(s.periodic, &periodic{opts: opts, plan: plan}) })
}

// periodic is one schedule as code declares it.
type periodic struct {
	entry    ScheduleEntry // what is stored of it, but for the VO; Name is without it
	opts     []PeriodicOption
	with     []schedule.Option
	plan     func([]schedule.Option) (schedule.Schedule, error)
	schedule schedule.Schedule
	onStart  bool
	disabled bool
	perVO    bool
	vos      []string // nil = the Scheduler's
	argsOf   any      // func(Firing) T, nil = zero arguments
	encode   func(Firing) (args []byte, unique string, ttl time.Duration, err error)
	of       *spec // nil = only the name of the type is known
}

// complete applies and checks the options.
func (p *periodic) complete(of *spec) (err error) {
	p.of = of
	p.entry.Task, p.entry.Queue = of.name, queueOf(of.priority, of.size)
	for _, o := range p.opts {
		if o == nil {
			return errors.New("task: a PeriodicOption is nil")
		}
		o.applyPeriodic(p)
	}
	p.entry.Name = cmp.Or(p.entry.Name, of.name)
	for _, vo := range p.vos {
		if err := checkName("VO", vo); err != nil {
			return err
		}
	}
	if p.schedule, err = p.plan(p.with); err != nil {
		return err
	}
	p.entry.Spec = p.schedule.String()
	p.entry.defaults()
	return p.entry.validate()
}

// schedules declares what an option of Define said. T and the arguments' codec are known here.
func (t *Type[T, R]) schedules() error {
	names := make(map[string]bool)
	perVO := false
	for _, p := range t.periodic {
		if err := p.complete(&t.spec); err != nil {
			return err
		}
		if names[p.entry.Name] {
			return fmt.Errorf("task: type %q has two schedules named %q: give one an EntryName", t.name, p.entry.Name)
		}
		names[p.entry.Name] = true
		perVO = perVO || p.perVO
		args, err := periodicArgs[T](p)
		if err != nil {
			return err
		}
		p.encode = func(f Firing) (raw []byte, unique string, ttl time.Duration, err error) {
			defer func() {
				if v := recover(); v != nil {
					err = &PanicError{Value: v, Stack: debug.Stack()}
				}
			}()
			a := args(f)
			if raw, err = t.args.AppendArgs(nil, a); err != nil {
				return nil, "", 0, fmt.Errorf("task: %s: %w", t.name, err)
			}
			if t.unique != nil {
				unique, ttl = t.uniqueKey(a, raw), t.unique.ttl
			}
			return raw, unique, ttl, nil
		}
	}
	if t.locks == nil && len(t.own) == 0 {
		return t.exclusive(perVO)
	}
	return nil
}

// periodicArgs is the function that makes the arguments of a schedule's tasks.
func periodicArgs[T any](p *periodic) (func(Firing) T, error) {
	if p.argsOf != nil {
		f, ok := p.argsOf.(func(Firing) T)
		if !ok {
			return nil, fmt.Errorf("task: Args is a %T, want %T", p.argsOf, f)
		}
		return f, nil
	}
	var zero T
	if p.perVO && textOf(reflect.ValueOf(&zero).Elem()) == nil {
		return nil, fmt.Errorf("task: PerVO: a %T has no text as first field to take the VO: give Args", zero)
	}
	return func(f Firing) T {
		var args T
		if f.VO != "" {
			textOf(reflect.ValueOf(&args).Elem()).SetString(f.VO)
		}
		return args
	}, nil
}

// textOf is the first argument if it is text, else nil.
func textOf(v reflect.Value) *reflect.Value {
	if v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				v = v.Field(i)
				break
			}
		}
	}
	if v.Kind() != reflect.String {
		return nil
	}
	return &v
}

// exclusive gives a periodic type without locks the one that the page gives it: a mutex of its name, per VO with the VO behind it.
func (t *Type[T, R]) exclusive(perVO bool) error {
	var zero T
	if perVO && textOf(reflect.ValueOf(&zero).Elem()) == nil {
		return fmt.Errorf("task: PerVO: the mutex of each VO needs text as first field of %T: give Locks", zero)
	}
	locks := func(args T) []lock.Spec {
		o := lock.Object{Type: lock.Task, Key: t.name}
		if perVO {
			if vo := textOf(reflect.ValueOf(&args).Elem()).String(); vo != "" {
				o.Extra = []string{vo}
			}
		}
		return []lock.Spec{lock.Mutex(o)}
	}
	Locks(locks).applyType(&t.spec)
	return nil
}

// uniqueKey is what a type with Unique allows one task of.
func (t *Type[T, R]) uniqueKey(args T, raw []byte) string {
	if t.unique.of != nil {
		raw = []byte(t.unique.of(args))
	}
	return t.name + ":" + digest(raw)
}

// Schedulable is what a Scheduler takes: a Type, or a ScheduleEntry.
type Schedulable interface{ declared() ([]*periodic, error) }

func (s *spec) declared() ([]*periodic, error) { return s.periodic, nil }

// declared makes an entry that is written in code one like those of types. Its arguments are fixed.
func (e ScheduleEntry) declared() ([]*periodic, error) {
	e.defaults()
	if err := e.validate(); err != nil {
		return nil, err
	}
	s, err := e.schedule()
	if err != nil {
		return nil, err
	}
	e.Spec = s.String()
	return []*periodic{{entry: e, schedule: s}}, nil
}

// queueParts are the priority and the size of a queue that is known to be one.
func (q Queue) parts() (Priority, Size) {
	p, s, _ := strings.Cut(string(q), ":")
	return Priority(p), Size(s)
}
