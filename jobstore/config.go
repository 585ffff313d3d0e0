package jobstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/isa95"
)

// Configuration is one piece of a station's configuration (spec/machinery-jobs 5.1): a resource, a work master or the
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
// Source and ID and, for a work master, its Holders. ErrConflict: the event was handled meanwhile, or another scope took
// or left the same work master; load and decide again.
func (s *Store) Configure(ctx context.Context, c Configuration, snap *Snapshot, seen *Seen) error {
	w := writer{store: s, snap: snap, change: Change{Seen: seen}, c: commit.New()}
	if seen != nil {
		w.c.Expect(snap.seenKey, nil)
		if err := w.seen(); err != nil {
			return err
		}
	}
	if err := s.configure(c, snap, w.c); err != nil {
		return err
	}
	if _, err := w.c.Run(ctx, s.rdb); err != nil {
		return fmt.Errorf("jobstore: configure %s %s of %s: %w", c.Kind, c.ID, c.Scope, err)
	}
	return nil
}

func (s *Store) configure(c Configuration, snap *Snapshot, w *commit.Commit) error {
	scope := string(c.Scope)
	switch {
	case c.Kind == isa95.ConfigWorkMaster:
		return s.configureWorkMaster(c, snap, w)
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

// configureWorkMaster keeps the document, which all scopes share, as long as one scope has the work master.
func (s *Store) configureWorkMaster(c Configuration, snap *Snapshot, w *commit.Commit) error {
	list, document, holders := s.keys.WorkMasterList(string(c.Scope)), s.keys.WorkMaster(c.ID), s.keys.WorkMasterScopes(c.ID)
	read, ok := snap.read[holders]
	if !ok {
		return fmt.Errorf("jobstore: configure work master %s: its Holders were not loaded", c.ID)
	}
	var scopes []isa95.Scope
	if read != nil {
		if err := json.Unmarshal(read, &scopes); err != nil {
			return &DocumentError{Key: holders, Err: err}
		}
	}
	w.Expect(holders, read)
	scopes = slices.DeleteFunc(scopes, func(held isa95.Scope) bool { return held == c.Scope })
	if c.Delete {
		w.SRem(list, c.ID)
		if len(scopes) == 0 {
			w.Del(document)
			w.Del(holders)
			return nil
		}
	} else {
		scopes = append(scopes, c.Scope)
		slices.Sort(scopes)
		doc, err := isa95.Marshal(storedWorkMaster{WorkMaster: *c.WorkMaster, DataSchema: isa95.ConfigWorkMaster.Schema()})
		if err != nil {
			return err
		}
		w.Set(document, doc, 0)
		w.SAdd(list, c.ID)
	}
	value, err := json.Marshal(scopes)
	if err != nil {
		return err
	}
	w.Set(holders, value, 0)
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
