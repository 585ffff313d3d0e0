package board

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/internal/lifecycle"
)

const (
	firstPause = 10 * time.Millisecond
	maxPause   = time.Second
)

// backoff is the pause before the next try; 0 = the first.
type backoff time.Duration

// sleep waits, longer each time; false if ctx ended.
func (b *backoff) sleep(ctx context.Context) bool {
	pause := max(time.Duration(*b), firstPause)
	*b = backoff(min(2*pause, maxPause))
	return lifecycle.Sleep(ctx, pause/2+rand.N(pause/2))
}

// repeat calls do until the server could be asked or ctx ends; then it returns the last error.
func repeat(ctx context.Context, do func() error) error {
	var pause backoff
	for {
		err := do()
		if !errors.Is(err, driver.ErrAway) || ctx.Err() != nil || !pause.sleep(ctx) {
			return err
		}
	}
}
