package task_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/task"
)

// commands is how many commands the server has run, those inside scripts included.
func (e *env) commands() int64 {
	e.t.Helper()
	u, err := e.client.Usage(e.ctx())
	e.ok(err)
	return u.Commands
}

// pass waits for time to pass in which nothing happens: that is what is tested.
func (e *env) pass(d time.Duration) {
	e.t.Helper()
	begin := time.Now()
	e.eventually("time passes", func() bool { return time.Since(begin) > d })
}

// Who has nothing to do hardly asks.
func TestIdleCommands(t *testing.T) {
	long.Test(t, "counts the commands of some seconds")
	// The pauses of what is due now and then have jitter: most leaves room for the shortest of them.
	one, all := map[task.Size]int{task.Small: 10}, map[task.Size]int{task.Small: 10, task.Medium: 2, task.Large: 1}
	for _, c := range []struct {
		policy task.Policy
		sizes  map[task.Size]int // nil = a scheduler
		most   int64             // commands per second
	}{
		{task.Weighted{}, one, 10}, {task.Strict{}, one, 10}, {task.Weighted{}, all, 18}, {nil, nil, 5},
	} {
		t.Run(fmt.Sprintf("%T of %d sizes", c.policy, len(c.sizes)), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			if c.sizes == nil {
				e.schedules(task.SchedulerOptions{Lease: task.DefaultSchedulerLease})
			} else {
				e.start(task.WorkerOptions{Policy: c.policy, Concurrency: c.sizes})
			}
			e.pass(time.Second)
			begin, before := time.Now(), e.commands()
			e.pass(5 * time.Second)
			n := e.commands() - before
			if took := time.Since(begin); float64(n) > float64(c.most)*took.Seconds() {
				t.Errorf("%d commands in %v, want at most %d a second", n, took, c.most)
			}
		})
	}
}
