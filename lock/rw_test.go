package lock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/lock"
)

var (
	reads  = lock.Read(task("doc"))
	writes = lock.Write(task("doc"))
)

// Many read at once, or one writes.
func TestReadersAndWriters(t *testing.T) {
	e := newEnv(t)
	var readers, writers atomic.Int32
	e.contend(24, 5, func(i int) []lock.Spec {
		if i%4 == 0 {
			return []lock.Spec{writes}
		}
		return []lock.Spec{reads}
	}, func(i int, _ *lock.Held) {
		mine := &readers
		if i%4 == 0 {
			mine = &writers
		}
		mine.Add(1)
		if r, w := readers.Load(), writers.Load(); w > 1 || w == 1 && r > 0 {
			t.Errorf("%d write, %d read", w, r)
		}
		mine.Add(-1)
	})
	if n := e.number("EXISTS", reads.Key(e.prefix)); n != 0 {
		t.Errorf("left behind: %v", e.do("HGETALL", reads.Key(e.prefix)))
	}
	first, second := e.try(lock.TryOptions{}, reads), e.other().try(lock.TryOptions{}, reads)
	if n := e.number("HGET", reads.Key(e.prefix), "readers"); n != 2 {
		t.Errorf("%d readers to be seen, want 2", n)
	}
	e.refused(lock.TryOptions{}, writes)
	e.release(first)
	e.refused(lock.TryOptions{}, writes)
	e.release(second)
	w := e.try(lock.TryOptions{Owner: "w"}, writes)
	if r := e.refused(lock.TryOptions{}, reads); r.Owner != "w" {
		t.Errorf("refused by %q", r.Owner)
	}
	e.release(w)
}

// A waiting writer gets in although readers come without a pause, whether it stands in the line or only tries again.
func TestWriterIsNotStarved(t *testing.T) {
	for name, write := range map[string]func(ctx context.Context, e *env) (*lock.Held, error){
		"line": func(ctx context.Context, e *env) (*lock.Held, error) { return e.Acquire(ctx, writes) },
		"intent": func(ctx context.Context, e *env) (h *lock.Held, err error) {
			testenv.Eventually(e.t, "the writer's chance", func() bool {
				h, err = e.Try(ctx, []lock.Spec{writes}, lock.TryOptions{})
				var refused *lock.HeldError
				return !errors.As(err, &refused)
			})
			return h, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			ctx, stop := context.WithTimeout(context.Background(), hang)
			defer stop()
			over := make(chan struct{})
			// Each reader releases only once the next one has its lock or was refused, so that without fairness some reader always holds.
			var turns atomic.Int32
			var all sync.WaitGroup
			all.Go(func() {
				have := e.try(lock.TryOptions{}, reads)
				for {
					next, err := e.Try(ctx, []lock.Spec{reads}, lock.TryOptions{})
					_, _ = have.Release(ctx)
					turns.Add(1)
					for err != nil {
						select {
						case <-over:
							return
						case <-ctx.Done():
							t.Error("the readers did not get in again")
							return
						case <-time.After(time.Millisecond):
						}
						next, err = e.Try(ctx, []lock.Spec{reads}, lock.TryOptions{})
					}
					have = next
					select {
					case <-over:
						_, _ = have.Release(ctx)
						return
					default:
					}
				}
			})
			testenv.Eventually(t, "readers", func() bool { return turns.Load() > 20 })
			w, err := write(ctx, e.other())
			testenv.Must(t, err)
			was := turns.Load()
			e.release(w)
			testenv.Eventually(t, "readers after the writer", func() bool { return turns.Load() > was+5 })
			close(over)
			all.Wait()
		})
	}
}

// A writer that only tried once holds new readers off for its WaitFor, no longer.
func TestIntentEnds(t *testing.T) {
	e := newEnv(t)
	h := e.try(lock.TryOptions{}, reads)
	e.refused(lock.TryOptions{}, writes)
	if r := e.refused(lock.TryOptions{}, reads); r.Owner != "" || r.RetryAfter <= 0 || r.RetryAfter > 2*time.Second {
		t.Errorf("refused: %+v", r)
	}
	e.do("HSET", reads.Key(e.prefix), "writer_wait_until", "1")
	e.release(e.try(lock.TryOptions{}, reads))
	e.release(h)
}

