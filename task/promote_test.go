package task_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/task"
)

// Delayed tasks with any content reach their own queues when due; what is no message is a dead letter; ten thousand due at once all run.
func TestPromotion(t *testing.T) {
	e := newEnv(t)
	type anything struct {
		At time.Time
		B  []byte
	}
	typ := task.Define[anything, task.None]("test:Delayed", task.Small)
	const n = 10_000
	var runs atomic.Int64
	all := make(chan struct{})
	e.must("ZADD", e.key("tasks:delayed"), "1", "\xc1corrupt")
	e.must("ZADD", e.key("tasks:delayed"), "1", string(fromHex(t, "85a77461736b5f6964a178a97461736b5f6e616d65a178a66c6162656c7381a87072696f72697479a6757267656e74a97461736b5f6172677390ab7461736b5f6b776172677380")))
	for range n / 500 {
		page := make([]anything, 500)
		for i := range page {
			page[i] = anything{time.Now(), []byte{0, byte(i), byte(i >> 8)}}
		}
		sendMany(e, typ, page, task.In(500*time.Millisecond))
	}
	handler := typ.Handle(func(_ context.Context, j *task.Job[anything]) (task.None, error) {
		if runs.Add(1) == n {
			close(all)
		}
		return task.None{}, nil
	})
	for i := range 2 {
		e.start(task.WorkerOptions{ID: fmt.Sprint("w", i)}, handler)
	}
	wait(t, "all run", all)
	e.idle()
	if runs.Load() != n {
		t.Errorf("%d runs of %d", runs.Load(), n)
	}
	e.counts(2, "HLEN", e.key("tasks:dead"))
}

// Ten thousand tasks due at once are moved in 20 scripts of 500, which is what keeps that short and holds up nobody else for long: one read and one script for each page, and nothing more.
func TestPromotionCost(t *testing.T) {
	const n, page = 10_000, 500
	e := newEnv(t)
	typ := task.Define[int, task.None]("test:Due", task.Small)
	sendMany(e, typ, make([]int, n), task.In(time.Millisecond))
	c, g := e.doomed()
	w, err := c.Worker(task.WorkerOptions{Concurrency: map[task.Size]int{task.Large: 1}}) // whose own tasks cost nothing: there are none
	e.ok(err)
	g.Arm(0, false, nil)
	stop := e.run(w)
	e.eventually("all are moved", func() bool { return e.number("XLEN", e.key("tasks:normal:small")) == n })
	stop()
	delayed := e.key("tasks:delayed")
	reads, scripts, moved, before := 0, 0, 0, 0 // before: reads before the last script; those after it are polls
	for _, words := range g.Commands() {
		switch {
		case words[0] == "ZRANGE" && words[1] == delayed && slices.Contains(words, "BYSCORE"):
			reads++
		case len(words) > 3 && words[3] == delayed: // EVALSHA, and EVAL of the first
			keys, err := strconv.Atoi(words[2])
			e.ok(err)
			items := (len(words) - 3 - keys) / 4
			if items > page {
				t.Errorf("one script moves %d tasks, want at most %d", items, page)
			}
			if words[0] == "EVALSHA" {
				scripts++
				moved += items
				before = reads
			}
		}
	}
	if moved != n || scripts != n/page || before > n/page {
		t.Errorf("%d tasks took %d reads and %d scripts, want %d, at most %d, and %d", moved, before, scripts, n, n/page, n/page)
	}
}

// A delayed task is not early, by the server's clock, and late by no poll.
func TestDelayedToTheMillisecond(t *testing.T) {
	long.Test(t, "compares times of the machine")
	e := newEnv(t)
	typ := task.Define[int, int64]("test:When", task.Small)
	e.start(task.WorkerOptions{}, typ.Handle(func(ctx context.Context, j *task.Job[int]) (int64, error) {
		now, err := j.Client().Now(ctx)
		return now.UnixMicro(), err
	}))
	send(e, typ, 0, task.In(time.Hour)) // not this one's business
	for _, d := range []time.Duration{0, 30 * time.Millisecond, 100 * time.Millisecond} {
		testenv.OnceWithin(t, 900*time.Millisecond, func(int) time.Duration { // a poll would be late by up to three seconds
			h := send(e, typ, 1, task.In(d))
			at, err := h.Await(e.ctx())
			e.ok(err)
			late := time.UnixMicro(at).Sub(h.Due)
			if late < -time.Millisecond {
				t.Errorf("in %v: %v early", d, -late)
			}
			return late
		})
	}
}

func fromHex(t *testing.T, s string) []byte {
	t.Helper()
	b := make([]byte, 0, len(s)/2)
	for i := 0; i < len(s); i += 2 {
		n, err := strconv.ParseUint(s[i:i+2], 16, 8)
		testenv.Must(t, err)
		b = append(b, byte(n))
	}
	return b
}
