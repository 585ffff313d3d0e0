package task_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/task"
)

func textLogger(l *testenv.Log) *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

type stuckReport struct {
	info  task.Info
	since time.Time
}

// A handler that ignores the end of its context is reported, once; the other slots go on, and so does its own when it returns.
func TestStuckIsReportedOnce(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[string, int]("test:Deaf", task.Small, task.Timeout(20*time.Millisecond))
	release := make(chan struct{})
	free := sync.OnceFunc(func() { close(release) })
	defer free()
	reports := make(chan stuckReport, 10)
	var text testenv.Log
	e.start(task.WorkerOptions{
		Concurrency: map[task.Size]int{task.Small: 2}, Margin: 30 * time.Millisecond, Log: textLogger(&text),
		Stuck: func(i task.Info, since time.Time) { reports <- stuckReport{i, since} },
	}, echoing(), typ.Handle(func(context.Context, *task.Job[string]) (int, error) {
		<-release
		return 7, nil
	}))
	begun := time.Now()
	h := send(e, typ, "x")
	r := wait(t, "report", reports)
	if r.info.ID != h.ID || r.info.Name != "test:Deaf" || r.info.Attempt != 1 {
		t.Errorf("reported %+v", r.info)
	}
	if r.since.Before(begun.Add(20*time.Millisecond)) || time.Since(r.since) < 30*time.Millisecond {
		t.Errorf("reported as stuck since %v, %v after it was submitted", r.since, r.since.Sub(begun))
	}
	for range 20 { // each is a reason to look again
		e.must("PUBLISH", e.key("tasks:control"), "look")
		done(e, send(e, echo, "other"))
	}
	free()
	if v, err := h.Await(e.ctx()); err != nil || v != 7 {
		t.Errorf("it returned %d, %v: what a handler finishes counts", v, err)
	}
	if len(reports) != 0 || text.Count("ignores the end of its context") != 1 || text.Count("a stuck handler has returned") != 1 {
		t.Errorf("%d more reports, and the log:\n%s", len(reports), text.String())
	}
}

// A handler that returns within Margin is not stuck.
func TestWithinMarginIsNotStuck(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[int, int]("test:Slow", task.Timeout(time.Millisecond))
	e.start(task.WorkerOptions{Stuck: func(i task.Info, _ time.Time) { t.Errorf("%s is not stuck", i.ID) }}, typ.Handle(func(ctx context.Context, _ *task.Job[int]) (int, error) {
		<-ctx.Done()
		e.must("PUBLISH", e.key("tasks:control"), "look")
		return 0, ctx.Err()
	}))
	for i := range 5 {
		refused(t, "it did not time out", errOf(send(e, typ, i).Await(e.ctx())))
	}
}

// A handler that ignores the end of its context does not keep the process; Run names it.
func TestStuckHandler(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[int, int]("test:Stuck")
	begun, pass := make(chan struct{}), make(chan struct{})
	w, err := e.client.Worker(task.WorkerOptions{Drain: 10 * time.Millisecond, Margin: 20 * time.Millisecond}, typ.Handle(func(context.Context, *task.Job[int]) (int, error) {
		close(begun)
		<-pass
		return 0, nil
	}))
	e.ok(err)
	ctx, stop := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- w.Run(ctx) }()
	h := send(e, typ, 1)
	wait(t, "start", begun)
	stop()
	var stuck *task.StuckError
	if err := wait(t, "end of Run", end); !errors.As(err, &stuck) || len(stuck.Tasks) != 1 || !strings.Contains(stuck.Tasks[0], h.ID) {
		t.Errorf("%v", err)
	}
	close(pass)
}

// A handler that has returned is not stuck, though what it has done cannot be written while Redis hangs.
func TestNobodyIsStuckWhenRedisHangs(t *testing.T) {
	long.Test(t, "waits while Redis hangs")
	e := newEnv(t)
	typ := task.Define[int, int]("test:Obeys")
	client, proxy := e.behind()
	begun := make(chan struct{}, 1)
	const drain, margin = 10 * time.Millisecond, 2 * time.Second // the handler has as long as margin to get a processor
	w, err := client.Worker(task.WorkerOptions{Drain: drain, Margin: margin}, typ.Handle(func(ctx context.Context, _ *task.Job[int]) (int, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return 0, ctx.Err()
	}))
	e.ok(err)
	ctx, stop := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- w.Run(ctx) }()
	send(e, typ, 1)
	wait(t, "start", begun)
	proxy.Stall(true)
	stop()
	time.AfterFunc(drain+margin+300*time.Millisecond, func() { proxy.Stall(false) }) // nothing tells when both are over
	e.ok(wait(t, "end of Run", end))
}
