package testenv

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/redis"
)

// patience bounds the start of a server; it only shows when a machine is overloaded.
const patience = 30 * time.Second

// RedisServer is a server of one test.
type RedisServer struct {
	Server *embedded.Server // Kill, Restart, PID
	URL    string
	Addr   string         // host:port
	Client rueidis.Client // connected; closed when the test ends

	embedded bool
	cluster  bool
	mu       sync.Mutex
	prefixes []string
}

// Redis starts a redis-server (or valkey-server) in memory for this test.
func Redis(t testing.TB) *RedisServer {
	t.Helper()
	return StartRedis(t, embedded.RedisOptions{})
}

// StartRedis starts a server as o says, for tests that kill it and look at what it kept.
// Dir "" is a directory of the test; it is kept over Kill and Restart.
func StartRedis(t testing.TB, o embedded.RedisOptions) *RedisServer {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.Stdout == nil && testing.Verbose() {
		o.Stdout = &testLog{t: t, name: "redis"}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := embedded.StartRedis(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, &RedisServer{Server: s})
}

// RedisCluster starts a cluster of one node that serves all slots. Prefixes of it are tagged. It takes two seconds to get ready.
func RedisCluster(t testing.TB) *RedisServer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := embedded.StartRedis(ctx, embedded.RedisOptions{Dir: t.TempDir(), Config: []string{"cluster-enabled yes"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := serveAllSlots(ctx, strings.TrimPrefix(s.URL(), "redis://")); err != nil {
		_ = s.Stop()
		t.Fatal(err)
	}
	return serve(t, &RedisServer{Server: s, cluster: true})
}

func serveAllSlots(ctx context.Context, addr string) error {
	rdb, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return err
	}
	defer rdb.Close()
	if err := rdb.Do(ctx, rdb.B().ClusterAddslotsrange().StartSlotEndSlot().StartSlotEndSlot(0, 16383).Build()).Error(); err != nil {
		return err
	}
	for { // the node declares itself fit a moment later
		info, err := rdb.Do(ctx, rdb.B().ClusterInfo().Build()).ToString()
		if err != nil || strings.Contains(info, "cluster_state:ok") {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Miniredis starts the in-process look-alike, for tests of what demo and dev fall back on.
func Miniredis(t testing.TB) *RedisServer {
	t.Helper()
	s, err := embedded.StartMiniredis(t.Context(), embedded.MiniredisOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, &RedisServer{Server: s, embedded: true})
}

func serve(t testing.TB, r *RedisServer) *RedisServer {
	t.Helper()
	s := r.Server
	r.URL, r.Addr = s.URL(), strings.TrimPrefix(s.URL(), "redis://")
	if i := strings.LastIndexByte(r.Addr, '@'); i >= 0 {
		r.Addr = r.Addr[i+1:]
	}
	t.Cleanup(func() {
		if err := s.Kill(); err != nil { // in memory or in the test's own directory: nothing to save
			t.Error(err)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	r.Client = r.Connect(t, redis.Options{})
	t.Cleanup(func() { r.checkKeys(t) })
	return r
}

// Connect opens another connection, closed when the test ends. o.URL "" = this server.
func (r *RedisServer) Connect(t testing.TB, o redis.Options) rueidis.Client {
	t.Helper()
	if o.URL == "" {
		o.URL = r.URL
	}
	o.Embedded = r.embedded
	if r.cluster && o.Prefix == "" {
		o.Prefix = "{t}"
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	rdb, err := redis.Connect(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rdb.Close)
	return rdb
}

// Prefix makes a key prefix that nobody else uses. When the test ends, a key of this server outside the
// prefixes made for it fails the test.
func (r *RedisServer) Prefix(t testing.TB) string {
	t.Helper()
	if r.cluster {
		return r.TaggedPrefix(t)
	}
	return r.newPrefix("t%d")
}

// TaggedPrefix is Prefix with a hash tag around it, as a cluster needs it.
func (r *RedisServer) TaggedPrefix(t testing.TB) string {
	t.Helper()
	return r.newPrefix("{t%d}")
}

func (r *RedisServer) newPrefix(format string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := fmt.Sprintf(format, len(r.prefixes)+1)
	r.prefixes = append(r.prefixes, p)
	return p
}

// AllKeys lists every key of the server.
func (r *RedisServer) AllKeys(ctx context.Context) ([]string, error) {
	var all []string
	for cursor := uint64(0); ; {
		page, err := r.Client.Do(ctx, r.Client.B().Scan().Cursor(cursor).Count(1000).Build()).AsScanEntry()
		if err != nil {
			return nil, err
		}
		all = append(all, page.Elements...)
		if cursor = page.Cursor; cursor == 0 {
			return all, nil
		}
	}
}

func (r *RedisServer) checkKeys(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // the test's own has ended
	defer cancel()
	keys, err := r.AllKeys(ctx)
	if err != nil {
		return // the test left its server down
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range keys {
		if !r.owns(k) {
			t.Errorf("testenv: key %q is outside the prefixes of this test %q: make one with Prefix", k, r.prefixes)
		}
	}
}

func (r *RedisServer) owns(key string) bool {
	for _, p := range r.prefixes {
		if strings.HasPrefix(key, p+":") {
			return true
		}
	}
	return false
}
