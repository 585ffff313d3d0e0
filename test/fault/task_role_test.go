package fault_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/task"
)

// taskRole is the environment variable that makes this test binary a worker or a producer of tasks: its value is a taskConfig as JSON.
const taskRole = "TAKT_TEST_TASK"

// taskConfig is what such a process is to be.
type taskConfig struct {
	Role   string // "worker" or "producer"
	URL    string // of Redis
	Prefix string
	Ledger string // folder
	ID     string // of a worker

	Slots  int           // of a worker; 0 = 10
	Lease  time.Duration // 0 = taskLease
	Drain  time.Duration // 0 = 5 s
	Margin time.Duration // 0 = 1 s
	Idle   bool          // it has one for idle, and notes nothing
	Gauge  bool          // it counts its goroutines all the time
	Hogs   bool          // its memory is limited

	Name  string        // of a producer: what its works are called
	Count int           // how many works
	Every time.Duration // between two submissions
	Work  taskWork      // what each is to do
	Keyed bool          // each under its own key, and again until the answer comes
	Later bool          // each tenth is delayed by up to half a second

	Replicas int // that acknowledge each submission
}

func (c taskConfig) folder() string { return c.Ledger }

// taskWork is the argument of a task. Do is one of the words below; "" = take Takes, have the effect, and return.
type taskWork struct {
	N     string
	Do    string
	Takes time.Duration
}

// What a task may do beside its work.
const (
	doDieAfterEffect = "die after the effect" // kill -9 of its own process, in its first run
	doExit           = "exit"                 // os.Exit in every run
	doHog            = "take all memory"      // in every run
	doHang           = "hang"                 // in its first run: ignore the end of its context, for ever
	doLinger         = "linger"               // in its first run, work until its context ends
	doAwaitGate      = "gate"                 // have the effect when the gate is open
)

// taskResult says which run a result is of.
type taskResult struct {
	PID   int
	Fence uint64
}

var (
	taskRetry = task.Retry(task.Backoff{Base: 50 * time.Millisecond, Retries: 3})
	theWork   = task.Define[taskWork, taskResult]("fault:Work", task.Small, taskRetry)
	tally     = task.Define[taskWork, taskResult]("fault:Tally", task.Small, taskRetry) // the callback of groups of theWork
)

