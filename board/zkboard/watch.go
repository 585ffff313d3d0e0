package zkboard

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/internal/lifecycle"
)

// While somebody watches, the names on a board are read for that at most this often, however much happens on it.
const atMostEvery = 50 * time.Millisecond

const rewatch = 500 * time.Millisecond // after an error

type children struct {
	names   []string
	stat    *zk.Stat
	changed <-chan zk.Event // nil = the next change is not told
}

// children reads the names of the nodes on the board, and asks for the next change if that is to be told.
func (s *Store) children(ctx context.Context, tell bool) (children, error) {
	read := func(c *zk.Conn) (all children, err error) {
		if tell {
			all.names, all.stat, all.changed, err = c.ChildrenW(s.path)
		} else {
			all.names, all.stat, err = c.Children(s.path)
		}
		return all, err
	}
	all, err := ask(ctx, s, read)
	if !errors.Is(err, zk.ErrNoNode) {
		return all, err
	}
	if s.looks {
		if tell {
			return children{}, err // there is nothing to watch
		}
		return children{stat: new(zk.Stat)}, nil
	}
	if err := s.ensure(ctx); err != nil { // somebody has deleted the board
		return children{}, err
	}
	return ask(ctx, s, read)
}

// Watch implements driver.Store.
func (s *Store) Watch(ctx context.Context, changed func(free bool)) error {
	for {
		all, err := s.children(ctx, true)
		changed(true) // something may have been missed before
		if errors.Is(err, driver.ErrClosed) {
			return err
		}
		pause := atMostEvery
		if err != nil {
			pause = rewatch
		} else {
			select {
			case <-ctx.Done():
			case <-s.ctx.Done():
			case <-all.changed: // of the connection, too
			}
		}
		if !lifecycle.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}
