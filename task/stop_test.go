package task_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/task"
)

// At the stop, what runs may finish; what is not begun goes to others at once; what does not finish in time is broken off, handed
// back, and no failure (fault 4).
func TestStop(t *testing.T) {
	long.Test(t, "waits for the end of a drain")
	e := newEnv(t)
	typ := task.Define[string, string]("test:Stop", task.Small)
	begun, pass := make(chan string, 100), make(chan struct{})
	causes := make(chan error, 1)
	const drain = 4 * time.Second // a busy machine must not take longer to end what finishes
	w, err := e.client.Worker(task.WorkerOptions{ID: "first", Drain: drain, Concurrency: map[task.Size]int{task.Small: 2}}, typ.Handle(func(ctx context.Context, j *task.Job[string]) (string, error) {
		begun <- j.Args
		if j.Args == "finishes" {
			<-pass
			return "by the first", nil
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return "", ctx.Err()
	}))
	e.ok(err)
	ctx, stop := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- w.Run(ctx) }()
	finishes, hangs := send(e, typ, "finishes"), send(e, typ, "hangs")
	wait(t, "start", begun)
	wait(t, "start", begun)
	waits := send(e, typ, "waits")
	stop()
	close(pass)
	e.start(task.WorkerOptions{ID: "second"}, typ.Handle(func(_ context.Context, j *task.Job[string]) (string, error) {
		if j.Attempt != 1 {
			t.Errorf("%s: attempt %d", j.Args, j.Attempt)
		}
		return "by the second", nil
	}))
	for h, want := range map[*task.Handle[string]]string{finishes: "by the first", hangs: "by the second", waits: "by the second"} {
		returned(e, h, want)
	}
	if cause := wait(t, "cause", causes); !errors.Is(cause, task.ErrStopped) {
		t.Errorf("cause %v", cause)
	}
	e.ok(wait(t, "end of Run", end))
}
