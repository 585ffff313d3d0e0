package task_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/limit"
	"github.com/taktworks/takt/lock"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/task/internal/wire"
)

// take takes locks from outside of tasks, which the test gives back.
func (e *env) take(specs ...lock.Spec) (release func()) {
	e.t.Helper()
	h, err := e.client.Locker().Try(context.Background(), specs, lock.TryOptions{})
	e.ok(err)
	return func() {
		if _, err := h.Release(context.Background()); err != nil {
			e.t.Error(err)
		}
	}
}

// raw submits a message as it is.
func (e *env) raw(queue task.Queue, m wire.Message) {
	e.t.Helper()
	b, err := m.Append(nil)
	e.ok(err)
	e.must("XADD", e.prefix+":tasks:"+string(queue), "*", "data", rueidis.BinaryString(b))
}

// delayedTasks are the messages of the delayed set with their due times.
func (e *env) delayedTasks() (messages []wire.Message, due []float64) {
	e.t.Helper()
	list, err := e.do("ZRANGE", e.prefix+":tasks:delayed", "0", "-1", "WITHSCORES").AsZScores()
	e.ok(err)
	for _, z := range list {
		m, err := wire.Decode([]byte(z.Member))
		e.ok(err)
		messages, due = append(messages, m), append(due, z.Score)
	}
	return messages, due
}

// later puts off n blocked tasks, until none of them looks by itself within the next hour.
func (e *env) later(n int) {
	e.t.Helper()
	e.eventually("none is to look by itself within the next hour", func() bool {
		members, err := e.do("ZRANGE", e.keys().TaskDelayed(), "0", "-1").AsStrSlice()
		testenv.Must(e.t, err)
		put := int64(0) // those that were still there
		for _, m := range members {
			put += e.number("ZADD", e.keys().TaskDelayed(), "XX", "CH", fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()/1000), m)
		}
		return put == int64(n)
	})
}

// nothingWaits checks that no trace of blocked tasks is left.
func (e *env) nothingWaits() {
	e.t.Helper()
	for _, key := range []string{"tasks:delayed", "tasks:blocked"} {
		key := e.prefix + ":" + key
		e.eventually(key+" is gone", func() bool { return e.number("EXISTS", key) == 0 })
	}
	e.eventually("the lines of the locks are gone", func() bool {
		keys, err := e.srv.AllKeys(context.Background())
		return err == nil && !slices.ContainsFunc(keys, func(k string) bool { return strings.HasSuffix(k, "::wait") || strings.HasSuffix(k, "::until") })
	})
}

func mutexOf(key string) lock.Spec { return lock.Mutex(lock.Object{Type: lock.Task, Key: key}) }

