package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/taktworks/takt/internal/stream"
)

// WorkerOptions are the settings of a Worker. The zero value is ready.
type WorkerOptions struct {
	// ID names the process among the workers, in listings and as consumer; "" = host:pid:random. No two that live may share it.
	ID string
	// Concurrency is how many tasks of each size run at once. nil = for each size that a handler has: 50 small, 10 medium, 1 large, 1 of a pool. At most 1,000 sizes: each takes a
	// connection of its own.
	Concurrency map[Size]int
	// Policy is how priorities compare; nil = Weighted{}.
	Policy Policy
	// Lease is after how long without a sign of life this worker is dead and others run its tasks again; 0 = 10 s, at least 300 ms.
	Lease time.Duration
	// Drain is how long running tasks may go on after Run's context has ended; then they are broken off and handed back. 0 = 10 s.
	Drain time.Duration
	// Margin is how long handlers may take to return after their context has ended; then they are stuck: reported, and at the end of Run left behind. 0 = 5 s.
	Margin time.Duration
	// MaxDeliveries is how often a task may take its worker with it before it is dead; 0 = 5, negative = any number.
	MaxDeliveries int
	// MaxUnknown is how often a task whose name no handler has, or of another version of its type (ErrLayout), is put back, with growing pauses of up to a minute, before it is dead; 0 = 20.
	MaxUnknown int
	// Middleware runs around every handler, the first outermost.
	Middleware []Middleware
	// Observe is told of the end of every run, before it is in Redis. It must not block. nil = nobody is.
	Observe func(Event)
	// Stuck is told, once, of every run whose handler has not returned Margin after its context ended, which was at since. It must not block. nil = only the log is.
	Stuck func(i Info, since time.Time)
	// Metrics counts what happens; several workers may share it. nil = nothing does.
	Metrics *Metrics
	// Tracer makes a span "task.execute NAME" of every run of a handler, in the trace of whoever submitted the task; nil = none are made.
	Tracer trace.TracerProvider
	// NoPromote leaves delayed tasks to other processes.
	NoPromote bool
	// Log may be nil: then it is that of the Client.
	Log *slog.Logger
}

// Middleware is called in the place of a handler; next runs the handler.
type Middleware func(ctx context.Context, info Info, next func(context.Context) error) error

// Outcome is how a run ended.
type Outcome string

const (
	Done      Outcome = "done"
	Dead      Outcome = "dead"
	Cancelled Outcome = "cancelled"
	Retried   Outcome = "retried"  // failed, and runs again
	Snoozed   Outcome = "snoozed"  // put itself back
	Blocked   Outcome = "blocked"  // did not get its locks
	Unknown   Outcome = "unknown"  // no handler for its name, or another version of its type
	Returned  Outcome = "returned" // broken off because the worker stops, or lost its lease
	Parked    Outcome = "parked"   // its type is paused or not enabled: it is delayed
)

// Event is the end of a run.
type Event struct {
	Info    Info
	Outcome Outcome
	Err     error         // what the handler returned, nil if it was not called
	Wait    time.Duration // from its submission, or from its move to the queue when it was due, to the start; by the clocks of two machines
	Took    time.Duration // of the run
}

// Default values of WorkerOptions.
const (
	DefaultLease = stream.DefaultTTL
	DefaultDrain = stream.DefaultDrain

	defaultMargin     = 5 * time.Second
	defaultMaxUnknown = 20
	minLease          = 300 * time.Millisecond
	maxSlots          = 10_000
	maxSizes          = 1000                 // of one worker: a client that New was given may have no more than 1,024 connections for those who block
	ahead             = 5 * time.Millisecond // of work is fetched beside the free slots
)

// slotsFor is how many tasks of a size run at once if nothing is said.
func slotsFor(z Size) int {
	switch z {
	case Small:
		return 50
	case Medium:
		return 10
	}
	return 1
}

// Worker runs tasks. Make one with Client.Worker and call Run, again if need be when that has ended.
type Worker struct {
	client   *Client
	opts     WorkerOptions
	handlers map[string]*Handler
	stream   *stream.Worker
	log      *slog.Logger
	control  *control
	waiters  *waiters
	begun    time.Time
	meters   *meters      // nil = nothing is counted
	tracer   trace.Tracer // nil = there are no spans

	busy atomic.Bool // Run is at work

	mu      sync.Mutex
	running map[*run]struct{}

	fetched, ended atomic.Uint64 // entries
	fetchedAt      atomic.Int64  // ns since the epoch, 0 = never
	evicted        atomic.Int64  // keys that the server had thrown away when it was last asked, -1 = it was not yet

}

