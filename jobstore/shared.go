package jobstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/isa95"
)

// What programs beside Takt share through the store: resources of stations, transactions that were done, counters, and what one of several replicas does at their start.

// Resources returns the ids of one kind that a scope has, in no order; none if it was never configured. kind is one of the five resource lists, or
// isa95.ConfigWorkMaster. Configure changes them.
func (s *Store) Resources(ctx context.Context, scope isa95.Scope, kind isa95.ConfigKind) ([]string, error) {
	ids, err := s.rdb.Do(ctx, s.rdb.B().Smembers().Key(s.resourceKey(string(kind), scope)).Build()).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("jobstore: resources %s of %s: %w", kind, scope, err)
	}
	return ids, nil
}

// Limit is MaxDownloadableJobOrders of a scope; -1: none was delivered, and there is no limit.
func (s *Store) Limit(ctx context.Context, scope isa95.Scope) (int64, error) {
	limit, err := s.rdb.Do(ctx, s.rdb.B().Get().Key(s.keys.JobAcceptance(string(scope))).Build()).AsInt64()
	if rueidis.IsRedisNil(err) {
		return -1, nil
	}
	if err != nil {
		return 0, fmt.Errorf("jobstore: limit of %s: %w", scope, err)
	}
	return limit, nil
}

// transactionTTL is how long a transaction is known, as in the Persistence page.
const transactionTTL = 10 * time.Minute

// FirstTransaction reports whether the transaction of a scope comes for the first time in ten minutes. It says so once, to whatever process asks first: a caller that fails
// afterwards has used it up. For an effect in Redis use Change.Seen, which is written with it.
func (s *Store) FirstTransaction(ctx context.Context, scope isa95.Scope, id string) (bool, error) {
	if id == "" {
		return false, errors.New("jobstore: transaction id is empty: each transaction needs its own")
	}
	set := s.rdb.B().Set().Key(s.keys.Transaction(string(scope), id)).Value("1").Nx().Px(transactionTTL).Build()
	return once(s.rdb.Do(ctx, set).Error())
}

// once is whether SET NX wrote.
func once(err error) (bool, error) {
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("jobstore: %w", err)
	}
	return true, nil
}

// Count adds one to a counter and returns the sum. A counter begins at 0 and stays until its key is deleted. If the answer is lost, the count may have happened.
func (s *Store) Count(ctx context.Context, name string) (int64, error) {
	n, err := s.rdb.Do(ctx, s.rdb.B().Incr().Key(s.keys.Counter(name)).Build()).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("jobstore: counter %s: %w", name, err)
	}
	return n, nil
}

// Counter is the sum of a counter, 0 if nothing was counted.
func (s *Store) Counter(ctx context.Context, name string) (int64, error) {
	n, err := s.rdb.Do(ctx, s.rdb.B().Get().Key(s.keys.Counter(name)).Build()).AsInt64()
	if rueidis.IsRedisNil(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("jobstore: counter %s: %w", name, err)
	}
	return n, nil
}

// PostStart runs hook in one of the replicas that start together under one configuration, within ttl, and reports whether this one ran it; zero ttl is 30 s. A hook that fails frees its
// place, and its error is returned; a process that dies in it leaves the place taken until ttl is over. Then, and for replicas that start later than that, the hook runs again: it must be safe to repeat.
func (s *Store) PostStart(ctx context.Context, configuration string, ttl time.Duration, hook func(ctx context.Context) error) (ran bool, err error) {
	if ttl == 0 {
		ttl = postStartTTL
	}
	if configuration == "" || ttl < time.Millisecond {
		return false, fmt.Errorf("jobstore: post-start of configuration %q within %v: want a name, and at least 1 ms", configuration, ttl)
	}
	key, token := s.keys.PostStartLock(configuration), rand.Text()
	if first, err := once(s.rdb.Do(ctx, s.rdb.B().Set().Key(key).Value(token).Nx().Px(ttl).Build()).Error()); err != nil || !first {
		return false, err
	}
	hooked, cancel := context.WithTimeout(ctx, ttl)
	defer cancel()
	if err := hook(hooked); err != nil {
		c := commit.New()
		c.Expect(key, []byte(token))
		c.Del(key)
		_, _ = c.Run(context.WithoutCancel(ctx), s.rdb) // else it ends with ttl
		return true, fmt.Errorf("jobstore: post-start of %s: %w", configuration, err)
	}
	return true, nil
}

// postStartTTL is as in the Persistence page.
const postStartTTL = 30 * time.Second
