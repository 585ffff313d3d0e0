package sfc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/programs"
	"github.com/taktworks/takt/internal/recent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// Commander sends commands to equipment; *mqtt.Conn does.
type Commander interface {
	// PublishEvent sends e to topic with QoS 1. It returns nil once the broker has it; any error means that it may
	// not have it, and the same event is published again. Called by many goroutines at once.
	PublishEvent(ctx context.Context, topic string, e cloudevent.Event) error
}

// Options configure an Engine. The zero value of a field takes the default it names.
type Options struct {
	TopicPrefix string // of all topics; default "takt"
	Instance    string // this process, unique among all: answers come to {TopicPrefix}/responses/{Instance}/{token}; required
	Source      string // CloudEvents source of the commands; default "urn:takt:" + Instance
	Slots       int    // work entries, commands and timers that are handled at once, of each; default 32

	// MailboxRetention is how long an event that came before an action waits for it is kept for orders that start later; those that run may
	// take it for recipe.MailboxHold more. Default 60 s, negative: not kept at all.
	MailboxRetention time.Duration
	TimerEvery       time.Duration // how often due timers are looked for; default 200 ms
	TimerHold        time.Duration // a timer whose instance died is handed out again after; default 5 s
	SweepEvery       time.Duration // how often one instance looks for forgotten orders; default 30 s
	Drain            time.Duration // how long what is in hand may take when Run ends; default 10 s

	// Memory for what is remembered of Redis, in bytes. What does not fit is read again.
	ProgramBytes int // compiled recipes; default 64 MiB
	RouteBytes   int // the jobs of unanswered commands, and again as much for the recipes of running jobs; default 16 MiB

	// Intake says whether answers of equipment can reach this process now. While it says false, the process sends no commands, judges no
	// timers, and lets no time pass for them. It must not block. nil = they always can.
	Intake func() bool

	// Count is called for everything that was done or refused; see Counted. nil = nobody counts. It must not block.
	Count func(Counted)
	Log   *slog.Logger // default slog.Default()
}

func (o Options) withDefaults() Options {
	o.MailboxRetention = cmp.Or(o.MailboxRetention, recipe.MailboxRetention)
	o.TimerEvery = cmp.Or(o.TimerEvery, 200*time.Millisecond)
	o.TimerHold = cmp.Or(o.TimerHold, 5*time.Second)
	o.SweepEvery = cmp.Or(o.SweepEvery, 30*time.Second)
	o.Drain = cmp.Or(o.Drain, 10*time.Second)
	o.Slots = cmp.Or(o.Slots, 32)
	o.ProgramBytes = cmp.Or(o.ProgramBytes, 64<<20)
	o.RouteBytes = cmp.Or(o.RouteBytes, 16<<20)
	o.TopicPrefix = cmp.Or(o.TopicPrefix, "takt")
	o.Source = cmp.Or(o.Source, "urn:takt:"+o.Instance)
	if o.Count == nil {
		o.Count = func(Counted) {}
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	return o
}

func (o Options) validate() error {
	if o.Instance == "" {
		return errors.New("sfc: Instance is empty, equipment needs an address for its answers")
	}
	for _, d := range []struct {
		name         string
		value, floor time.Duration
	}{
		{"TimerEvery", o.TimerEvery, time.Millisecond},
		{"TimerHold", o.TimerHold, 100 * time.Millisecond},
		{"SweepEvery", o.SweepEvery, 10 * time.Millisecond},
		{"Drain", o.Drain, time.Millisecond},
	} {
		if d.value < d.floor {
			return fmt.Errorf("sfc: %s is %v, must be at least %v", d.name, d.value, d.floor)
		}
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"Slots", o.Slots}, {"ProgramBytes", o.ProgramBytes}, {"RouteBytes", o.RouteBytes}} {
		if n.value < 1 {
			return fmt.Errorf("sfc: %s is %d, must be at least 1", n.name, n.value)
		}
	}
	return nil
}

// Engine runs the recipes of one store, together with any number of others. Its methods may be called at once
// from any goroutine.
type Engine struct {
	store     *jobstore.Store
	commander Commander
	opt       Options
	log       *slog.Logger

	programs *programs.Cache
	routes   *routes[string]                       // command id -> what it belongs to; unanswered commands
	starts   *recent.Cache[isa95.Scope, lastStart] // what a scope ran last, the guess for its next order
	running  *routes[isa95.JobOrderID]             // what is in execution
	sources  *recent.Cache[string, sourceSeen]     // sources of answers that look like a process of ours
	answers  answers                               // those that wait for others of their job
	swept    chan struct{}                         // asks for a sweep now

	shouted atomic.Int64 // when missing rights were last logged as an error, Unix ns

	draw func() recipe.Seed // the randomness of a decision; tests replace it
}

// New makes an engine. It panics if opt cannot work, which is a mistake of the caller: Validate tells it before.
func New(store *jobstore.Store, commander Commander, opt Options) *Engine {
	opt = opt.withDefaults()
	if err := opt.validate(); err != nil {
		panic(err)
	}
	return &Engine{
		store: store, commander: commander, opt: opt, log: opt.Log,
		programs: programs.New(opt.ProgramBytes),
		routes:   newRoutes[string](opt.RouteBytes),
		starts:   recent.New[isa95.Scope, lastStart](startBytes),
		running:  newRoutes[isa95.JobOrderID](opt.RouteBytes),
		sources:  recent.New[string, sourceSeen](sourceBytes),
		answers:  answers{waiting: make(map[isa95.JobOrderID][]*given)},
		swept:    make(chan struct{}, 1),
		draw:     jobstore.DrawSeed,
	}
}

// Validate says what is wrong with o, nil if nothing is.
func (o Options) Validate() error { return o.withDefaults().validate() }

// Run starts recipes, sends commands, watches times and sweeps, until ctx ends; then it lets go of what it holds, at most
// Drain long, and returns nil. Trouble with Redis or the broker is waited out. Answer and Event work beside it.
func (e *Engine) Run(ctx context.Context) error {
	return lifecycle.Run(ctx, e.opt.Drain,
		lifecycle.Stage{"work": e.runWork, "timers": e.runTimers, "sweeper": e.runSweeper, "repair": e.runRepair},
		lifecycle.Stage{"outbox": e.runOutbox}, // last, so that what the others commit is still sent
	)
}

func (e *Engine) runWork(ctx context.Context) error {
	return e.store.RunWork(ctx, e.opt.Slots, work{e})
}

// work takes the entries of the work stream.
type work struct{ *Engine }

// Work does one entry. A verb that nobody knows is acknowledged, as upstream does (spec B.3).
func (w work) Work(ctx context.Context, item *jobstore.WorkItem) error {
	switch item.Action {
	case jobstore.WorkStart:
		return w.start(ctx, item)
	case jobstore.WorkResume:
		return w.resume(ctx, item)
	}
	w.log.Warn("work entry with an unknown verb", "entry", item.ID, "verb", item.Action, "job", item.JobOrderID)
	w.count(OpWork, Invalid)
	return nil
}

// maxConflicts is how often a decision is made again at once because another writer came first; then the caller's
// own repetition takes over.
const maxConflicts = 20

// again calls do until it has no conflict: another writer came first, so what was decided on is no longer so.
// do loads again.
func again(ctx context.Context, do func() error) error {
	for attempt := 1; ; attempt++ {
		err := do()
		if !errors.Is(err, jobstore.ErrConflict) || attempt == maxConflicts {
			return err
		}
		if err := pause(ctx, rand.N(time.Duration(attempt)*time.Millisecond)); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
