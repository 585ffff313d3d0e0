package zkboard

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"github.com/taktworks/takt/board/driver"
)

// xBoard is the field of a record in the trash that names its board: TaskFlow puts what all boards in one folder trash into the same place.
const xBoard = "x_board"

// mark is what stands at the end of a record of this board in the trash, in place of the last brace.
func (s *Store) mark() []byte {
	return append(appendString([]byte(`, "`+xBoard+`": `), s.path), '}')
}

// marked is a posting as it is in the trash.
func (s *Store) marked(data []byte) []byte {
	if whole, ok := bytes.CutSuffix(bytes.TrimSpace(data), []byte("}")); ok {
		return bytes.Join([][]byte{whole, s.mark()}, nil)
	}
	return data
}

// putAside writes a record into the trash, and does the rest in the same transaction. Where another has its name already, of a sibling board for example, it becomes name-id.
func (s *Store) putAside(c *zk.Conn, ref, id string, data []byte, rest []any) error {
	if limit := maxRequest - overhead; len(data) > limit {
		return fmt.Errorf("node %s has %d bytes: it cannot be trashed without moving it in one request, which may have %d (jute.maxbuffer)", s.posting(ref), len(data), limit)
	}
	if strings.Contains(id, "/") {
		id = ""
	}
	for name := ref; ; {
		_, err := multi(c, append([]any{&zk.CreateRequest{Path: s.trash + "/" + name, Data: data, Acl: world}}, rest...))
		f, refused := errors.AsType[*opError](err)
		switch {
		case !refused || f.index > 0:
			return err
		case errors.Is(f, zk.ErrNoNode): // somebody has deleted the folder
			if err := makeFolder(c, s.trash); err != nil {
				return err
			}
		case !errors.Is(f, zk.ErrNodeExists):
			return err
		default:
			name, id = ref+"-"+cmp.Or(id, uuid.NewString()), ""
		}
	}
}

// numbered is the name of a posting in the name that it has in the trash.
func numbered(name string) string {
	ref, _, _ := strings.Cut(name, "-")
	return ref
}

// trashed is a record in the trash: of this board, or of TaskFlow, which does not say of which board.
type trashed struct {
	node
	name string
	*driver.Posting
	bad error // it is no posting
}

// inTrash reads the records in the trash whose names are wanted, but those of sibling boards.
func (s *Store) inTrash(ctx context.Context, wanted func(name string) bool) ([]trashed, error) {
	names, err := s.names(ctx, s.trash)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !wanted(name) })
	nodes, err := s.nodes(ctx, s.trash, names)
	if err != nil {
		return nil, err
	}
	var all []trashed
	for i, n := range nodes {
		if n.stat == nil {
			continue
		}
		t := trashed{node: n, name: names[i]}
		if t.Posting, t.bad = decodePosting(numbered(t.name), n.data, n.stat); t.bad == nil {
			t.Ref = t.name
			if of, marked := t.Extra[xBoard]; marked && of != s.path {
				continue
			}
			delete(t.Extra, xBoard)
		}
		all = append(all, t)
	}
	return all, nil
}

func (t trashed) row() driver.Row {
	return driver.Row{Posting: t.Posting, State: driver.Trashed, LastModified: milliseconds(t.stat.Mtime)}
}

// Trashed implements driver.Store: what this board has put aside, and what TaskFlow has from any of the boards in the same folder.
func (s *Store) Trashed(ctx context.Context) (rows []driver.Row, malformed []driver.Malformed, err error) {
	all, err := s.inTrash(ctx, func(string) bool { return true })
	for _, t := range all {
		if t.bad != nil {
			malformed = append(malformed, driver.Malformed{Ref: t.name, Err: t.bad})
		} else {
			rows = append(rows, t.row())
		}
	}
	return rows, malformed, err
}

// findTrashed looks for a posting that is not on the board any more, by its number or its name in the trash.
func (s *Store) findTrashed(ctx context.Context, ref string) (driver.Row, error) {
	all, err := s.inTrash(ctx, func(name string) bool { return name == ref || numbered(name) == ref })
	if err != nil || len(all) == 0 {
		return driver.Row{State: driver.Complete}, err
	}
	slices.SortFunc(all, func(a, b trashed) int { return cmp.Compare(a.name, b.name) }) // ref itself is the first
	if t := all[0]; t.bad != nil {
		return driver.Row{}, driver.Malformed{Ref: t.name, Err: t.bad}
	}
	return all[0].row(), nil
}

// pick finds what a name in the trash, or a UUID, means. driver.ErrNotFound if nothing.
func (s *Store) pick(ctx context.Context, ref string) (trashed, error) {
	all, err := s.inTrash(ctx, func(string) bool { return ref != "" })
	found := trashed{}
	for _, t := range all {
		if t.name == ref || found.name == "" && t.bad == nil && t.UUID == ref {
			found = t
		}
	}
	if err == nil && found.name == "" {
		err = driver.ErrNotFound
	}
	return found, err
}

// Restore implements driver.Store: under the number that it had, if the board has given that out before and it is free, else under a new one.
func (s *Store) Restore(ctx context.Context, ref string) error {
	t, err := s.pick(ctx, ref)
	if err != nil {
		return err
	}
	err = s.change(ctx, func(c *zk.Conn) error { return s.restore(c, t) })
	f, refused := errors.AsType[*opError](err)
	switch {
	case refused && f.index == 0 && errors.Is(f, zk.ErrNodeExists):
		return driver.ErrExists
	case refused && f.index > 0 && errors.Is(f, zk.ErrNoNode):
		return driver.ErrNotFound
	}
	return err
}

func (s *Store) restore(c *zk.Conn, t trashed) error {
	if err := makeFolder(c, s.path); err != nil {
		return err
	}
	_, stat, err := c.Exists(s.path)
	if err != nil {
		return err
	}
	data := t.data
	if whole, marked := bytes.CutSuffix(data, s.mark()); marked {
		data = append(bytes.Clone(whole), '}')
	}
	create := &zk.CreateRequest{Path: s.posting(numbered(t.name)), Data: data, Acl: world}
	// The next number is that of the nodes ever made in the folder. Cversion counts these and the deleted ones.
	if old, err := number(numbered(t.name)); err == nil && old >= (int64(stat.Cversion)+int64(stat.NumChildren))/2 {
		create.Path, create.Flags = s.posting(jobPrefix), zk.FlagSequence
	}
	_, err = multi(c, []any{create, &zk.DeleteRequest{Path: s.trash + "/" + t.name, Version: t.stat.Version}})
	return err
}

// Purge implements driver.Store.
func (s *Store) Purge(ctx context.Context, ref string) error {
	t, err := s.pick(ctx, ref)
	if err == nil {
		err = s.change(ctx, func(c *zk.Conn) error { return c.Delete(s.trash+"/"+t.name, t.stat.Version) })
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
	err = s.change(ctx, func(c *zk.Conn) error {
		return s.putAside(c, ref, "", n.data, []any{&zk.DeleteRequest{Path: s.posting(ref), Version: n.stat.Version}})
	})
	if met(err) {
		return driver.ErrNotFound
	}
	return err
}
