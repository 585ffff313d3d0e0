package task_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/task/internal/wire"
)

func (e *env) parked(name string) int64 {
	e.t.Helper()
	return e.number("ZCARD", e.prefix+":tasks:parked:"+name)
}

func (e *env) pause(kind *task.Type[double, task.None]) {
	e.t.Helper()
	if err := e.client.PauseType(e.ctx(), kind.Name()); err != nil {
		e.t.Fatal(err)
	}
}

func TestPauseType(t *testing.T) {
	e := newEnv(t)
	one := task.Define[double, task.None]("test:One", task.Positional(), task.Small)
	other := task.Define[double, int]("test:Other", task.Positional(), task.Small)
	var mu sync.Mutex
	var ran []int
	e.start(task.WorkerOptions{Concurrency: map[task.Size]int{task.Small: 1}}, one.Handle(func(_ context.Context, j *task.Job[double]) (task.None, error) {
		mu.Lock()
		defer mu.Unlock()
		ran = append(ran, j.Args.N)
		return task.None{}, nil
	}), other.Handle(func(_ context.Context, j *task.Job[double]) (int, error) { return j.Args.N, nil }))
	e.pause(one)
	var args []double
	var want []int
	for i := range 700 { // more than a page of resume.lua
		args, want = append(args, double{i}), append(want, i)
	}
	e.eventually("the worker knows of the pause", func() bool {
		e.raw(one.Queue(), wire.Message{ID: "probe", Name: one.Name(), Args: []byte{0x91, 0xff}, Labels: wire.Labels{{Key: "size", Value: "small"}}})
		return e.parked(one.Name()) > 0
	})
	if _, err := one.SubmitMany(e.ctx(), e.client, args); err != nil {
		t.Fatal(err)
	}
	h, err := other.Submit(e.ctx(), e.client, double{3})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := h.Await(e.ctx()); err != nil || got != 3 {
		t.Errorf("another type is held up: %d, %v", got, err)
	}
	e.eventually("all of the type are parked", func() bool {
		return e.parked(one.Name()) >= 700 && e.number("XLEN", e.prefix+":tasks:"+string(one.Queue())) == 0
	})
	mu.Lock()
	ran = nil // probes from before the pause was known
	mu.Unlock()
	moved, err := e.client.ResumeType(e.ctx(), one.Name())
	if err != nil || moved < 700 {
		t.Errorf("ResumeType = %d, %v, want 700 and the probe", moved, err)
	}
	e.eventually("all have run", func() bool { mu.Lock(); defer mu.Unlock(); return len(ran) >= moved })
	ran = slices.DeleteFunc(ran, func(n int) bool { return n < 0 })
	slices.Sort(ran)
	if !slices.Equal(ran, want) {
		t.Errorf("ran %v, want each once", ran)
	}
	e.nothingWaits()
	if n := e.number("EXISTS", e.prefix+":tasks:parked:"+one.Name(), e.prefix+":tasks:control"); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

func TestPauseOfABadName(t *testing.T) {
	e := newEnv(t)
	if err := e.client.PauseType(e.ctx(), ""); err == nil {
		t.Error("PauseType takes an empty name")
	}
	if _, err := e.client.ResumeType(e.ctx(), fmt.Sprintf("%0200d", 1)); err == nil {
		t.Error("ResumeType takes a name of 200 bytes")
	}
}
