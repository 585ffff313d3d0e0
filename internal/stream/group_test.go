package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

// Replies of both protocol versions, and of the embedded store, are understood.
func TestHandlesEverything(t *testing.T) {
	for name, c := range map[string]struct {
		start func(testing.TB) *testenv.RedisServer
		resp2 bool
	}{
		"RESP3":     {testenv.Redis, false},
		"RESP2":     {testenv.Redis, true},
		"miniredis": {testenv.Miniredis, true},
	} {
		for _, streams := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d streams", name, streams), func(t *testing.T) {
				srv := c.start(t)
				e := newEnv(t, srv)
				rdb := srv.Connect(t, redis.Options{RESP2: c.resp2})
				w := NewWorker(rdb, e.keys, "w", 0, testLog(t))
				var names []string
				for i := range streams {
					names = append(names, e.stream+strconv.Itoa(i))
				}
				const n = 100
				got := make(chan string, streams*n)
				g := &Group{Worker: w, Streams: names, Name: "g", Slots: 4, Log: testLog(t), Handle: func(ctx context.Context, en *Entry) (Result, error) {
					v := en.Fields["v"]
					if en.Deliveries != 1 {
						t.Errorf("%s: delivery %d", v, en.Deliveries)
					}
					if len(v)%2 == 0 {
						got <- v
						return Ack, nil
					}
					cm := commit.New()
					en.Settle(cm)
					_, err := cm.Run(ctx, rdb)
					if err == nil {
						got <- v
					}
					return Settled, err
				}}
				stop := e.running(w, g)
				want := map[string]bool{}
				for i := range n {
					for j, s := range names {
						v := fmt.Sprintf("%d.%d", i, j)
						want[v] = true
						e.must("XADD", s, "*", "v", v)
					}
				}
				for range streams * n {
					v := testenv.Take(t, "entry", got)
					if !want[v] {
						t.Errorf("%s came twice or from nowhere", v)
					}
					delete(want, v)
				}
				stop()
				for _, s := range names {
					if n := e.number("XLEN", s); n != 0 {
						t.Errorf("%s: %d entries left", s, n)
					}
					if l, err := e.must("XINFO", "CONSUMERS", s, "g").ToArray(); err != nil || len(l) != 0 {
						t.Errorf("%s: consumers left: %v, %v", s, l, err)
					}
				}
			})
		}
	}
}

