package zkboard

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/taktworks/takt/board/driver"
)

// Finish implements driver.Store: a transaction for each, one round trip for a claim of this store, several under way at once.
func (s *Store) Finish(ctx context.Context, how driver.Ending, all []driver.Held) []error {
	errs := make([]error, len(all))
	_ = each(len(all), func(i int) error {
		errs[i] = s.finish(ctx, how, all[i].Posting, all[i].Owner)
		return nil
	})
	return errs
}

func (s *Store) finish(ctx context.Context, how driver.Ending, p *driver.Posting, owner string) error {
	if !valid(p.Ref) {
		return driver.ErrNotFound
	}
	h := s.held(p.Ref, owner)
	if h != nil {
		err := s.finishOwn(ctx, how, h)
		if err == nil || errors.Is(err, driver.ErrAway) || errors.Is(err, driver.ErrClosed) {
			return err
		}
		// It is not as it was: see whose it is.
	}
	var err error
	for range maxTries {
		if err = s.finishAny(ctx, how, p.Ref, owner, h); !met(err) {
			break
		}
	}
	return err
}

// met says that somebody else was faster with something, so that the transaction was refused.
func met(err error) bool {
	f, ok := errors.AsType[*opError](err)
	return ok && (errors.Is(f, zk.ErrNoNode) || errors.Is(f, zk.ErrBadVersion) || errors.Is(f, zk.ErrNodeExists))
}

// finishOwn finishes a claim of this store, about which all is known.
func (s *Store) finishOwn(ctx context.Context, how driver.Ending, h *claim) error {
	select {
	case <-h.busy:
	case <-h.lost:
		return driver.ErrClaimLost
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", driver.ErrAway, context.Cause(ctx))
	}
	defer func() { h.busy <- struct{}{} }()
	l, _, err := s.link()
	if err != nil {
		return err
	}
	if l.session != h.x {
		return driver.ErrClaimLost
	}
	_, err = askOn(ctx, l, func(c *zk.Conn) (struct{}, error) { return struct{}{}, s.end(c, how, marked, h.record) })
	if err == nil {
		close(h.done)
		s.claims.CompareAndDelete(h.ref, h)
		if how != driver.Abandon {
			s.cache.records.Delete(h.ref)
		}
	}
	return err
}

// marked is the version of a lock of Takt. With that of the posting, which no claim of Takt leaves as it was, a transaction is refused unless it meets exactly the claim that it is for.
const marked = 1

// end is the transaction that ends a claim, in the order of TaskFlow. It is refused unless the lock and the posting have these versions.
func (s *Store) end(c *zk.Conn, how driver.Ending, lock int32, r record) error {
	ops := []any{&zk.DeleteRequest{Path: s.lock(r.Ref), Version: lock}}
	switch how {
	case driver.Abandon:
		ops = append(ops, &zk.CheckVersionRequest{Path: s.posting(r.Ref), Version: r.version})
	default:
		ops = append(ops, &zk.DeleteRequest{Path: s.posting(r.Ref), Version: r.version})
	}
	if how == driver.Trash {
		return s.putAside(c, r.Ref, r.UUID, s.marked(r.data), ops)
	}
	_, err := multi(c, ops)
	return err
}

// finishAny finishes a claim of whomever, by the text of its owner. Between a claim of TaskFlow and another of TaskFlow under the same name, made in the moment between reading and finishing, nothing can tell. It is not
// finished if it is another than that which this store had under the name.
func (s *Store) finishAny(ctx context.Context, how driver.Ending, ref, owner string, had *claim) error {
	a, err := s.pair(ctx, ref)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return driver.ErrNotFound
	case err != nil:
		return err
	case a.lock.stat == nil:
		return driver.ErrUnowned
	}
	switch other, owned := decodeOwner(a.lock.data); {
	case !owned:
		return driver.ErrUnowned
	case other != owner:
		return &driver.NotOwnerError{Ref: ref, Owner: other, Who: owner}
	case had != nil && had.fence != a.lock.stat.Czxid:
		return fmt.Errorf("%w by this claim any more: another under the same name has come after it", driver.ErrUnowned)
	}
	r, err := newRecord(ref, a.posting)
	if err != nil { // TaskFlow cannot have claimed what it cannot read, but an operator may have written to it
		r = record{Posting: &driver.Posting{Ref: ref}, data: a.posting.data, version: a.posting.stat.Version}
	}
	return s.change(ctx, func(c *zk.Conn) error { return s.end(c, how, a.lock.stat.Version, r) })
}
