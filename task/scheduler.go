package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/schedule"
)

// SchedulerOptions are the settings of a Scheduler. The zero value is ready.
type SchedulerOptions struct {
	// ID names the process among the schedulers; "" = host:pid:random. No two that live may share it.
	ID string
	// Lease is after how long without a sign of life the leader is gone and another one takes over, within a second more; 0 = 30 s, at least 300 ms.
	Lease time.Duration
	// Observe is told what this process did while it led. It must not block. nil = nobody is.
	Observe func(ScheduleEvent)
	// Metrics counts slots and promoted tasks; it may be that of a Worker, too. nil = nothing does.
	Metrics *Metrics
	// Tracer makes a span "task.schedule NAME" of each slot that is submitted; the runs of its task are in the same trace. nil = none are made.
	Tracer trace.TracerProvider
	// Log may be nil: then it is that of the Client.
	Log *slog.Logger
}

// ScheduleEvent is something that a Scheduler did.
type ScheduleEvent struct {
	// Kind is "elected", "lost" (the leadership); or of an entry "registered", "removed", "fired", "skipped" (an overlap), "dropped" (not made up for), "failed" (its task or
	// its schedule), "finished", "unclaimed".
	Kind string
	Name string // of the entry
	Task string // id of the task, if one was submitted, or kept it out
	N    int64  // slots or tasks
	Term int64  // of the leader
	Err  error
}

const (
	// DefaultSchedulerLease is SchedulerOptions.Lease.
	DefaultSchedulerLease = 30 * time.Second

	candidatePoll  = 900 * time.Millisecond // at least that often one who does not lead looks
	scheduleReread = 5 * time.Second        // at least that often the leader reads all entries; usually it is told of changes
)

// Scheduler submits periodic tasks. Any number of processes may run one: they elect a leader, the others stand by. A slot is submitted once, whoever leads, also by a
// leader that was paused and does not know yet that it leads no more: each of its writes is checked against its term. It moves delayed tasks, too.
//
// What is due follows from what is stored, not from when somebody looked: nothing drifts, a restart forgets nothing, and slots that passed meanwhile are
// made up for as their entry says (Missed).
//
// Make one with Client.Scheduler and call Run, again if need be when that has ended. SetVOs may be called at any time.
type Scheduler struct {
	client   *Client
	opts     SchedulerOptions
	log      *slog.Logger
	declared []*periodic
	busy     atomic.Bool   // Run is at work
	wake     chan struct{} // something has changed
	election int64         // last known term; Run's goroutine
	started  map[string]bool

	mu      sync.Mutex
	vos     []string // as SetVOs said
	known   bool     // it did
	changed bool     // since they were looked at
}

// Scheduler makes a scheduler for the schedules of these types, for these entries, and for all that are added at run time. Types without a schedule do no harm. The error names
// the option, or the two that want the same name.
func (c *Client) Scheduler(o SchedulerOptions, what ...Schedulable) (*Scheduler, error) {
	s := &Scheduler{client: c, opts: o, log: o.Log, wake: make(chan struct{}, 1), started: make(map[string]bool)}
	s.log = cmp.Or(s.log, c.log)
	names := make(map[string]bool)
	for _, w := range what {
		if w == nil {
			return nil, errors.New("task: Scheduler: a type is nil")
		}
		all, err := w.declared()
		if err != nil {
			return nil, err
		}
		for _, p := range all {
			if names[p.entry.Name] {
				return nil, fmt.Errorf("task: Scheduler: two schedules named %q", p.entry.Name)
			}
			names[p.entry.Name] = true
		}
		s.declared = append(s.declared, all...)
	}
	if err := s.complete(); err != nil {
		return nil, err
	}
	s.log = s.log.With("scheduler", s.opts.ID)
	return s, nil
}

func (s *Scheduler) complete() error {
	o := &s.opts
	o.ID = cmp.Or(o.ID, ownID())
	if err := checkName("SchedulerOptions.ID", o.ID); err != nil {
		return err
	}
	if err := completeLease("SchedulerOptions.Lease", &o.Lease, DefaultSchedulerLease); err != nil {
		return err
	}
	if o.Observe == nil {
		o.Observe = func(ScheduleEvent) {}
	}
	return nil
}

// ID names the scheduler, as Client.SchedulerLeader gives it.
func (s *Scheduler) ID() string { return s.opts.ID }

