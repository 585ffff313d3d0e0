package zkboard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/taktworks/takt/board/driver"
)

// atOnce is how many reads are on their way together.
const atOnce = 64

// cache is what was read of the board. Postings never change.
type cache struct {
	mu      sync.Mutex
	folder  int64 // which folder it was, should somebody delete it and begin anew
	records map[string]record
	swept   time.Time
}

type record struct {
	*driver.Posting
	version  int32     // of the node: 0 unless somebody has meddled with it
	modified time.Time // zero = when it was posted
	tried    bool      // its attempts are counted
}

func newRecord(p *driver.Posting, stat *zk.Stat) record {
	return record{Posting: p, version: stat.Version, modified: milliseconds(stat.Mtime)}
}

func (c *cache) find(ref string) (record, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.records[ref]
	return r, ok
}

func (c *cache) put(ref string, r record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.records == nil {
		c.records = map[string]record{}
	}
	r.tried = r.tried || c.records[ref].tried
	c.records[ref] = r
}

// tried notes whether the attempts of a posting are counted.
func (c *cache) setTried(ref string, tried bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := c.records[ref]; ok {
		r.tried = tried
		c.records[ref] = r
	}
}

func (c *cache) forget(ref string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.records, ref)
}

// keep forgets what is not in names, or everything if the folder is another one.
func (c *cache) keep(folder int64, names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.folder != 0 && c.folder != folder {
		c.records = nil
	}
	c.folder = folder
	if len(c.records) == 0 {
		return
	}
	there := make(map[string]bool, len(names))
	for _, n := range names {
		there[n] = true
	}
	maps.DeleteFunc(c.records, func(ref string, _ record) bool { return !there[ref] })
}

// contents is what the names of the nodes on a board say.
type contents struct {
	refs  []string        // of postings, malformed ones among them
	locks map[string]bool // by the ref of their posting
}

func sort(names []string) contents {
	c := contents{refs: make([]string, 0, len(names)), locks: map[string]bool{}}
	for _, n := range names {
		if !strings.HasPrefix(n, jobPrefix) {
			continue // of somebody else
		}
		if ref, ok := strings.CutSuffix(n, lockSuffix); ok {
			c.locks[ref] = true
		} else {
			c.refs = append(c.refs, n)
		}
	}
	return c
}

