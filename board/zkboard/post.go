package zkboard

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/taktworks/takt/board/driver"
)

const (
	perBatch = 500       // postings in one transaction
	maxBatch = 512 << 10 // bytes of one transaction of several postings
	perOp    = 128       // bytes of a request around one record, besides the path
	maxTries = 5         // of a transaction that meets others
)

// slot is a node that holds the last call of Post that used it. It is written in the transaction that posts, so that a call whose answer was lost can be known again, and it is ephemeral, so that it leaves nothing.
type slot struct {
	path string
	made bool
}

// take gives out a slot for a call: the one that it had before, if its answer was lost.
func (x *session) take(call string, own string) (sl *slot, again bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if sl, again = x.doubts[call]; again {
		delete(x.doubts, call)
		return sl, true
	}
	if n := len(x.slots); n > 0 {
		sl, x.slots = x.slots[n-1], x.slots[:n-1]
		return sl, false
	}
	x.made++
	return &slot{path: fmt.Sprintf("%s/calls/%x-%d", own, x.id, x.made)}, false
}

func (x *session) giveBack(sl *slot) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.slots = append(x.slots, sl)
}

func (x *session) doubt(call string, sl *slot) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.doubts[call] = sl
}

// batch is what is posted in one transaction.
type batch struct {
	call    string
	all     []*driver.Posting
	records [][]byte
}

// Post implements driver.Store: up to 500 postings in a transaction, so that they are there all or not at all, and in their order. A call that is repeated in the same session is known for certain, even if what was posted is consumed
// already; after the end of the session, by what is still there.
func (s *Store) Post(ctx context.Context, call string, all []*driver.Posting, chosen bool) error {
	batches, err := s.batches(call, all)
	if err != nil || len(batches) == 0 {
		return err
	}
	if chosen || !all[0].CreatedOn.IsZero() && !posted(all) { // tried before
		if err := s.fill(ctx, all); err != nil {
			return err
		}
	}
	for _, b := range batches {
		if posted(b.all) {
			continue
		}
		if err := s.postBatch(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// posted says that all have a name.
func posted(all []*driver.Posting) bool {
	for _, p := range all {
		if p.Ref == "" {
			return false
		}
	}
	return true
}

// batches encodes all, and divides it in the same way each time.
func (s *Store) batches(call string, all []*driver.Posting) (batches []batch, err error) {
	size := 0
	for i, p := range all {
		raw, err := encodePosting(p)
		if err != nil {
			return nil, err
		}
		if limit := maxRequest - overhead; len(raw) > limit {
			return nil, driver.Invalid("Details", fmt.Sprintf("of posting %s, which is %d bytes of JSON", p.UUID, len(raw)), fmt.Sprintf("must be such that the posting is at most %d bytes, or ZooKeeper refuses it (jute.maxbuffer)", limit))
		}
		size += len(raw) + len(s.path) + perOp
		if n := len(batches); n == 0 || len(batches[n-1].all) == perBatch || size > maxBatch {
			size = len(raw) + len(s.path) + perOp
			batches = append(batches, batch{call: call + "." + strconv.Itoa(i)})
		}
		b := &batches[len(batches)-1]
		b.all, b.records = append(b.all, p), append(b.records, raw)
	}
	return batches, nil
}

// fill fills in those that are on the board already.
func (s *Store) fill(ctx context.Context, all []*driver.Posting) error {
	c, err := s.contents(ctx)
	if err != nil {
		return err
	}
	if _, err := s.read(ctx, c.refs); err != nil {
		return err
	}
	there := make(map[string]record, len(c.refs))
	for _, ref := range c.refs {
		if r, ok := s.cache.find(ref); ok {
			there[r.UUID] = r
		}
	}
	for _, p := range all {
		if r, ok := there[p.UUID]; ok && p.Ref == "" {
			*p = *r.Posting
		}
	}
	return nil
}

// postBatch posts those of a batch that are not there.
func (s *Store) postBatch(ctx context.Context, b batch) error {
	l, _, err := s.link()
	if err != nil {
		return err
	}
	sl, again := l.take(b.call, s.own)
	if again {
		n, err := askOn(ctx, l, func(c *zk.Conn) (node, error) {
			data, stat, err := c.Get(sl.path)
			return node{data, stat}, err
		})
		switch {
		case errors.Is(err, zk.ErrNoNode): // nothing was made
		case err != nil:
			l.doubt(b.call, sl)
			return err
		case string(n.data) == b.call:
			l.giveBack(sl)
			return nil // it was posted; what Post has not found is gone already
		}
	}
	err = s.transact(ctx, l, sl, b)
	if errors.Is(err, driver.ErrAway) {
		l.doubt(b.call, sl)
	} else {
		l.giveBack(sl)
	}
	return err
}

// transact posts in one transaction, and once more for each thing that was not as expected.
func (s *Store) transact(ctx context.Context, l link, sl *slot, b batch) error {
	var ops []any
	var missing []*driver.Posting
	for i, p := range b.all {
		if p.Ref == "" {
			missing = append(missing, p)
			ops = append(ops, &zk.CreateRequest{Path: s.posting(jobPrefix), Data: b.records[i], Acl: world, Flags: zk.FlagSequence})
		}
	}
	for try := 1; ; try++ {
		head := []any{&zk.SetDataRequest{Path: sl.path, Data: []byte(b.call), Version: -1}}
		if !sl.made {
			head = append([]any{&zk.CreateRequest{Path: sl.path, Acl: world, Flags: zk.FlagEphemeral}}, head...)
		}
		for _, p := range missing {
			p.CreatedOn = milliseconds(1) // says that it was tried
		}
		res, err := askOn(ctx, l, func(c *zk.Conn) ([]zk.MultiResponse, error) { return multi(c, append(head, ops...)) })
		switch f := (*opError)(nil); {
		case err == nil:
			sl.made = true
			s.fillPosted(missing, res[len(head)-1].Stat, res[len(head):])
			return nil
		case !errors.As(err, &f) || try == maxTries:
			return err
		case f.index < len(head) && errors.Is(f, zk.ErrNodeExists):
			sl.made = true
		case errors.Is(f, zk.ErrNoNode): // a folder was deleted, and maybe the slot with it
			sl.made = false
			if err := s.ensure(ctx); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// fillPosted fills in what the server decided: the names, and the time of the transaction, which is that of the slot.
func (s *Store) fillPosted(all []*driver.Posting, slot *zk.Stat, res []zk.MultiResponse) {
	for i, p := range all {
		p.Ref = strings.TrimPrefix(res[i].String, s.path+"/")
		p.Sequence, _ = number(p.Ref)
		p.CreatedOn = milliseconds(slot.Mtime)
		s.cache.put(p.Ref, record{Posting: p})
	}
}

// opError says which part of a transaction failed, and so all of it.
type opError struct {
	index int
	err   error
}

func (e *opError) Error() string {
	return fmt.Sprintf("part %d of the transaction: %v", e.index, e.err)
}
func (e *opError) Unwrap() error { return e.err }

// multi is a transaction. What the server refuses is an *opError.
func multi(c *zk.Conn, ops []any) ([]zk.MultiResponse, error) {
	res, err := c.Multi(ops...)
	if err == nil {
		return res, nil
	}
	for i, r := range res {
		if r.Error != nil && !away(err) {
			return nil, &opError{i, r.Error}
		}
	}
	return nil, err
}
