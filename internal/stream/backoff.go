package stream

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// backoff gives growing pauses with jitter, 50 ms to 5 s. The zero value is ready; it is for one goroutine.
type backoff struct{ n int }

func (b *backoff) next() time.Duration {
	d := min(firstPause<<b.n, lastPause)
	if d < lastPause {
		b.n++
	}
	return d/2 + rand.N(d/2+1)
}

func (b *backoff) reset() { b.n = 0 }

// pause waits for d; false if a context ended first.
func pause(d time.Duration, ctxs ...context.Context) bool {
	var second <-chan struct{}
	if len(ctxs) > 1 {
		second = ctxs[1].Done()
	}
	select {
	case <-time.After(d):
		return true
	case <-ctxs[0].Done():
	case <-second:
	}
	return false
}
