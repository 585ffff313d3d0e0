package goworkflows_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// Redis is killed in the midst of the work and comes back: all instances end with the right result, and who waits for them notices nothing.
func TestRedisRestarts(t *testing.T) {
	srv := testenv.StartRedis(t, embedded.RedisOptions{Persist: true, Config: []string{"appendfsync always"}})
	b := open(t, srv, quiet)
	var ran atomic.Int64
	midst := make(chan struct{})
	square := func(_ context.Context, n int) (int, error) {
		if ran.Add(1) == 60 {
			close(midst)
		}
		return n * n, nil
	}
	sum := sumOf(square)
	work(t, goworkflows.NewWorker(b, nil), []any{sum}, []any{square})
	want := startSums(t, b, sum, 20)
	<-midst
	srv.Kill(t)
	testenv.Must(t, srv.Server.Restart(t.Context()))
	want()
}