// A blocked task has not ended: nothing is counted as done, no result is there, its group does not hear of it; it is one message in the
// delayed set, under its id, and no attempt.
func TestBlockedIsNoEnd(t *testing.T) {
	long.Test(t, "waits for blocked tasks to look again")
	e := newEnv(t)
	kind := task.Define[double, int]("test:Blocked", task.Positional(), task.Locks(func(double) []lock.Spec { return []lock.Spec{mutexOf("B")} }))
	release := e.take(mutexOf("B"))
	e.must("SET", e.prefix+":groups:g1:remaining", "2")
	var blocked, ran atomic.Int64
	var refused atomic.Pointer[lock.HeldError]
	e.start(task.WorkerOptions{Observe: func(ev task.Event) {
		var held *lock.HeldError
		if ev.Outcome == task.Blocked && errors.As(ev.Err, &held) {
			blocked.Add(1)
			refused.Store(held)
		}
	}}, kind.Handle(func(_ context.Context, j *task.Job[double]) (int, error) {
		ran.Add(1)
		if j.Attempt != 1 {
			t.Errorf("attempt %d, want 1: to be blocked is none", j.Attempt)
		}
		return j.Args.N, nil
	}))
	h := send(e, kind, double{7})
	e.raw(kind.Queue(), wire.Message{ID: "_g1:0", Name: kind.Name(), Args: []byte{0x91, 0x01},
		Labels: wire.Labels{{Key: "priority", Value: "normal"}, {Key: "size", Value: "medium"}, {Key: "group_id", Value: "g1"}}})
	e.eventually("both tasks are blocked twice", func() bool {
		messages, _ := e.delayedTasks()
		return len(messages) == 2 && messages[0].Meta.Blocked > 1 && messages[1].Meta.Blocked > 1
	})
	e.later(2)
	if want := e.prefix + ":lock:mutex:task:B"; refused.Load().Key != want {
		t.Errorf("refused by %q, want %q", refused.Load().Key, want)
	}
	e.counts(2, "HLEN", e.prefix+":tasks:blocked")
	fails(t, errOf(h.Result(e.ctx())), task.ErrResultMissing)
	e.counts(2, "GET", e.prefix+":groups:g1:remaining")
	if e.counter(task.Done, kind.Name()) != 0 || e.counter(task.Blocked, kind.Name()) < 4 || ran.Load() != 0 {
		t.Errorf("done %d, blocked %d, ran %d", e.counter(task.Done, kind.Name()), e.counter(task.Blocked, kind.Name()), ran.Load())
	}
	messages, _ := e.delayedTasks()
	for _, m := range messages {
		if m.ID != h.ID && m.ID != "_g1:0" || m.Labels.Int("_retry_attempt") != 0 || m.Meta.Enqueued == 0 {
			t.Errorf("delayed: %+v", m)
		}
	}
	e.counts(0, "XLEN", e.prefix+":tasks:"+string(kind.Queue()))
	release()
	returned(e, h, 7)
	e.eventually("the child ran", func() bool { return ran.Load() == 2 })
	e.nothingWaits()
}

// Blocked tasks are started by the release in the order in which they came, long before they would look by themselves: whether a task or
// somebody outside of tasks had the lock.
func TestReleaseWakesInOrder(t *testing.T) {
	e := newEnv(t)
	kind := task.Define[double, task.None]("test:Order", task.Positional(), task.Exclusive())
	var mu sync.Mutex
	var order []string
	e.start(task.WorkerOptions{}, kind.Handle(func(_ context.Context, j *task.Job[double]) (task.None, error) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, j.ID)
		return task.None{}, nil
	}))
	release := e.take(mutexOf(kind.Name()))
	const n = 5
	var want []string
	for i := range n {
		id := fmt.Sprintf("t%d", i)
		want = append(want, id)
		// Blocked so often that it looks by itself after 2.5 s at the earliest, and then not before the lock is free.
		e.raw(kind.Queue(), wire.Message{ID: id, Name: kind.Name(), Args: []byte{0x91, 0x01}, Meta: wire.Meta{Blocked: 20}})
		e.eventually(id+" is blocked", func() bool { return e.number("HEXISTS", e.prefix+":tasks:blocked", id) == 1 })
	}
	e.later(n)
	release()
	e.eventually("all have run", func() bool { mu.Lock(); defer mu.Unlock(); return len(order) == n })
	if !slices.Equal(order, want) {
		t.Errorf("ran in the order %v, want %v", order, want)
	}
	e.nothingWaits()
}

// 200 contenders for one lock do not come back together, one runs at a time, and all end.
func TestManyContenders(t *testing.T) {
	e := newEnv(t)
	kind := task.Define[double, task.None]("test:Crowd", task.Positional(), task.Small, task.Exclusive())
	const n = 200
	var now, most, ran atomic.Int64
	e.start(task.WorkerOptions{}, kind.Handle(func(context.Context, *task.Job[double]) (task.None, error) {
		if c := now.Add(1); c > most.Load() {
			most.Store(c)
		}
		now.Add(-1)
		ran.Add(1)
		return task.None{}, nil
	}))
	release := e.take(mutexOf(kind.Name()))
	sendMany(e, kind, make([]double, n))
	var due []float64
	e.eventually("all are blocked", func() bool { _, due = e.delayedTasks(); return len(due) >= n*9/10 })
	slices.Sort(due)
	together := 0
	for i, from := 0, 0; i < len(due); i++ {
		for due[i]-due[from] > 0.1 {
			from++
		}
		together = max(together, i-from+1)
	}
	if together > n/3 {
		t.Errorf("%d of %d come back within 100 ms", together, n)
	}
	release()
	e.eventually("all have run", func() bool { return ran.Load() == n })
	if most.Load() != 1 {
		t.Errorf("%d ran at once under one mutex", most.Load())
	}
	if done := e.counter(task.Done, kind.Name()); done > n {
		t.Errorf("%d counted as done", done)
	}
	e.nothingWaits()
}

