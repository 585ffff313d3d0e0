package zkboard

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/taktworks/takt/board/driver"
)

// A lock is looked after when it is this old: most claims are finished before.
const lookAfter = 100 * time.Millisecond

// errTaken: there is a lock.
var errTaken = errors.New("there is a lock")

// claim is a claim that this store has. It cannot be mixed up with another in a transaction that names the version of its posting.
type claim struct {
	ref, owner string
	record     record // its version is that of this claim
	x          *session
	fence      int64
	lost       chan struct{}
	done       chan struct{} // closed when it is finished
	busy       chan struct{} // holds a token while nobody finishes it
}

// held is the claim that this store has, nil if it has none.
func (s *Store) held(ref, owner string) *claim {
	if h, ok := s.claims.Load(ref); ok && h.(*claim).owner == owner {
		return h.(*claim)
	}
	return nil
}

// Claim implements driver.Store: one transaction per candidate, until one is claimed. Request.TTL and Reclaim mean nothing here: claims live with the session.
func (s *Store) Claim(ctx context.Context, r driver.Request) ([]driver.Grant, error) {
	var grants []driver.Grant
	first := -1
	for i, p := range r.Candidates {
		g, err := s.claim(ctx, p, r.Owner)
		switch {
		case err == nil:
			g.Index = i
			if grants = append(grants, g); len(grants) == r.Max {
				return grants, nil
			}
		case errors.Is(err, errTaken):
			if first < 0 {
				first = i
			}
		case !errors.Is(err, driver.ErrNotFound):
			if len(grants) > 0 {
				return grants, nil // these are claimed; the next call meets the error again
			}
			return nil, err
		}
	}
	switch {
	case len(grants) > 0:
		return grants, nil
	case first < 0:
		return nil, driver.ErrNotFound
	}
	g, err := s.claimOrTell(ctx, first, r.Candidates[first], r.Owner)
	if err != nil {
		return nil, err
	}
	return []driver.Grant{g}, nil
}

// claimOrTell finds out whose p is, and tries again should its owner have gone meanwhile.
func (s *Store) claimOrTell(ctx context.Context, index int, p *driver.Posting, owner string) (driver.Grant, error) {
	for range maxTries {
		n, err := s.node(ctx, s.lock(p.Ref))
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return driver.Grant{}, err
		}
		if err == nil {
			other, owned := decodeOwner(n.data)
			if owned {
				return driver.Grant{}, &driver.ClaimedError{Ref: p.Ref, Owner: other}
			}
			// A lock without an owner is none to anybody, but in the way.
			err := s.change(ctx, func(c *zk.Conn) error { return c.Delete(s.lock(p.Ref), n.stat.Version) })
			if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrBadVersion) {
				return driver.Grant{}, err
			}
		}
		g, err := s.claim(ctx, p, owner)
		if !errors.Is(err, errTaken) {
			g.Index = index
			return g, err
		}
	}
	return driver.Grant{}, &driver.ClaimedError{Ref: p.Ref}
}

// claim takes p: errTaken, driver.ErrNotFound. A claim without an answer, or whose caller does not wait for it, is given back.
func (s *Store) claim(ctx context.Context, p *driver.Posting, owner string) (driver.Grant, error) {
	if !valid(p.Ref) {
		return driver.Grant{}, driver.ErrNotFound
	}
	l, _, err := s.link()
	if err != nil {
		return driver.Grant{}, err
	}
	h := &claim{ref: p.Ref, owner: owner, x: l.session, lost: make(chan struct{}), done: make(chan struct{}), busy: make(chan struct{}, 1)}
	h.busy <- struct{}{}
	tried := make(chan error, 1)
	_, err = askOn(ctx, l, func(*zk.Conn) (struct{}, error) {
		err := s.claimOn(h, p)
		tried <- err
		return struct{}{}, err
	})
	if errors.Is(err, driver.ErrAway) {
		s.spawn(func() {
			if err := <-tried; err == nil || away(err) {
				s.giveBack(h)
			}
		})
	}
	if err != nil {
		return driver.Grant{}, err
	}
	s.claims.Store(h.ref, h)
	if !s.spawn(func() { s.watchOver(h) }) {
		return driver.Grant{}, driver.ErrClosed
	}
	return driver.Grant{Fence: uint64(h.fence), Attempt: int(h.record.version), Lost: h.lost, Over: h.x.ctx.Done()}, nil
}

