package jobstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/stream"
)

// Epoch is the random id of this store, "" if it has none yet. Settle gives it one, and another one when it meets a seq that is above
// the stored one: then Redis lost something, by FLUSHALL, an older copy or a failover. RunWorker gives it another one when a
// change that this process committed is gone. An MES that remembers an acknowledged order compares: under the same epoch nothing was
// lost. A restart or failover that loses nothing keeps it.
func (s *Store) Epoch(ctx context.Context) (string, error) {
	epoch, err := s.epochReply(s.rdb.Do(ctx, s.epochCommand()))
	if err != nil {
		return "", fmt.Errorf("jobstore: epoch: %w", err)
	}
	return epoch, nil
}

// NewEpoch is an id that no store has.
func NewEpoch() string { return uuid.NewString() }

func (s *Store) epochCommand() rueidis.Completed {
	return s.rdb.B().Get().Key(s.keys.PubEpoch()).Build()
}

func (s *Store) epochReply(r rueidis.RedisResult) (string, error) {
	epoch, err := r.ToString()
	if _, said := rueidis.IsRedisErr(err); rueidis.IsRedisNil(err) || said && !Away(err) { // absent, or another program's
		return "", nil
	}
	return epoch, err
}

// witness remembers some of the changes that this process committed, among them the last before any pause. A failover loses the newest
// changes of the old master, so if it loses any, it loses the last one that this process was told of before.
type witness struct {
	mu    sync.Mutex
	acked []acked
}

// acked is the id of a change entry, the last one acknowledged within a moment.
type acked struct {
	id    string
	since time.Time
}

const (
	witnessMoment = 50 * time.Millisecond // a failover takes longer
	witnessEvery  = 5 * time.Second
)

func (w *witness) acknowledged(id string) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := len(w.acked) - 1; last >= 0 && now.Sub(w.acked[last].since) < witnessMoment {
		w.acked[last].id = id
		return
	}
	w.acked = append(w.acked, acked{id, now})
}

func (w *witness) remembered() []acked {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]acked(nil), w.acked...)
}

// forget drops the first n.
func (w *witness) forget(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked = append([]acked(nil), w.acked[n:]...)
}

// watchLosses gives the store another epoch when a change is gone that this process committed.
func (s *Store) watchLosses(ctx context.Context) {
	for sleep(ctx, witnessEvery) == nil {
		if err := s.checkLosses(ctx); err != nil && ctx.Err() == nil && !Away(err) {
			s.log.Warn("jobstore: cannot find out whether Redis lost changes", "err", err)
		}
	}
}

// checkLosses looks for the changes that the witness remembers. A change is lost when its entry is gone though an older entry is
// there; what is older than all that are there was trimmed.
func (s *Store) checkLosses(ctx context.Context) error {
	acked := s.witness.remembered()
	if len(acked) == 0 {
		return nil
	}
	changes := s.keys.ChangesAll()
	commands := []rueidis.Completed{s.rdb.B().Xrange().Key(changes).Start("-").End("+").Count(1).Build()}
	for _, a := range acked {
		commands = append(commands, s.rdb.B().Xrange().Key(changes).Start(a.id).End(a.id).Build())
	}
	replies := s.rdb.DoMulti(ctx, commands...)
	first, err := replies[0].AsXRange()
	if err != nil {
		return err
	}
	for i, a := range acked {
		found, err := replies[i+1].AsXRange()
		if err != nil {
			return err
		}
		if len(found) > 0 || len(first) == 0 || !stream.Before(first[0].ID, a.id) {
			continue
		}
		s.log.Error("jobstore: Redis lost a change that it had acknowledged; the state indexes get another epoch, so that each MES looks for missing orders",
			"entry", a.id)
		if err := s.replaceEpoch(ctx); err != nil {
			return err
		}
		s.witness.forget(len(acked))
		return nil
	}
	s.witness.forget(len(acked) - 1) // while nothing more is committed, the last one is the first to be lost
	return nil
}

// replaceEpoch gives the store another epoch, unless another process just did.
func (s *Store) replaceEpoch(ctx context.Context) error {
	old, err := s.Epoch(ctx)
	if err != nil || old == "" {
		return err
	}
	c := commit.New()
	c.Expect(s.keys.PubEpoch(), []byte(old))
	c.Set(s.keys.PubEpoch(), []byte(NewEpoch()), 0)
	if _, err = c.Run(ctx, s.rdb); errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}
