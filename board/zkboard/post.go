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

// Post implements driver.Store: up to 500 postings in a transaction, so that they are there all or not at all, and in their order. A call that is repeated is known by what is still there: what was consumed before its poster
// asked again is posted once more.
func (s *Store) Post(ctx context.Context, _ string, all []*driver.Posting, chosen bool) error {
	records := make([][]byte, len(all))
	for i, p := range all {
		var err error
		if records[i], err = encodePosting(p); err != nil {
			return err
		}
		if n, limit := len(records[i]), maxRequest-overhead; n > limit {
			return driver.Invalid("Details", fmt.Sprintf("of posting %s, which is %d bytes of JSON", p.UUID, n), fmt.Sprintf("must be such that the posting is at most %d bytes, or ZooKeeper refuses it (jute.maxbuffer)", limit))
		}
	}
	if chosen || len(all) > 0 && !all[0].CreatedOn.IsZero() { // tried before
		if err := s.fill(ctx, all); err != nil {
			return err
		}
	}
	var some []record
	size := 0
	for i, p := range all {
		if p.Ref != "" {
			continue // it is there
		}
		more := len(records[i]) + len(s.path) + perOp
		if len(some) == perBatch || size > 0 && size+more > maxBatch {
			if err := s.postBatch(ctx, some); err != nil {
				return err
			}
			some, size = nil, 0
		}
		some, size = append(some, record{Posting: p, data: records[i]}), size+more
	}
	return s.postBatch(ctx, some)
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

// postBatch posts in one transaction, and once more if a folder was deleted. It fills in what the server decided: the names, and the time of the transaction, which is that of the clock.
func (s *Store) postBatch(ctx context.Context, some []record) error {
	if len(some) == 0 {
		return nil
	}
	ops := []any{&zk.SetDataRequest{Path: s.clock, Version: -1}}
	for _, r := range some {
		r.CreatedOn = milliseconds(1) // says that it was tried
		ops = append(ops, &zk.CreateRequest{Path: s.posting(jobPrefix), Data: r.data, Acl: world, Flags: zk.FlagSequence})
	}
	for try := 1; ; try++ {
		res, err := ask(ctx, s, func(c *zk.Conn) ([]zk.MultiResponse, error) { return multi(c, ops) })
		if f, refused := errors.AsType[*opError](err); refused && try < maxTries && errors.Is(f, zk.ErrNoNode) {
			if err := s.ensure(ctx); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		for i, r := range some {
			r.Ref = strings.TrimPrefix(res[i+1].String, s.path+"/")
			r.Sequence, _ = number(r.Ref)
			r.CreatedOn = milliseconds(res[0].Stat.Mtime)
		}
		return nil
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