// A lost lock ends the context of the run with a LostError, and the run has failed. The lock of whoever has it now is not touched.
func TestLostLockEndsTheRun(t *testing.T) {
	e := newEnv(t)
	kind := task.Define[double, int]("test:Lost", task.Positional(), task.Locks(func(double) []lock.Spec {
		return []lock.Spec{lock.Mutex(lock.Object{Type: lock.Task, Key: "L"}, lock.TTL(300*time.Millisecond))}
	}))
	causes := make(chan error, 1)
	begun := make(chan struct{})
	e.start(task.WorkerOptions{}, kind.Handle(func(ctx context.Context, _ *task.Job[double]) (int, error) {
		close(begun)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return 0, ctx.Err()
	}))
	h := send(e, kind, double{})
	<-begun
	key := e.prefix + ":lock:mutex:task:L"
	e.must("SET", key, "somebody else")
	var lost *lock.LostError
	if cause := <-causes; !errors.As(cause, &lost) || lost.Key != key {
		t.Errorf("cause %v, want a LostError of %s", cause, key)
	}
	var failed *task.Error
	if _, err := h.Await(e.ctx()); !errors.As(err, &failed) || !strings.Contains(failed.Message, "is lost") {
		t.Errorf("Await: %v, want a failure that says that the lock is lost", err)
	}
	if owner, _ := e.do("GET", key).ToString(); owner != "somebody else" {
		t.Errorf("the lock is now %q's", owner)
	}
}

// Each lock is released for itself, and a failure there masks no success.
func TestReleaseChangesNoOutcome(t *testing.T) {
	e := newEnv(t)
	kind := task.Define[double, int]("test:Release", task.Positional(), task.Locks(func(double) []lock.Spec {
		return []lock.Spec{mutexOf("a"), mutexOf("b"), mutexOf("c")}
	}))
	e.start(task.WorkerOptions{}, kind.Handle(func(context.Context, *task.Job[double]) (int, error) {
		for _, c := range [][]string{{"DEL", e.prefix + ":lock:mutex:task:b"}, {"LPUSH", e.prefix + ":lock:mutex:task:b", "no lock"}} {
			if err := e.do(c...).Error(); err != nil {
				return 0, err
			}
		}
		return 1, nil
	}))
	h := send(e, kind, double{})
	returned(e, h, 1)
	for _, free := range []string{"a", "c"} {
		e.counts(0, "EXISTS", e.prefix+":lock:mutex:task:"+free)
	}
}

// A task that is refused a lock uses up no quota of its rate, and one that is refused quota comes back when there is some.
func TestQuota(t *testing.T) {
	long.Test(t, "waits for quota to come back")
	e := newEnv(t)
	object := lock.Object{Type: lock.Task, Key: "quota"}
	const window = 300 * time.Millisecond
	kind := task.Define[double, task.None]("test:Quota", task.Positional(), task.Small, task.Locks(func(double) []lock.Spec {
		return []lock.Spec{mutexOf("M"), limit.Rate(object, 1, window)}
	}))
	var mu sync.Mutex
	var starts []time.Time
	e.start(task.WorkerOptions{}, kind.Handle(func(ctx context.Context, j *task.Job[double]) (task.None, error) {
		at, err := j.Client().Now(ctx)
		mu.Lock()
		defer mu.Unlock()
		starts = append(starts, at)
		return task.None{}, err
	}))
	release := e.take(mutexOf("M"))
	const n = 4
	sendMany(e, kind, make([]double, n))
	e.eventually("all are blocked, some twice", func() bool { return e.counter(task.Blocked, kind.Name()) >= 2*n })
	e.counts(0, "EXISTS", e.prefix+":limiter:rate:task:quota")
	released, err := e.client.Now(e.ctx())
	e.ok(err)
	release()
	e.eventually("all have run", func() bool { mu.Lock(); defer mu.Unlock(); return len(starts) == n })
	slices.SortFunc(starts, time.Time.Compare)
	for i, at := range starts { // a run may look at the clock long after it was given quota: two starts may seem to be nearer to each other than they were
		if after, want := at.Sub(released), time.Duration(i)*window*9/10; after < want {
			t.Errorf("start %d is %v after the mutex was free, want at least %v", i, after, want)
		}
	}
	e.nothingWaits()
}

