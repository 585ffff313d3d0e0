package task

import (
	"maps"
	"slices"
	"testing"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/stream"
	"github.com/taktworks/takt/internal/testenv"
)

// waitEnv is a worker's batch of two entries that are pending for it.
type waitEnv struct {
	t testing.TB
	*Worker
	srv   *testenv.RedisServer
	batch stream.Batch
}

func newWaitEnv(t testing.TB) *waitEnv {
	t.Helper()
	srv := testenv.Redis(t)
	c := must(New(srv.Client, Options{Prefix: srv.Prefix(t)}))
	t.Cleanup(c.Close)
	w := must(c.Worker(WorkerOptions{Concurrency: map[Size]int{Small: 1}}))
	e := &waitEnv{t: t, Worker: w, srv: srv}
	key := c.keys.TaskStream("normal:small")
	e.do("SET", c.keys.Worker("me"), "token")
	e.do("XGROUP", "CREATE", key, c.keys.TaskGroup(), "0", "MKSTREAM")
	for _, id := range []string{"1-1", "1-2"} {
		e.do("XADD", key, id, "data", "x")
	}
	e.do("XREADGROUP", "GROUP", c.keys.TaskGroup(), "me", "STREAMS", key, ">")
	e.batch = stream.Batch{Stream: key, Group: c.keys.TaskGroup(), Heartbeat: c.keys.Worker("me"), Token: "token"}
	for i, id := range []string{"1-1", "1-2"} {
		name := string(rune('a' + i))
		o := &outcome{kind: Blocked, task: name, name: "test:" + name, queue: "normal:small", member: []byte("message " + name), delay: 60_000_000_000}
		e.batch.Entries = append(e.batch.Entries, &stream.Entry{ID: id, Effect: o})
	}
	return e
}

func (e *waitEnv) do(words ...string) rueidis.RedisResult {
	e.t.Helper()
	return e.srv.Must(e.t, words...)
}

func (e *waitEnv) number(words ...string) int64 {
	e.t.Helper()
	return e.srv.Number(e.t, words...)
}

func (e *waitEnv) left(waiting, delayed, blocked int64) {
	e.t.Helper()
	k := e.client.keys
	if a, b, c := e.number("XLEN", e.batch.Stream), e.number("ZCARD", k.TaskDelayed()), e.number("HLEN", k.TaskBlocked()); a != waiting || b != delayed || c != blocked {
		e.t.Errorf("%d waiting, %d delayed, %d blocked; want %d, %d, %d", a, b, c, waiting, delayed, blocked)
	}
}

// wake.lua makes those due that are blocked, in their order; others it passes over, and what is left of one that was moved on it clears away.
func TestWake(t *testing.T) {
	e := newWaitEnv(t)
	k := e.client.keys
	testenv.Must(t, e.finishBlocked(t.Context(), e.batch, e.batch.Entries))
	e.do("HSET", k.TaskBlocked(), "gone", "message gone")
	e.client.wake(t.Context(), []string{"stranger", "b", "gone", "a"})
	e.left(0, 2, 0)
	list, err := e.do("ZRANGE", k.TaskDelayed(), "0", "-1").AsStrSlice()
	if err != nil || !slices.Equal(list, []string{"message b", "message a"}) {
		t.Errorf("due: %q, %v", list, err)
	}
	now := must(e.client.Now(t.Context()))
	scores := must(e.do("ZRANGE", k.TaskDelayed(), "0", "-1", "WITHSCORES").AsZScores())
	for _, z := range scores {
		if z.Score > float64(now.UnixMicro())/1e6 {
			t.Errorf("%s is due at %f, later than now", z.Member, z.Score)
		}
	}
	e.client.wake(t.Context(), []string{"b", "a"})
	e.left(0, 2, 0)
}

// A turn that comes while its task is on the way back to the delayed set is not missed.
func TestCalledBeforeParked(t *testing.T) {
	e := newWaitEnv(t)
	e.waiters.expect("a")
	e.waiters.heard("!a\n?b\n!stranger")
	testenv.Must(t, e.finishBlocked(t.Context(), e.batch, e.batch.Entries))
	e.left(0, 2, 1)
	e.waiters.expect("b")
	if e.waiters.parked("b") {
		t.Error("b was not called")
	}
	e.waiters.heard("!b")
	if ids := e.waiters.take(); !slices.Equal(ids, []string{"b"}) || len(e.waiters.by) != 0 {
		t.Errorf("called %q, left %q", ids, slices.Collect(maps.Keys(e.waiters.by)))
	}
}
