package stream

import (
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

// On a link on which an answer takes longer than a third of the heartbeat's life, the heartbeat lives on: the answer to a try that was given up as slow counts, and is
// not asked for on a connection that must be made first, which is slower still.
func TestHeartbeatOnASlowLink(t *testing.T) {
	long.Test(t, "waits on a slow link")
	t.Parallel()
	e := newEnv(t, testenv.Redis(t))
	heart := e.keys.Worker("w")
	renewed := func(what string) {
		t.Helper()
		e.must("PEXPIRE", heart, "1000000")
		e.eventually(what, func() bool {
			ttl, err := e.do("PTTL", heart).AsInt64()
			return err == nil && ttl > 0 && ttl <= survivorTTL.Milliseconds()
		})
	}
	m := e.join("w", Group{Handle: acks})
	e.eventually("it is alive", func() bool { return m.worker.Token() != "" })
	token := m.worker.Token()
	renewed("a connection for heartbeats is there")
	m.proxy.Delay(survivorTTL/6 + 100*time.Millisecond) // each way
	for range 3 {
		renewed("the heartbeat is renewed on the slow link")
	}
	if now := m.worker.Token(); now != token {
		t.Errorf("the heartbeat was lost: its token is %q, and was %q", now, token)
	}
	m.proxy.Delay(0)
	m.leave()
}
