package workflow

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/taktworks/takt/internal/redis"
)

const (
	firePage  = 500                    // timers of one script
	firePoll  = 3 * time.Second        // at least that often somebody looks; who sets a timer tells
	fireAgain = time.Second            // after an error
	fireStand = 100 * time.Millisecond // how much later those look that found others to be quicker
)

// firer gives the events of timers to their instances when they are due. Every worker does it: all learn when the next is due, and those who find
// it gone already stand by a little, so that usually one asks.
type firer struct {
	s    *shard
	wake chan struct{}
}

func newFirer(s *shard) *firer {
	return &firer{s: s, wake: make(chan struct{}, 1)}
}

func (f *firer) run(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		redis.Subscribe(ctx, f.s.c.rdb, f.s.keys.Timers(), f.poke, func(string) { f.poke() }, f.s.c.log)
	}()
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
		timer := time.NewTimer(min(wait, firePoll))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-f.wake:
			stand = false
		}
		timer.Stop()
	}
	<-done
	return nil
}

func (f *firer) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// fire fires a page of what is due, and says when there is more.
func (f *firer) fire(ctx context.Context) (fired int64, wait time.Duration, err error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := fireScript.Run(call, f.s.c.rdb, []string{f.s.keys.Timers()}, f.s.base, fmt.Sprint(firePage)).AsIntSlice()
	if err != nil {
		return 0, 0, err
	}
	if len(reply) != 2 {
		return 0, 0, fmt.Errorf("fire.lua replied %d", reply)
	}
	if reply[1] < 0 {
		return reply[0], firePoll, nil
	}
	return reply[0], time.Duration(reply[1]) * time.Millisecond, nil
}
