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
		m, url := miniredis.NewMiniRedis(), "redis://"+addr
		if o.Password != "" {
			m.RequireAuth(o.Password)
			url = fmt.Sprintf("redis://:%s@%s", o.Password, addr)
		}
		return run(ctx, "miniredis", url, &miniPart{addr: addr, m: m}, nil)
	})
}

// miniPart runs miniredis and makes time pass for it: it expires nothing by itself.
type miniPart struct {
	addr string
	m    *miniredis.Miniredis

	mu    sync.Mutex
	again bool
	gone  chan struct{}
	wait  sync.WaitGroup
}

func (p *miniPart) start(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.again {
		if err := p.m.Restart(); err != nil {
			return err
		}
	} else if err := p.m.StartAddr(p.addr); err != nil {
		return err
	}
	p.m.Server().SetPreHook(p.readOnly)
	p.again = true
	p.gone = make(chan struct{})
	p.wait.Add(1)
	go p.age(p.gone)
	return nil
}

// readOnly runs scripts that only read as others: miniredis 2.40.0 takes TIME for a command that writes, which Redis lets them call.
func (p *miniPart) readOnly(c *server.Peer, cmd string, args ...string) bool {
	name, found := strings.CutSuffix(cmd, "_RO")
	if !found || name != "EVAL" && name != "EVALSHA" {
		return false
	}
	p.m.Server().Dispatch(c, append([]string{name}, args...))
	return true
}

const (
	minTick = 10 * time.Millisecond // how late a key may expire
	maxTick = time.Second
	// An expiry run takes the global lock for a time that grows with the number of keys (89 ms with 100,000), so it may
	// take at most one part in this many of all time.
	tickShare = 20
)

// age expires keys until gone is closed.
func (p *miniPart) age(gone <-chan struct{}) {
	defer p.wait.Done()
	last, pause := time.Now(), minTick
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-gone:
			return
		case <-timer.C:
		}
		now := time.Now()
		p.m.FastForward(now.Sub(last))
		last = now
		pause = min(max(tickShare*time.Since(now), minTick), maxTick)
		timer.Reset(pause)
	}
}

func (p *miniPart) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.gone)
	p.wait.Wait()
	p.m.Close()
	return nil
}

func (p *miniPart) kill() error {
	err := p.stop()
	p.m.FlushAll()
	return err
}

func (p *miniPart) pid() int { return 0 }

func (p *miniPart) done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}
