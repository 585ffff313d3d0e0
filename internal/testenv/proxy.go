package testenv

import (
	"testing"

	"github.com/taktworks/takt/internal/proxy"
)

// Proxy is a TCP proxy that counts round trips and makes trouble.
type Proxy = proxy.Proxy

// CountingProxy starts a proxy to target, a host:port or a URL. It ends with the test.
func CountingProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := proxy.New(target)
	Must(t, err)
	t.Cleanup(p.Close)
	return p
}

// Guillotine is a Proxy that cuts a process off from Redis at a given command.
type Guillotine = proxy.Guillotine

// NewGuillotine starts one before the Redis at target, a host:port. It ends with the test.
func NewGuillotine(t testing.TB, target string) *Guillotine {
	t.Helper()
	g, err := proxy.NewGuillotine("redis://" + target)
	Must(t, err)
	t.Cleanup(g.Close)
	return g
}
