package workflow

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis"
)

const (
	firePage  = 500                    // timers of one script
	firePoll  = 3 * time.Second        // at least that often somebody looks; who sets a timer tells
	fireAgain = time.Second            // after an error
	fireStand = 100 * time.Millisecond // how much later those look that found others to be quicker
	fireOdd   = 5 * time.Second        // after that a timer is tried again that met a key of another type
)

// firer gives the events of timers to their instances when they are due. Every worker does it: all learn when the next is due, and those who find
// it gone already stand by a little, so that usually one asks.
type firer struct {
	s    *shard
	wake chan struct{}
	told time.Time // when keys of other types were last written to the log
}

func newFirer(s *shard) *firer {
	return &firer{s: s, wake: make(chan struct{}, 1)}
}

func (f *firer) run(ctx context.Context) error {
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() {
		redis.Subscribe(ctx, f.s.c.rdb, f.s.keys.Timers(), func() { lifecycle.Poke(f.wake) }, func(string) { lifecycle.Poke(f.wake) }, f.s.c.log)
	})
	stand := false
	for ctx.Err() == nil {
		fired, wait, err := f.fire(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			f.s.c.log.Warn("workflow: timers wait, Redis does not answer as it should", "shard", f.s.n, "error", err)
			wait = fireAgain/2 + rand.N(fireAgain/2)
		case fired > 0:
			stand = false
		case stand:
			wait += rand.N(fireStand)
		}
		stand = fired == 0 && wait < firePoll
		if lifecycle.Pause(ctx, min(wait, firePoll), f.wake) {
			stand = false
		}
	}
	return nil
}

// fire fires a page of what is due, and says when there is more.
func (f *firer) fire(ctx context.Context) (fired int64, wait time.Duration, err error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := fireScript.Run(call, f.s.c.rdb, []string{f.s.keys.Timers()}, f.s.base, fmt.Sprint(firePage), milliseconds(fireOdd)).ToArray()
	if err != nil {
		return 0, 0, err
	}
	if len(reply) < 2 {
		return 0, 0, fmt.Errorf("fire.lua replied %d words, want 2 or more", len(reply))
	}
	fired, err = reply[0].AsInt64()
	if err != nil {
		return 0, 0, fmt.Errorf("fire.lua: how many fired: %w", err)
	}
	ms, err := reply[1].AsInt64()
	if err != nil {
		return 0, 0, fmt.Errorf("fire.lua: when the next is due: %w", err)
	}
	f.odd(reply[2:])
	if ms < 0 {
		return fired, firePoll, nil
	}
	return fired, time.Duration(ms) * time.Millisecond, nil
}

// odd says once a minute which keys keep timers from firing.
func (f *firer) odd(keys []rueidis.RedisMessage) {
	if len(keys) == 0 || time.Since(f.told) < time.Minute {
		return
	}
	f.told = time.Now()
	first, _ := keys[0].ToString()
	f.s.c.log.Error("workflow: timers of an instance do not fire, somebody wrote a key of it: takt workflow check says what to do", "key", first, "timers", len(keys))
}
