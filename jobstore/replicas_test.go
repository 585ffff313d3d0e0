package jobstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// An equipment command is handed out only when replicas have the change that it belongs to; one that is gone by then is not.
func TestOutboxWaitsForReplicas(t *testing.T) {
	srv := testenv.StartRedis(t, embedded.RedisOptions{})
	replica := testenv.StartReplica(t, srv.Addr)
	s := openShop(t, srv, jobstore.Options{Prefix: srv.Prefix(t), Replicas: 1, ReplicasWithin: 50 * time.Millisecond})
	replica.Pause(t)
	s.run("m42", "JO-1")
	sent := make(chan string, 10)
	s.live(func(ctx context.Context) error {
		return s.RunOutbox(ctx, 4, nil, func(_ context.Context, c recipe.Command) error {
			sent <- c.JobID
			return nil
		})
	})
	wait := func() int64 {
		stats, err := s.do("INFO", "commandstats").ToString()
		if err != nil {
			t.Fatal(err)
		}
		return int64(strings.Count(stats, "cmdstat_wait:"))
	}
	eventually(t, "it has waited", func() bool { return wait() > 0 })
	if len(sent) > 0 {
		t.Error("sent before the replica has it")
	}
	replica.Continue(t)
	select {
	case id := <-sent:
		if id != "JO-1" {
			t.Error(id)
		}
	case <-time.After(time.Minute):
		t.Fatal("never sent")
	}
	s.wantEmpty(s.keys.SfcOutbox())
}

func TestReplicasOptions(t *testing.T) {
	for _, o := range []jobstore.Options{{Replicas: -1}, {ReplicasWithin: -1}} {
		o.URL = "redis://127.0.0.1:1"
		if _, err := jobstore.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "Replicas") {
			t.Error(err)
		}
	}
	srv := testenv.Redis(t)
	if _, err := jobstore.Open(t.Context(), jobstore.Options{URL: srv.URL, Prefix: srv.Prefix(t), WaitForDisk: true}); err == nil || !strings.Contains(err.Error(), "Options.WaitForDisk") {
		t.Errorf("a server without an append-only file: %v", err)
	}
	short := &jobstore.ReplicasError{Want: 2, Acknowledged: 1, Within: time.Second}
	if got := short.Error(); got != "stored, but 1 of 2 replicas acknowledged it within 1s (Options.Replicas)" || errors.Unwrap(short) != nil {
		t.Error(got)
	}
}
