package workflow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
)

// Change is the start or the end of an execution as watchers are told of it. One that continues as new ends, and the next one starts.
type Change struct {
	Kind ChangeKind `json:"change"`
	Info            // right after it
}

// ChangeKind says what happened.
type ChangeKind string

const (
	Started ChangeKind = "started"
	EndedAs ChangeKind = "ended" // Info.State and Info.Outcome say how
)

const (
	watchedFor   = 10 * time.Second // scripts publish for that long after the last sign of a watcher
	watchRenewal = watchedFor / 4
	watchBuffer  = 4096 // changes that wait for a slow watcher
)

// Watch calls f, from one goroutine, with every start and every end of an execution until ctx ends, and returns nil then. ready, which may be nil, is called once, before it, when
// everything from then on is told. It is for people who look on, not for work that depends on it: what happens while a connection is lost, or while f is slower than the workers, is
// not told. Nothing is published unless somebody watches.
func (c *Client) Watch(ctx context.Context, ready func(), f func(Change)) error {
	if f == nil {
		return errors.New("workflow: Watch: the function is missing")
	}
	changes, all := make(chan string, watchBuffer), make(chan struct{}, len(c.shards))
	var missed atomic.Int64
	ctx, cancel := context.WithCancelCause(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel(nil)
	db := redis.Database(ctx, c.rdb)
	for _, s := range c.shards {
		subscribed := make(chan struct{}, 1)
		helpers.Go(func() {
			redis.Subscribe(ctx, c.rdb, s.keys.WatchChannel(db), func() { poke(subscribed) }, func(text string) {
				select {
				case changes <- text:
				default:
					missed.Add(1)
				}
			}, c.log)
		})
		helpers.Go(func() { cancel(s.keepWatched(ctx, subscribed, db, func() { all <- struct{}{} })) })
	}
	for left := len(c.shards); ; {
		select {
		case <-ctx.Done():
			if err := context.Cause(ctx); redis.Denied(err) {
				return err
			}
			return nil
		case <-all:
			if left--; left == 0 && ready != nil {
				ready()
			}
		case text := <-changes:
			if change, err := decodeChange(text); err != nil {
				c.log.Warn("workflow: what was published cannot be read", "error", err)
			} else {
				f(change)
			}
		}
		if n := missed.Swap(0); n > 0 {
			c.log.Warn("workflow: a watcher is too slow and was not told of everything", "missed", n)
		}
	}
}

// decodeChange reads what tell in instance.lua publishes: kind and document, a line each.
func decodeChange(text string) (Change, error) {
	kind, doc, ok := strings.Cut(text, "\n")
	if !ok {
		return Change{}, fmt.Errorf("workflow: %q has no document", clip(text))
	}
	info, err := decodeInfo(doc)
	return Change{ChangeKind(kind), info}, err
}

// keepWatched tells the scripts of a shard that somebody watches, again and again until ctx ends. first is called once, when that is so and the subscription is there. The error
// is a missing right, or a server that takes no writes: nothing would be told.
func (s *shard) keepWatched(ctx context.Context, subscribed <-chan struct{}, db string, first func()) error {
	tick := time.NewTicker(watchRenewal)
	defer tick.Stop()
	there, told := false, false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-subscribed:
			there = true
		case <-tick.C:
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := s.c.rdb.Do(call, s.c.rdb.B().Set().Key(s.keys.Watched()).Value(db).Px(watchedFor).Build()).Error()
		cancel()
		switch {
		case redis.Denied(err):
			return fmt.Errorf("workflow: Watch: scripts publish only while the key %[1]s is there; add to the rights of this user (+set ~%[1]s): %[2]w", s.keys.Watched(), err)
		case !told && refused(err): // a replica, or a full memory
			return fmt.Errorf("workflow: Watch: scripts publish only while the key %s is there, and Redis does not take it; watch on the master, and when it has room: %w", s.keys.Watched(), err)
		case err != nil && ctx.Err() == nil:
			s.c.log.Debug("workflow: nobody knows yet that somebody watches", "shard", s.n, "error", err)
		case err == nil && there && !told:
			told = true
			first()
		}
	}
}

// refused says whether the server answered with an error.
func refused(err error) bool {
	_, is := rueidis.IsRedisErr(err)
	return is
}

func poke(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