// List implements driver.Store: one request tells which postings there are and which are claimed. Those that were not read yet are read, and all owners, many at a time.
func (s *Store) List(ctx context.Context) ([]driver.Row, []driver.Malformed, error) {
	counted := s.counted(ctx)
	c, err := s.contents(ctx)
	if err != nil {
		return nil, nil, err
	}
	s.sweep(ctx, counted, c)
	malformed, err := s.read(ctx, c.refs)
	if err != nil {
		return nil, nil, err
	}
	rows := make([]driver.Row, 0, len(c.refs))
	var locked []int
	for _, ref := range c.refs {
		r, ok := s.cache.find(ref)
		if !ok {
			continue // malformed, or gone meanwhile
		}
		if c.locks[ref] {
			locked = append(locked, len(rows))
		}
		row := driver.Row{Posting: r.Posting, State: driver.Unclaimed, LastModified: r.CreatedOn}
		if r.modified.After(r.CreatedOn) {
			row.LastModified = r.modified
		}
		rows = append(rows, row)
	}
	err = each(len(locked), func(i int) error {
		row := &rows[locked[i]]
		n, err := s.node(ctx, s.lock(row.Ref))
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		setLock(row, n)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return rows, malformed, nil
}

// sweepEvery is how often a store looks for counts of attempts that TaskFlow has left: it knows nothing of them when it consumes.
const sweepEvery = time.Minute

// counted are the refs of which attempts are counted, if it is time to sweep. They are read before the board, so that whatever is not on that is gone.
func (s *Store) counted(ctx context.Context) []string {
	s.cache.mu.Lock()
	due := time.Since(s.cache.swept) >= sweepEvery
	if due {
		s.cache.swept = time.Now()
	}
	s.cache.mu.Unlock()
	if !due {
		return nil
	}
	refs, _ := s.names(ctx, s.own+"/attempts") // the next time
	return refs
}

// sweep deletes the counts of what is gone.
func (s *Store) sweep(ctx context.Context, counted []string, c contents) {
	if len(counted) == 0 {
		return
	}
	there := make(map[string]bool, len(c.refs))
	for _, ref := range c.refs {
		there[ref] = true
	}
	left := slices.DeleteFunc(counted, func(ref string) bool { return there[ref] })
	_ = each(len(left), func(i int) error {
		_, err := ask(ctx, s, func(c *zk.Conn) (struct{}, error) {
			found, stat, err := c.Exists(s.attempts(left[i]))
			if err != nil || !found {
				return struct{}{}, err
			}
			return struct{}{}, c.Delete(s.attempts(left[i]), stat.Version) // unless it was claimed again
		})
		if errors.Is(err, driver.ErrAway) {
			return err
		}
		return nil
	})
}

// contents reads the names, and sees to it that those who watch are told of the next change.
func (s *Store) contents(ctx context.Context) (contents, error) {
	names, stat, err := s.children(ctx)
	if err != nil {
		return contents{}, err
	}
	c := sort(names)
	s.cache.keep(stat.Czxid, c.refs)
	return c, nil
}

// read fills the cache with the postings that are not in it.
func (s *Store) read(ctx context.Context, refs []string) ([]driver.Malformed, error) {
	refs = slices.DeleteFunc(slices.Clone(refs), func(ref string) bool {
		_, ok := s.cache.find(ref)
		return ok
	})
	var mu sync.Mutex
	var malformed []driver.Malformed
	err := each(len(refs), func(i int) error {
		_, err := s.fetch(ctx, refs[i])
		if m, ok := errors.AsType[driver.Malformed](err); ok {
			mu.Lock()
			defer mu.Unlock()
			malformed = append(malformed, m)
			return nil
		}
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return err
	})
	return malformed, err
}

// fetch reads one posting into the cache. zk.ErrNoNode if there is none.
func (s *Store) fetch(ctx context.Context, ref string) (record, error) {
	n, err := s.node(ctx, s.posting(ref))
	if err != nil {
		return record{}, err
	}
	p, err := decodePosting(ref, n.data, n.stat)
	if err != nil {
		return record{}, driver.Malformed{Ref: ref, Err: err}
	}
	r := newRecord(p, n.stat)
	s.cache.put(ref, r)
	return r, nil
}

// node is a node as it was read.
type node struct {
	data []byte
	stat *zk.Stat
}

// node reads a node. zk.ErrNoNode if there is none.
func (s *Store) node(ctx context.Context, path string) (node, error) {
	return ask(ctx, s, func(c *zk.Conn) (node, error) {
		data, stat, err := c.Get(path)
		return node{data, stat}, err
	})
}

// each calls do for 0 to n-1, many at a time, and returns the first error.
func each(n int, do func(int) error) error {
	var mu sync.Mutex
	next, failed := 0, error(nil)
	var all sync.WaitGroup
	for range min(n, atOnce) {
		all.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := i >= n || failed != nil
				mu.Unlock()
				if stop {
					return
				}
				if err := do(i); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return failed
}

// valid says whether ref can be the name of a posting; others are asked for nowhere.
func valid(ref string) bool {
	return strings.HasPrefix(ref, jobPrefix) && !strings.HasSuffix(ref, lockSuffix) && !strings.ContainsAny(ref, "/\x00")
}

// Find implements driver.Store. It asks for what all servers have agreed on, in two round trips.
func (s *Store) Find(ctx context.Context, ref string) (driver.Row, error) {
	r := driver.Row{State: driver.Complete}
	if !valid(ref) {
		return r, nil
	}
	type pair struct{ posting, lock node }
	found, err := ask(ctx, s, func(c *zk.Conn) (p pair, err error) {
		if _, err := c.Sync(s.path); err != nil {
			return p, err
		}
		if p.posting.data, p.posting.stat, err = c.Get(s.posting(ref)); err != nil {
			return p, err
		}
		if p.lock.data, p.lock.stat, err = c.Get(s.lock(ref)); errors.Is(err, zk.ErrNoNode) {
			p.lock, err = node{}, nil
		}
		return p, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return s.findTrashed(ctx, ref)
	}
	if err != nil {
		return driver.Row{}, err
	}
	if r.Posting, err = decodePosting(ref, found.posting.data, found.posting.stat); err != nil {
		return driver.Row{}, driver.Malformed{Ref: ref, Err: err}
	}
	s.cache.put(ref, newRecord(r.Posting, found.posting.stat))
	r.State, r.LastModified = driver.Unclaimed, milliseconds(found.posting.stat.Mtime)
	if found.lock.stat != nil {
		setLock(&r, found.lock)
	}
	return r, nil
}

// setLock fills in what the lock of a posting says.
func setLock(r *driver.Row, lock node) {
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
