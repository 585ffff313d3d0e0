package zkboard

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/taktworks/takt/board/driver"
)

// Register implements driver.Store, in the way of TaskFlow: a node that ends with the session. TaskFlow never makes it again; here that is done in the next session, and when somebody else who was there under the same name has gone.
func (s *Store) Register(ctx context.Context, e driver.Entity) (release func(context.Context) error, err error) {
	if e.Kind != driver.ConductorKind {
		return nil, fmt.Errorf("%w: entity of kind %.64q, want %q", driver.ErrUnsupported, e.Kind, driver.ConductorKind)
	}
	data, err := encodeEntity(e)
	if err != nil {
		return nil, err
	}
	k := &keeper{s: s, path: s.entities + "/" + e.Kind + "/" + e.Name, data: data, stop: make(chan struct{}), ended: make(chan struct{})}
	if err := s.change(ctx, k.create); err != nil {
		return nil, err
	}
	if !s.spawn(k.run) {
		return nil, driver.ErrClosed
	}
	stop := sync.OnceFunc(func() { close(k.stop) })
	return func(ctx context.Context) error {
		stop()
		select {
		case <-k.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return s.change(ctx, k.remove)
	}, nil
}

// keeper sees to it that an entity is there.
type keeper struct {
	s     *Store
	path  string
	data  []byte
	stop  chan struct{}
	ended chan struct{}
}

// create makes the node, unless somebody has.
func (k *keeper) create(c *zk.Conn) error {
	if err := makeFolder(c, path.Dir(k.path)); err != nil {
		return err
	}
	_, err := c.Create(k.path, k.data, zk.FlagEphemeral, world)
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// remove deletes the node if it is that of our session.
func (k *keeper) remove(c *zk.Conn) error {
	there, stat, err := c.Exists(k.path)
	if err != nil || !there || stat.EphemeralOwner != c.SessionID() {
		return err
	}
	if err := c.Delete(k.path, stat.Version); !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return nil
}

const registerAgain = time.Second // after an error

// run makes the node again whenever it is gone.
func (k *keeper) run() {
	defer close(k.ended)
	ctx := k.s.ctx
	for {
		gone, err := ask(ctx, k.s, func(c *zk.Conn) (<-chan zk.Event, error) {
			for {
				there, _, changed, err := c.ExistsW(k.path)
				if err != nil || there {
					return changed, err
				}
				if err := k.create(c); err != nil {
					return nil, err
				}
			}
		})
		_, turned, _ := k.s.link()
		if err == nil {
			turned = nil // the client tells of the end of the session
		} else if !errors.Is(err, driver.ErrAway) && ctx.Err() == nil {
			k.s.log.Warn("board: entity not registered, trying again", "node", k.path, "err", err)
		}
		again := time.NewTimer(registerAgain)
		if err == nil {
			again.Stop()
		}
		select {
		case <-k.stop:
			return
		case <-ctx.Done():
			return
		case <-gone:
		case <-turned:
		case <-again.C:
		}
		again.Stop()
	}
}

// Entities implements driver.Store.
func (s *Store) Entities(ctx context.Context, kind string) ([]driver.Entity, error) {
	kinds := []string{kind}
	var err error
	if kind == "" {
		kinds, err = s.names(ctx, s.entities)
	}
	if strings.ContainsAny(kind, "/\x00") || kind == "." || kind == ".." {
		return nil, nil
	}
	var mu sync.Mutex
	var all []driver.Entity
	for _, kind := range kinds {
		folder := s.entities + "/" + kind
		names, e := s.names(ctx, folder)
		if err = errors.Join(err, e); err != nil {
			return nil, err
		}
		err = each(len(names), func(i int) error {
			n, err := s.node(ctx, folder+"/"+names[i])
			if errors.Is(err, zk.ErrNoNode) {
				return nil
			}
			e, bad := decodeEntity(n.data)
			if err != nil || bad != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, e)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, err
}

// names lists the children of a folder, none if there is no folder.
func (s *Store) names(ctx context.Context, folder string) ([]string, error) {
	names, err := ask(ctx, s, func(c *zk.Conn) ([]string, error) {
		names, _, err := c.Children(folder)
		return names, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return names, err
}
