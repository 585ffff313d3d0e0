package lock

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis"
)

// wakes listens to the channel lock:wake while somebody here waits, and tells each waiter of its turn. A message has a line per waiter:
// "!name" its turn has come, "?name" it may have come in a second, unless one before takes the lock.
type wakes struct {
	rdb     rueidis.Client
	channel string
	log     *slog.Logger

	mu      sync.Mutex
	waiting map[string]*turn
	ear     *ear // nil when nobody waits
}

// ear is one subscription; those before it may still be on their way out.
type ear struct {
	stop  context.CancelFunc
	ready bool
}

// turn is one waiter.
type turn struct{ now, soon chan struct{} }

func newWakes(rdb rueidis.Client, channel string, log *slog.Logger) *wakes {
	return &wakes{rdb: rdb, channel: channel, log: log, waiting: make(map[string]*turn)}
}

// join lets waiter hear of its turn. It is told at once when the channel is heard: what was said before may have been missed.
func (w *wakes) join(waiter string) *turn {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := &turn{now: make(chan struct{}, 1), soon: make(chan struct{}, 1)}
	w.waiting[waiter] = t
	if w.ear == nil {
		ctx, stop := context.WithCancel(context.Background())
		w.ear = &ear{stop: stop}
		e := w.ear
		go redis.Subscribe(ctx, w.rdb, w.channel, func() { w.subscribed(e) }, w.heard, w.log)
	} else if w.ear.ready {
		lifecycle.Poke(t.now)
	}
	return t
}

func (w *wakes) leave(waiter string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting, waiter)
	if len(w.waiting) == 0 {
		w.ear.stop()
		w.ear = nil
	}
}

func (w *wakes) subscribed(e *ear) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.ready = true
	if w.ear != e {
		return
	}
	for _, t := range w.waiting {
		lifecycle.Poke(t.now)
	}
}

func (w *wakes) heard(message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range strings.SplitSeq(message, "\n") {
		if line == "" {
			continue
		}
		t, ok := w.waiting[line[1:]]
		switch {
		case ok && line[0] == '!':
			lifecycle.Poke(t.now)
		case ok && line[0] == '?':
			lifecycle.Poke(t.soon)
		}
	}
}

// wait returns when it is the waiter's turn, or d has passed; false when ctx ended.
func (t *turn) wait(ctx context.Context, d time.Duration) bool {
	deadline := time.Now().Add(d)
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-t.now:
			return true
		case <-timer.C:
			return true
		case <-t.soon:
			timer.Reset(min(time.Until(deadline), grace+10*time.Millisecond))
		}
	}
}
