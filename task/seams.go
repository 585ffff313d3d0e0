package task

import (
	"context"
)

type PeriodicOption struct{}

func (w *Worker) register(ctx context.Context) { <-ctx.Done() }
