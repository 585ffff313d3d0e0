package task_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/task"
)

// Each priority gets its share by weight, also where the weights add up to an even number and one slot reads and starts in turn.
func TestWeightedShares(t *testing.T) {
	long.Test(t, "depends on how long handlers take")
	e := newEnv(t)
	typ := task.Define[string, task.None]("test:Share", task.Small)
	const n = 400
	for _, p := range task.Priorities() {
		if _, err := typ.SubmitMany(e.ctx(), e.client, make([]string, n), p); err != nil {
			t.Fatal(err)
		}
	}
	starts := make(chan task.Priority, 3*n)
	e.start(task.WorkerOptions{Policy: task.Weighted{Realtime: 2, Normal: 1, Background: 1}, Concurrency: map[task.Size]int{task.Small: 1}},
		typ.Handle(func(_ context.Context, j *task.Job[string]) (task.None, error) {
			p, _, _ := strings.Cut(string(j.Queue), ":")
			starts <- task.Priority(p)
			<-time.After(2 * time.Millisecond) // as long as nothing is fetched ahead
			return task.None{}, nil
		}))
	share := map[task.Priority]int{}
	for range 300 {
		share[wait(t, "start", starts)]++
	}
	if share[task.Realtime] < 100 || share[task.Normal] < 35 || share[task.Background] < 35 {
		t.Errorf("shares of 300 starts at 2:1:1: %v", share)
	}
}

// With 400 background tasks waiting, a realtime task is begun before any of them by Strict, and by Weighted{}, which workers have if nothing is said, after few: each
// start is another's with a chance of 1 in 21.
func TestRealtimeOvertakes(t *testing.T) {
	long.Test(t, "depends on how long handlers take")
	for name, c := range map[string]struct {
		policy task.Policy
		urgent int // realtime tasks, one after another
		before int // of background are begun before each of them at most
	}{"strict": {task.Strict{}, 20, 0}, "default": {nil, 20, 7}} { // 8 in a row: 1 in 21^8
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			slow := task.Define[string, task.None]("test:Slow", task.Background, task.Small)
			begun, pass := make(chan string, 1000), make(chan struct{})
			if _, err := slow.SubmitMany(e.ctx(), e.client, make([]string, 400+8*20)); err != nil {
				t.Fatal(err)
			}
			e.start(task.WorkerOptions{Concurrency: map[task.Size]int{task.Small: 2}, Policy: c.policy}, slow.Handle(func(ctx context.Context, j *task.Job[string]) (task.None, error) {
				begun <- j.Args
				select {
				case <-pass:
				case <-ctx.Done():
				}
				<-time.After(12 * time.Millisecond) // so long that nothing is fetched ahead for two slots
				return task.None{}, nil
			}))
			wait(t, "start", begun)
			wait(t, "start", begun)
			all := 0
			for range c.urgent {
				send(e, slow, "urgent", task.Realtime)
				before := -1
				for got := ""; got != "urgent"; before++ {
					pass <- struct{}{}
					got = wait(t, "start", begun)
				}
				if all += before; before > c.before {
					t.Errorf("%d background tasks were begun before a realtime one, want at most %d", before, c.before)
				}
			}
			if waiting := e.number("XLEN", e.key("tasks:background:small")); waiting < 400 {
				t.Errorf("%d background tasks are left, want 400", waiting)
			}
			t.Logf("%d background tasks were begun before %d realtime ones", all, c.urgent)
			close(pass)
		})
	}
}

// While there is always something of realtime, Strict never comes to what is lower; Weighted does soon, by its shares.
func TestPolicies(t *testing.T) {
	long.Test(t, "runs hundreds of tasks of 2 ms, one at a time")
	const enough = 300
	for name, c := range map[string]struct {
		policy task.Policy
		runs   bool // the low one does, among so many others as enough
	}{"strict": {task.Strict{}, false}, "weighted": {task.Weighted{}, true}} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			typ := task.Define[string, task.None]("test:T", task.Small)
			ended := make(chan string, 10_000)
			ctx, stop := context.WithCancel(e.ctx())
			defer stop()
			high := make([]string, 64)
			for range 4 { // there is always something of realtime
				if _, err := typ.SubmitMany(ctx, e.client, high, task.Realtime); err != nil {
					t.Fatal(err)
				}
			}
			e.start(task.WorkerOptions{Policy: c.policy, Concurrency: map[task.Size]int{task.Small: 1}}, typ.Handle(func(ctx context.Context, j *task.Job[string]) (task.None, error) {
				if ctx.Err() == nil && j.Args == "" {
					if _, err := typ.Submit(ctx, j.Client(), "", task.Realtime); err != nil && ctx.Err() == nil {
						return task.None{}, err
					}
				}
				<-time.After(2 * time.Millisecond) // as long as nothing is fetched ahead
				select {
				case ended <- j.Args:
				default:
				}
				return task.None{}, nil
			}))
			wait(t, "an end", ended)
			send(e, typ, "low", task.Background)
			low := false
			for others := 0; !low && others < enough; others++ {
				low = wait(t, "an end", ended) == "low"
			}
			if low != c.runs {
				t.Errorf("the low one ran: %v, want %v", low, c.runs)
			}
		})
	}
}

// The shares hold for tasks that are so quick that many are fetched at once, while there is a backlog of each priority.
func TestWeightedSharesOfQuickTasks(t *testing.T) {
	long.Test(t, "depends on how quickly tasks run")
	e := newEnv(t)
	typ := task.Define[string, task.None]("test:Quick", task.Small)
	const n = 6000
	for _, p := range task.Priorities() {
		if _, err := typ.SubmitMany(e.ctx(), e.client, make([]string, n), p); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	share, started := map[task.Queue]int{}, 0
	enough := make(chan struct{})
	e.start(task.WorkerOptions{}, typ.Handle(func(_ context.Context, j *task.Job[string]) (task.None, error) {
		mu.Lock()
		defer mu.Unlock()
		if started++; started <= n {
			share[j.Queue]++
		}
		if started == n {
			close(enough)
		}
		return task.None{}, nil
	}))
	wait(t, "the first third", enough)
	mu.Lock()
	defer mu.Unlock()
	for p, weight := range map[task.Priority]int{task.Realtime: 16, task.Normal: 4, task.Background: 1} {
		want := n * weight / 21 // and what one read has fetched of a queue counts as a whole or not yet
		if got := share[task.Queue(string(p)+":small")]; got < want/2 || got > want*2 {
			t.Errorf("%d of %d starts were %s, want about %d", got, n, p, want)
		}
	}
}
