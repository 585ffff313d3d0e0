package limit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var hang = testenv.Patience // only seen when something does

// env is a Locker on a server of one test.
type env struct {
	*lock.Locker
	t      testing.TB
	srv    *testenv.RedisServer
	prefix string
}

func newEnv(t testing.TB) *env {
	t.Helper()
	srv := testenv.Redis(t)
	e := &env{t: t, srv: srv, prefix: srv.Prefix(t) + ":"}
	e.Locker = e.other(redis.Options{})
	return e
}

// other is a Locker as in another process.
func (e *env) other(o redis.Options) *lock.Locker {
	e.t.Helper()
	l, err := lock.New(e.srv.Connect(e.t, o), lock.Options{Prefix: e.prefix})
	if err != nil {
		e.t.Fatal(err)
	}
	return l
}

func (e *env) number(words ...string) int64 {
	e.t.Helper()
	return e.srv.Number(e.t, words...)
}

func (e *env) try(owner string, specs ...lock.Spec) *lock.Held {
	e.t.Helper()
	h, err := e.Try(context.Background(), specs, lock.TryOptions{Owner: owner})
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _, _ = h.Release(context.Background()) })
	return h
}

func (e *env) refused(specs ...lock.Spec) *lock.HeldError {
	e.t.Helper()
	h, err := e.Try(context.Background(), specs, lock.TryOptions{})
	var refused *lock.HeldError
	if !errors.As(err, &refused) {
		if err == nil {
			_, _ = h.Release(context.Background())
		}
		e.t.Fatalf("not refused: %v", err)
	}
	return refused
}

func (e *env) release(h *lock.Held) {
	e.t.Helper()
	if _, err := h.Release(context.Background()); err != nil {
		e.t.Error(err)
	}
}

func site(key string) lock.Object { return lock.Object{Type: lock.Job, Key: key} }

// passes lets a time pass that belongs to the test: its load, or what a refusal says. It waits for nothing to happen.
func passes(d time.Duration) { <-time.After(d) }
