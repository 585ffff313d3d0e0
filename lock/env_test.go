package lock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, testenv.LibraryGoroutines()...) }

var hang = testenv.Patience // only seen when something does

// env is a Locker on a server of one test.
type env struct {
	*lock.Locker
	t      testing.TB
	srv    *testenv.RedisServer
	rdb    rueidis.Client
	prefix string
}

func newEnv(t testing.TB) *env {
	t.Helper()
	srv := testenv.Redis(t)
	return on(t, srv, srv.Client, srv.Prefix(t)+":")
}

func on(t testing.TB, srv *testenv.RedisServer, rdb rueidis.Client, prefix string) *env {
	t.Helper()
	l, err := lock.New(rdb, lock.Options{Prefix: prefix})
	testenv.Must(t, err)
	return &env{l, t, srv, rdb, prefix}
}

// in is the same for a part of a test.
func (e *env) in(t testing.TB) *env {
	part := *e
	part.t = t
	return &part
}

// other is the same as from another process.
func (e *env) other() *env {
	e.t.Helper()
	return on(e.t, e.srv, e.srv.Connect(e.t, redis.Options{}), e.prefix)
}

// behind is the same through a proxy.
func (e *env) behind() (*env, *testenv.Proxy) {
	e.t.Helper()
	p := testenv.CountingProxy(e.t, e.srv.URL)
	return on(e.t, e.srv, e.srv.Connect(e.t, redis.Options{URL: p.URL}), e.prefix), p
}

func (e *env) do(words ...string) rueidis.RedisResult {
	e.t.Helper()
	return e.srv.Do(e.t, words...)
}

func (e *env) number(words ...string) int64 {
	e.t.Helper()
	return e.srv.Number(e.t, words...)
}

// listeners is how many hear whose turn it is. Who waits does so once it was told of its place.
func (e *env) listeners() int64 {
	e.t.Helper()
	n, err := e.rdb.Do(context.Background(), e.rdb.B().PubsubNumsub().Channel(e.prefix+"lock:wake").Build()).ToArray()
	testenv.Must(e.t, err)
	count, err := n[1].AsInt64()
	testenv.Must(e.t, err)
	return count
}

// keys are those of the test, without its prefix.
func (e *env) keys() []string {
	e.t.Helper()
	all, err := e.srv.AllKeys(context.Background())
	testenv.Must(e.t, err)
	for i, k := range all {
		all[i] = strings.TrimPrefix(k, e.prefix)
	}
	return all
}

func (e *env) try(o lock.TryOptions, specs ...lock.Spec) *lock.Held {
	e.t.Helper()
	h, err := e.Try(context.Background(), specs, o)
	testenv.Must(e.t, err)
	e.t.Cleanup(func() { _, _ = h.Release(context.Background()) })
	return h
}

// refused tries and wants to be refused.
func (e *env) refused(o lock.TryOptions, specs ...lock.Spec) *lock.HeldError {
	e.t.Helper()
	h, err := e.Try(context.Background(), specs, o)
	var refused *lock.HeldError
	if !errors.As(err, &refused) {
		if err == nil {
			_, _ = h.Release(context.Background())
		}
		e.t.Fatalf("not refused: %v", err)
	}
	return refused
}

func (e *env) release(h *lock.Held) []string {
	e.t.Helper()
	woken, err := h.Release(context.Background())
	if err != nil {
		e.t.Error(err)
	}
	return woken
}

// wakes releases h and wants that to be the turn of these waiters.
func (e *env) wakes(h *lock.Held, waiters ...string) {
	e.t.Helper()
	if woken := e.release(h); !slices.Equal(woken, waiters) {
		e.t.Errorf("woken %q, want %q", woken, waiters)
	}
}

// acquiring waits for locks in the background. What comes is nil after an error.
func acquiring(t testing.TB, l *lock.Locker, specs ...lock.Spec) <-chan *lock.Held {
	got := make(chan *lock.Held, 1)
	go func() {
		h, err := l.Acquire(context.Background(), specs...)
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	return got
}

// contend lets n contenders in five processes have what specs says, one turn after the other, and calls inside while one has it.
func (e *env) contend(n, turns int, specs func(i int) []lock.Spec, inside func(i int, h *lock.Held)) {
	e.t.Helper()
	lockers := []*env{e, e.other(), e.other(), e.other(), on(e.t, e.srv, e.srv.Connect(e.t, redis.Options{RESP2: true}), e.prefix)}
	ctx, cancel := context.WithTimeout(context.Background(), 2*hang)
	defer cancel()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for range turns {
				h, err := lockers[i%len(lockers)].Acquire(ctx, specs(i)...)
				if err != nil {
					e.t.Error(err)
					return
				}
				inside(i, h)
				if _, err := h.Release(ctx); err != nil {
					e.t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// heard subscribes to what waiters are told, until the test ends.
func (e *env) heard() <-chan string {
	e.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	messages, ended, ready := make(chan string, 10), make(chan struct{}), make(chan struct{}, 10)
	ear := e.srv.Connect(e.t, redis.Options{})
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { ready <- struct{}{} })
	go func() {
		defer close(ended)
		_ = ear.Receive(hooked, ear.B().Subscribe().Channel(e.prefix+"lock:wake").Build(), func(m rueidis.PubSubMessage) { messages <- m.Message })
	}()
	e.t.Cleanup(func() { stop(); <-ended })
	testenv.Take(e.t, "the subscription", ready)
	return messages
}

// succeed takes what the owner of h loses, and says how long after that was granted the context of h ended: not at all, but on a machine that stalls just then. Use OnceWithin(noLater).
func (e *env) succeed(t testing.TB, h *lock.Held, s lock.Spec) (next *lock.Held, late time.Duration) {
	t.Helper()
	ended := make(chan time.Time, 1)
	context.AfterFunc(h.Context(), func() { ended <- time.Now() })
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	next, err := e.Acquire(ctx, s)
	testenv.Must(t, err)
	return next, testenv.Take(t, "end of the context", ended).Sub(next.At())
}

const noLater = time.Nanosecond

func job(key string) lock.Object { return lock.Object{Type: lock.Job, Key: key} }

// passes lets a time pass that belongs to the test: its load, or what a refusal says. It waits for nothing to happen.
func passes(d time.Duration) { <-time.After(d) }

func task(key string) lock.Object { return lock.Object{Type: lock.Task, Key: key} }
