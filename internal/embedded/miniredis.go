package embedded

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// MiniredisOptions are those of StartMiniredis.
type MiniredisOptions struct {
	Password string // of the default user; "" = none
}

// StartMiniredis runs a Redis look-alike in this process: in memory only, single-threaded, fit for trying Takt out
// and for nothing else. Connect to it with redis.Options.Embedded. Kill loses its data, as the end of the process does.
func StartMiniredis(ctx context.Context, o MiniredisOptions) (*Server, error) {
	return onFreePort("miniredis", 0, func(port int) (*Server, error) {
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		url := "redis://" + addr
		if o.Password != "" {
			url = fmt.Sprintf("redis://:%s@%s", o.Password, addr)
		}
		return run(ctx, "miniredis", url, &inside{open: func() (func(bool) error, error) { return serveMiniredis(addr, o) }}, nil)
	})
}

// serveMiniredis runs miniredis and makes time pass for it: it expires nothing by itself.
func serveMiniredis(addr string, o MiniredisOptions) (end func(kill bool) error, err error) {
	m := miniredis.NewMiniRedis()
	if o.Password != "" {
		m.RequireAuth(o.Password)
	}
	if err := m.StartAddr(addr); err != nil {
		return nil, err
	}
	m.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool { return readOnly(m, c, cmd, args) })
	over := make(chan struct{})
	var aging sync.WaitGroup
	aging.Go(func() { age(m, over) })
	return func(bool) error {
		close(over)
		aging.Wait()
		m.Close()
		return nil
	}, nil
}

// readOnly runs scripts that only read as others: miniredis 2.40.0 takes TIME for a command that writes, which Redis lets them call.
func readOnly(m *miniredis.Miniredis, c *server.Peer, cmd string, args []string) bool {
	name, found := strings.CutSuffix(cmd, "_RO")
	if !found || name != "EVAL" && name != "EVALSHA" {
		return false
	}
	m.Server().Dispatch(c, append([]string{name}, args...))
	return true
}

const (
	minTick = 10 * time.Millisecond // how late a key may expire
	maxTick = time.Second
	// An expiry run takes the global lock for a time that grows with the number of keys (89 ms with 100,000), so it may
	// take at most one part in this many of all time.
	tickShare = 20
)

// age expires keys until over is closed.
func age(m *miniredis.Miniredis, over <-chan struct{}) {
	last, pause := time.Now(), minTick
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-over:
			return
		case <-timer.C:
		}
		now := time.Now()
		m.FastForward(now.Sub(last))
		last = now
		pause = min(max(tickShare*time.Since(now), minTick), maxTick)
		timer.Reset(pause)
	}
}