// Run stands by, or leads and submits what is due, until ctx ends; then it lets another one lead at once, and returns nil. It outlives every error of Redis,
// and the loss of its leadership. While it is at work, a second Run is refused with an error.
func (s *Scheduler) Run(ctx context.Context) error {
	if !s.busy.CompareAndSwap(false, true) {
		return fmt.Errorf("task: Scheduler.Run: scheduler %s runs already: make another one with Client.Scheduler", s.opts.ID)
	}
	defer s.busy.Store(false)
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { s.client.listen(ctx, s.client.keys.SchedulerEntries(), s.wake) })
	beside.Go(func() { s.client.listen(ctx, s.client.keys.TaskControl(), s.wake) })
	p := newPromoter(s.client, s.log)
	p.metrics = s.opts.Metrics
	beside.Go(func() { p.run(ctx) })
	for ctx.Err() == nil {
		l, wait := s.take(ctx)
		if l == nil {
			lifecycle.Pause(ctx, wait, s.wake) // the leader may resign before
			continue
		}
		s.log.Info("task: this scheduler leads", "term", l.term)
		s.opts.Observe(ScheduleEvent{Kind: "elected", Term: l.term})
		err := l.lead(ctx)
		if ctx.Err() == nil {
			s.log.Warn("task: this scheduler leads no more, and stands by", "term", l.term, "error", err)
		}
		s.opts.Observe(ScheduleEvent{Kind: "lost", Term: l.term, Err: err})
	}
	return nil
}

// SetVOs says which tenants (VOs) there are for types with PerVO that name none. What goes is removed, what comes is registered, at once if this process leads. Until it was
// called, what is stored of such types stays and fires.
func (s *Scheduler) SetVOs(vos ...string) error {
	for _, vo := range vos {
		if err := checkName("VO", vo); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.vos, s.known, s.changed = slices.Clone(vos), true, true
	s.mu.Unlock()
	lifecycle.Poke(s.wake)
	return nil
}

// covers says whether a name is that of p, or of p for one VO.
func (p *periodic) covers(name string) bool {
	base := p.entry.Name
	return name == base || p.perVO && len(name) > len(base)+1 && name[:len(base)+1] == base+"@"
}

// claim is one entry that is to exist.
type claim struct {
	entry    ScheduleEntry
	plan     schedule.Schedule
	by       *periodic
	disabled bool
}

// claims are the entries that code wants, by name.
type claims struct {
	all     map[string]*claim
	unknown []*periodic      // their VOs are not known yet: their entries stay as they are
	without []*periodic      // they have no VO
	unfit   map[string]error // names that cannot be registered
}

func (s *Scheduler) claims(config *Config) *claims {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = false
	c := &claims{all: make(map[string]*claim), unfit: make(map[string]error)}
	for _, p := range s.declared {
		if p.disabled {
			continue
		}
		vos, known := s.vosOf(p)
		if len(vos) == 0 {
			c.without = append(c.without, p)
		}
		if !known {
			c.unknown = append(c.unknown, p)
		}
		for _, vo := range vos {
			s.claim(c, config, p, vo)
		}
	}
	return c
}

// vosOf are the VOs of a schedule, one "" if it is not per VO.
func (s *Scheduler) vosOf(p *periodic) (vos []string, known bool) {
	switch {
	case !p.perVO:
		return []string{""}, true
	case p.vos != nil:
		return p.vos, true
	}
	return s.vos, s.known
}

// claim adds the entry of a schedule for one VO, as the configuration wants it.
func (s *Scheduler) claim(all *claims, config *Config, p *periodic, vo string) {
	c := &claim{entry: withVO(p.entry, vo), plan: p.schedule, by: p}
	of := config.For(p.entry.Task, vo)
	c.disabled = !of.IsEnabled()
	if of.Schedule != nil && p.entry.Name == p.entry.Task {
		if plan, err := schedule.Parse(*of.Schedule); err != nil {
			all.unfit[c.entry.Name] = err
		} else {
			c.plan, c.entry.Spec = plan, plan.String()
		}
	}
	name := c.entry.Name
	switch err := c.entry.validate(); {
	case err != nil:
		all.unfit[name] = err
	case all.all[name] != nil:
		all.unfit[name] = errors.New("task: two schedules want this name")
	default:
		all.all[name] = c
	}
}

func withVO(e ScheduleEntry, vo string) ScheduleEntry {
	if vo != "" {
		e.Name, e.VO = e.Name+"@"+vo, vo
	}
	return e
}

func (s *Scheduler) hasChanged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}
