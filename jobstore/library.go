package jobstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/lease"
	"github.com/taktworks/takt/isa95"
)

// What programs that use the stores have besides load, decide, commit.

// Resources returns the ids that scope has of one kind, sorted: one of the five kinds of resources, or isa95.ConfigWorkMaster. For isa95.ConfigJobAcceptance, which has no ids, it is an error; the
// limit is Snapshot.Acceptance.Limit.
func (s *Store) Resources(ctx context.Context, scope isa95.Scope, kind isa95.ConfigKind) ([]string, error) {
	if kind == isa95.ConfigJobAcceptance || !slices.Contains(isa95.ConfigKinds(), kind) {
		return nil, fmt.Errorf("jobstore: resources of kind %q: must be a kind that has ids, such as %q", kind, isa95.ConfigEquipment)
	}
	ids, err := s.rdb.Do(ctx, s.rdb.B().Smembers().Key(s.resourceKey(string(kind), scope)).Build()).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("jobstore: resources %s of %s: %w", kind, scope, err)
	}
	slices.Sort(ids)
	return ids, nil
}

// FirstTransaction says whether this is the first call for the transaction id of scope within keep (0 = 10 min, else at least 1 ms), and notes it. It suits effects outside Redis that may
// be missed but not done twice: a process that dies after the call has used the transaction up, and after an error it may be noted or not. A change of the store that must be neither
// missed nor done twice goes by Change.Seen, which is written with the change. A bad id is a *isa95.NameError.
func (s *Store) FirstTransaction(ctx context.Context, scope isa95.Scope, id string, keep time.Duration) (bool, error) {
	if keep == 0 {
		keep = 10 * time.Minute
	}
	if keep < time.Millisecond {
		return false, fmt.Errorf("jobstore: transaction %q is kept for %v: must be at least 1ms, or 0 for 10 min", id, keep)
	}
	if err := checkName("transaction", id); err != nil {
		return false, err
	}
	set := s.rdb.B().Set().Key(s.keys.Transaction(string(scope), id)).Value("1").Nx().Px(keep).Build()
	err := s.rdb.Do(ctx, set).Error()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("jobstore: transaction %q of %s: %w", id, scope, err)
	}
	return true, nil
}

// Count adds 1 to a counter, which begins at 0 and never goes, and returns what it is then. After an error it may have counted or not. A bad name is a *isa95.NameError.
func (s *Store) Count(ctx context.Context, name string) (int64, error) {
	return s.counter(ctx, name, s.rdb.B().Incrby().Key(s.keys.Counter(name)).Increment(1).Build())
}

// Counter reads a counter, 0 if it was never counted. A bad name is a *isa95.NameError.
func (s *Store) Counter(ctx context.Context, name string) (int64, error) {
	return s.counter(ctx, name, s.rdb.B().Get().Key(s.keys.Counter(name)).Build())
}

func (s *Store) counter(ctx context.Context, name string, command rueidis.Completed) (int64, error) {
	if err := checkName("counter", name); err != nil {
		return 0, err
	}
	n, err := s.rdb.Do(ctx, command).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return 0, fmt.Errorf("jobstore: counter %q: %w", name, err)
	}
	return n, nil
}

// postStartDone is the value of a post-start lock whose hook has ended well.
const postStartDone = "done"

// PostStart runs hook once for a set of replicas that start at about the same time: one of those that call it with the same identifier runs hook, the others wait until it has ended. ran says
// whether this one did. The lock is renewed while hook runs. When hook fails the lock is given back, and its error is returned; when its process dies the lock ends after ttl (0 = 30 s, else at least 100 ms): either
// way the next replica that waits, or that calls, runs hook. When hook has ended well that is known for ttl, so a replica that starts later than that runs it again.
//
// The context of hook ends with ctx, and when the lock is lost, since Redis was away for longer than ttl or the process was paused. Then, or when another replica may run hook,
// the error is ErrLeaseLost; hook must bear to be run again. After any other error for which Away is true, call again. A bad identifier is a *isa95.NameError.
func (s *Store) PostStart(ctx context.Context, identifier string, ttl time.Duration, hook func(context.Context) error) (ran bool, err error) {
	if ttl == 0 {
		ttl = 30 * time.Second
	}
	if ttl < 100*time.Millisecond {
		return false, fmt.Errorf("jobstore: post-start lock %q for %v: must be at least 100ms, or 0 for 30 s", identifier, ttl)
	}
	if err := checkName("configuration identifier", identifier); err != nil {
		return false, err
	}
	l := &Lease{Key: s.keys.PostStartLock(identifier), Token: s.opt.Instance + " " + uuid.NewString()}
	for {
		sent := time.Now()
		got, done, err := s.takePostStart(ctx, l, ttl)
		switch {
		case err != nil:
			s.give(ctx, l) // the answer may have been lost
			return false, fmt.Errorf("jobstore: post-start lock %q: %w", identifier, err)
		case done:
			return false, nil
		case got:
			l.trust = lease.New(sent, ttl)
			return s.runHook(ctx, l, ttl, hook)
		}
		if err := sleep(ctx, min(ttl/20, 250*time.Millisecond)); err != nil {
			return false, err
		}
	}
}

// takePostStart takes the lock if nobody has it. done: the hook has ended well.
func (s *Store) takePostStart(ctx context.Context, l *Lease, ttl time.Duration) (got, done bool, err error) {
	if got, err = s.ask(ctx, "take", l, ttl); got || err != nil {
		return got, false, err
	}
	holder, err := s.get(ctx, l.Key)
	if errors.Is(err, ErrNotFound) { // it ended in between
		return false, false, nil
	}
	return false, string(holder) == postStartDone, err
}

func (s *Store) runHook(ctx context.Context, l *Lease, ttl time.Duration, hook func(context.Context) error) (bool, error) {
	noted := false
	_, err := s.hold(ctx, l, ttl, func(ctx context.Context, l *Lease) error {
		if err := hook(ctx); err != nil {
			return err
		}
		c := commit.New()
		c.Expect(l.Key, []byte(l.Token))
		c.Set(l.Key, []byte(postStartDone), ttl)
		_, err := c.Run(l.Context(), s.rdb)
		if errors.Is(err, ErrConflict) {
			return ErrLeaseLost
		}
		noted = err == nil
		return err
	})
	if noted { // a renewal on its way meets a lock that is no longer this replica's
		err = nil
	}
	return true, err
}

// checkName holds the rules for names of a program that become part of keys.
func checkName(kind, name string) error {
	if name == "" || len(name) > isa95.MaxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return &isa95.NameError{Kind: kind, Value: name[:min(len(name), isa95.MaxName)], Rule: fmt.Sprintf("must be 1 to %d bytes of UTF-8 without control characters", isa95.MaxName)}
	}
	return nil
}