// Worker makes a worker with these handlers. The error names the option or handler that is unfit; two handlers for one name are refused.
func (c *Client) Worker(o WorkerOptions, handlers ...Handler) (*Worker, error) {
	w := &Worker{client: c, opts: o, handlers: make(map[string]*Handler), log: o.Log, running: make(map[*run]struct{})}
	w.log = cmp.Or(w.log, c.log)
	for _, h := range handlers {
		if h.spec == nil {
			return nil, errors.New("task: Worker: an empty Handler: make it with Type.Handle")
		}
		if h.spec.aggregate != nil && !h.batch {
			return nil, fmt.Errorf("task: Worker: tasks of %q are aggregated: make its handler with HandleBatch", h.spec.name)
		}
		if w.handlers[h.spec.name] != nil {
			return nil, fmt.Errorf("task: Worker: two handlers for %q", h.spec.name)
		}
		w.handlers[h.spec.name] = &h
	}
	w.evicted.Store(-1)
	w.handlers[groupFailed.name] = &groupFailedHandler
	if err := w.complete(handlers); err != nil {
		return nil, err
	}
	w.log = w.log.With("worker", w.opts.ID)
	w.stream = stream.NewWorker(c.rdb, c.keys, w.opts.ID, w.opts.Lease, w.log)
	w.control = newControl(w)
	w.waiters = newWaiters(w)
	if w.opts.Tracer != nil {
		w.tracer = w.opts.Tracer.Tracer(tracerName)
	}
	w.meters = newMeters(w.opts.Metrics, w.handlers, w.opts.Concurrency)
	return w, nil
}

// complete fills the options in and checks them.
func (w *Worker) complete(handlers []Handler) error {
	o := &w.opts
	o.ID = cmp.Or(o.ID, ownID())
	if err := checkName("WorkerOptions.ID", o.ID); err != nil {
		return err
	}
	if o.Concurrency == nil {
		o.Concurrency = make(map[Size]int)
		for _, h := range handlers {
			o.Concurrency[h.spec.size] = slotsFor(h.spec.size)
		}
	}
	for size, n := range o.Concurrency {
		if err := size.validate(); err != nil {
			return fmt.Errorf("task: WorkerOptions.Concurrency: %w", err)
		}
		if n < 1 || n > maxSlots {
			return fmt.Errorf("task: WorkerOptions.Concurrency: %d slots for %s: want 1 to %d", n, size, maxSlots)
		}
	}
	if n := len(o.Concurrency); n > maxSizes {
		return fmt.Errorf("task: WorkerOptions.Concurrency: %d sizes: want at most %d in one worker, each takes a connection: make several workers, in several processes", n, maxSizes)
	}
	if len(o.Concurrency) == 0 {
		return errors.New("task: Worker: neither handlers nor WorkerOptions.Concurrency say which sizes to serve")
	}
	if o.Policy == nil {
		o.Policy = Weighted{}
	}
	if err := o.Policy.validate(); err != nil {
		return err
	}
	if err := completeLease("WorkerOptions.Lease", &o.Lease, DefaultLease); err != nil {
		return err
	}
	if o.Drain < 0 || o.Margin < 0 || o.MaxUnknown < 0 {
		return fmt.Errorf("task: WorkerOptions.Drain %v, Margin %v, MaxUnknown %d: want 0 or more of each", o.Drain, o.Margin, o.MaxUnknown)
	}
	o.Drain, o.Margin, o.MaxUnknown = cmp.Or(o.Drain, DefaultDrain), cmp.Or(o.Margin, defaultMargin), cmp.Or(o.MaxUnknown, defaultMaxUnknown)
	return nil
}

func completeLease(field string, lease *time.Duration, or time.Duration) error {
	if *lease = cmp.Or(*lease, or); *lease < minLease {
		return fmt.Errorf("task: %s %v: want at least %v", field, *lease, minLease)
	}
	return nil
}

// ID names the worker in listings.
func (w *Worker) ID() string { return w.opts.ID }

