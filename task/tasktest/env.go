package tasktest

import (
	"cmp"
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/task"
)

// Env is a Redis, workers and a scheduler in a bubble of testing/synctest, with a clock that the test sets. In the bubble time stands still while anything is at work, so nothing
// depends on how fast the machine is. The methods of Env are for the goroutine of the test.
type Env struct {
	Client *task.Client

	t         testing.TB
	rdb       rueidis.Client
	keys      keys.Keys
	touched   chan struct{} // somebody has said something to Redis
	lives     []func(context.Context) error
	working   bool // a worker is among them
	scheduled bool // a scheduler is

	life    context.Context    // of those that run
	end     context.CancelFunc // nil = they do not
	running sync.WaitGroup

	ended chan struct{} // a run has
	mu    sync.Mutex
	runs  Runs
	calls map[task.Queue]int64 // of handlers that have not returned
}

// New makes an Env in a test inside synctest.Test, where time begins on 2000-01-01 at midnight UTC. Nothing runs until Work and Schedule say what. At the end of the test
// all of it ends; handlers that still run have WorkerOptions.Drain to finish, of the bubble's time.
func New(t testing.TB, o task.Options) *Env {
	t.Helper()
	if !inBubble() {
		t.Fatal("tasktest: New: only in a bubble can a test set the clock: call it inside synctest.Test, with the t of that")
	}
	dial, stop := embedded.Pipe()
	t.Cleanup(stop)
	e := &Env{t: t, touched: make(chan struct{}, 1), ended: make(chan struct{}, 1), calls: make(map[task.Queue]int64)}
	rdb, err := redis.Connect(t.Context(), redis.Options{URL: "redis://in.memory", Embedded: true, Dial: func() (net.Conn, error) {
		c, err := dial()
		return tap{c, e.touched}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rdb.Close)
	o.Prefix = cmp.Or(o.Prefix, "test")
	if e.Client, err = task.New(rdb, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Client.Close)
	t.Cleanup(e.halt)
	e.rdb, e.keys = rdb, keys.New(o.Prefix)
	return e
}

func inBubble() (in bool) {
	defer func() { in = recover() == nil }()
	synctest.Wait() // panics elsewhere
	return
}

// tap is a connection that tells when something is written to it.
type tap struct {
	net.Conn
	touched chan<- struct{}
}

func (c tap) Write(b []byte) (int, error) {
	lifecycle.Poke(c.touched)
	return c.Conn.Write(b)
}

// Work starts a worker, as Client.Worker makes it. From now on tasks run when they are due, while the test waits for something: in Settle, Advance, Await, time.Sleep. Several
// workers may run at once. What Client.Worker refuses fails the test.
func (e *Env) Work(o task.WorkerOptions, handlers ...task.Handler) {
	e.t.Helper()
	observe := o.Observe
	o.Observe = func(end task.Event) {
		e.mu.Lock()
		e.runs = append(e.runs, end)
		e.mu.Unlock()
		lifecycle.Poke(e.ended)
		if observe != nil {
			observe(end)
		}
	}
	o.Middleware = append([]task.Middleware{e.count}, o.Middleware...)
	w, err := e.Client.Worker(o, handlers...)
	if err != nil {
		e.t.Fatal(err)
	}
	e.working = true
	e.live(w.Run)
}

// count is the outermost middleware of all workers.
func (e *Env) count(ctx context.Context, i task.Info, next func(context.Context) error) error {
	add := func(n int64) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.calls[i.Queue] += n
	}
	add(1)
	defer add(-1)
	return next(ctx)
}

// Schedule starts a scheduler, as Client.Scheduler makes it, and returns it for its SetVOs. What Client.Scheduler refuses fails the test.
func (e *Env) Schedule(o task.SchedulerOptions, what ...task.Schedulable) *task.Scheduler {
	e.t.Helper()
	s, err := e.Client.Scheduler(o, what...)
	if err != nil {
		e.t.Fatal(err)
	}
	e.scheduled = true
	e.live(s.Run)
	return s
}

// live adds one more that lives.
func (e *Env) live(run func(context.Context) error) {
	e.lives = append(e.lives, run)
	if e.end == nil {
		e.life, e.end = context.WithCancel(context.Background()) // it ends with halt, after the test's
	}
	e.begin(run)
}

func (e *Env) begin(run func(context.Context) error) {
	life := e.life
	e.running.Go(func() {
		if err := run(life); err != nil {
			e.t.Error(err)
		}
	})
}

// halt ends what lives. That takes up to a second of the bubble's time, for miniredis cannot be asked to end a wait; nothing is lost.
func (e *Env) halt() {
	if e.end != nil {
		e.end()
		e.running.Wait()
		e.end = nil
	}
}

// resume has all of it run again.
func (e *Env) resume() {
	if len(e.lives) > 0 {
		e.life, e.end = context.WithCancel(context.Background())
	}
	for _, run := range e.lives {
		e.begin(run)
	}
}

// Runs are the ends of all runs so far, in their order.
func (e *Env) Runs() Runs {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.runs)
}
