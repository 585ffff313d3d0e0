package stream

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

// The heartbeat is deleted again and again while entries are handled: none is forgotten.
func TestHeartbeatLostAgainAndAgain(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *testenv.RedisServer{"redis": testenv.Redis, "miniredis": testenv.Miniredis} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, start(t))
			const n = 300
			var mu sync.Mutex
			left := map[string]bool{}
			all := make(chan struct{})
			for i := range n {
				left[strconv.Itoa(i)] = true
			}
			var m *member
			ready := make(chan struct{})
			m = e.join("w", Group{Slots: 3, MaxDeliveries: -1, Handle: func(ctx context.Context, en *Entry) (Result, error) {
				<-ready
				result := Ack
				if len(en.Fields["v"])%2 == 0 {
					c := commit.New()
					en.Settle(c)
					if _, err := c.Run(context.WithoutCancel(ctx), m.rdb); err != nil {
						return Ack, err
					}
					result = Settled
				}
				mu.Lock()
				defer mu.Unlock()
				if left[en.Fields["v"]] {
					if delete(left, en.Fields["v"]); len(left) == 0 {
						close(all)
					}
				}
				return result, nil
			}})
			close(ready)
			tick := time.Tick(5 * time.Millisecond)
			for i := range n {
				e.add(strconv.Itoa(i))
				if i%10 == 0 {
					<-tick
					e.must("DEL", e.keys.Worker("w"))
				}
			}
			select {
			case <-all:
			case <-time.After(patience):
				mu.Lock()
				t.Fatalf("never handled: %v; %s", left, fmt.Sprint(e.must("XPENDING", e.stream, "g", "-", "+", "10").ToAny()))
			}
			e.empty()
		})
	}
}

// renewed waits until the heartbeat of w is renewed once more.
func (e *env) renewed(what string) {
	e.t.Helper()
	heart := e.keys.Worker("w")
	e.must("PEXPIRE", heart, "1000000")
	e.eventually(what, func() bool {
		ttl, err := e.do("PTTL", heart).AsInt64()
		return err == nil && ttl > 0 && ttl <= survivorTTL.Milliseconds()
	})
}

// The heartbeat does not wait behind what else this process sends and is sent, such as large documents on a slow link: here behind a command that Redis does not answer.
func TestHeartbeatOvertakes(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	m := e.join("w", Group{Handle: acks})
	waiting := e.srv.Prefix(t) + ":waiting"
	e.eventually("it is alive", func() bool { return e.number("EXISTS", e.keys.Worker("w")) == 1 })
	answered := make(chan error, 1)
	go func() { // on the connection that all share, for the library does not know that it blocks
		answered <- m.rdb.Do(context.Background(), m.rdb.B().Arbitrary("BLPOP", waiting, "0").Build()).Error()
	}()
	e.eventually("the command blocks", func() bool {
		clients, err := e.do("CLIENT", "LIST").ToString()
		return err == nil && strings.Contains(clients, "cmd=blpop")
	})
	e.renewed("the heartbeat is renewed")
	e.must("LPUSH", waiting, "x")
	if err := <-answered; err != nil {
		t.Error(err)
	}
	m.leave()
}

// On a link on which an answer takes longer than a third of the heartbeat's life, the heartbeat lives on: the answer to a try that was given up as slow counts, and is
// not asked for on a connection that must be made first, which is slower still.
func TestHeartbeatOnASlowLink(t *testing.T) {
	long.Test(t, "waits on a slow link")
	t.Parallel()
	e := newEnv(t, testenv.Redis(t))
	m := e.join("w", Group{Handle: acks})
	e.eventually("it is alive", func() bool { return m.worker.Token() != "" })
	token := m.worker.Token()
	e.renewed("a connection for heartbeats is there")
	m.proxy.Delay(survivorTTL/6 + 100*time.Millisecond) // each way
	for range 3 {
		e.renewed("the heartbeat is renewed on the slow link")
	}
	if now := m.worker.Token(); now != token {
		t.Errorf("the heartbeat was lost: its token is %q, and was %q", now, token)
	}
	m.proxy.Delay(0)
	m.leave()
}

