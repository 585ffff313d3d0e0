package goworkflows_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/cschleiden/go-workflows/client"
	gowf "github.com/cschleiden/go-workflows/workflow"

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
	sum := func(ctx gowf.Context, from int) (int, error) {
		s := 0
		for n := from; n < from+10; n++ {
			sq, err := gowf.ExecuteActivity[int](ctx, gowf.DefaultActivityOptions, square, n).Get(ctx)
			if err != nil {
				return 0, err
			}
			s += sq
		}
		return s, nil
	}
	work(t, goworkflows.NewWorker(b, nil), []any{sum}, []any{square})
	c := client.New(b)
	var started []*gowf.Instance
	for n := range 20 {
		started = append(started, create(t, c, fmt.Sprint("sum-", n), sum, n))
	}
	<-midst
	srv.Kill(t)
	if err := srv.Server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n, i := range started {
		want := 0
		for k := n; k < n+10; k++ {
			want += k * k
		}
		if got, err := client.GetWorkflowResult[int](t.Context(), c, i, patience); got != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", i.InstanceID, got, err, want)
		}
	}
}
