package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
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
		if err != nil {
			t.Fatal(err)
		}
		if now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 3*time.Second
	})
	replica.Continue(t)
	w.Until("it is ready again", func() bool { status, _ := readyz(); return status == http.StatusOK })
}
