package zkboard

import (
	"context"
	"errors"
	"fmt"
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

// batch is what is posted in one transaction.
type batch struct {
	all     []*driver.Posting
	records [][]byte
}

// Post implements driver.Store: up to 500 postings in a transaction, so that they are there all or not at all, and in their order. A call that is repeated is known by what is still there: what was consumed before its poster
// asked again is posted once more.
func (s *Store) Post(ctx context.Context, _ string, all []*driver.Posting, chosen bool) error {
	batches, err := s.batches(all)
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
func (s *Store) batches(all []*driver.Posting) (batches []batch, err error) {
	size := 0
	for _, p := range all {
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
			batches = append(batches, batch{})
		}
		b := &batches[len(batches)-1]
		b.all, b.records = append(b.all, p), append(b.records, raw)
	}
	return batches, nil
}

// fill fills in those that are on the board already.
func (s *Store) fill(ctx context.Context, all []*driver.Posting) error {
	// What was posted without an answer may not be known to every server yet.
	if err := s.change(ctx, func(c *zk.Conn) error { _, err := c.Sync(s.path); return err }); err != nil {
		return err
	}
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

// postBatch posts those of a batch that are not there, in one transaction, and once more if a folder was deleted.
func (s *Store) postBatch(ctx context.Context, b batch) error {
	ops := []any{&zk.SetDataRequest{Path: s.clock, Version: -1}}
	var missing []*driver.Posting
	var records [][]byte
	for i, p := range b.all {
		if p.Ref == "" {
			missing, records = append(missing, p), append(records, b.records[i])
			ops = append(ops, &zk.CreateRequest{Path: s.posting(jobPrefix), Data: b.records[i], Acl: world, Flags: zk.FlagSequence})
		}
	}
	for try := 1; ; try++ {
		for _, p := range missing {
			p.CreatedOn = milliseconds(1) // says that it was tried
		}
		res, err := ask(ctx, s, func(c *zk.Conn) ([]zk.MultiResponse, error) { return multi(c, ops) })
		switch f, refused := errors.AsType[*opError](err); {
		case err == nil:
			s.fillPosted(missing, records, res)
			return nil
		case !refused || try == maxTries || !errors.Is(f, zk.ErrNoNode):
			return err
		}
		if err := s.ensure(ctx); err != nil {
			return err
		}
	}
}

// fillPosted fills in what the server decided: the names, and the time of the transaction, which is that of the clock.
func (s *Store) fillPosted(all []*driver.Posting, records [][]byte, res []zk.MultiResponse) {
	for i, p := range all {
		p.Ref = strings.TrimPrefix(res[i+1].String, s.path+"/")
		p.Sequence, _ = number(p.Ref)
		p.CreatedOn = milliseconds(res[0].Stat.Mtime)
		s.cache.records.Store(p.Ref, record{Posting: p, data: records[i]})
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
