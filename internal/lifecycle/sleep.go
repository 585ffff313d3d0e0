package lifecycle

import (
	"context"
	"time"
)

// Sleep waits for d, which may be 0 or less; false if ctx has ended by then.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// Pause waits until d is over or ctx ends, or wake has an element, which it takes: then it returns true.
func Pause(ctx context.Context, d time.Duration, wake <-chan struct{}) (woken bool) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	case <-wake:
		return true
	}
	return false
}

// Poke puts an element into ch unless there is no room: the receiver of a channel with room for one looks once more, however often it was poked.
func Poke(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
