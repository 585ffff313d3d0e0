package task_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/task"
)

// Nothing is taken from a paused queue, and everything once it is resumed.
func TestPauseQueue(t *testing.T) {
	e := newEnv(t)
	const q = task.Queue("normal:medium")
	e.ok(e.client.PauseQueue(e.ctx(), q))
	var ran atomic.Int64
	other := task.Define[double, int]("test:Bystander", task.Positional(), task.Background)
	run := func(context.Context, *task.Job[double]) (int, error) { ran.Add(1); return 0, nil }
	e.start(task.WorkerOptions{}, Double.Handle(run), other.Handle(func(context.Context, *task.Job[double]) (int, error) { return 0, nil }))
	done(e, send(e, other, double{})) // the worker knows of the pause
	h := send(e, Double, double{})
	done(e, send(e, other, double{}))
	if s := e.stats(); ran.Load() > 0 || !queue(s, q).Paused || queue(s, q).Waiting != 1 {
		t.Errorf("%d ran, %+v", ran.Load(), queue(s, q))
	}
	e.ok(e.client.ResumeQueue(e.ctx(), q))
	if _, err := h.Await(e.ctx()); err != nil || queue(e.stats(), q).Paused {
		t.Error(err)
	}
}

func TestSetRate(t *testing.T) {
	e := newEnv(t)
	const q = task.Queue("normal:medium")
	for _, rate := range []float64{20, 0.5, 0} {
		e.ok(e.client.SetRate(e.ctx(), q, rate))
		if got := queue(e.stats(), q).Rate; got != rate {
			t.Errorf("%v, want %v", got, rate)
		}
	}
	e.counts(0, "HLEN", e.keys().TaskControl())
	for _, rate := range []float64{-1, math.NaN(), math.Inf(1), 2e6} {
		says(t, rate, e.client.SetRate(e.ctx(), q, rate), "want 0 to")
	}
	for _, f := range []func() error{
		func() error { return e.client.SetRate(e.ctx(), "odd", 1) },
		func() error { return e.client.PauseQueue(e.ctx(), "odd") },
		func() error { return e.client.ResumeQueue(e.ctx(), "odd") },
		func() error { return e.client.Drain(e.ctx(), "odd") },
		func() error { _, err := e.client.Purge(e.ctx(), "odd", "odd"); return err },
	} {
		says(t, "", f(), "want PRIORITY:SIZE")
	}
	for _, f := range []func(context.Context, string) error{e.client.PauseType, e.client.ResumeType} {
		says(t, "", f(e.ctx(), ""), "want 1 to 128 bytes")
	}
}

func TestDrain(t *testing.T) {
	long.Test(t, "waits for a time-out")
	e := newEnv(t)
	const q = task.Queue("normal:medium")
	send(e, Double, double{})
	ctx, cancel := context.WithTimeout(e.ctx(), 2*time.Second) // in which a busy machine must have counted them once
	defer cancel()
	if err := e.client.Drain(ctx, q); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), string(q)+": 1 tasks are left") {
		t.Errorf("%v", err)
	}
	e.start(task.WorkerOptions{}, Double.Handle(func(context.Context, *task.Job[double]) (int, error) { return 0, nil }))
	e.ok(e.client.Drain(e.ctx(), q))
	if r := e.healthy(time.Minute); r.Waiting+r.Running != 0 {
		t.Errorf("%+v", r)
	}
}

// Purge cancels all that waits, each as Cancel does, and leaves what runs.
func TestPurge(t *testing.T) {
	e := newEnv(t)
	w, _, release := stockedBy(e)
	const q = task.Queue("normal:small")
	e.ok(e.client.PauseQueue(e.ctx(), q))
	e.knows(w, holding, 1)
	held := int64(1)                               // at most
	e.eventually("it reads no more", func() bool { // a read may be on its way: what it takes may stay with the worker until the queue is resumed
		h := send(e, holding, double{})
		if e.cancel(h.Ref) == task.CancelledNow {
			return true
		}
		held++
		return false
	})
	var handles []*task.Handle[int]
	for range 700 {
		handles = append(handles, send(e, failing, double{}))
	}
	if n, err := e.client.Purge(e.ctx(), q, "normal:medium"); n != 0 || err == nil || !strings.Contains(err.Error(), "want the queue again") {
		t.Errorf("%d %v", n, err)
	}
	n, err := e.client.Purge(e.ctx(), q, q)
	if err != nil || n != len(handles) {
		t.Errorf("%d purged of %d, %v", n, len(handles), err)
	}
	failed(e, handles[699], "cancelled")
	if s := queue(e.stats(), q); s.Waiting != 0 || s.Running < 1 || s.Running > held {
		t.Errorf("%+v, want 1 to %d held", s, held)
	}
	release()
}

func (e *env) stats() task.Stats {
	e.t.Helper()
	s, err := e.client.Stats(e.ctx())
	e.ok(err)
	return s
}

func queue(s task.Stats, q task.Queue) task.QueueStats {
	for _, one := range s.Queues {
		if one.Queue == q {
			return one
		}
	}
	return task.QueueStats{}
}

// How much waits, runs and is delayed, how old it is, and how tasks ended.
func TestStats(t *testing.T) {
	onBoth(t, testStats)
}

func testStats(t *testing.T, e *env) {
	if s := e.stats(); len(s.Queues) != 9 || s.Delayed != 0 || len(s.ByType) != 0 || !s.NextDue.IsZero() {
		t.Errorf("of nothing: %+v", s)
	}
	_, release := stocked(e)
	k := e.keys()
	e.do("HSET", k.TaskControl(), "pause type x:Z", "1")
	s := e.stats()
	small, medium := queue(s, "normal:small"), queue(s, "normal:medium")
	if small.Running != 1 || small.Waiting != 0 || medium.Running != 0 || medium.Waiting != 1 {
		t.Errorf("%+v", s.Queues)
	}
	for _, q := range s.Queues {
		full := q.Waiting+q.Running > 0
		if full != (q.Oldest > 0) || q.Oldest > time.Minute {
			t.Errorf("%s: oldest %v", q.Queue, q.Oldest)
		}
	}
	if s.Delayed != 1 || s.Dead != 1 || len(s.Paused) != 1 || s.Paused[0] != "x:Z" || s.Blocked != 0 {
		t.Errorf("%+v", s)
	}
	if left := s.NextDue.Sub(s.At); left < 50*time.Minute || left > time.Hour+time.Second {
		t.Errorf("due in %v", left)
	}
	if s.ByType["test:Failing"][task.Dead] != 1 || s.ByQueue["normal:small"][task.Dead] != 1 {
		t.Errorf("%v %v", s.ByType, s.ByQueue)
	}
	release()
	if s := e.stats(); s.ByType["test:Holding"][task.Done] != 1 {
		t.Errorf("%v", s.ByType)
	}
}
