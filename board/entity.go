package board

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/internal/lifecycle"
)

// RegisterEntity makes e known to all users of the board until release is called or this process is gone: on ZooKeeper in the way of TaskFlow, and again after a lost session; on Redis, where TaskFlow registers nothing, for Takt
// alone. ErrUnsupported for kinds that the board does not take.
func (b *Board) RegisterEntity(ctx context.Context, e Entity) (release func(context.Context) error, err error) {
	for field, value := range map[string]string{"Kind": e.Kind, "Name": e.Name} {
		if err := text("Entity."+field, value, MaxName); err != nil {
			return nil, err
		}
		if strings.ContainsRune(value, '/') || value == "." || value == ".." {
			return nil, driver.Invalid("Entity."+field, fmt.Sprintf("%q", value), "must hold no slash, and not be . or ..: it becomes a part of a path")
		}
	}
	if e.Metadata, err = driver.Details(e.Metadata, MaxName*64); err != nil {
		return nil, err
	}
	if err := b.store.Register(ctx, e, true); err != nil {
		return nil, fmt.Errorf("board: register %s %s: %w", e.Kind, e.Name, err)
	}
	again, stop := context.WithCancel(b.hub.ctx)
	var loop sync.WaitGroup
	loop.Go(func() {
		for lifecycle.Sleep(again, driver.RegisterEvery) {
			if err := b.store.Register(again, e, false); err != nil && again.Err() == nil {
				b.log.Warn("board: entity not registered again", "kind", e.Kind, "name", e.Name, "err", err)
			}
		}
	})
	return func(ctx context.Context) error {
		stop()
		loop.Wait()
		return b.store.Unregister(ctx, e)
	}, nil
}

// Entities lists who is registered, by kind and name; kind "" is all. Those of TaskFlow on Redis are not known.
func (b *Board) Entities(ctx context.Context, kind string) ([]Entity, error) {
	all, err := b.store.Entities(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("board: entities: %w", err)
	}
	slices.SortFunc(all, func(x, y Entity) int {
		return strings.Compare(x.Kind+"/"+x.Name, y.Kind+"/"+y.Name)
	})
	return all, nil
}
