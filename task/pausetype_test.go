package task_test

import (
	"context"
	"testing"
	"time"

	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/task/internal/wire"
)

// parked is how many runs of a type were put off because it was paused or not enabled.
func (e *env) parked(name string) int64 {
	e.t.Helper()
	return e.counter(task.Parked, name)
}

// now lets a task begin whose type is not paused any more: it need not wait for its next look.
func (e *env) now(id string) {
	e.t.Helper()
	if err := e.client.RunNow(e.ctx(), task.Ref{ID: id}); err != nil {
		e.t.Error(err)
	}
}

// Tasks of a type that is paused are delayed, and pass tasks of other types; a look at one is no attempt.
func TestPauseType(t *testing.T) {
	e := newEnv(t)
	one := task.Define[double, int]("test:One", task.Positional(), task.Small)
	other := task.Define[double, int]("test:Other", task.Positional(), task.Small)
	e.start(task.WorkerOptions{Concurrency: map[task.Size]int{task.Small: 1}},
		one.Handle(func(_ context.Context, j *task.Job[double]) (int, error) { return j.Attempt, nil }),
		other.Handle(func(_ context.Context, j *task.Job[double]) (int, error) { return j.Args.N, nil }))
	e.ok(e.client.PauseType(e.ctx(), one.Name()))
	e.eventually("the worker knows of the pause", func() bool {
		e.raw(one.Queue(), wire.Message{ID: "probe", Name: one.Name(), Args: []byte{0x91, 0xff}, Labels: wire.Labels{{Key: "size", Value: "small"}}})
		return e.parked(one.Name()) > 0
	})
	before := e.parked(one.Name())
	paused := send(e, one, double{1})
	h := send(e, other, double{3})
	returned(e, h, 3)
	e.eventually("the task is put off", func() bool { return e.parked(one.Name()) > before })
	found, err := e.client.Find(e.ctx(), task.Ref{ID: paused.ID})
	if err != nil || found.State != task.StateDelayed || time.Until(found.Due) > 10*time.Second {
		t.Errorf("%+v, %v, want it delayed by some seconds", found, err)
	}
	if s := e.stats(); len(s.Paused) != 1 || s.Paused[0] != one.Name() {
		t.Errorf("paused are %q", s.Paused)
	}
	e.ok(e.client.ResumeType(e.ctx(), one.Name()))
	e.now(paused.ID)
	e.now("probe")
	if attempt, err := paused.Await(e.ctx()); err != nil || attempt != 1 {
		t.Errorf("attempt %d, %v, want the first", attempt, err)
	}
	e.nothingWaits()
	e.counts(0, "EXISTS", e.prefix+":tasks:control")
}
