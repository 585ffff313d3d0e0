package task_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/taktworks/takt/task"
)

type payload struct{ Text string }

var (
	noop   = task.Define[payload, task.None]("bench:Noop", task.Small)
	echoer = task.Define[payload, int]("bench:Echo", task.Small)
)

func BenchmarkProcess(b *testing.B) {
	e := newEnv(b)
	submit(b, e, noop)
	process(b, e, noop.Handle, task.None{})
}

func BenchmarkProcessWithResult(b *testing.B) {
	e := newEnv(b)
	submit(b, e, echoer)
	process(b, e, echoer.Handle, 1)
}

func BenchmarkSubmitMany(b *testing.B) {
	e := newEnv(b)
	b.ReportAllocs()
	b.ResetTimer()
	submit(b, e, noop)
}

func BenchmarkSubmit64(b *testing.B) {
	e := newEnv(b)
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	text := strings.Repeat("x", 100)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := noop.Submit(context.Background(), e.client, payload{text}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func submit[R any](b *testing.B, e *env, t *task.Type[payload, R]) {
	text := strings.Repeat("x", 100)
	for left := b.N; left > 0; left -= 1000 {
		args := make([]payload, min(left, 1000))
		for i := range args {
			args[i].Text = text
		}
		if _, err := t.SubmitMany(context.Background(), e.client, args); err != nil {
			b.Fatal(err)
		}
	}
}

func process[R any](b *testing.B, e *env, handle func(func(context.Context, *task.Job[payload]) (R, error)) task.Handler, r R) {
	var n atomic.Int64
	all := make(chan struct{})
	b.ReportAllocs()
	b.ResetTimer()
	_, stop := e.start(task.WorkerOptions{}, handle(func(context.Context, *task.Job[payload]) (R, error) {
		if n.Add(1) == int64(b.N) {
			close(all)
		}
		return r, nil
	}))
	<-all
	stop()
}