func TestGroupIsChecked(t *testing.T) {
	w := NewWorker(nil, keys.New("p"), "w", 0, nil)
	h := acks
	for says, g := range map[string]*Group{
		"Worker":   {Streams: []string{"s"}, Name: "g", Handle: h},
		"Streams":  {Worker: w, Name: "g", Handle: h},
		"Name":     {Worker: w, Streams: []string{"s"}, Handle: h},
		"Handle":   {Worker: w, Streams: []string{"s"}, Name: "g"},
		"Slots":    {Worker: w, Streams: []string{"s"}, Name: "g", Handle: h, Slots: -1},
		"together": {Worker: w, Streams: []string{"s"}, Name: "g", Handle: h, Finish: func(context.Context, Batch) error { return nil }},
		"Ahead 1s": {Worker: w, Streams: []string{"s"}, Name: "g", Handle: h, Ahead: time.Second, Free: func() int { return 1 }},
	} {
		if err := g.Run(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestOneSlotKeepsTheOrder(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	var want []string
	for i := range 300 {
		want = append(want, strconv.Itoa(i))
	}
	e.add(want...)
	got := make(chan string, len(want))
	once := sync.Once{}
	e.join("w", Group{Handle: func(_ context.Context, en *Entry) (Result, error) {
		err := error(nil)
		if en.Fields["v"] == "7" {
			once.Do(func() { err = errors.New("not now") }) // the others wait
		}
		if err == nil {
			got <- en.Fields["v"]
		}
		return Ack, err
	}})
	for _, v := range want {
		if g := testenv.Take(t, v, got); g != v {
			t.Fatalf("%s before %s", g, v)
		}
	}
	e.empty()
}

// A worker whose handler sleeps through a take-over is a zombie: its context ends, and its commit conflicts.
func TestZombieSettlesNothing(t *testing.T) {
	long.Test(t, "waits for a lease to end")
	e := newEnv(t, testenv.Redis(t))
	begun, ended, proceed, result := make(chan *Entry, 1), make(chan error, 1), make(chan struct{}), make(chan error, 1)
	counter := e.keys.PubSeq("settled")
	settle := func(rdb rueidis.Client, en *Entry) error {
		c := commit.New()
		en.Settle(c)
		c.Incr(counter)
		_, err := c.Run(context.Background(), rdb)
		return err
	}
	var zombie *member
	ready := make(chan struct{})
	zombie = e.joinTTL("zombie", victimTTL, Group{Drain: time.Millisecond, Handle: func(ctx context.Context, en *Entry) (Result, error) {
		<-ready
		begun <- en
		<-ctx.Done()
		ended <- context.Cause(ctx)
		<-proceed // pays no attention to its context
		err := settle(zombie.rdb, en)
		result <- err
		return Settled, err
	}})
	close(ready)
	e.add("once")
	testenv.Take(t, "zombie's start", begun)
	zombie.proxy.Stall(true)
	handled := make(chan int64, 1)
	var other *member
	there := make(chan struct{})
	other = e.join("other", Group{Handle: func(_ context.Context, en *Entry) (Result, error) {
		<-there
		if err := settle(other.rdb, en); err != nil {
			return Ack, err
		}
		handled <- en.Deliveries
		return Settled, nil
	}})
	close(there)
	if cause := testenv.Take(t, "end of the zombie's context", ended); !errors.Is(cause, ErrLost) {
		t.Errorf("its context ended with %v", cause)
	}
	if n := testenv.Take(t, "take-over", handled); n != 2 {
		t.Errorf("the other's delivery is number %d, want 2", n)
	}
	zombie.proxy.Stall(false)
	e.eventually("zombie lives again", func() bool { return zombie.worker.Token() != "" })
	close(proceed)
	if err := testenv.Take(t, "zombie's commit", result); !errors.Is(err, commit.ErrConflict) {
		t.Errorf("zombie's commit: %v, want a conflict", err)
	}
	if n := e.number("GET", counter); n != 1 {
		t.Errorf("settled %d times", n)
	}
	e.empty()
	// It works on under its new token.
	other.leave()
	e.add("again")
	testenv.Take(t, "zombie's next start", begun)
}

// E 19: entries given to this worker by a read whose reply it never saw are found and handled.
func TestGhostsAreFound(t *testing.T) {
	long.Test(t, "breaks a link")
	e := newEnv(t, testenv.Redis(t))
	got := make(chan string, 10)
	m := e.join("w", Group{Handle: tell(got)})
	e.add("first")
	testenv.Take(t, "first", got)
	t.Run("given to our name on another connection", func(t *testing.T) {
		m.proxy.Stall(true) // so that the loop does not read them itself
		e.add("a", "b")
		e.eventually("ghosts made", func() bool {
			return e.must("XREADGROUP", "GROUP", "g", "w", "COUNT", "2", "STREAMS", e.stream, ">").Error() != nil
		})
		m.proxy.Stall(false)
		found := []string{testenv.Take(t, "ghost", got), testenv.Take(t, "ghost", got)}
		slices.Sort(found)
		if !slices.Equal(found, []string{"a", "b"}) {
			t.Errorf("found %q", found)
		}
		e.empty()
	})
	t.Run("reply lost with its connection", func(t *testing.T) {
		m.proxy.DropReplies(true)
		e.add("c")
		e.eventually("given", func() bool { return e.pending() == 1 })
		m.proxy.DropReplies(false)
		if v := testenv.Take(t, "ghost", got); v != "c" {
			t.Errorf("found %q", v)
		}
		e.empty()
	})
}

// FLUSHALL takes the groups and the heartbeats; entries added later are not lost, nor are those added before the group is made again.
func TestFlushAll(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	got := make(chan string, 1000)
	e.join("w", Group{Slots: 4, Handle: tell(got)})
	for i := range 5 {
		v := strconv.Itoa(i)
		e.must("FLUSHALL")
		e.add(v)
		for testenv.Take(t, v, got) != v { // an entry may come twice when its acknowledgement met the flush
		}
	}
	e.empty()
}

// Redis goes and comes back, kill -9 and append-only file; the loop goes on and nothing is lost.
func TestRedisKilled(t *testing.T) {
	long.Test(t, "kills Redis")
	// With everysec the server may answer before it has written: it holds back writes while a flush runs.
	srv := testenv.StartRedis(t, embedded.RedisOptions{Persist: true, Config: []string{"appendfsync always"}})
	e := newEnv(t, srv)
	const n = 500
	var mu sync.Mutex
	seen := map[string]int{}
	half, all := make(chan struct{}), make(chan struct{})
	e.join("w", Group{Slots: 8, Handle: func(_ context.Context, en *Entry) (Result, error) {
		mu.Lock()
		defer mu.Unlock()
		seen[en.Fields["v"]]++
		if len(seen) == n/2 && seen[en.Fields["v"]] == 1 {
			close(half)
		}
		if len(seen) == n && seen[en.Fields["v"]] == 1 {
			close(all)
		}
		return Ack, nil
	}})
	for i := range n {
		e.add(strconv.Itoa(i))
	}
	testenv.Take(t, "half of them", half)
	testenv.Must(t, srv.Server.Kill())
	testenv.Must(t, srv.Server.Restart(t.Context()))
	testenv.Take(t, "all of them", all)
	e.eventually("reconnected", func() bool { return e.do("PING").Error() == nil })
	e.empty()
}

// The data of pending entries is deleted underneath; that is told, and cleaned up.
func TestDeletedWhilePending(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	e.must("XGROUP", "CREATE", e.stream, "g", "0", "MKSTREAM")
	ids := e.add("of the dead", "of my own", "stays")
	e.must("XREADGROUP", "GROUP", "g", "dead", "COUNT", "1", "STREAMS", e.stream, ">")
	e.must("XREADGROUP", "GROUP", "g", "w", "COUNT", "1", "STREAMS", e.stream, ">")
	e.must("XDEL", e.stream, ids[0], ids[1])
	lost, got := make(chan string, 10), make(chan string, 10)
	e.join("w", Group{
		Handle: func(_ context.Context, en *Entry) (Result, error) { got <- en.ID; return Ack, nil },
		Lost: func(_ context.Context, stream string, ids []string) {
			for _, id := range ids {
				lost <- stream + " " + id
			}
		},
	})
	told := []string{testenv.Take(t, "lost", lost), testenv.Take(t, "lost", lost)}
	slices.Sort(told)
	if want := []string{e.stream + " " + ids[0], e.stream + " " + ids[1]}; !slices.Equal(told, want) {
		t.Errorf("told of %q, want %q", told, want)
	}
	if id := testenv.Take(t, "the other", got); id != ids[2] {
		t.Errorf("got %s", id)
	}
	e.empty()
	e.eventually("no dead consumer", func() bool { return slices.Equal(e.consumerNames(), []string{"w"}) })
	if n := len(lost); n != 0 {
		t.Errorf("told %d times more", n)
	}
}

// lateReads is a client whose waiting reads leave late.
type lateReads struct {
	rueidis.Client
	before func()
}

func (c lateReads) Dedicate() (rueidis.DedicatedClient, func()) {
	conn, release := c.Client.Dedicate()
	return lateConn{conn, c.before}, release
}

type lateConn struct {
	rueidis.DedicatedClient
	before func()
}

func (c lateConn) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if cmd.Commands()[0] == "XREADGROUP" {
		c.before()
	}
	return c.DedicatedClient.Do(ctx, cmd)
}

// A stop ends also a read that was on its way at that moment, and so waits in Redis after it was told to end.
func TestStopWhileTheReadIsOnItsWay(t *testing.T) {
	long.Test(t, "compares times of the machine")
	e := newEnv(t, testenv.Redis(t))
	testenv.OnceWithin(t, longestBlock/2, func(int) time.Duration {
		ctx, stop := context.WithCancel(t.Context())
		var stopped time.Time
		w := NewWorker(lateReads{e.srv.Client, sync.OnceFunc(func() {
			stop()
			stopped = time.Now()
			time.Sleep(50 * time.Millisecond) // for what is to end the read to be there first: nothing tells that it was
		})}, e.keys, "w", survivorTTL, testLog(t))
		life, die := context.WithCancel(t.Context())
		alive := make(chan error, 1)
		go func() { alive <- w.Run(life) }()
		g := Group{Worker: w, Streams: []string{e.stream}, Name: "g", Handle: acks}
		if err := g.Run(ctx); err != nil {
			t.Error(err)
		}
		took := time.Since(stopped)
		die()
		testenv.Take(t, "end of the worker", alive)
		return took
	})
}

// The time to drain begins with the stop, though the reader waits for a Redis that hangs.
func TestDrainWhileRedisHangs(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	begun, hangs, answers, cause := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan error, 1)
	hang := sync.OnceFunc(func() { close(hangs) })
	w := NewWorker(lateReads{e.srv.Client, func() {
		select {
		case <-begun: // what it got, this read is to get no answer
			hang()
			<-answers
		default:
		}
	}}, e.keys, "w", patience, testLog(t))
	g := Group{Worker: w, Streams: []string{e.stream}, Name: "g", Drain: 50 * time.Millisecond, Handle: func(ctx context.Context, _ *Entry) (Result, error) {
		close(begun)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return Ack, ctx.Err()
	}}
	life, die := context.WithCancel(t.Context())
	ctx, stop := context.WithCancel(t.Context())
	end := make(chan error, 2)
	go func() { end <- w.Run(life) }()
	go func() { end <- g.Run(ctx) }()
	e.add("1")
	testenv.Take(t, "a read that hangs", hangs)
	stop()
	if err := testenv.Take(t, "the end of the handler's context while the read hangs", cause); !errors.Is(err, ErrStopped) {
		t.Errorf("the handler's context ended with %v", err)
	}
	close(answers)
	if err := testenv.Take(t, "end of the group", end); err != nil {
		t.Error(err)
	}
	die()
	if err := testenv.Take(t, "end of the worker", end); err != nil {
		t.Error(err)
	}
}

// What is not begun when a worker stops, and what cannot end in time, goes to others at once.
func TestHandedBackAtStop(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	begun, cause := make(chan string, 1), make(chan error, 1)
	first := e.join("first", Group{Drain: 50 * time.Millisecond, Handle: func(ctx context.Context, en *Entry) (Result, error) {
		begun <- en.Fields["v"]
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return Ack, ctx.Err()
	}})
	e.add("1", "2", "3", "4", "5")
	testenv.Take(t, "start", begun)
	first.leave()
	if err := testenv.Take(t, "end", cause); !errors.Is(err, ErrStopped) {
		t.Errorf("the handler's context ended with %v", err)
	}
	if n := e.number("EXISTS", e.keys.Worker("first")); n != 0 {
		t.Error("the heartbeat is still there")
	}
	if n := len(begun); n != 0 {
		t.Errorf("%d more were begun after the stop", n)
	}
	type start struct {
		v string
		n int64
	}
	got := make(chan start, 5)
	e.join("second", Group{Handle: func(_ context.Context, en *Entry) (Result, error) {
		got <- start{en.Fields["v"], en.Deliveries}
		return Ack, nil
	}})
	for _, v := range []string{"1", "2", "3", "4", "5"} {
		if s := testenv.Take(t, v, got); s.v != v || s.n != 2 {
			t.Errorf("got %+v, want %s for the second time", s, v)
		}
	}
	e.empty()
}

// A running handler is let finish at a stop.
func TestRunningHandlerFinishes(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	begun, finish := make(chan struct{}), make(chan struct{})
	m := e.join("w", Group{Handle: func(ctx context.Context, en *Entry) (Result, error) {
		close(begun)
		<-finish
		return Ack, ctx.Err()
	}})
	e.add("v")
	testenv.Take(t, "start", begun)
	m.stopGroup()
	close(finish)
	m.leave()
	if n := e.number("XLEN", e.stream); n != 0 {
		t.Errorf("%d entries left", n)
	}
}

// Two processes under one name: the later takes it over, the earlier drops everything, waits, and does not take it back.
func TestTwoUnderOneName(t *testing.T) {
	long.Test(t, "waits for heartbeats")
	e := newEnv(t, testenv.Redis(t))
	lost := make(chan error, 1)
	begun := make(chan struct{}, 10)
	first := e.join("w", Group{Handle: func(ctx context.Context, _ *Entry) (Result, error) {
		begun <- struct{}{}
		<-ctx.Done()
		lost <- context.Cause(ctx)
		return Ack, ctx.Err()
	}})
	e.add("v")
	testenv.Take(t, "start", begun)
	got := make(chan string, 10)
	second := e.join("w", Group{Handle: tell(got)})
	if err := testenv.Take(t, "loss", lost); !errors.Is(err, ErrLost) {
		t.Errorf("the first's context ended with %v", err)
	}
	testenv.Take(t, "resumed by the second", got)
	e.empty()
	e.add("w")
	if v := testenv.Take(t, "second works on", got); v != "w" {
		t.Errorf("got %s", v)
	}
	if first.worker.Token() != "" {
		t.Error("the first has a token again")
	}
	second.leave()
	e.eventually("the first lives again", func() bool { return first.worker.Token() != "" })
}

// On a cluster all keys of the loop share the slot of the prefix.
func TestOnACluster(t *testing.T) {
	long.Test(t, "runs a cluster")
	e := newEnv(t, testenv.RedisCluster(t))
	got := make(chan string, 10)
	e.must("XGROUP", "CREATE", e.stream, "g", "0", "MKSTREAM")
	e.add("of the dead")
	e.must("XREADGROUP", "GROUP", "g", "dead", "STREAMS", e.stream, ">")
	rdb := e.srv.Connect(t, redis.Options{})
	w := NewWorker(rdb, e.keys, "w", 0, testLog(t))
	g := &Group{Worker: w, Streams: []string{e.stream, e.stream + "-2"}, Name: "g", Log: testLog(t), Handle: func(ctx context.Context, en *Entry) (Result, error) {
		c := commit.New()
		en.Settle(c)
		_, err := c.Run(ctx, rdb)
		got <- en.Fields["v"]
		return Settled, err
	}}
	stop := e.running(w, g)
	if v := testenv.Take(t, "take-over", got); v != "of the dead" {
		t.Errorf("got %s", v)
	}
	e.add("new")
	if v := testenv.Take(t, "new", got); v != "new" {
		t.Errorf("got %s", v)
	}
	e.empty()
	stop()
}

// While Redis is away there is no busy loop.
func TestNoBusyLoopWhileAway(t *testing.T) {
	long.Test(t, "breaks a link")
	e := newEnv(t, testenv.Redis(t))
	begun := make(chan struct{}, 100)
	m := e.join("w", Group{Slots: 4, Handle: func(ctx context.Context, en *Entry) (Result, error) {
		begun <- struct{}{}
		return Ack, nil
	}})
	e.add("v")
	testenv.Take(t, "start", begun)
	e.empty()
	cut, before := time.Now(), m.proxy.Dials()
	m.kill()
	e.eventually("ten more attempts", func() bool { return m.proxy.Dials() >= before+10 })
	// The reader and the heartbeat wait 25 ms at least, and longer each time.
	if took := time.Since(cut); took < 300*time.Millisecond {
		t.Errorf("10 attempts in %v", took)
	}
}

func TestBackoff(t *testing.T) {
	var b backoff
	for i, want := range []time.Duration{50, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000} {
		if d := b.next(); d < want*time.Millisecond/2 || d > want*time.Millisecond {
			t.Errorf("pause %d: %v, want %v at most and half of it at least", i, d, want*time.Millisecond)
		}
	}
	b.reset()
	if d := b.next(); d > firstPause {
		t.Errorf("after success: %v", d)
	}
}
