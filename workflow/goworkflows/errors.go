package goworkflows

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cschleiden/go-workflows/backend"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/workflow"
)

// translate is the one place where errors of the core become those of the library, which compares them with ==.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, workflow.ErrNotFound):
		return backend.ErrInstanceNotFound
	case errors.Is(err, workflow.ErrExists):
		return backend.ErrInstanceAlreadyExists
	case errors.Is(err, workflow.ErrNotFinished):
		return backend.ErrInstanceNotFinished
	}
	return fmt.Errorf("goworkflows: %w", err)
}

// Calls are repeated so long, which bridges a restart of Redis and most take-overs by a replica.
const (
	patience   = 5 * time.Second
	firstPause = 10 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// ask is repeat for questions.
func ask[T any](ctx context.Context, question func() (T, error)) (answer T, err error) {
	err = repeat(ctx, func() (err error) {
		answer, err = question()
		return err
	})
	return answer, translate(err)
}

// repeat calls do again while Redis is away, and returns its last error. It is for what the core does not repeat itself and what may be done twice.
func repeat(ctx context.Context, do func() error) error {
	pause := firstPause
	for end := time.Now().Add(patience); ; pause = min(2*pause, maxPause) {
		err := do()
		if !redis.Away(err) || time.Now().Add(pause).After(end) || !lifecycle.Sleep(ctx, pause/2+rand.N(pause/2)) {
			return err
		}
	}
}
