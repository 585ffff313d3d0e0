package zkboard

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"github.com/taktworks/takt/board/driver"
)

// atOnce is how many reads are on their way together.
const atOnce = 64

// cache is what was read of the board. Postings never change.
type cache struct {
	folder  atomic.Int64 // which folder it was, should somebody delete it and begin anew
	records sync.Map     // record by ref
}

type record struct {
	*driver.Posting
	data     []byte    // as it is stored: a claim writes it again
	version  int32     // of the node
	modified time.Time // zero = when it was posted
}

// newRecord decodes a node. The error is a driver.Malformed.
func newRecord(ref string, n node) (record, error) {
	p, err := decodePosting(ref, n.data, n.stat)
	if err != nil {
		return record{}, driver.Malformed{Ref: ref, Err: err}
	}
	return record{Posting: p, data: n.data, version: n.stat.Version, modified: milliseconds(n.stat.Mtime)}, nil
}

func (c *cache) find(ref string) (record, bool) {
	r, ok := c.records.Load(ref)
	if !ok {
		return record{}, false
	}
	return r.(record), true
}

// keep forgets what is not in names, or everything if the folder is another one.
func (c *cache) keep(folder int64, names []string) {
	if before := c.folder.Swap(folder); before != 0 && before != folder {
		c.records.Clear()
	}
	there := make(map[any]bool, len(names))
	for _, n := range names {
		there[n] = true
	}
	c.records.Range(func(ref, _ any) bool {
		if !there[ref] {
			c.records.Delete(ref)
		}
		return true
	})
}

// contents is what the names of the nodes on a board say.
type contents struct {
	refs  []string        // of postings, malformed ones among them
	locks map[string]bool // by the ref of their posting
}

// List implements driver.Store: one request tells which postings there are and which are claimed. Those that were not read yet are read, and all owners, many at a time.
func (s *Store) List(ctx context.Context) ([]driver.Row, []driver.Malformed, error) {
	c, err := s.contents(ctx)
	if err != nil {
		return nil, nil, err
	}
	malformed, err := s.read(ctx, c.refs)
	if err != nil {
		return nil, nil, err
	}
	rows := make([]driver.Row, 0, len(c.refs))
	var locked []int // rows
	var locks []string
	for _, ref := range c.refs {
		r, ok := s.cache.find(ref)
		if !ok {
			continue // malformed, or gone meanwhile
		}
		if c.locks[ref] {
			locked, locks = append(locked, len(rows)), append(locks, ref+lockSuffix)
		}
		row := driver.Row{Posting: r.Posting, State: driver.Unclaimed, LastModified: r.CreatedOn}
		if r.modified.After(r.CreatedOn) {
			row.LastModified = r.modified
		}
		rows = append(rows, row)
	}
	nodes, err := s.nodes(ctx, s.path, locks)
	if err != nil {
		return nil, nil, err
	}
	for i, n := range nodes {
		setLock(&rows[locked[i]], n)
	}
	return rows, malformed, nil
}

// contents reads the names.
func (s *Store) contents(ctx context.Context) (contents, error) {
	all, err := s.children(ctx, false)
	if err != nil {
		return contents{}, err
	}
	c := contents{locks: map[string]bool{}}
	for _, n := range all.names {
		if !strings.HasPrefix(n, jobPrefix) {
			continue // of somebody else
		}
		if ref, ok := strings.CutSuffix(n, lockSuffix); ok {
			c.locks[ref] = true
		} else {
			c.refs = append(c.refs, n)
		}
	}
	s.cache.keep(all.stat.Czxid, c.refs)
	return c, nil
}