// claimOn takes p for h.
func (s *Store) claimOn(h *claim, p *driver.Posting) error {
	stale := false
	for try := 1; ; try++ {
		r, known := s.cache.find(p.Ref)
		if !known || stale {
			var err error
			if r, err = s.again(h.x, p); err != nil {
				return err
			}
		}
		h.record = r
		h.record.version++
		res, err := multi(h.x.conn, []any{
			&zk.CreateRequest{Path: s.lock(p.Ref), Data: encodeLock(h.owner), Acl: world, Flags: zk.FlagEphemeral},
			&zk.SetDataRequest{Path: s.lock(p.Ref), Data: encodeLock(h.owner), Version: 0}, // from now on it is known as a lock of Takt
			&zk.SetDataRequest{Path: s.posting(p.Ref), Data: r.data, Version: r.version},   // its version counts the claims
		})
		if err == nil {
			h.record.modified = milliseconds(res[2].Stat.Mtime)
			s.cache.records.Store(p.Ref, h.record)
			h.fence = res[1].Stat.Mzxid
			return nil
		}
		f, refused := errors.AsType[*opError](err)
		switch {
		case !refused || try == maxTries:
			return err
		case errors.Is(f, zk.ErrNodeExists):
			return errTaken
		case errors.Is(f, zk.ErrNoNode):
			s.cache.records.Delete(p.Ref)
			return driver.ErrNotFound
		case errors.Is(f, zk.ErrBadVersion): // claimed by another store, or written to, meanwhile
			stale = true
		default:
			return f
		}
	}
}

// again reads a posting that is to be claimed: driver.ErrNotFound if it is another one now.
func (s *Store) again(x *session, p *driver.Posting) (record, error) {
	n, err := getNode(x.conn, s.posting(p.Ref))
	if errors.Is(err, zk.ErrNoNode) {
		return record{}, driver.ErrNotFound
	}
	if err != nil {
		return record{}, err
	}
	r, err := newRecord(p.Ref, n)
	if err != nil {
		return record{}, err
	}
	if r.UUID != p.UUID {
		return record{}, driver.ErrNotFound
	}
	s.cache.records.Store(p.Ref, r)
	return r, nil
}

// giveBack ends a claim whose caller is gone, if it was made. Without an answer it tries again until the session is over, and with it the claim.
func (s *Store) giveBack(h *claim) {
	for h.x.reconnected() {
		n, err := getNode(h.x.conn, s.lock(h.ref))
		if err == nil {
			if owner, _ := decodeOwner(n.data); n.stat.EphemeralOwner != h.x.sessionID() || owner != h.owner || s.held(h.ref, h.owner) != nil {
				return // it is another claim
			}
			err = s.end(h.x.conn, driver.Abandon, marked, h.record)
		}
		if !away(err) {
			return
		}
	}
}

// watchOver closes h.lost when the session ends, or the lock is not ours any more.
func (s *Store) watchOver(h *claim) {
	defer s.claims.CompareAndDelete(h.ref, h)
	var changed <-chan zk.Event
	for look := time.After(lookAfter); ; look = nil {
		select {
		case <-h.done:
			return
		case <-h.x.ctx.Done():
			close(h.lost)
			return
		case <-changed:
		case <-look:
		}
		data, stat, next, err := h.x.conn.GetW(s.lock(h.ref))
		for err != nil && !errors.Is(err, zk.ErrNoNode) && h.x.reconnected() {
			data, stat, next, err = h.x.conn.GetW(s.lock(h.ref))
		}
		if owner, _ := decodeOwner(data); err != nil || stat.Czxid != h.fence || owner != h.owner {
			h.loseUnlessDone()
			return
		}
		changed = next
	}
}

// loseUnlessDone waits for who is finishing the claim, if somebody is, and says that it is lost if that was not the reason.
func (h *claim) loseUnlessDone() {
	select {
	case <-h.busy:
		defer func() { h.busy <- struct{}{} }()
	case <-h.x.ctx.Done():
	}
	select {
	case <-h.done:
	default:
		close(h.lost)
	}
}

// Extend implements driver.Store. Claims live with the session: there is nothing to extend, but the lock is looked at.
func (s *Store) Extend(ctx context.Context, p *driver.Posting, owner string, _ time.Duration, _ bool) error {
	n, err := s.node(ctx, s.lock(p.Ref))
	if errors.Is(err, zk.ErrNoNode) {
		return driver.ErrClaimLost
	}
	if text, _ := decodeOwner(n.data); err == nil && text != owner {
		return driver.ErrClaimLost
	}
	return err
}
