package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/stream"
)

// Kinds of queues.
const (
	tasks      = "tasks"
	activities = "activities"
)

// WorkerOptions are the settings of a Worker. The zero value is ready.
type WorkerOptions struct {
	// Name is the worker's in Redis, unique among those that share a prefix; "" = made up. With the same name after a restart, what it held is resumed at once.
	Name string
	// Lease is how long after its last sign of life a worker is taken for dead, and its tasks go to others; 0 = 10 s, or the shorter of the two below.
	Lease time.Duration
	// WorkflowLease and ActivityLease are how long a task may stay with a living worker that neither completes nor extends it; 0 = 1 min and 2 min.
	WorkflowLease, ActivityLease time.Duration
	// Drain is how long tasks may go on after Run's context has ended; 0 = 10 s, negative = not at all: they are another worker's then.
	Drain time.Duration
	// Lost is told of a workflow task handed out that is not this worker's any more, because its lease or the worker's has ended, or Drain; nil = nobody is. Of one that is being
	// completed or released the error of that says so. It must not block.
	Lost func(Instance)
	// MaxDeliveries is after how many workers that died with a task, or kept it beyond its lease, it is given up: an instance is paused then, an activity has failed. 0 = 5, negative = never.
	MaxDeliveries int
	// Failure makes what an instance gets of an activity that is given up, or that somebody deleted from its queue, with no more of a.Event then than Ref; nil = an EventActivityErr of Takt's own. ID, Ref and Time are set after it.
	Failure func(a *ActivityTask, err error) Event
}

const (
	defaultLease         = 10 * time.Second
	defaultWorkflowLease = time.Minute
	defaultActivityLease = 2 * time.Minute
	minLease             = 100 * time.Millisecond
)

func (o WorkerOptions) withDefaults() (WorkerOptions, error) {
	o.Name = cmp.Or(o.Name, newID())
	o.WorkflowLease = cmp.Or(o.WorkflowLease, defaultWorkflowLease)
	o.ActivityLease = cmp.Or(o.ActivityLease, defaultActivityLease)
	o.Lease = cmp.Or(o.Lease, min(defaultLease, o.WorkflowLease, o.ActivityLease))
	if err := checkQueue("WorkerOptions.Name", o.Name); err != nil {
		return o, err
	}
	for _, l := range []struct {
		field string
		value time.Duration
	}{{"Lease", o.Lease}, {"WorkflowLease", o.WorkflowLease}, {"ActivityLease", o.ActivityLease}} {
		if l.value < minLease {
			return o, fmt.Errorf("workflow: WorkerOptions.%s %s: must be at least %s", l.field, l.value, minLease)
		}
	}
	o.Drain = cmp.Or(o.Drain, stream.DefaultDrain)
	if o.Drain < 0 {
		o.Drain = time.Millisecond
	}
	return o, nil
}

// Worker gets tasks and settles them. Run must run while tasks are asked for; the rest is safe for concurrent use.
type Worker struct {
	c          *Client
	opts       WorkerOptions
	workflows  *hub[*WorkflowTask]
	activities *hub[*ActivityTask]
	leases     struct{ workflows, activities leases }
	documents  documents

	mu      sync.Mutex
	running bool
	run     context.Context // of its queues; nil = none begins
	ran     bool            // once at least
	over    chan struct{}   // closed when tasks are not handed out any more, until it runs again
	queues  map[queueRef]*queue
	by      map[string][]*queue // kind and name -> of each shard
	alive   []*stream.Worker    // by shard
	menders []*mender           // by shard
	groups  sync.WaitGroup
}

// queueRef names a queue of a shard.
type queueRef struct {
	shard      int
	kind, name string
}

// queue is what a worker reads of one queue of one shard.
type queue struct {
	w     *Worker
	s     *shard
	kind  string
	name  string
	group *stream.Group
	hot   atomic.Bool // something came from it
}

// NewWorker makes a worker; it does nothing until Run.
func (c *Client) NewWorker(o WorkerOptions) (*Worker, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Worker{c: c, opts: o, queues: make(map[queueRef]*queue), by: make(map[string][]*queue), over: make(chan struct{})}
	w.leases.workflows.d, w.leases.activities.d = o.WorkflowLease, o.ActivityLease
	w.workflows = newHub[*WorkflowTask](func(q string) { w.wake(tasks, q) })
	w.activities = newHub[*ActivityTask](func(q string) { w.wake(activities, q) })
	for _, s := range c.shards {
		w.alive = append(w.alive, stream.NewWorker(c.rdb, s.all, o.Name, o.Lease, c.log))
		w.menders = append(w.menders, &mender{w: w, s: s, poke: make(chan struct{}, 1)})
	}
	return w, nil
}

var errRunning = errors.New("workflow: the worker runs already")

