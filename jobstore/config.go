package jobstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/isa95"
)

// Configuration is one piece of a station's configuration: a resource, a work master or the
// limit of job orders.
type Configuration struct {
	Kind       isa95.ConfigKind
	Scope      isa95.Scope
	ID         string            // of the resource or work master; "" for jobacceptance
	Delete     bool              // else insert or replace
	WorkMaster *isa95.WorkMaster // only for a work master that is not deleted
	Limit      int64             // only for jobacceptance: MaxDownloadableJobOrders
}

// Configure writes c, and with seen the reply to the CloudEvent that asked, at once. snap is what Load read for the event's
// Source and ID and, for a work master, its Holders. ErrConflict: the event was handled meanwhile, or the same work master was
// delivered to another scope or removed there; load and decide again.
func (s *Store) Configure(ctx context.Context, c Configuration, snap *Snapshot, seen *Seen) error {
	w := writer{store: s, snap: snap, change: Change{Seen: seen}, c: commit.New()}
	if seen != nil {
		snap.expectSeen(w.c)
		if err := s.writeSeen(w.c, snap, seen); err != nil {
			return err
		}
	}
	if err := s.configure(ctx, c, snap, w.c); err != nil {
		return err
	}
	if _, err := w.c.Run(ctx, s.safely()); err != nil {
		return fmt.Errorf("jobstore: configure %s %s of %s: %w", c.Kind, c.ID, c.Scope, err)
	}
	return nil
}

func (s *Store) configure(ctx context.Context, c Configuration, snap *Snapshot, w *commit.Commit) error {
	scope := string(c.Scope)
	if !c.Delete {
		w.SAdd(s.keys.ConfiguredScopes(), scope)
	}
	switch {
	case c.Kind == isa95.ConfigWorkMaster:
		return s.configureWorkMaster(ctx, c, snap, w)
	case c.Kind == isa95.ConfigJobAcceptance && c.Delete:
		w.Del(s.keys.JobAcceptance(scope))
	case c.Kind == isa95.ConfigJobAcceptance:
		w.Set(s.keys.JobAcceptance(scope), strconv.AppendInt(nil, c.Limit, 10), 0)
	case c.Delete:
		w.SRem(s.keys.ResourceList(string(c.Kind), scope), c.ID)
	default:
		w.SAdd(s.keys.ResourceList(string(c.Kind), scope), c.ID)
	}
	return nil
}

// get reads one string key; ErrNotFound if it is absent.
func (s *Store) get(ctx context.Context, key string) ([]byte, error) {
	doc, err := s.rdb.Do(ctx, s.rdb.B().Get().Key(key).Build()).AsBytes()
	switch {
	case rueidis.IsRedisNil(err):
		return nil, fmt.Errorf("%w: %s", ErrNotFound, key)
	case err != nil:
		return nil, fmt.Errorf("jobstore: read %s: %w", key, err)
	}
	return doc, nil
}
