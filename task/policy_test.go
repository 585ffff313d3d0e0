package task_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/task"
)

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
			sendMany(e, slow, make([]string, 400+8*20))
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

// The shares hold for tasks that are so quick that many are fetched at once, while there is a backlog of each priority.
func TestWeightedSharesOfQuickTasks(t *testing.T) {
	long.Test(t, "depends on how quickly tasks run")
	e := newEnv(t)
	typ := task.Define[string, task.None]("test:Quick", task.Small)
	const n = 6000
	for _, p := range task.Priorities() {
		sendMany(e, typ, make([]string, n), p)
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
