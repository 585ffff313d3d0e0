package task

import (
	"context"
	"errors"

	"github.com/taktworks/takt/internal/stream"
	"github.com/taktworks/takt/task/internal/wire"
)

type PeriodicOption struct{}

func (c *Client) injectTrace(ctx context.Context, m *wire.Meta) {}

func (o *outcome) concernsOthers() bool { return false }

func (w *Worker) settle(ctx context.Context, b stream.Batch, e *stream.Entry) error {
	return errors.New("task: settle is missing")
}

func (r *run) park() *outcome { return r.again(Parked, 0, nil) }

func (r *run) releaseStart(ctx context.Context) {}

func (r *run) lock(ctx context.Context) *outcome { return nil }
func (r *run) unlock(ctx context.Context)        {}

func (w *Worker) look() {}

func (w *Worker) register(ctx context.Context) { <-ctx.Done() }