// runRole is main of a process that a test started to be what the environment variable role says: its value is a configuration as JSON.
func runRole[C interface{ folder() string }](role string, run func(ctx context.Context, c C, ledger *taskLedger, log *slog.Logger) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var c C
	err := json.Unmarshal([]byte(os.Getenv(role)), &c)
	if err == nil {
		var ledger *taskLedger
		if ledger, err = openLedger(c.folder()); err == nil {
			err = run(ctx, c, ledger, slog.New(slog.NewTextHandler(os.Stderr, nil)))
			ledger.note(taskNote{Event: noteExit, Says: fmt.Sprint(err)})
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// paced does n things from four goroutines, one each time that every has passed.
func paced(ctx context.Context, n int, every time.Duration, do func(i int)) {
	next := make(chan int)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	fmt.Println("up")
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
		}
		lifecycle.Sleep(ctx, every) // the pace of the load
	}
	close(next)
	all.Wait()
}

// runTask is such a process with a worker or a producer.
func runTask(ctx context.Context, c taskConfig, ledger *taskLedger, log *slog.Logger) error {
	client, err := task.Open(ctx, c.URL, task.Options{Prefix: c.Prefix, LockPrefix: c.Prefix + ":", Replicas: c.Replicas, Log: log})
	if err != nil {
		return err
	}
	defer client.Close()
	if c.Role == "worker" {
		return c.work(ctx, client, ledger)
	}
	paced(ctx, c.Count, c.Every, func(i int) { c.submit(ctx, client, ledger, i) })
	return nil
}

func (c taskConfig) work(ctx context.Context, client *task.Client, ledger *taskLedger) error {
	if c.Hogs {
		if err := limitMemory(256 << 20); err != nil {
			return err
		}
	}
	slots := c.Slots
	if slots == 0 {
		slots = 10
	}
	handlers := []task.Handler{theWork.Handle(c.handleWork(ledger)), tally.Handle(c.handleTally(ledger))}
	observe := func(e task.Event) {
		ledger.note(taskNote{Event: noteEnd, Task: e.Info.ID, Try: e.Info.Attempt, Fence: e.Info.Fence, Says: string(e.Outcome)})
	}
	if c.Idle {
		observe = nil
		handlers = append(handlers, idle.Handle(func(context.Context, *task.Job[int]) (task.None, error) { return task.None{}, nil }))
	}
	w, err := client.Worker(task.WorkerOptions{
		ID: c.ID, Concurrency: map[task.Size]int{task.Small: slots}, Lease: cmp.Or(c.Lease, taskLease), Drain: cmp.Or(c.Drain, 5*time.Second),
		Margin: cmp.Or(c.Margin, time.Second), Observe: observe,
	}, handlers...)
	if err != nil {
		return err
	}
	if c.Gauge {
		go func() {
			for range time.Tick(200 * time.Millisecond) {
				ledger.note(taskNote{Event: noteGauge, Try: runtime.NumGoroutine()})
			}
		}()
	}
	fmt.Println("up")
	return w.Run(ctx)
}

// handleWork is the handler of all tasks.
func (c taskConfig) handleWork(ledger *taskLedger) func(context.Context, *task.Job[taskWork]) (taskResult, error) {
	return func(ctx context.Context, j *task.Job[taskWork]) (taskResult, error) {
		n := taskNote{Event: noteStart, Work: j.Args.N, Task: j.ID, Try: j.Attempt, Fence: j.Fence}
		ledger.note(n)
		result := taskResult{PID: os.Getpid(), Fence: j.Fence}
		switch do := j.Args.Do; {
		case do == doExit:
			os.Exit(3)
		case do == doHog:
			hog()
		case do == doHang && ledger.first(j.ID):
			select {}
		case do == doLinger && ledger.first(j.ID):
			j.Args.Takes = time.Hour
		case do == doAwaitGate:
			ledger.awaitGate(ctx)
		}
		select {
		case <-time.After(j.Args.Takes):
		case <-ctx.Done():
			n.Event, n.Says = noteCause, fmt.Sprint(context.Cause(ctx))
			ledger.note(n)
			return result, ctx.Err()
		}
		n.Event = noteEffect
		ledger.note(n)
		if j.Args.Do == doDieAfterEffect && ledger.first(j.ID) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return result, nil
	}
}

// handleTally is the handler of callbacks: all children must be done, and their results there.
func (c taskConfig) handleTally(ledger *taskLedger) func(context.Context, *task.Job[taskWork]) (taskResult, error) {
	run := c.handleWork(ledger)
	return func(ctx context.Context, j *task.Job[taskWork]) (taskResult, error) {
		children, err := task.GroupResults[taskResult](ctx)
		for i, c := range children {
			if c.Err != nil || c.Value.PID == 0 {
				err = errors.Join(err, fmt.Errorf("child %d: %+v", i, c))
			}
		}
		if err != nil {
			return taskResult{}, err
		}
		return run(ctx, j)
	}
}

// limitMemory lets this process have so many bytes more than now, whatever its garbage collector does.
func limitMemory(more uint64) error {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	var pages uint64
	if _, err := fmt.Sscan(string(text), &pages); err != nil {
		return err
	}
	most := pages*uint64(os.Getpagesize()) + more
	return syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: most, Max: most})
}

// hog takes memory until there is none.
func hog() {
	for all := [][]byte(nil); ; {
		all = append(all, bytes.Repeat([]byte{1}, 16<<20))
		runtime.KeepAlive(all)
	}
}

func (c taskConfig) submit(ctx context.Context, client *task.Client, ledger *taskLedger, i int) {
	work := c.Work
	work.N = fmt.Sprintf("%s-%d", c.Name, i)
	var opts []task.SubmitOption
	if c.Later && i%10 == 0 {
		opts = append(opts, task.In(time.Duration(i%500)*time.Millisecond))
	}
	if c.Keyed {
		opts = append(opts, task.Key(work.N))
	}
	for ctx.Err() == nil {
		n := taskNote{Event: noteOK, Work: work.N, Sent: time.Now().UnixNano()}
		h, err := theWork.Submit(ctx, client, work, opts...)
		var said *rueidis.RedisError
		var short *task.ReplicasError
		switch {
		case err == nil:
			n.Task = h.ID
		case errors.As(err, &short):
			n.Event, n.Says = noteUnknown, err.Error()
		case errors.As(err, &said):
			n.Event, n.Says = noteRefused, err.Error()
		case redis.Away(err):
			n.Event, n.Says = noteUnknown, err.Error()
		default:
			n.Event, n.Says = noteUnknown, "unforeseen: "+err.Error()
		}
		if err == nil || !c.Keyed {
			ledger.note(n)
			return
		}
		time.Sleep(20 * time.Millisecond) // a producer that repeats does not do it at once
	}
}
