package jobstore

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/stream"
)

// ReplicasError says that a change is stored, and that fewer replicas than Options.Replicas have acknowledged it: a failover now may lose it. The same command
// again changes nothing but waits once more. Acknowledged and Want are numbers of replicas, Within is how long was waited; Err is why nothing is known of
// replicas, nil if the time was over.
type ReplicasError = redis.ReplicasError

// safely is the connection for changes that are acknowledged to someone outside.
func (s *Store) safely() rueidis.Client {
	if s.safe == nil {
		return s.rdb
	}
	return s.safe
}

// Replicated waits until enough replicas have what Load found of a CloudEvent that was handled before, so that its reply may be given again. ErrConflict: it is no
// longer there. *ReplicasError: they have it not yet. Without Options.Replicas it does nothing.
func (s *Store) Replicated(ctx context.Context, snap *Snapshot) error {
	if s.safe == nil {
		return nil
	}
	n, err := s.safe.Do(ctx, s.rdb.B().Exists().Key(snap.seen.key).Build()).AsInt64()
	switch {
	case err != nil:
		return fmt.Errorf("jobstore: %w", s.alarm.Note(err))
	case n == 0:
		return ErrConflict // Redis failed over between the two
	}
	return nil
}

// entryReplicated waits as Replicated does, for an entry of a stream and all that was committed with it. False: the entry is gone, Redis has failed over and lost
// it, or another process has done the work.
func (s *Store) entryReplicated(ctx context.Context, e *stream.Entry) (there bool, err error) {
	if s.safe == nil {
		return true, nil
	}
	entries, err := s.safe.Do(ctx, s.rdb.B().Xrange().Key(e.Stream).Start(e.ID).End(e.ID).Build()).AsXRange()
	if err != nil {
		return false, fmt.Errorf("jobstore: %w", s.alarm.Note(err))
	}
	return len(entries) > 0, nil
}

// AskReplicas says whether enough replicas of Redis acknowledge a write now, as Options want: nil = they do, or none are wanted. *ReplicasError: fewer do, so commands are
// carried out but not acknowledged. It writes one key that expires, and waits up to Options.ReplicasWithin.
func (s *Store) AskReplicas(ctx context.Context) error {
	if s.safe == nil {
		return nil
	}
	if err := s.safe.Do(ctx, s.rdb.B().Exists().Key(s.keys.Replicated()).Build()).Error(); err != nil {
		return fmt.Errorf("jobstore: %w", err)
	}
	return nil
}
