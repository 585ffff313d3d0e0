package jobstore

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/taktworks/takt/internal/invariant"
)

// responses reports responses of a newer schema, and those of orders that are gone and that nothing will ever remove. Those of cleared orders expire.
func (c *checker) responses() {
	invariant.Each(c.Pass, "jobresponse:{id}", invariant.Text, func(key, id, doc string) {
		if _, err := c.store.opt.Schemas.decodeResponse(key, []byte(doc)); c.newer(key, err) {
			return
		}
		order, ours := strings.CutSuffix(id, string(ResponseID("")))
		switch {
		case ours && c.lives(order):
		case !c.stays(key):
		case c.jobs[order] != nil:
			c.Add(key, nextReport, "never expires, though its order is in EndState")
		default:
			c.Add(key, nextDelete, "belongs to no job order, and never expires")
		}
	})
}

// lives says whether there is a job order that is not in EndState, or one that cannot be read.
func (c *checker) lives(id string) bool {
	if o := c.jobs[id]; o != nil {
		return !o.State.IsEnd()
	}
	return c.Scanned(c.store.keys.JobOrder(id))
}

// responseIndexes reports members of the indexes of responses that have no document.
func (c *checker) responseIndexes() {
	invariant.Each(c.Pass, "jobresponse:list:{scope}", invariant.Scores, func(key, _ string, members map[string]float64) {
		c.responseMembers(key, "ZREM", maps.Keys(members))
	})
	invariant.Each(c.Pass, "jrx:bystate:{scope}:{state}", invariant.Set, func(key, _ string, members []string) {
		c.responseMembers(key, "SREM", slices.Values(members))
	})
}

// responseMembers looks for the documents of members of the index key; remove is the command that takes one out. A document
// that was not scanned may have been written since.
func (c *checker) responseMembers(key, remove string, members iter.Seq[string]) {
	for id := range members {
		document := c.store.keys.JobResponse(id)
		if c.Scanned(document) {
			continue
		}
		if ttl, ok := invariant.Read(c.Pass, document, invariant.TTL); ok && ttl == invariant.Absent {
			c.Add(key, "take it out with "+remove, "names %s, which has no document", id)
		}
	}
}
