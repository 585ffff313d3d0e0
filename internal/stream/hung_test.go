package stream

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

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
