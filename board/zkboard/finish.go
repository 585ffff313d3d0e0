package zkboard

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/taktworks/takt/board/driver"
)

// ending is how a claim is finished.
type ending int

const (
	consume ending = iota
	abandon
	discard // to the trash
)

// Consume implements driver.Store: one transaction for a claim of this store.
func (s *Store) Consume(ctx context.Context, p *driver.Posting, owner string) error {
	return s.finish(ctx, consume, p, owner)
}

// ConsumeBatch implements driver.Store: transactions of one posting each, several under way at once.
func (s *Store) ConsumeBatch(ctx context.Context, all []driver.Held) []error {
	errs := make([]error, len(all))
	_ = each(len(all), func(i int) error {
		errs[i] = s.Consume(ctx, all[i].Posting, all[i].Owner)
		return nil
	})
	return errs
}

// Abandon implements driver.Store.
func (s *Store) Abandon(ctx context.Context, p *driver.Posting, owner string) error {
	return s.finish(ctx, abandon, p, owner)
}

// Trash implements driver.Store.
func (s *Store) Trash(ctx context.Context, p *driver.Posting, owner string) error {
	return s.finish(ctx, discard, p, owner)
}

func (s *Store) finish(ctx context.Context, how ending, p *driver.Posting, owner string) error {
	if !valid(p.Ref) {
		return driver.ErrNotFound
	}
	h := s.claims.find(p.Ref, owner)
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
	if err == nil && how != abandon {
		s.cache.forget(p.Ref)
	}
	return err
}

// met says that somebody else was faster with something, so that the transaction was refused.
func met(err error) bool {
	f, ok := errors.AsType[*opError](err)
	return ok && (errors.Is(f, zk.ErrNoNode) || errors.Is(f, zk.ErrBadVersion) || errors.Is(f, zk.ErrNodeExists))
}

// finishOwn finishes a claim of this store, about which all is known.
func (s *Store) finishOwn(ctx context.Context, how ending, h *claim) error {
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
	_, err = askOn(ctx, l, func(c *zk.Conn) (struct{}, error) { return struct{}{}, s.finishClaim(c, how, h) })
	if err == nil {
		close(h.done)
		s.claims.remove(h)
		if how != abandon {
			s.cache.forget(h.ref)
		}
	}
	return err
}

// finishClaim is one transaction, that is refused unless the claim is exactly h: its lock is one of Takt (version 1), and no claim of Takt came after it.
func (s *Store) finishClaim(c *zk.Conn, how ending, h *claim) error {
	r, _ := s.cache.find(h.ref)
	const marked = 1
	e := end{ref: h.ref, lock: marked, posting: r.version, attempts: h.attempts}
	if how == discard {
		data, stat, err := c.Get(s.posting(h.ref))
		if err != nil {
			return err
		}
		e.data, e.posting, e.uuid = data, stat.Version, r.uuid()
	}
	return s.end(c, how, e)
}

func (r record) uuid() string {
	if r.Posting == nil {
		return ""
	}
	return r.UUID
}

// end is what a transaction that ends a claim goes by.
type end struct {
	ref, uuid               string
	data                    []byte // of the posting
	lock, posting, attempts int32  // versions
}

const uncounted = -1 // attempts: there is no such node

// end carries out the transaction: in the order of TaskFlow, and with what Takt keeps beside it.
func (s *Store) end(c *zk.Conn, how ending, e end) error {
	ops := []any{&zk.DeleteRequest{Path: s.lock(e.ref), Version: e.lock}}
	if how != abandon {
		ops = append(ops, &zk.DeleteRequest{Path: s.posting(e.ref), Version: e.posting})
	}
	switch {
	case e.attempts == uncounted:
	case how == abandon:
		ops = append(ops, &zk.CheckVersionRequest{Path: s.attempts(e.ref), Version: e.attempts})
	default:
		ops = append(ops, &zk.DeleteRequest{Path: s.attempts(e.ref), Version: e.attempts})
	}
	if how == discard {
		return s.putAside(c, e.ref, e.uuid, e.data, ops)
	}
	_, err := multi(c, ops)
	return err
}

// finishAny finishes a claim of whomever, by the text of its owner. Between a claim of TaskFlow and another of TaskFlow under the same name, made in the moment between reading and finishing, nothing can tell. It is not
// finished if it is another than that which this store had under the name.
func (s *Store) finishAny(ctx context.Context, how ending, ref, owner string, had *claim) error {
	type all struct{ lock, posting, attempts node }
	a, err := ask(ctx, s, func(c *zk.Conn) (a all, err error) {
		if a.posting.data, a.posting.stat, err = c.Get(s.posting(ref)); err != nil {
			return a, err
		}
		if a.lock.data, a.lock.stat, err = c.Get(s.lock(ref)); errors.Is(err, zk.ErrNoNode) {
			return a, driver.ErrUnowned
		}
		if err == nil {
			var there bool
			if there, a.attempts.stat, err = c.Exists(s.attempts(ref)); !there {
				a.attempts.stat = nil
			}
		}
		return a, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return driver.ErrNotFound
	}
	if err != nil {
		return err
	}
	switch other, owned := decodeOwner(a.lock.data); {
	case !owned:
		return driver.ErrUnowned
	case other != owner:
		return &driver.NotOwnerError{Ref: ref, Owner: other, Who: owner}
	case had != nil && had.fence != a.lock.stat.Czxid:
		return fmt.Errorf("%w by this claim any more: another under the same name has come after it", driver.ErrUnowned)
	}
	e := end{ref: ref, data: a.posting.data, lock: a.lock.stat.Version, posting: a.posting.stat.Version, attempts: uncounted}
	if a.attempts.stat != nil {
		e.attempts = a.attempts.stat.Version
	}
	if p, err := decodePosting(ref, e.data, nil); err == nil {
		e.uuid = p.UUID
	}
	_, err = ask(ctx, s, func(c *zk.Conn) (struct{}, error) { return struct{}{}, s.end(c, how, e) })
	return err
}
