package jobstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/isa95"
)

//go:embed retire.lua
var retireLua string

var retireScript = script.New("jobstore/retire", retireLua)

// IdleScopes are the scopes without job orders whose state index is not renewed any more, each with the time at which it retires:
// when that index has expired. The zero time is "at once", for RetireSoon asked for it.
func (s *Store) IdleScopes(ctx context.Context) (map[isa95.Scope]time.Time, error) {
	members, err := s.rdb.Do(ctx, s.rdb.B().Zrange().Key(s.keys.PubIdle()).Min("0").Max("-1").Withscores().Build()).AsZScores()
	if err != nil {
		return nil, fmt.Errorf("jobstore: idle scopes: %w", s.alarm.Note(err))
	}
	idle := make(map[isa95.Scope]time.Time, len(members))
	for _, m := range members {
		var at time.Time
		if m.Score > 0 {
			at = time.UnixMilli(int64(m.Score))
		}
		idle[isa95.Scope(m.Member)] = at
	}
	return idle, nil
}

// MarkIdle notes which scopes are idle, and until when, and which are in use again. ErrLeaseLost: another process publishes, nothing
// was written.
func (s *Store) MarkIdle(ctx context.Context, l *Lease, idle map[isa95.Scope]time.Time, used []isa95.Scope) error {
	c := commit.New()
	c.Expect(l.Key, []byte(l.Token))
	for scope, until := range idle {
		c.ZAdd(s.keys.PubIdle(), float64(until.UnixMilli()), string(scope))
	}
	for _, scope := range used {
		c.ZRem(s.keys.PubIdle(), string(scope))
	}
	if c.Empty() {
		return nil
	}
	_, err := c.Run(ctx, s.rdb)
	if errors.Is(err, ErrConflict) {
		err = ErrLeaseLost
	}
	if err != nil {
		return fmt.Errorf("jobstore: idle scopes: %w", s.alarm.Note(err))
	}
	return nil
}

// Retire takes those of the scopes out of Scopes that have no job orders and no retained topics but the state index, and returns them. The
// next order of a scope brings it back; its seq goes on. One round trip. ErrLeaseLost: another process publishes.
func (s *Store) Retire(ctx context.Context, l *Lease, scopes ...isa95.Scope) (retired []isa95.Scope, err error) {
	calls := make([]call, len(scopes))
	for i, scope := range scopes {
		name := string(scope)
		calls[i] = call{
			script: retireScript,
			keys: []string{l.Key, s.keys.ActiveScopes(), s.keys.PubIdle(), s.keys.JobOrderList(name), s.keys.PubIndex(name), s.keys.PubDone(name),
				s.keys.PubDirty()},
			args: []string{l.Token, name},
		}
	}
	for i, reply := range s.rdb.DoMulti(ctx, s.commands(calls)...) {
		word, err := s.orEval(ctx, calls[i], reply).ToString()
		switch {
		case err != nil:
			return retired, fmt.Errorf("jobstore: retire scope %s: %w", scopes[i], s.alarm.Note(err))
		case word == "lost":
			return retired, ErrLeaseLost
		case word == "retired":
			retired = append(retired, scopes[i])
		}
	}
	return retired, nil
}

// ErrScopeInUse: the scope has job orders that are not cleared or canceled.
var ErrScopeInUse = errors.New("jobstore: the scope has job orders")

// RetireSoon lets the publisher retire a scope with its next look at the changes, instead of when its state index has expired, and delete
// the index. ErrScopeInUse: it has job orders. ErrNotFound: it is not among Scopes: retired already, or it never had an order.
func (s *Store) RetireSoon(ctx context.Context, scope isa95.Scope) error {
	c := commit.New()
	c.ExpectMember(s.keys.ActiveScopes(), string(scope))
	c.ExpectCard(s.keys.JobOrderList(string(scope)), 1)
	c.ZAdd(s.keys.PubIdle(), 0, string(scope))
	_, err := c.Run(ctx, s.rdb)
	var conflict *commit.ConflictError
	switch {
	case errors.As(err, &conflict) && conflict.Key == s.keys.ActiveScopes():
		return fmt.Errorf("%w: scope %s", ErrNotFound, scope)
	case conflict != nil:
		return fmt.Errorf("%w: %s", ErrScopeInUse, scope)
	case err != nil:
		return fmt.Errorf("jobstore: retire scope %s: %w", scope, s.alarm.Note(err))
	}
	return nil
}
