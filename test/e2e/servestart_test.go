package e2e_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/test/rig"
)

// A server that hangs, or is not there, when takt serve begins is named in the log long before the attempt to reach it ends; its password is not.
func TestServeNamesTheSilentServer(t *testing.T) {
	t.Parallel()
	hangs, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and never says a word
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hangs.Close() })
	const nowhere = "127.0.0.1:1" // a port where nobody listens
	redis := testenv.StartRedis(t, embedded.RedisOptions{})
	prefix := redis.Prefix(t)
	for name, test := range map[string]struct{ redis, mqtt, want string }{
		"Redis hangs":        {"redis://user:secret@" + hangs.Addr().String(), "mqtt://127.0.0.1:1", "Redis does not answer yet: it is tried again, and commands are taken once it does\" redis=redis://user:***@" + hangs.Addr().String()},
		"Redis is down":      {"redis://user:secret@" + nowhere, "mqtt://127.0.0.1:1", "waiting for Redis: it is tried again until it answers\" err=\"redis: " + nowhere},
		"the broker hangs":   {redis.URL, "mqtt://user:secret@" + hangs.Addr().String(), "the broker does not answer yet: it is tried again, and commands are taken once it does\" mqtt=\"mqtt mqtt://" + hangs.Addr().String()},
		"the broker is down": {redis.URL, "mqtt://user:secret@" + nowhere, "the broker does not answer yet: it is tried again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			serve := rig.Start(t, "serve", "--redis", test.redis, "--mqtt", test.mqtt, "--prefix", prefix, "--data", filepath.Join(t.TempDir(), "data"))
			serve.Await(test.want)
			if strings.Contains(serve.Stderr(), "secret") {
				t.Errorf("the password is in the log:\n%s", serve.Stderr())
			}
			serve.Kill()
			for _, text := range []string{"waiting for Redis", "does not answer yet"} {
				if n := strings.Count(serve.Stderr(), text); n > 1 {
					t.Errorf("%q is there %d times:\n%s", text, n, serve.Stderr())
				}
			}
		})
	}
}