// Quota that comes back later than any pause is not asked for in between.
func TestQuotaOfALongWindow(t *testing.T) {
	e := newEnv(t)
	kind := task.Define[double, task.None]("test:Hourly", task.Positional(), task.Limits(0, 1, time.Hour))
	e.start(task.WorkerOptions{}, kind.Handle(func(context.Context, *task.Job[double]) (task.None, error) { return task.None{}, nil }))
	for range 2 {
		send(e, kind, double{})
	}
	var due []float64
	e.eventually("one is blocked", func() bool { _, due = e.delayedTasks(); return len(due) == 1 })
	now := e.clock()
	if in := time.UnixMilli(int64(due[0] * 1000)).Sub(now); in < 50*time.Minute || in > time.Hour+time.Second {
		t.Errorf("comes back in %v, want in an hour", in)
	}
	if until := e.number("PTTL", e.prefix+":limiter:rate:task:test%3AHourly::wait"); until < 50*60*1000 {
		t.Errorf("the place in the line is kept for %d ms, want an hour", until)
	}
}

// The locks of a type have its registered name, so that types of one Go type do not share them.
func TestKeysOfLocks(t *testing.T) {
	e := newEnv(t)
	held := make(chan string, 1)
	look := func(_ context.Context, j *task.Job[double]) (int, error) {
		for k := range j.Fences() {
			held <- strings.TrimPrefix(k, e.prefix+":")
		}
		return 0, nil
	}
	for _, c := range []struct {
		kind *task.Type[double, int]
		want string
	}{
		{task.Define[double, int]("DataclassTask", task.Positional(), task.ExclusiveBy(func(d double) []string { return []string{fmt.Sprint(d.N)} })), "lock:mutex:task:DataclassTask:99"},
		{task.Define[double, int]("MyTask", task.Positional(), task.Exclusive()), "lock:mutex:task:MyTask"},
		{task.Define[double, int]("a:Same", task.Positional(), task.Exclusive()), "lock:mutex:task:a%3ASame"},
		{task.Define[double, int]("b:Same", task.Positional(), task.Exclusive()), "lock:mutex:task:b%3ASame"},
	} {
		e.start(task.WorkerOptions{}, c.kind.Handle(look))
		send(e, c.kind, double{99})
		if got := <-held; got != c.want {
			t.Errorf("%s holds %s, want %s", c.kind.Name(), got, c.want)
		}
	}
}

// Where tasks take long through the queue no lock is kept for one that would come late: it has no place in the line, who finds the lock free has it, and
// it asks the more seldom the longer the queue is.
func TestNoPlaceInASlowQueue(t *testing.T) {
	e := newEnv(t)
	kind := task.Define[double, int]("SlowQueue", task.Positional(), task.Exclusive())
	release := e.take(mutexOf(kind.Name()))
	late := wire.Message{ID: "late", Name: kind.Name(), Args: []byte{0x91, 0x01}, Meta: wire.Meta{Blocked: 1}}
	b, err := late.Append(nil)
	e.ok(err)
	// Since long before.
	e.must("XADD", e.prefix+":tasks:"+string(kind.Queue()), "1-1", "data", rueidis.BinaryString(b))
	e.start(task.WorkerOptions{}, kind.Handle(func(_ context.Context, j *task.Job[double]) (int, error) { return j.Args.N, nil }))
	e.eventually("it is blocked", func() bool { return e.number("HEXISTS", e.prefix+":tasks:blocked", "late") == 1 })
	e.counts(0, "EXISTS", e.prefix+":lock:mutex:task:SlowQueue::wait")
	_, due := e.delayedTasks()
	now := e.clock()
	if in := time.UnixMilli(int64(due[0] * 1000)).Sub(now); in < 20*time.Second || in > time.Minute+time.Second {
		t.Errorf("comes back in %v, want in 30 s to a minute", in)
	}
	release()
	h := send(e, kind, double{4})
	returned(e, h, 4)
}

