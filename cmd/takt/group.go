package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/taktworks/takt/station"
)

// group is parts that run until it is stopped. The first that fails ends the others.
type group struct {
	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu   sync.Mutex
	errs []error
}

func newGroup(ctx context.Context) *group {
	g := &group{}
	g.ctx, g.cancel = context.WithCancel(ctx)
	return g
}

func (g *group) start(name string, run func(context.Context) error) {
	g.wait.Go(func() {
		err := run(g.ctx)
		if err == nil || g.ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return
		}
		g.mu.Lock()
		g.errs = append(g.errs, fmt.Errorf("%s: %w", name, err))
		g.mu.Unlock()
		g.cancel()
	})
}

// serve starts Takt as a part and waits until it takes commands.
func (g *group) serve(ctx context.Context, cfg *Config, sc *ServeConfig, instance string, embedded bool, log *slog.Logger) error {
	ready := make(chan struct{})
	g.start("serve", func(ctx context.Context) error {
		return serve(ctx, cfg, sc, instance, embedded, func() { close(ready) }, log)
	})
	return g.await(ctx, ready)
}

// station starts a simulated station as a part and waits until it is connected.
func (g *group) station(ctx context.Context, o station.Options) error {
	s, err := station.New(o)
	if err != nil {
		return err
	}
	g.start("station", s.Run)
	return s.Ready(ctx)
}

// await waits for a part to say that it is ready.
func (g *group) await(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case <-g.ctx.Done():
	case <-ctx.Done():
	}
	if err := g.failed(); err != nil {
		return err
	}
	return ctx.Err()
}

func (g *group) failed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return errors.Join(g.errs...)
}

// stop ends all parts and waits for them.
func (g *group) stop() error {
	g.cancel()
	g.wait.Wait()
	return g.failed()
}
