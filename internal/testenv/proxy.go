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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}