// Run keeps the worker alive, reads the queues it is asked for, fires timers and carries messages between shards, until ctx ends. Then tasks that are with somebody have
// WorkerOptions.Drain to be completed, and the rest is handed back. It returns nil, or an error if it runs already.
func (w *Worker) Run(ctx context.Context) error {
	intake, stop := context.WithCancel(ctx)
	defer stop()
	w.mu.Lock()
	if w.running {
		w.mu.Unlock()
		return errRunning
	}
	if w.ran {
		w.over = make(chan struct{})
	}
	w.running, w.ran, w.run = true, true, intake
	over := w.over
	context.AfterFunc(intake, func() { close(over) })
	for _, q := range w.queues {
		w.start(q)
	}
	w.mu.Unlock()
	beats := lifecycle.Stage{}
	helpers := lifecycle.Stage{"queues": w.readQueues}
	for i, s := range w.c.shards {
		n := strconv.Itoa(i)
		beats["heartbeat "+n] = w.alive[i].Run
		helpers["timers "+n] = newFirer(s).run
		helpers["retention "+n] = (&cleaner{s: s}).run
		helpers["schedules "+n] = s.keepSchedules
		helpers["menders "+n] = w.menders[i].run
		if len(w.c.shards) > 1 {
			helpers["courier "+n] = w.courier(s).run
		}
	}
	err := lifecycle.Run(ctx, 2*w.opts.Drain+time.Second, helpers, beats)
	w.mu.Lock()
	w.running = false
	w.mu.Unlock()
	return err
}

// readQueues waits for the groups, which end with ctx.
func (w *Worker) readQueues(ctx context.Context) error {
	<-ctx.Done()
	w.mu.Lock()
	w.run = nil // none begins after that
	w.mu.Unlock()
	w.groups.Wait()
	return nil
}

// Serve begins to read queues before the first task of them is asked for. It is not needed.
func (w *Worker) Serve(queues ...string) error {
	for _, q := range queues {
		if err := checkQueue("queue", q); err != nil {
			return err
		}
	}
	for _, q := range queues {
		w.of(tasks, q)
		w.of(activities, q)
	}
	return nil
}

// wake lets the readers of a queue look whether somebody waits, and begins to read it if it is not yet read.
func (w *Worker) wake(kind, name string) {
	for _, q := range w.of(kind, name) {
		q.group.Wake()
	}
}

// of is what is read of a queue, by shard.
func (w *Worker) of(kind, name string) []*queue {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := kind + ":" + name
	if all, ok := w.by[key]; ok {
		return all
	}
	for _, s := range w.c.shards {
		q := w.newQueue(s, kind, name)
		w.queues[queueRef{s.n, kind, name}] = q
		w.by[key] = append(w.by[key], q)
		if w.run != nil {
			w.start(q)
		}
	}
	return w.by[key]
}

// start runs a queue's group; mu is held.
func (w *Worker) start(q *queue) {
	run := w.run
	w.groups.Go(func() {
		if err := q.group.Run(run); err != nil {
			w.c.log.Error("workflow: a queue is not read", "queue", q.name, "error", err)
		}
	})
}

func (w *Worker) newQueue(s *shard, kind, name string) *queue {
	q := &queue{w: w, s: s, kind: kind, name: name}
	// One entry at a time: those behind it come with what it needs, by begin.lua.
	free, handle, dead := func() int { return min(w.workflows.free(name), 1) }, q.handleTask, q.deadTask
	if kind == activities {
		free, handle, dead = func() int { return w.activities.free(name) }, q.handleActivity, q.deadActivity
	}
	q.group = &stream.Group{
		Worker: w.alive[s.n], Streams: []string{s.keys.Queue(kind, name)}, Name: s.keys.Group(), Free: free,
		Handle: handle, Dead: dead, Before: "n", MaxDeliveries: w.opts.MaxDeliveries, Drain: w.opts.Drain, Log: w.c.log,
		Transient: redis.Denied, // until somebody gives the right back
		Hopeless:  foreign,      // until somebody mends the key: others are not to wait for that
		Lost:      func(context.Context, string, []string) { lifecycle.Poke(w.menders[s.n].poke) },
	}
	return q
}

// ErrStopped is for those who wait for a task of a Worker whose Run has ended, or is about to.
var ErrStopped = errors.New("workflow: the worker has stopped")

// WorkflowTask waits for a workflow task of one of queues until ctx ends, then it returns nil and the cause of ctx, or until the context of Run does: ErrStopped. The task must be completed or released, or extended before
// its lease ends.
func (w *Worker) WorkflowTask(ctx context.Context, queues []string) (*WorkflowTask, error) {
	return next(ctx, w, w.workflows, queues, func(t *WorkflowTask) bool { return t.lease.begin(t.Context(), t) })
}

// ActivityTask is WorkflowTask for activities.
func (w *Worker) ActivityTask(ctx context.Context, queues []string) (*ActivityTask, error) {
	return next(ctx, w, w.activities, queues, func(t *ActivityTask) bool { return t.lease.begin(t.Context(), t) })
}

// next takes the first task that can begin from h: others were kept for too long.
func next[T any](ctx context.Context, w *Worker, h *hub[*T], queues []string, begin func(*T) bool) (*T, error) {
	if err := checkQueues(queues); err != nil {
		return nil, err
	}
	over := w.stopping()
	for {
		t, ok := h.take(ctx, over, queues)
		switch {
		case ok && begin(t):
			return t, nil
		case !ok && ctx.Err() == nil:
			return nil, ErrStopped
		case !ok:
			return nil, context.Cause(ctx)
		}
	}
}

func (w *Worker) stopping() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

func checkQueues(queues []string) error {
	if len(queues) == 0 {
		return &NameError{"queues", "", "must name one at least"}
	}
	for _, q := range queues {
		if err := checkQueue("queue", q); err != nil {
			return err
		}
	}
	return nil
}
