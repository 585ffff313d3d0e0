package testenv

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// Within is a context that ends after Patience, or with the test's cleanup.
func Within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Run runs f until stop is called or the test ends, and checks that it returns nil. stop waits for that.
func Run(t testing.TB, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(Patience):
			t.Error("Run does not return")
		}
	})
	t.Cleanup(stop)
	return stop
}

// Must ends the test at an error. t may be a *rapid.T, too.
func Must(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Take waits for the next element of a channel.
func Take[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(Patience):
		t.Fatalf("not within %v: %s", Patience, what)
		panic("unreachable")
	}
}

// Eventually waits for a state that has no event of its own.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.Tick(2 * time.Millisecond)
	for late := time.After(Patience); !holds(); {
		select {
		case <-tick:
		case <-late:
			t.Fatalf("not within %v: %s", Patience, what)
		}
	}
}

// FreePort is a port of an address of this machine on which no program listens now.
func FreePort(t testing.TB, host string) int {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	Must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
