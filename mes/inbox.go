package mes

import (
	"context"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
)

// inbox keeps the newest index of a scope that was not looked at yet. An index says everything, so older ones may go; what
// must not is that a seq was missed.
type inbox struct {
	mu      sync.Mutex
	wake    chan struct{} // has one element when there is something new
	payload []byte        // nil = nothing new
	first   int64         // seq of the first index since the last take
	last    int64         // seq of the last index that arrived
	epoch   string        // and its epoch
	count   int64         // indexes of different seq that arrived
	broken  []Gap         // gaps between those since the last take, without scope
}

// arrival is what there is to look at.
type arrival struct {
	payload []byte
	first   int64
	seq     int64
	epoch   string
	number  int64 // counts indexes
	broken  []Gap
}

func newInbox() inbox { return inbox{wake: make(chan struct{}, 1)} }

func (b *inbox) push(seq int64, epoch string, payload []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.payload == nil:
		b.first = seq
	case seq != b.last && seq != b.last+1:
		b.broken = append(b.broken, Gap{Before: b.last, After: seq})
	}
	if b.count == 0 || seq != b.last {
		b.count++
	}
	b.payload, b.last, b.epoch = payload, seq, epoch
	lifecycle.Poke(b.wake)
}

// arrived counts the indexes so far.
func (b *inbox) arrived() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

// next waits for a new index, or for the end of patience when that is more than 0. ok is false when ctx ended; without
// anything new the arrival has no payload.
func (b *inbox) next(ctx context.Context, patience time.Duration) (a arrival, ok bool) {
	var enough <-chan time.Time
	if patience > 0 {
		enough = time.After(patience)
	}
	for {
		select {
		case <-ctx.Done():
			return a, false
		case <-b.wake:
			if a, ok = b.take(); !ok {
				continue // it came with the one before
			}
		case <-enough:
			a, _ = b.take()
		}
		return a, ctx.Err() == nil
	}
}

// take is what is new; false when nothing is.
func (b *inbox) take() (a arrival, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.payload == nil {
		return a, false
	}
	a = arrival{payload: b.payload, first: b.first, seq: b.last, epoch: b.epoch, number: b.count, broken: b.broken}
	b.payload, b.broken = nil, nil
	return a, true
}
