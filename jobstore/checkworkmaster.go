package jobstore

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/taktworks/takt/isa95"
)

const nextDeliver = "deliver it again, `takt station apply`"

// workMasters compares what scopes run with what was delivered to them.
func (c *checker) workMasters(ctx context.Context) error {
	if err := c.each("wmx:content:{sha}", func(key, sha string) error {
		content, ok, err := read(ctx, c, key, c.store.rdb.B().Get().Key(key).Build(), asBytes)
		if ok && Hash(content) != sha {
			c.violation(key, nextDeliver, "has another hash, %.12s: it was not written by Takt", Hash(content))
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
	document, list := s.keys.WorkMaster(id), s.keys.WorkMasterScopes(id)
	doc, there, err := read(ctx, c, document, s.rdb.B().Get().Key(document).Build(), asBytes)
	if err != nil {
		return err
	}
	holders, _, err := read(ctx, c, list, s.rdb.B().Get().Key(list).Build(), asBytes)
	if err != nil {
		return err
	}
	var scopes []isa95.Scope
	if json.Unmarshal(holders, &scopes) != nil && len(holders) > 0 {
		c.violation(list, nextReport, "cannot be read: %.100q", holders)
		return nil
	}
	mark, err := decodePointer(key, fields[markField])
	switch {
	case c.unreadable(document), c.unreadable(list): // reported
		return nil
	case err != nil:
		c.violation(key, nextDelete, "field %q cannot be read: %v", markField, err)
		return nil
	case there && mark.content != Hash(doc):
		c.violation(key, nextDeliver, "%s was written by an older build or another program after the last delivery, and counts for the %d scopes that list it", document, len(scopes))
		return nil
	}
	for _, scope := range scopes {
		if _, ok := fields[string(scope)]; !ok {
			c.violation(key, nextDeliver, "scope %s lists the work master and has no delivery", scope)
		}
	}
	delete(fields, markField)
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