// A heartbeat that is evicted each time it is written is lost again and again: that is one line of the log, and no hot loop.
func TestEvictedHeartbeat(t *testing.T) {
	long.Test(t, "waits between heartbeats")
	e := newEnv(t, testenv.Redis(t))
	rdb := e.srv.Client
	var warned testenv.Log
	w := NewWorker(rdb, e.keys, "w", time.Minute, slog.New(slog.NewTextHandler(&warned, nil)))
	stop := testenv.Run(t, w.Run)
	tokens := make(map[string]bool)
	began := time.Now()
	e.eventually("it is lost eight times", func() bool {
		if token := w.Token(); token != "" && !tokens[token] {
			tokens[token] = true
			e.must("DEL", e.keys.Worker("w"))
			w.doubt() // as a script does that finds the token gone
		}
		return len(tokens) >= 8
	})
	if took := time.Since(began); took < time.Second { // 50 ms, doubled, shortened by half at most
		t.Errorf("eight heartbeats within %v", took)
	}
	stop()
	if n := warned.Count("the heartbeat was lost"); n != 1 {
		t.Errorf("%d lines, want 1 of a row of losses", n)
	}
}

// hung is a worker whose Redis hangs: its heartbeat has expired, and three tries to get another one had no answer.
type hung struct {
	*env
	worker *Worker
	log    testenv.Log
	sets   int    // how often SET ran before
	leave  func() // stops the worker and closes its connections
}

func newHung(t *testing.T) *hung {
	long.Test(t, "waits for a heartbeat to expire")
	h := &hung{env: newEnv(t, testenv.Redis(t))}
	rdb := h.srv.Connect(t, redis.Options{})
	h.worker = NewWorker(rdb, h.keys, "w", time.Second, slog.New(slog.NewTextHandler(&h.log, nil)))
	stop := testenv.Run(t, h.worker.Run)
	h.leave = func() {
		stop()
		rdb.Close()
	}
	h.eventually("a heartbeat", func() bool { return h.worker.Token() != "" })
	h.sets = h.calls("set")
	h.srv.Pause(t)
	testenv.Eventually(t, "tries without an answer", func() bool { return h.log.Count("no heartbeat yet") >= 3 })
	return h
}

// A worker whose Redis hung for longer than its heartbeat lives goes on as soon as Redis answers. It does not take its own tries, which
// Redis executes then, for another process.
func TestHungForLongerThanTheHeartbeat(t *testing.T) {
	h := newHung(t)
	h.srv.Continue(t)
	h.eventually("a heartbeat again", func() bool { return h.worker.Token() != "" })
	h.leave()
	if n := h.log.Count("level=ERROR"); n != 0 {
		t.Errorf("%d errors are logged:\n%s", n, &h.log)
	}
}

// What a worker tried while Redis hung does not bring it back to life after it has stopped.
func TestStoppedWhileRedisHangs(t *testing.T) {
	h := newHung(t)
	h.leave()
	h.srv.Continue(t)
	h.eventually("all that it sent is executed", func() bool {
		list, err := h.must("CLIENT", "LIST").ToString()
		testenv.Must(t, err)
		return strings.Count(list, "\n") <= 1
	})
	if n := h.calls("set") - h.sets; n != 0 {
		t.Errorf("a heartbeat was set %d times after the stop", n)
	}
}

// A try that is executed when the worker no longer waits for it changes nothing, not even the first of a process. A try that is
// repeated succeeds again.
func TestTriesOfOneAcquisition(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	heart := e.keys.Worker("w")
	try := func(token, force string, late int64) (answer string, now int64) {
		t.Helper()
		answer, now, err := acquired(acquireScript.Run(t.Context(), e.srv.Client, []string{heart}, token, "60000", force, takeoverMark, "", fmt.Sprint(late)))
		testenv.Must(t, err)
		return answer, now
	}
	answer, now := try("mine", "1", 0)
	if answer != "late" || now == 0 {
		t.Fatalf("asked for the time: %s %d", answer, now)
	}
	if n := e.number("EXISTS", heart); n != 0 {
		t.Error("a try that is late began a heartbeat")
	}
	const hour = 3_600_000
	for _, force := range []string{"1", "0"} { // the second is one whose answer was lost
		if answer, _ := try("mine", force, now+hour); answer != "ok" {
			t.Errorf("force %s: %s", force, answer)
		}
	}
	if answer, _ := try("of before", "1", now); answer != "late" {
		t.Errorf("a late try: %s", answer)
	}
	if token, err := e.must("GET", heart).ToString(); err != nil || token != "mine" {
		t.Errorf("the heartbeat is %q (%v)", token, err)
	}
}