// The place of a writer that only tries again is its intent: those who came to the line later let it pass, those before do not.
func TestIntentIsAPlace(t *testing.T) {
	e := newEnv(t)
	r0 := e.try(lock.TryOptions{}, reads)
	e.refused(lock.TryOptions{WaitFor: time.Minute}, writes)
	e.refused(lock.TryOptions{Waiter: "later"}, reads)
	e.wakes(r0)
	w := e.try(lock.TryOptions{}, writes)
	e.wakes(w, "later")
	r0 = e.try(lock.TryOptions{Waiter: "later"}, reads)
	e.refused(lock.TryOptions{Waiter: "w1"}, writes)
	e.refused(lock.TryOptions{Waiter: "before"}, reads)
	e.refused(lock.TryOptions{WaitFor: time.Minute}, writes)
	woken, err := e.Leave(t.Context(), "w1", writes)
	if err != nil || len(woken) != 1 || woken[0] != "before" {
		t.Errorf("woken %q, %v", woken, err)
	}
	e.release(e.try(lock.TryOptions{Waiter: "before"}, reads))
	e.refused(lock.TryOptions{Waiter: "after"}, reads)
	e.release(r0)
}

// A key with a reader without lease in it does not expire, whoever came first.
func TestForeignReaderAmongOurs(t *testing.T) {
	e := newEnv(t)
	key := reads.Key(e.prefix)
	for name, touch := range map[string]func(h *lock.Held){
		"take":    func(*lock.Held) { e.try(lock.TryOptions{}, reads) },
		"renew":   func(h *lock.Held) { _ = h.Extend(t.Context()) },
		"release": func(h *lock.Held) { e.release(h) },
	} {
		h := e.try(lock.TryOptions{}, reads)
		if ttl := e.number("PTTL", key); ttl <= 0 {
			t.Errorf("%s: our own readers stay for %d ms", name, ttl)
		}
		touch(e.try(lock.TryOptions{}, reads)) // changes nothing about that
		if ttl := e.number("PTTL", key); ttl <= 0 {
			t.Errorf("%s: our own readers stay for %d ms", name, ttl)
		}
		e.number("HINCRBY", key, "readers", "1")
		touch(h)
		if ttl := e.number("PTTL", key); ttl != -1 {
			t.Errorf("%s: a foreign reader ends in %d ms", name, ttl)
		}
		e.do("DEL", key)
	}
}

// Python peers count readers without a lease (foreign): they are believed in for ever, or for ForeignGrace.
func TestForeignReaders(t *testing.T) {
	long.Test(t, "waits for a grace to end")
	e := newEnv(t)
	key := reads.Key(e.prefix)
	e.do("HINCRBY", key, "readers", "1")
	h := e.try(lock.TryOptions{}, reads)
	if r := e.refused(lock.TryOptions{}, writes); r.Owner != "reader without lease" || !r.Until.IsZero() {
		t.Errorf("refused: %+v", r)
	}
	if n := e.number("HGET", key, "readers"); n != 2 {
		t.Errorf("%d readers, want 2", n)
	}
	if ttl := e.number("PTTL", key); ttl != -1 {
		t.Errorf("the key with a foreign reader expires in %d ms", ttl)
	}
	e.release(h)
	e.refused(lock.TryOptions{}, writes)
	if n := e.number("HINCRBY", key, "readers", "-1"); n != 0 {
		t.Errorf("%d readers left", n)
	}
	e.do("HDEL", key, "readers", "writer_wait", "writer_wait_until")
	w := e.try(lock.TryOptions{}, writes)
	if n, err := e.do("HGET", key, "writer_owner").ToString(); err != nil || n != w.Owner() {
		t.Errorf("a peer sees writer %q, %v", n, err)
	}
	e.release(w)

	e.do("HSET", key, "writer_owner", "python")
	e.do("PEXPIRE", key, "30000")
	for _, s := range []lock.Spec{reads, writes} {
		if r := e.refused(lock.TryOptions{}, s); r.Owner != "python" || r.RetryAfter < 20*time.Second {
			t.Errorf("refused: %+v", r)
		}
	}
	e.do("DEL", key)

	e.do("HINCRBY", key, "readers", "1")
	patient, err := lock.New(e.rdb, lock.Options{Prefix: e.prefix, ForeignGrace: 200 * time.Millisecond})
	testenv.Must(t, err)
	began := time.Now()
	w, err = patient.Acquire(t.Context(), writes)
	testenv.Must(t, err)
	if d := time.Since(began); d < 190*time.Millisecond {
		t.Errorf("a foreign reader was believed in for %v", d)
	}
	e.release(w)
}
