package jobstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/isa95"
)

// ErrScopeInUse: the scope has job orders, or the publisher has not deleted the topics of its last ones yet.
var ErrScopeInUse = errors.New("jobstore: the scope is in use")

// Retire takes a scope without job orders and without topics of job orders out of Scopes. The next order of the scope brings it back; its
// seq goes on. ErrScopeInUse, ErrNotFound (it is not among Scopes: retired already, or it never had an order): nothing was written.
func (s *Store) Retire(ctx context.Context, scope isa95.Scope) error {
	name := string(scope)
	c := commit.New()
	c.ExpectMember(s.keys.ActiveScopes(), name)
	c.ExpectCard(s.keys.JobOrderList(name), 1)
	c.Expect(s.keys.PubIndex(name), nil)
	c.Expect(s.keys.PubDone(name), nil)
	c.SRem(s.keys.ActiveScopes(), name)
	_, err := c.Run(ctx, s.rdb)
	var (
		conflict *commit.ConflictError
		present  *commit.TypeError // a hash, where no key was expected
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &conflict) && conflict.Key == s.keys.ActiveScopes():
		return fmt.Errorf("%w: scope %s", ErrNotFound, scope)
	case conflict != nil, errors.As(err, &present) && present.Have == "hash":
		return fmt.Errorf("%w: %s", ErrScopeInUse, scope)
	}
	return fmt.Errorf("jobstore: retire scope %s: %w", scope, s.alarm.Note(err))
}
