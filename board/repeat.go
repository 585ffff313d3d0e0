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

// repeat calls do until the server could be asked or ctx ends; then it returns the last error.
func repeat(ctx context.Context, do func() error) error {
	pause := firstPause
	for {
		err := do()
		if !errors.Is(err, driver.ErrAway) || ctx.Err() != nil {
			return err
		}
		if !lifecycle.Sleep(ctx, pause/2+rand.N(pause/2)) {
			return err
		}
		pause = min(2*pause, maxPause)
	}
}
