package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/test/rig"
)

// While fewer replicas are connected than --redis-wait wants, an instance is not ready and says how many there are; it is ready once they are connected, and not any more when they are gone.
func TestReadyOnlyWithReplicas(t *testing.T) {
	long.Test(t, "runs a replica and pauses it")
	t.Parallel()
	w := rig.New(t, rig.Options{Redis: embedded.RedisOptions{Persist: true}, NoStation: true})
	p := w.BeginServe("a", "--http", "127.0.0.1:0", "--redis-wait", "1", "--redis-wait-within", "200ms")
	at := base(p)
	const lack = "0 replicas acknowledge what is written within 200ms, --redis-wait wants 1: start replicas of this master"
	p.Await("level=WARN msg=\"this process is not ready")
	p.Await(lack)
	readyz := func() (status int, text string) { return get(t, at+"/readyz") }
	w.Until("only replicas are missing", func() bool {
		status, text := readyz()
		return status == http.StatusServiceUnavailable && strings.Contains(text, lack) && !strings.Contains(text, "mqtt") && !strings.Contains(text, "topics")
	})
	const ready = "ready: commands are taken"
	if strings.Contains(p.Stderr(), ready) {
		t.Errorf("it says %q", ready)
	}
	replica := testenv.StartReplica(t, w.Redis.Addr)
	p.Await("enough replicas acknowledge what is written")
	p.Await(ready)
	w.Until("it is ready", func() bool { status, _ := readyz(); return status == http.StatusOK })
	replica.Pause(t)
	w.Until("it is not ready without the replica", func() bool {
		status, text := readyz()
		return status == http.StatusServiceUnavailable && strings.Contains(text, lack)
	})
	// No command leaves meanwhile, so no time-out runs.
	c, last, since := w.Redis.Client, "", time.Now()
	w.Until("installation time stands still for longer than a break", func() bool {
		now, err := c.Do(t.Context(), c.B().Hget().Key(w.Prefix+":sfc:clock").Field("last").Build()).ToString()
		testenv.Must(t, err)
		if now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 3*time.Second
	})
	replica.Continue(t)
	w.Until("it is ready again", func() bool { status, _ := readyz(); return status == http.StatusOK })
}

// A server that hangs, or is not there, when takt serve begins is named in the log long before the attempt to reach it ends; its password is not.
func TestServeNamesTheSilentServer(t *testing.T) {
	t.Parallel()
	hangs, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and never says a word
	testenv.Must(t, err)
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

// While the broker refuses a state index for its size, an MES is blind for that station: /readyz, /metrics and takt check say so, and stop when it is published again.
func TestIndexBeyondTheBrokersLimit(t *testing.T) {
	long.Test(t, "stores orders until the broker refuses their index")
	t.Parallel()
	const limit = 20000
	w := rig.New(t, rig.Options{
		Mosquitto: embedded.MosquittoOptions{Config: []string{fmt.Sprintf("message_size_limit %d", limit)}},
		WorkerTTL: time.Minute, // the publisher that was refused stays the one
	})
	at := base(w.Serve("a", "--http", "127.0.0.1:0"))
	m := w.QuietMES()
	good := func(path string) (text string) {
		w.Until(path+" says yes", func() bool { // readiness has limits in seconds
			var status int
			status, text = get(t, at+path)
			return status == http.StatusOK
		})
		return text
	}
	index := w.TopicPrefix + "/" + string(rig.Scope) + "/state-index"
	const gauge = "takt_publisher_waiting "
	var ids []isa95.JobOrderID
	for blind := false; !blind; blind = strings.Contains(good("/readyz"), index) {
		if len(ids) > limit/50 {
			t.Fatalf("%d orders, and their index is not too large", len(ids))
		}
		for range 20 {
			id := isa95.JobOrderID(fmt.Sprintf("LARGE-%03d", len(ids)))
			if status, err := m.Client.Store(t.Context(), rig.Scope, &isa95.JobOrder{JobOrderID: string(id)}); err != nil {
				t.Fatalf("%s: %v %v", id, status, err)
			}
			ids = append(ids, id)
		}
	}
	if text := good("/metrics"); strings.Contains(text, gauge+"0\n") || !strings.Contains(text, gauge) {
		t.Errorf("/metrics does not show what waits:\n%s", text)
	}
	r := w.Takt("check")
	if r.Code != failed || !strings.Contains(r.Stdout, index+" is not published, so an MES sees no change of this scope: the broker refuses a message of its") || !strings.Contains(r.Stdout, "message_size_limit") {
		t.Errorf("takt check: exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}

	for _, id := range ids[:len(ids)*2/3] {
		if status, err := m.Client.Cancel(t.Context(), rig.Scope, id); err != nil {
			t.Fatalf("%s: %v %v", id, status, err)
		}
	}
	w.Until("nothing is refused any more", func() bool {
		return !strings.Contains(good("/readyz"), "warnings") && strings.Contains(good("/metrics"), gauge+"0\n")
	})
	w.Check()
}
