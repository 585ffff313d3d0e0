package testenv

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis"
)

// Patience bounds every wait of a test for something that must happen. No test is judged by it: it shows only when something hangs. TAKT_TEST_PATIENCE replaces its three
// minutes: the gate waits less, for it runs a failed test again.
var Patience = patience()

func patience() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("TAKT_TEST_PATIENCE")); err == nil {
		return d
	}
	return 3 * time.Minute
}

// RedisServer is a server of one test.
type RedisServer struct {
	process // without one: a cluster, or sentinels
	URL     string
	Addr    string         // host:port
	Client  rueidis.Client // connected; closed when the test ends

	embedded bool
	cluster  bool
	ahead    bool // it may answer what it has not written to its file
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
	choose(t)
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.Stdout == nil && Logs() {
		o.Stdout = &testLog{t: t, name: "redis"}
	}
	o.Config = append([]string{"repl-diskless-sync-delay 0"}, o.Config...) // else a replica waits five seconds for others
	s, err := embedded.StartRedis(Within(t), o)
	Must(t, err)
	return serve(t, &RedisServer{process: process{s}, ahead: o.Persist && !slices.Contains(o.Config, "appendfsync always")})
}

// Miniredis starts the in-process look-alike, for tests of what demo and dev fall back on.
func Miniredis(t testing.TB) *RedisServer {
	t.Helper()
	s, err := embedded.StartMiniredis(t.Context(), embedded.MiniredisOptions{})
	Must(t, err)
	return serve(t, &RedisServer{process: process{s}, embedded: true})
}

func serve(t testing.TB, r *RedisServer) *RedisServer {
	t.Helper()
	s := r.Server
	r.URL, r.Addr = s.URL(), strings.TrimPrefix(s.URL(), "redis://")
	if i := strings.LastIndexByte(r.Addr, '@'); i >= 0 {
		r.Addr = r.Addr[i+1:]
	}
	end(t, s)
	r.Client = r.Connect(t, redis.Options{})
	t.Cleanup(func() { r.checkKeys(t) })
	return r
}

// Kill ends the server as kill -9 does, in a moment in which its append-only file, if it has one, holds what it has answered. With appendfsync everysec there
// are others: while a flush is under way, which takes long on a busy disk, it answers up to two seconds long what it has not even handed to the operating system.
func (r *RedisServer) Kill(t testing.TB) {
	t.Helper()
	if r.ahead {
		r.Settle(t)
	}
	r.process.Kill(t)
}

// Settle lets no write in any more, until CLIENT UNPAUSE, and waits until all that was answered is in the append-only file.
func (r *RedisServer) Settle(t testing.TB) {
	t.Helper()
	Eventually(t, "what was answered is written", func() bool { return r.written(t) })
}

// written lets no write in any more, and says whether those before are in the file. It has a connection of its own, for on any other a write may be held back.
func (r *RedisServer) written(t testing.TB) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	conn, release := r.Client.Dedicate()
	defer release()
	paused := conn.Do(ctx, conn.B().ClientPause().Timeout(2*Patience.Milliseconds()).Write().Build())
	info, err := conn.Do(ctx, conn.B().Info().Section("persistence").Build()).ToString()
	return paused.Error() == nil && err == nil && strings.Contains(info, "aof_buffer_length:0\r")
}

// Connect opens another connection, closed when the test ends. o.URL "" = this server.
func (r *RedisServer) Connect(t testing.TB, o redis.Options) rueidis.Client {
	t.Helper()
	o.URL = cmp.Or(o.URL, r.URL)
	o.Embedded = r.embedded
	if r.cluster && o.Prefix == "" {
		o.Prefix = "{t}"
	}
	ctx := Within(t)
	rdb, err := redis.Connect(ctx, o)
	for err != nil && redis.Away(err) && lifecycle.Sleep(ctx, 10*time.Millisecond) { // a busy machine takes longer than one attempt may
		rdb, err = redis.Connect(ctx, o)
	}
	Must(t, err)
	t.Cleanup(rdb.Close)
	return rdb
}

// Do runs a command. A server that does not answer within Patience is an error.
func (r *RedisServer) Do(t testing.TB, words ...string) rueidis.RedisResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	return r.Client.Do(ctx, r.Client.B().Arbitrary(words...).Build())
}

// Must is Do for a command that must not fail; a reply may be nil.
func (r *RedisServer) Must(t testing.TB, words ...string) rueidis.RedisResult {
	t.Helper()
	reply := r.Do(t, words...)
	if err := reply.Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("%q: %v", words, err)
	}
	return reply
}

// Number is the number that a command replies; nil fails the test.
func (r *RedisServer) Number(t testing.TB, words ...string) int64 {
	t.Helper()
	n, err := r.Must(t, words...).AsInt64()
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	return n
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

// ShardedPrefix makes a prefix without a tag, for keys that are spread over shards: those of shard i begin with {PREFIX-i}.
func (r *RedisServer) ShardedPrefix(t testing.TB, shards int) string {
	t.Helper()
	p := r.newPrefix("t%d")
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range shards {
		r.prefixes = append(r.prefixes, fmt.Sprintf("{%s-%d}", p, i))
	}
	return p
}

func (r *RedisServer) newPrefix(format string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := fmt.Sprintf(format, len(r.prefixes)+1)
	r.prefixes = append(r.prefixes, p)
	return p
}

// Expire ends the time to live of keys now, those that are there: no test waits for the leases of the dead, and those of the living can be long enough for a busy machine.
func (r *RedisServer) Expire(t testing.TB, keys ...string) {
	t.Helper()
	for _, key := range keys {
		r.Must(t, "PEXPIRE", key, "0")
	}
}

// Own lets keys under another prefix be written too, for tests of what makes prefixes of its own.
func (r *RedisServer) Own(prefixes ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prefixes = append(r.prefixes, prefixes...)
}

// AllKeys lists every key of the server, of all nodes if it is a cluster.
func (r *RedisServer) AllKeys(ctx context.Context) ([]string, error) {
	var all []string
	for _, node := range r.Client.Nodes() {
		for cursor := uint64(0); ; {
			page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Count(1000).Build()).AsScanEntry()
			if err != nil {
				return nil, err
			}
			all = append(all, page.Elements...)
			if cursor = page.Cursor; cursor == 0 {
				break
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil // a replica names those of its master again
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
	return slices.ContainsFunc(r.prefixes, func(p string) bool { return strings.HasPrefix(key, p+":") })
}
