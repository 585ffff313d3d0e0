package redis_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
)

// A watcher of a server that takes no writes gets an error: nothing would be published.
func TestWatcherNeedsWrites(t *testing.T) {
	srv := testenv.StartRedis(t, embedded.RedisOptions{})
	srv.Must(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	w := redis.Watcher{Package: "test", Publishers: "workers", Database: "0", Log: slog.New(slog.DiscardHandler)}
	err := w.Run(testenv.Within(t), srv.Client, []redis.Watched{{Channel: srv.Prefix(t), Key: srv.Prefix(t)}}, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "watch on the master") {
		t.Errorf("watched a server that takes no writes: %v", err)
	}
}
