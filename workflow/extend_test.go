package workflow_test

import (
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/workflow"
)

// A worker that Redis does not answer is told that its task is lost when its lease is over, and not when the connection is given up: by then another has it.
func TestExtendWhileRedisHangs(t *testing.T) {
	long.Test(t, "waits for a lease to end")
	t.Parallel()
	e := newEnv(t)
	hangs := e.mortal(workflow.WorkerOptions{Lease: 5 * time.Second})
	e.begin("a")
	e.step(e.task(hangs.Worker), schedules(1))
	a := e.activity(hangs.Worker)
	e.begin("b")
	task := e.task(hangs.Worker)
	hangs.proxy.Stall(true)
	e.is(a.Extend(e.ctx()), workflow.ErrLost)
	e.is(task.Extend(e.ctx()), workflow.ErrLost)
	hangs.proxy.Stall(false)
	again := e.activity(hangs.Worker)
	e.ok(again.Complete(e.ctx(), event("Done", 1)))
	for range 2 {
		e.step(e.task(hangs.Worker), finished)
	}
}
