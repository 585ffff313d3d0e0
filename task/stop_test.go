package task_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/task"
)

// W9, plus-21: at the stop, what runs may finish; what is not begun goes to others at once; what does not finish in time is broken off, handed
// back, and no failure (fault 4).
func TestStop(t *testing.T) {
	long.Test(t, "depends on the speed of the machine")
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
	if err != nil {
		t.Fatal(err)
	}
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
		if got, err := h.Await(e.ctx()); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	if cause := wait(t, "cause", causes); !errors.Is(cause, task.ErrStopped) {
		t.Errorf("cause %v", cause)
	}
	if err := wait(t, "end of Run", end); err != nil {
		t.Error(err)
	}
}

// W9, plus-21: what a stopping worker has fetched and not begun begins elsewhere at once, while what it runs still goes on.
func TestStopHandsBack(t *testing.T) {
	long.Test(t, "depends on the speed of the machine")
	e := newEnv(t)
	s := newSlowInTheMiddle()
	_, stop := e.start(task.WorkerOptions{ID: "first", Drain: patience, Concurrency: map[task.Size]int{task.Small: 1}}, s.handler())
	s.submit(e)
	wait(t, "the slow one", s.slow)
	s.fetchedAhead(e, "first")
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	e.start(task.WorkerOptions{ID: "second"}, s.handler())
	e.eventually("all others have run", func() bool { return s.ran() == slowTasks })
	select {
	case <-stopped:
		t.Error("the worker did not wait for what it runs")
	default:
	}
	close(s.pass)
	wait(t, "the end of the first", stopped)
	e.idle()
	if n := s.runs[slowAt]; n != 1 {
		t.Errorf("what ran at the stop ran %d times", n)
	}
}
