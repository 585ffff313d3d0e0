package jobstore

import (
	"bytes"
	"errors"
	"slices"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/invariant"
	"github.com/taktworks/takt/isa95"
)

// histories compares what the history of each order that is not in EndState leads to with the order and its execution.
func (c *checker) histories() {
	starts := invariant.All(c.Pass, "jobhistorystart:{id}", invariant.Text)
	invariant.Each(c.Pass, "jobhistory:{id}", firstEntries, func(key, id string, list []rueidis.XRangeEntry) {
		if !c.lives(id) {
			if !c.Scanned(c.store.keys.JobOrder(id)) && c.stays(key) {
				c.Add(key, nextDelete, "belongs to no job order, and never expires")
			}
			return
		}
		r := c.store.History(isa95.JobOrderID(id))
		if start, ok := starts[id]; ok {
			list = slices.Insert(list, 0, rueidis.XRangeEntry{FieldValues: map[string]string{historyField: start}})
		}
		_, err := r.fold(key, list)
		for err == nil && len(list) >= firstOf { // there may be more
			var more []HistoryEntry
			if more, err = r.Next(c.Ctx, 0); len(more) == 0 {
				break
			}
		}
		_, broken := errors.AsType[*DocumentError](err)
		switch {
		case err == nil:
			c.history(key, id, &r.past)
		case broken:
			c.Add(key, nextReport, "cannot be read: %v", err)
		default:
			c.Err = err
		}
	})
}

// firstOf is how many entries of a history are read together with those of other orders.
const firstOf = 50

func firstEntries(b rueidis.Builder, key string) (rueidis.Completed, func(rueidis.RedisResult) ([]rueidis.XRangeEntry, error)) {
	return b.Xrange().Key(key).Start("-").End("+").Count(firstOf).Build(), rueidis.RedisResult.AsXRange
}

func (c *checker) history(key, id string, last *HistoryEntry) {
	o, x := c.jobs[id], c.executions[id]
	switch {
	case o != nil && o.State != last.State:
		c.AddAt(last.ID, key, nextReport, "ends in %s, and the order is %s", last.State, o.State)
	case x == nil: // there is none, or it is lost or unreadable, which is reported
	case last.Execution == nil || !bytes.Equal(x.Encode(), last.Execution.Encode()):
		c.AddAt(last.ID, key, nextReport, "does not lead to the execution document")
	}
}
