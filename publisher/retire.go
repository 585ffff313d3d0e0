package publisher

import (
	"context"
	"errors"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// unused says that a scope of the store has no job orders and no topics at the broker: its empty state index was not renewed and has
// expired. While the store lost something, each scope gets an index that says so.
func (t *term) unused(s jobstore.RetainedScope, has map[isa95.Scope]*found) bool {
	f := has[s.Scope]
	return has != nil && !t.lost && t.stored[s.Scope] && s.Err == nil && len(s.Jobs) == 0 &&
		(f == nil || f.index == nil && len(f.orders)+len(f.results) == 0)
}

// retire takes a scope out of the store, so that nothing looks at it until it has an order again; false: it just got one.
func (t *term) retire(work context.Context, scope isa95.Scope) (bool, error) {
	err := t.store.Retire(work, scope)
	switch {
	case errors.Is(err, jobstore.ErrScopeInUse):
		return false, nil
	case err != nil && !errors.Is(err, jobstore.ErrNotFound):
		return false, err
	}
	t.log.Info("publisher: scope retired: it has no job orders; the next one brings it back", "scope", scope)
	delete(t.refused.topics, t.opt.indexTopic(scope))
	delete(t.indexes, scope)
	delete(t.told, scope)
	return true, nil
}

// leftOver is how many topics of a scope that is not among those of the store should not be there. The last state index of a scope that
// has retired may be.
func leftOver(ctx context.Context, store *jobstore.Store, scope isa95.Scope, f *found) (int, error) {
	topics := len(f.orders) + len(f.results)
	if f.index != nil {
		topics++
	}
	if len(f.orders)+len(f.results) > 0 {
		return topics, nil
	}
	read, err := store.Retained(ctx, jobstore.RetainedQuery{Scope: scope})
	if err != nil {
		return 0, err
	}
	if read[0].Seq > 0 {
		return 0, nil
	}
	return topics, nil
}