// read fills the cache with the postings that are not in it.
func (s *Store) read(ctx context.Context, refs []string) ([]driver.Malformed, error) {
	refs = slices.DeleteFunc(slices.Clone(refs), func(ref string) bool {
		_, ok := s.cache.find(ref)
		return ok
	})
	nodes, err := s.nodes(ctx, s.path, refs)
	if err != nil {
		return nil, err
	}
	var malformed []driver.Malformed
	for i, n := range nodes {
		if n.stat == nil {
			continue
		}
		r, err := newRecord(refs[i], n)
		if m, ok := errors.AsType[driver.Malformed](err); ok {
			malformed = append(malformed, m)
			continue
		}
		s.cache.records.Store(refs[i], r)
	}
	return malformed, nil
}

// node is a node as it was read; without a stat there is none.
type node struct {
	data []byte
	stat *zk.Stat
}

// node reads a node. zk.ErrNoNode if there is none.
func (s *Store) node(ctx context.Context, path string) (node, error) {
	return ask(ctx, s, func(c *zk.Conn) (node, error) { return getNode(c, path) })
}

// nodes reads those in a folder that have these names, many at a time, in their order.
func (s *Store) nodes(ctx context.Context, folder string, names []string) ([]node, error) {
	all := make([]node, len(names))
	return all, each(len(names), func(i int) error {
		n, err := s.node(ctx, folder+"/"+names[i])
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		all[i] = n
		return err
	})
}

func getNode(c *zk.Conn, path string) (node, error) {
	data, stat, err := c.Get(path)
	return node{data, stat}, err
}

// each calls do for 0 to n-1, many at a time, until one fails, and returns the first error.
func each(n int, do func(int) error) error {
	all, ctx := errgroup.WithContext(context.Background())
	all.SetLimit(atOnce)
	for i := 0; i < n && ctx.Err() == nil; i++ {
		all.Go(func() error { return do(i) })
	}
	return all.Wait()
}

// valid says whether ref can be the name of a posting; others are asked for nowhere.
func valid(ref string) bool {
	return strings.HasPrefix(ref, jobPrefix) && !strings.HasSuffix(ref, lockSuffix) && !strings.ContainsAny(ref, "/\x00")
}

// Find implements driver.Store.
func (s *Store) Find(ctx context.Context, ref string) (driver.Row, error) {
	if !valid(ref) {
		return driver.Row{State: driver.Complete}, nil
	}
	found, err := s.pair(ctx, ref)
	if errors.Is(err, zk.ErrNoNode) {
		return s.findTrashed(ctx, ref)
	}
	if err != nil {
		return driver.Row{}, err
	}
	r, err := newRecord(ref, found.posting)
	if err != nil {
		return driver.Row{}, err
	}
	s.cache.records.Store(ref, r)
	row := driver.Row{Posting: r.Posting, State: driver.Unclaimed, LastModified: r.modified}
	setLock(&row, found.lock)
	return row, nil
}

// pair is a posting and its lock, which has no stat if there is none.
type pair struct{ posting, lock node }

// pair reads what all servers have agreed on. zk.ErrNoNode if there is no posting.
func (s *Store) pair(ctx context.Context, ref string) (pair, error) {
	return ask(ctx, s, func(c *zk.Conn) (p pair, err error) {
		if _, err := c.Sync(s.path); err != nil {
			return p, err
		}
		if p.posting, err = getNode(c, s.posting(ref)); err != nil {
			return p, err
		}
		if p.lock, err = getNode(c, s.lock(ref)); errors.Is(err, zk.ErrNoNode) {
			p.lock, err = node{}, nil
		}
		return p, err
	})
}

// setLock fills in what the lock of a posting says, if there is one.
func setLock(r *driver.Row, lock node) {
	if lock.stat == nil {
		return
	}
	if owner, owned := decodeOwner(lock.data); owned {
		r.State, r.Owner = driver.Claimed, owner
	}
	if claimed := milliseconds(lock.stat.Mtime); claimed.After(r.LastModified) {
		r.LastModified = claimed
	}
}

// Modified implements driver.Store: List has it already.
func (s *Store) Modified(context.Context, []driver.Row) error { return nil }

// Count implements driver.Store.
func (s *Store) Count(ctx context.Context) (int, error) {
	c, err := s.contents(ctx)
	return len(c.refs), err
}
