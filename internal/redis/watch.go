package redis

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/lifecycle"
)

const (
	watchedFor   = 10 * time.Second // how long after the last sign of a watcher something is published
	watchRenewal = watchedFor / 4
	watchCall    = 5 * time.Second
)

// Watched is a channel on which something is published only while a key is there, the sign of a watcher. The value of the key is the number of the watcher's database.
type Watched struct {
	Channel, Key string
	Told         func(context.Context) // called after each subscription, when the key is there; nil = not needed
}

// Watcher watches channels.
type Watcher struct {
	Package, Publishers string // for errors and the log
	Database            string
	Buffer              int    // messages that wait for a slow watcher; those beyond are lost, which the log says
	Ready               func() // called once, before the first message, when everything is published; nil = not needed
	Log                 *slog.Logger
}

// Run calls f, from one goroutine, with what is published on the channels until ctx ends, and returns nil then. An error is a missing right, or a server that takes no writes: nothing would be
// published.
func (w Watcher) Run(ctx context.Context, rdb rueidis.Client, channels []Watched, f func(string)) error {
	messages, all := make(chan string, w.Buffer), make(chan struct{}, len(channels))
	var missed atomic.Int64
	run, cancel := context.WithCancelCause(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel(nil)
	for _, c := range channels {
		subscribed := make(chan struct{}, 1)
		helpers.Go(func() {
			Subscribe(run, rdb, c.Channel, func() { lifecycle.Poke(subscribed) }, func(text string) {
				select {
				case messages <- text:
				default:
					missed.Add(1)
				}
			}, w.Log)
		})
		helpers.Go(func() { cancel(w.keep(run, rdb, c, subscribed, func() { all <- struct{}{} })) })
	}
	for left := len(channels); ; {
		select {
		case <-run.Done():
			if ctx.Err() != nil {
				return nil
			}
			return context.Cause(run)
		case <-all:
			if left--; left == 0 && w.Ready != nil {
				w.Ready()
			}
		case text := <-messages:
			f(text)
		}
		if n := missed.Swap(0); n > 0 {
			w.Log.Warn(w.Package+": a watcher is too slow and was not told of everything", "missed", n)
		}
	}
}

// keep renews a key until ctx ends. first is called once, when the key and the subscription are there.
func (w Watcher) keep(ctx context.Context, rdb rueidis.Client, c Watched, subscribed <-chan struct{}, first func()) error {
	tick := time.Tick(watchRenewal)
	told, heard := false, false
	for {
		fresh := false
		select {
		case <-ctx.Done():
			return nil
		case <-subscribed:
			fresh = true
		case <-tick:
		}
		call, cancel := context.WithTimeout(ctx, watchCall)
		err := rdb.Do(call, rdb.B().Set().Key(c.Key).Value(w.Database).Px(watchedFor).Build()).Error()
		cancel()
		_, refused := rueidis.IsRedisErr(err)
		switch {
		case Denied(err):
			return fmt.Errorf("%[1]s: Watch: %[2]s publish only while the key %[3]s is there; add to the rights of this user (+set ~%[3]s): %[4]w", w.Package, w.Publishers, c.Key, err)
		case refused && !told: // a replica, or a full memory
			return fmt.Errorf("%s: Watch: %s publish only while the key %s is there, and Redis does not take it; watch on the master, and when it has room: %w", w.Package, w.Publishers, c.Key, err)
		case err != nil && ctx.Err() == nil:
			w.Log.Debug(w.Package+": the sign of a watcher is not there yet", "key", c.Key, "error", err)
		}
		if err != nil {
			continue
		}
		told = true
		if fresh && c.Told != nil {
			c.Told(ctx)
		}
		if fresh && !heard {
			heard = true
			first()
		}
	}
}