// A mistake in the locks is a dead letter at once; a panic in the function that names them is a failure as any other.
func TestLocksThatCannotBe(t *testing.T) {
	e := newEnv(t)
	unknown := task.Define[double, int]("test:Unknown", task.Positional(), task.Retry(task.Backoff{}), task.Locks(func(double) []lock.Spec {
		return []lock.Spec{lock.Mutex(lock.Object{Type: "dataset", Key: "1"})}
	}))
	panics := task.Define[double, int]("test:Panics", task.Positional(), task.Locks(func(double) []lock.Spec { panic("no locks today") }))
	f := func(context.Context, *task.Job[double]) (int, error) { t.Error("ran"); return 0, nil }
	e.start(task.WorkerOptions{}, unknown.Handle(f), panics.Handle(f))
	for kind, want := range map[*task.Type[double, int]]string{unknown: `"dataset": unknown`, panics: "no locks today"} {
		h := send(e, kind, double{})
		says(t, kind.Name(), errOf(h.Await(e.ctx())), want)
	}
}

// A blocked task that is cancelled leaves the line: who waits behind it runs at once, and nothing is left.
func TestCancelledTaskLeavesTheLine(t *testing.T) {
	e := newEnv(t)
	kind := task.Define[double, int]("test:Leave", task.Positional(), task.Exclusive())
	e.start(task.WorkerOptions{}, kind.Handle(func(_ context.Context, j *task.Job[double]) (int, error) { return j.Args.N, nil }))
	release := e.take(mutexOf(kind.Name()))
	first := send(e, kind, double{1})
	e.eventually("it is blocked", func() bool { return e.number("HLEN", e.prefix+":tasks:blocked") == 1 })
	second := send(e, kind, double{2})
	e.eventually("both are blocked", func() bool { return e.number("HLEN", e.prefix+":tasks:blocked") == 2 })
	e.must("ZADD", e.prefix+":tasks:cancelled", fmt.Sprint(time.Now().UnixMilli()), first.ID)
	e.must("PUBLISH", e.prefix+":tasks:control", "")
	var ended *task.Error
	if _, err := first.Await(e.ctx()); !errors.As(err, &ended) || ended.Type != "cancelled" {
		t.Errorf("Await: %v, want cancelled", err)
	}
	release()
	returned(e, second, 2)
	e.nothingWaits()
}

// All of it on what demo and dev fall back on.
func TestBlockedOnMiniredis(t *testing.T) { testBlocked(t, newEnvOn(t, testenv.Miniredis(t))) }

func testBlocked(t *testing.T, e *env) {
	kind := task.Define[double, int]("MiniTask", task.Positional(), task.Exclusive(), task.Limits(3, 1000, time.Second))
	e.start(task.WorkerOptions{}, kind.Handle(func(_ context.Context, j *task.Job[double]) (int, error) { return j.Args.N, nil }))
	release := e.take(mutexOf(kind.Name()))
	h := send(e, kind, double{5})
	e.eventually("it is blocked", func() bool { return e.number("HLEN", e.prefix+":tasks:blocked") == 1 })
	release()
	returned(e, h, 5)
	e.ok(e.client.PauseType(e.ctx(), kind.Name()))
	e.eventually("the worker knows of the pause", func() bool {
		_, err := kind.Submit(e.ctx(), e.client, double{7})
		return err != nil || e.parked(kind.Name()) > 0
	})
	h = send(e, kind, double{6})
	e.eventually("it is delayed", func() bool {
		found, err := e.client.Find(e.ctx(), task.Ref{ID: h.ID})
		return err != nil || found.State == task.StateDelayed
	})
	e.ok(e.client.ResumeType(e.ctx(), kind.Name()))
	e.now(h.ID)
	e.config("common: {MiniTask: {concurrency_limit: 2}}", kind)
	returned(e, h, 6)
	e.eventually("all have run", func() bool { return e.number("XLEN", e.prefix+":tasks:"+string(kind.Queue())) == 0 })
	e.nothingWaits()
}
