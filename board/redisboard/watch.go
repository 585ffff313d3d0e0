package redisboard

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis"
)

const (
	// TaskFlow tells nobody what it does, so while somebody waits a fingerprint of the board is compared: this often, and seldomer the more there is to compare.
	lookEvery   = 250 * time.Millisecond
	lookPerItem = 100 * time.Microsecond
)

// Watch implements driver.Store: what Takt does is told over a channel, what TaskFlow does is found within 250 ms, or within a second on a board of 10,000.
func (s *Store) Watch(ctx context.Context, changed func(free bool)) error {
	hints := make(chan struct{}, 1)
	var free atomic.Bool
	hint := func(mayBeFree bool) {
		if mayBeFree {
			free.Store(true)
		}
		lifecycle.Poke(hints)
	}
	ctx, cancel := context.WithCancel(ctx)
	var both sync.WaitGroup
	both.Go(func() { s.listen(ctx, hint) })
	both.Go(func() { s.look(ctx, hint) })
	defer both.Wait()
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-hints:
			changed(free.Swap(false))
		}
	}
}

// listen hears what other boards of Takt do. What they did before it was subscribed, or while it was cut off, it has missed.
func (s *Store) listen(ctx context.Context, hint func(free bool)) {
	redis.Subscribe(ctx, s.rdb, s.keys.Events(), func() { hint(true) }, func(what string) {
		hint(what != string(driver.Consume) && what != string(driver.Trash))
	}, s.log)
}

// look compares fingerprints. The first one counts as a change: something may have changed before it was taken.
func (s *Store) look(ctx context.Context, hint func(free bool)) {
	var last *prints
	for wait := s.lookEvery; lifecycle.Sleep(ctx, wait); {
		now, err := s.print(ctx)
		if err != nil {
			continue
		}
		if last == nil || now.all != last.all {
			hint(last == nil || now.free != last.free)
		}
		last = &now
		wait = max(s.lookEvery, time.Duration(now.records)*lookPerItem)
	}
}

// prints are fingerprints of a board.
type prints struct {
	all, free string // of everything, and of what nobody owns
	records   int64
}

func (s *Store) print(ctx context.Context) (p prints, err error) {
	reply, err := s.parts("print", 3, printScript.Run(ctx, s.rdb, []string{s.keys.Listings(), s.keys.Sequence()}, s.keys.Namespace()+":"))
	if err != nil {
		return p, err
	}
	all, errAll := reply[0].ToString()
	free, errFree := reply[1].ToString()
	records, errRecords := reply[2].AsInt64()
	return prints{all, free, records}, errors.Join(errAll, errFree, errRecords)
}
