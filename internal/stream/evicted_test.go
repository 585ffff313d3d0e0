package stream

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

// A heartbeat that is evicted each time it is written is lost again and again: that is one line of the log, and no hot loop.
func TestEvictedHeartbeat(t *testing.T) {
	long.Test(t, "waits between heartbeats")
	e := newEnv(t, testenv.Redis(t))
	rdb := e.srv.Client
	var warned testenv.Log
	w := NewWorker(rdb, e.keys, "w", time.Minute, slog.New(slog.NewTextHandler(&warned, nil)))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	tokens := make(map[string]bool)
	began := time.Now()
	e.eventually("it is lost eight times", func() bool {
		if token := w.Token(); token != "" && !tokens[token] {
			tokens[token] = true
			e.must("DEL", e.keys.Worker("w"))
			w.doubt() // as a script does that finds the token gone
		}
		return len(tokens) >= 8
	})
	if took := time.Since(began); took < time.Second { // 50 ms, doubled, shortened by half at most
		t.Errorf("eight heartbeats within %v", took)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := warned.Count("the heartbeat was lost"); n != 1 {
		t.Errorf("%d lines, want 1 of a row of losses", n)
	}
}
