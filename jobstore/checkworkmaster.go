package jobstore

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const nextDeliver = "deliver it again, `takt station apply`"

// workMasters compares what scopes run with what was delivered to them.
func (c *checker) workMasters(ctx context.Context) error {
	s := c.store
	if err := c.each("wmx:content:{sha}", func(key, sha string) error {
		content, ok, err := read(ctx, c, key, s.rdb.B().Get().Key(key).Build(), asBytes)
		if ok && Hash(content) != sha {
			c.violation(key, nextDeliver, "has another hash, %.12s: it was not written by Takt", Hash(content))
		}
		if ok {
			_, unreadable := s.opt.Schemas.decodeWorkMaster(key, content)
			c.newer(key, unreadable)
		}
		return err
	}); err != nil {
		return err
	}
	return c.each("wmx:delivered:{id}", func(key, id string) error { return c.delivered(ctx, key, id) })
}

func (c *checker) delivered(ctx context.Context, key, id string) error {
	s := c.store
	fields, ok, err := read(ctx, c, key, s.rdb.B().Hgetall().Key(key).Build(), asMap)
	if !ok {
		return err
	}
	if _, err := strconv.ParseInt(fields[seqField], 10, 64); err != nil {
		c.violation(key, nextDeliver, "field %q cannot be read: %v", seqField, err)
	}
	delete(fields, seqField)
	for _, scope := range slices.Sorted(maps.Keys(fields)) {
		if err := c.pointer(ctx, key, id, scope, fields[scope]); err != nil {
			return err
		}
	}
	return nil
}

// pointer looks at what was delivered to one scope.
func (c *checker) pointer(ctx context.Context, key, id, scope, text string) error {
	s, list := c.store, c.store.keys.WorkMasterList(scope)
	at, err := decodePointer(key, text)
	if err != nil {
		c.violation(key, nextDeliver, "field %s cannot be read: %v", scope, strings.TrimPrefix(err.Error(), "jobstore: "))
		return nil
	}
	content := s.keys.WorkMasterContent(at.content)
	if c.types[content] == "" && !c.unreadable(content) {
		c.violation(key, nextDeliver, "scope %s runs content %.12s, which is missing", scope, at.content)
	}
	listed, ok, err := read(ctx, c, list, s.rdb.B().Sismember().Key(list).Member(id).Build(), asInt)
	if ok && listed == 0 {
		c.violation(key, nextDeliver, "scope %s has a delivery and does not list the work master", scope)
	}
	return err
}
