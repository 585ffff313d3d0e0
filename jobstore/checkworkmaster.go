package jobstore

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/invariant"
)

const nextDeliver = "deliver it again, `takt station apply`"

// workMasters compares what scopes run with what was delivered to them.
func (c *checker) workMasters() {
	invariant.Each(c.Pass, "wmx:content:{sha}", invariant.Text, func(key, sha, text string) {
		content := []byte(text)
		if hash := Hash(content); hash != sha {
			c.Add(key, nextDeliver, "has another hash, %.12s: it was not written by Takt", hash)
		}
		_, err := c.store.opt.Schemas.decodeWorkMaster(key, content)
		c.newer(key, err)
	})
	invariant.Each(c.Pass, "wmx:delivered:{id}", invariant.Hash, c.delivered)
}

func (c *checker) delivered(key, id string, fields map[string]string) {
	if _, err := strconv.ParseInt(fields[seqField], 10, 64); err != nil {
		c.Add(key, nextDeliver, "field %q cannot be read: %v", seqField, err)
	}
	delete(fields, seqField)
	for _, scope := range slices.Sorted(maps.Keys(fields)) {
		c.pointer(key, id, scope, fields[scope])
	}
}

// pointer looks at what was delivered to one scope.
func (c *checker) pointer(key, id, scope, text string) {
	s, list := c.store, c.store.keys.WorkMasterList(scope)
	at, err := decodePointer(key, text)
	if err != nil {
		c.Add(key, nextDeliver, "field %s cannot be read: %v", scope, strings.TrimPrefix(err.Error(), "jobstore: "))
		return
	}
	if !c.Scanned(s.keys.WorkMasterContent(at.content)) {
		c.Add(key, nextDeliver, "scope %s runs content %.12s, which is missing", scope, at.content)
	}
	if listed, ok := invariant.Read(c.Pass, list, hasMember(id)); ok && !listed {
		c.Add(key, nextDeliver, "scope %s has a delivery and does not list the work master", scope)
	}
}

// hasMember asks whether a set has a member.
func hasMember(member string) invariant.Command[bool] {
	return func(b rueidis.Builder, key string) (rueidis.Completed, func(rueidis.RedisResult) (bool, error)) {
		return b.Sismember().Key(key).Member(member).Build(), rueidis.RedisResult.AsBool
	}
}
