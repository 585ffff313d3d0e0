package jobstore

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
)

// ID is what tells this store from all others: a random id (UUIDv7), "" if no process has given it one yet. Unlike the epoch it stays when Redis loses
// something; a store that was flushed gets another one. A copy of a store has the same.
func (s *Store) ID(ctx context.Context) (string, error) {
	id, err := s.rdb.Do(ctx, s.rdb.B().Get().Key(s.keys.StoreID()).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("jobstore: id of the store: %w", err)
	}
	return id, nil
}

// EnsureID is ID, for a process that serves the store: it gives the store an id if it has none. Of several processes at once one does, and all get the
// same. Of two stores the one that got its id first has the lower id.
func (s *Store) EnsureID(ctx context.Context) (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("jobstore: id of the store: %w", err)
	}
	set := s.rdb.B().Setnx().Key(s.keys.StoreID()).Value(id.String()).Build()
	if err := s.rdb.Do(ctx, set).Error(); err != nil {
		return "", fmt.Errorf("jobstore: id of the store: %w", err)
	}
	return s.ID(ctx)
}
