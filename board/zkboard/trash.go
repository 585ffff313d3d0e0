package zkboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"github.com/taktworks/takt/board/driver"
)

// mark is the node that says that a name in the trash is of this board: TaskFlow puts what all boards in one folder trash into the same place.
func (s *Store) mark(name string) string { return s.own + "/trash/" + name }

// putAside copies a record into the trash byte for byte, and does the rest in the same transaction. Where another has its name already, of a sibling board for example, it becomes name-uuid.
func (s *Store) putAside(c *zk.Conn, ref, id string, data []byte, rest []any) error {
	if limit := maxRequest - overhead; len(data) > limit {
		return fmt.Errorf("node %s has %d bytes: it cannot be trashed without moving it in one request, which may have %d (jute.maxbuffer)", s.posting(ref), len(data), limit)
	}
	name := ref
	for n := 1; ; n++ {
		ops := append([]any{
			&zk.CreateRequest{Path: s.trash + "/" + name, Data: data, Acl: world},
			&zk.CreateRequest{Path: s.mark(name), Acl: world},
		}, rest...)
		_, err := multi(c, ops)
		f, refused := errors.AsType[*opError](err)
		switch {
		case !refused || f.index > 1 || n == maxTries:
			return err
		case errors.Is(f, zk.ErrNoNode):
			if err := errors.Join(makeFolder(c, s.trash), makeFolder(c, path.Dir(s.mark(name)))); err != nil {
				return err
			}
		case !errors.Is(f, zk.ErrNodeExists):
			return err
		default:
			if id = cmp.Or(id, uuid.NewString()); strings.Contains(id, "/") {
				id = uuid.NewString()
			}
			if name == ref {
				name = ref + "-" + id
			} else {
				name = ref + "-" + id + "-" + strconv.Itoa(n)
			}
		}
	}
}

// numbered is the name of a posting in the name that it has in the trash.
func numbered(name string) string {
	ref, _, _ := strings.Cut(name, "-")
	return ref
}

// ofSiblings are the names in the trash that are of other boards. Nobody knows that of what TaskFlow has put there.
func (s *Store) ofSiblings(ctx context.Context) (map[string]bool, error) {
	boards, err := s.names(ctx, path.Dir(s.own))
	if err != nil {
		return nil, err
	}
	others := map[string]bool{}
	for _, b := range boards {
		if b == path.Base(s.own) {
			continue
		}
		names, err := s.names(ctx, path.Dir(s.own)+"/"+b+"/trash")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			others[name] = true
		}
	}
	return others, nil
}

// Trashed implements driver.Store: what this board has put aside, and what TaskFlow has from any of the boards in the same folder.
func (s *Store) Trashed(ctx context.Context) ([]driver.Row, []driver.Malformed, error) {
	names, err := s.names(ctx, s.trash)
	if err != nil || len(names) == 0 {
		return nil, nil, err
	}
	others, err := s.ofSiblings(ctx)
	if err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	var rows []driver.Row
	var malformed []driver.Malformed
	err = each(len(names), func(i int) error {
		if others[names[i]] {
			return nil
		}
		n, err := s.node(ctx, s.trash+"/"+names[i])
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		p, err := decodePosting(numbered(names[i]), n.data, n.stat)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			malformed = append(malformed, driver.Malformed{Ref: names[i], Err: err})
			return nil
		}
		p.Ref = names[i]
		rows = append(rows, driver.Row{Posting: p, State: driver.Trashed})
		return nil
	})
	return rows, malformed, err
}

// findTrashed looks for a posting that is not on the board any more.
func (s *Store) findTrashed(ctx context.Context, ref string) (driver.Row, error) {
	gone := driver.Row{State: driver.Complete}
	n, err := s.node(ctx, s.trash+"/"+ref)
	if errors.Is(err, zk.ErrNoNode) {
		return gone, nil
	}
	if err != nil {
		return driver.Row{}, err
	}
	name, others := ref, map[string]bool(nil)
	if others, err = s.ofSiblings(ctx); err != nil {
		return driver.Row{}, err
	}
	if others[ref] { // then ours has another name
		if name, n, err = s.renamed(ctx, ref); err != nil || name == "" {
			return gone, err
		}
	}
	p, err := decodePosting(numbered(ref), n.data, n.stat)
	if err != nil {
		return driver.Row{}, driver.Malformed{Ref: name, Err: err}
	}
	p.Ref = name
	return driver.Row{Posting: p, State: driver.Trashed, LastModified: milliseconds(n.stat.Mtime)}, nil
}

