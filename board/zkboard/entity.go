package zkboard

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/taktworks/takt/board/driver"
)

func (s *Store) entity(e driver.Entity) string { return s.entities + "/" + e.Kind + "/" + e.Name }

// Register implements driver.Store, in the way of TaskFlow: a node that ends with the session. TaskFlow never makes it again.
func (s *Store) Register(ctx context.Context, e driver.Entity, _ bool) error {
	if e.Kind != driver.ConductorKind {
		return fmt.Errorf("%w: entity of kind %.64q, want %q", driver.ErrUnsupported, e.Kind, driver.ConductorKind)
	}
	data, err := encodeEntity(e)
	if err != nil {
		return err
	}
	return s.change(ctx, func(c *zk.Conn) error {
		if err := makeFolder(c, path.Dir(s.entity(e))); err != nil {
			return err
		}
		_, err := c.Create(s.entity(e), data, zk.FlagEphemeral, world)
		if errors.Is(err, zk.ErrNodeExists) { // ours, or that of another process, after which it is ours
			return nil
		}
		return err
	})
}

// Unregister implements driver.Store. It deletes the node if it is that of our session.
func (s *Store) Unregister(ctx context.Context, e driver.Entity) error {
	return s.change(ctx, func(c *zk.Conn) error {
		there, stat, err := c.Exists(s.entity(e))
		if err != nil || !there || stat.EphemeralOwner != c.SessionID() {
			return err
		}
		if err := c.Delete(s.entity(e), stat.Version); !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		return nil
	})
}

// Entities implements driver.Store. There is one kind.
func (s *Store) Entities(ctx context.Context, kind string) ([]driver.Entity, error) {
	if kind != "" && kind != driver.ConductorKind {
		return nil, nil
	}
	folder := s.entities + "/" + driver.ConductorKind
	names, err := s.names(ctx, folder)
	if err != nil {
		return nil, err
	}
	nodes, err := s.nodes(ctx, folder, names)
	if err != nil {
		return nil, err
	}
	var all []driver.Entity
	for _, n := range nodes {
		if e, bad := decodeEntity(n.data); bad == nil {
			all = append(all, e)
		}
	}
	return all, nil
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
