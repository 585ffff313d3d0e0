package jobstore

import (
	"context"
	"strings"
)

// responses reports responses of a newer schema, and those of orders that are gone and that nothing will ever remove. Those of cleared orders expire.
func (c *checker) responses(ctx context.Context) error {
	return c.each("jobresponse:{id}", func(key, id string) error {
		doc, ok, err := read(ctx, c, key, c.store.rdb.B().Get().Key(key).Build(), asBytes)
		if !ok {
			return err
		}
		if _, err := c.store.opt.Schemas.decodeResponse(key, doc); c.newer(key, err) {
			return nil
		}
		order, ours := strings.CutSuffix(id, string(ResponseID("")))
		if ours && c.lives(order) {
			return nil
		}
		stays, err := c.stays(ctx, key)
		switch {
		case !stays:
		case c.jobs[order] != nil:
			c.violation(key, nextReport, "never expires, though its order is in EndState")
		default:
			c.violation(key, nextDelete, "belongs to no job order, and never expires")
		}
		return err
	})
}

// lives says whether there is a job order that is not in EndState, or one that cannot be read.
func (c *checker) lives(id string) bool {
	if o := c.jobs[id]; o != nil {
		return !o.State.IsEnd()
	}
	_, scanned := c.types[c.store.keys.JobOrder(id)]
	return scanned
}

// responseIndexes reports members of the indexes of responses that have no document.
func (c *checker) responseIndexes(ctx context.Context) error {
	b := c.store.rdb.B()
	err := c.each("jobresponse:list:{scope}", func(key, _ string) error {
		members, _, err := read(ctx, c, key, b.Zrange().Key(key).Min("0").Max("-1").Build(), asStrings)
		if err != nil {
			return err
		}
		return c.responseMembers(ctx, key, "ZREM", members)
	})
	if err != nil {
		return err
	}
	return c.each("jrx:bystate:{scope}:{state}", func(key, _ string) error {
		members, _, err := read(ctx, c, key, b.Smembers().Key(key).Build(), asStrings)
		if err != nil {
			return err
		}
		return c.responseMembers(ctx, key, "SREM", members)
	})
}

// responseMembers looks for the documents of members of the index key; remove is the command that takes one out. A document
// that was not scanned may have been written since.
func (c *checker) responseMembers(ctx context.Context, key, remove string, members []string) error {
	for _, id := range members {
		document := c.store.keys.JobResponse(id)
		if _, scanned := c.types[document]; scanned {
			continue
		}
		there, ok, err := read(ctx, c, document, c.store.rdb.B().Exists().Key(document).Build(), asInt)
		if err != nil {
			return err
		}
		if ok && there == 0 {
			c.violation(key, "take it out with "+remove, "names %s, which has no document", id)
		}
	}
	return nil
}
