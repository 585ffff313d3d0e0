package task

import (
	"context"

	"github.com/taktworks/takt/task/internal/wire"
)

type PeriodicOption struct{}

func (c *Client) injectTrace(ctx context.Context, m *wire.Meta) {}

func (w *Worker) register(ctx context.Context) { <-ctx.Done() }