// StuckError says which handlers did not return after their context had ended. They are left behind; their tasks run again elsewhere.
type StuckError struct{ Tasks []string }

func (e *StuckError) Error() string {
	return fmt.Sprintf("task: %d handlers ignore the end of their context: %s", len(e.Tasks), strings.Join(e.Tasks, ", "))
}

// Run fetches and runs tasks until ctx ends. Then it fetches no more, hands back what it has not begun, gives what runs WorkerOptions.Drain to
// finish, breaks the rest off and hands it back, and returns nil, or a *StuckError. It outlives every error of Redis; nothing that it holds is
// lost when the process dies. While it is at work, a second Run is refused with an error.
func (w *Worker) Run(ctx context.Context) error {
	if !w.busy.CompareAndSwap(false, true) {
		return fmt.Errorf("task: Worker.Run: worker %s runs already: make another one with Client.Worker", w.opts.ID)
	}
	defer w.busy.Store(false)
	w.begun = time.Now()
	if err := w.control.read(ctx); err != nil { // nothing is to run before that was paused or cancelled
		w.log.Debug("task: what operators say is not known yet", "error", err)
	}
	life, die := context.WithCancel(context.WithoutCancel(ctx)) // of what must outlive the groups
	var alive, groups sync.WaitGroup
	alive.Go(func() { _ = w.stream.Run(life) }) // always nil
	alive.Go(func() { w.control.run(life) })
	alive.Go(func() { w.waiters.run(life) })
	alive.Go(func() { w.register(life) })
	if !w.opts.NoPromote {
		p := newPromoter(w.client, w.log)
		p.metrics = w.opts.Metrics
		groups.Go(func() { p.run(ctx) })
	}
	for size, slots := range w.opts.Concurrency {
		g := w.group(size, slots)
		if err := g.Check(); err != nil {
			die()
			return err
		}
		groups.Go(func() { _ = g.Run(ctx) }) // its only error is Check's
	}
	ended := make(chan struct{})
	go func() { groups.Wait(); close(ended) }()
	var stuck error
	select {
	case <-ended:
	case <-w.over(ctx):
		stuck = w.stuck()
	}
	die()
	alive.Wait()
	return stuck
}

// over says when handlers must have returned.
func (w *Worker) over(ctx context.Context) <-chan struct{} {
	ch := make(chan struct{})
	context.AfterFunc(ctx, func() { time.AfterFunc(w.opts.Drain+w.opts.Margin, func() { close(ch) }) })
	return ch
}

func (w *Worker) stuck() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.running) == 0 { // what they have done cannot be written
		return nil
	}
	var e StuckError
	for r := range w.running {
		e.Tasks = append(e.Tasks, r.msg.Name+" "+r.msg.ID)
	}
	slices.Sort(e.Tasks)
	return &e
}

// group is the consumer group of one size: three streams.
func (w *Worker) group(size Size, slots int) *stream.Group {
	queues := make([]Queue, 0, 3)
	streams := make([]string, 0, 3)
	for _, p := range Priorities() {
		q := queueOf(p, size)
		queues = append(queues, q)
		streams = append(streams, w.client.keys.TaskStream(string(q)))
	}
	return &stream.Group{
		Worker: w.stream, Streams: streams, Name: w.client.keys.TaskGroup(),
		Slots: slots, Ahead: ahead, Field: "data",
		Order:   w.opts.Policy.order(),
		Closed:  func(i int) bool { return w.control.paused(queues[i]) },
		Changed: w.control.groups[size],
		Rate: func(i int) (float64, string) {
			return w.control.rate(queues[i]), w.client.keys.TaskRate(string(queues[i]))
		},
		Handle: func(ctx context.Context, e *stream.Entry) (stream.Result, error) {
			e.Effect = w.handle(ctx, e, queueAt(queues, streams, e))
			return stream.Ack, nil
		},
		Finish:        w.finishAndTell,
		Doom:          func(e *stream.Entry, err error) { e.Effect = w.doom(e, queueAt(queues, streams, e), err) },
		MaxDeliveries: w.opts.MaxDeliveries,
		Drain:         w.opts.Drain,
		Log:           w.log,
	}
}

func queueAt(queues []Queue, streams []string, e *stream.Entry) Queue {
	return queues[slices.Index(streams, e.Stream)]
}