// renamed finds what was put aside as ref-uuid. "" if there is none.
func (s *Store) renamed(ctx context.Context, ref string) (name string, n node, err error) {
	names, err := s.names(ctx, s.own+"/trash")
	if err != nil {
		return "", n, err
	}
	for _, name := range names {
		if name == ref || numbered(name) != ref {
			continue
		}
		n, err := s.node(ctx, s.trash+"/"+name)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		return name, n, err
	}
	return "", n, nil
}

// inTrash finds what a name in the trash, or a UUID, means. zk.ErrNoNode if nothing.
func (s *Store) inTrash(ctx context.Context, ref string) (name string, n node, err error) {
	if ref == "" || strings.ContainsAny(ref, "/\x00") {
		return "", n, zk.ErrNoNode
	}
	rows, malformed, err := s.Trashed(ctx)
	if err != nil {
		return "", n, err
	}
	for _, r := range rows {
		if r.Ref == ref || name == "" && r.UUID == ref {
			name = r.Ref
		}
	}
	for _, m := range malformed {
		if m.Ref == ref {
			name = ref
		}
	}
	if name == "" {
		return "", n, zk.ErrNoNode
	}
	n, err = s.node(ctx, s.trash+"/"+name)
	return name, n, err
}

// leaveTrash are the parts of a transaction that take a name out of the trash.
func (s *Store) leaveTrash(c *zk.Conn, name string, version int32) ([]any, error) {
	ops := []any{&zk.DeleteRequest{Path: s.trash + "/" + name, Version: version}}
	marked, _, err := c.Exists(s.mark(name))
	if marked {
		ops = append(ops, &zk.DeleteRequest{Path: s.mark(name), Version: -1})
	}
	return ops, err
}

// Restore implements driver.Store: under the number that it had, if the board has given that out before and it is free, else under a new one.
func (s *Store) Restore(ctx context.Context, ref string) error {
	name, n, err := s.inTrash(ctx, ref)
	if errors.Is(err, zk.ErrNoNode) {
		return driver.ErrNotFound
	}
	if err != nil {
		return err
	}
	_, err = ask(ctx, s, func(c *zk.Conn) (struct{}, error) { return struct{}{}, s.restore(c, name, n) })
	f, refused := errors.AsType[*opError](err)
	switch {
	case refused && f.index == 0 && errors.Is(f, zk.ErrNodeExists):
		return driver.ErrExists
	case refused && f.index > 0 && errors.Is(f, zk.ErrNoNode):
		return driver.ErrNotFound
	}
	return err
}

func (s *Store) restore(c *zk.Conn, name string, n node) error {
	if err := makeFolder(c, s.path); err != nil {
		return err
	}
	_, stat, err := c.Exists(s.path)
	if err != nil {
		return err
	}
	create := &zk.CreateRequest{Path: s.posting(numbered(name)), Data: n.data, Acl: world}
	// The next number is that of the nodes ever made in the folder. Cversion counts these and the deleted ones.
	if old, err := number(numbered(name)); err == nil && old >= (int64(stat.Cversion)+int64(stat.NumChildren))/2 {
		create.Path, create.Flags = s.posting(jobPrefix), zk.FlagSequence
	}
	leave, err := s.leaveTrash(c, name, n.stat.Version)
	if err == nil {
		_, err = multi(c, append([]any{create}, leave...))
	}
	return err
}

// Purge implements driver.Store.
func (s *Store) Purge(ctx context.Context, ref string) error {
	name, n, err := s.inTrash(ctx, ref)
	if err == nil {
		_, err = ask(ctx, s, func(c *zk.Conn) (struct{}, error) {
			leave, err := s.leaveTrash(c, name, n.stat.Version)
			if err == nil {
				_, err = multi(c, leave)
			}
			return struct{}{}, err
		})
	}
	if errors.Is(err, zk.ErrNoNode) {
		return driver.ErrNotFound
	}
	return err
}

// Quarantine implements driver.Store.
func (s *Store) Quarantine(ctx context.Context, ref string) error {
	if !valid(ref) {
		return driver.ErrNotFound
	}
	n, err := s.node(ctx, s.posting(ref))
	if errors.Is(err, zk.ErrNoNode) {
		return driver.ErrNotFound
	}
	if err != nil {
		return err
	}
	if _, err := decodePosting(ref, n.data, n.stat); err == nil {
		return driver.Invalid("ref", ref, "must be that of a record that is no posting: claim a posting, and trash it")
	}
	_, err = ask(ctx, s, func(c *zk.Conn) (struct{}, error) {
		return struct{}{}, s.putAside(c, ref, "", n.data, []any{&zk.DeleteRequest{Path: s.posting(ref), Version: n.stat.Version}})
	})
	if met(err) {
		return driver.ErrNotFound
	}
	return err
}
